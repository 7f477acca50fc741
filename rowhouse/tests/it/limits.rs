//! Tests that options and files set throttling targets, quotas and the secondary endpoint. `server/tests` tests what
//! these do.

use crate::PROGRAM;
use std::fs;
use test_support::content::{create_table, fill_partition};
use test_support::{ACCOUNT, Client, KEY, Response, Server, eventually};

fn server(options: &[&str]) -> (Server, Client) {
    let server = PROGRAM.start(&[&["--in-memory"], options].concat());
    let client = server.client();
    (server, client)
}

fn create(client: &mut Client, name: &str) -> Response {
    client.request("POST", "/Tables", &[], format!("{{\"TableName\":\"{name}\"}}").as_bytes())
}

fn assert_answer(answer: &Response, status: u16, message: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    let text = String::from_utf8_lossy(&answer.body);
    assert!(text.contains(message), "{text}");
}

#[test]
fn options_set_targets() {
    let insert = |client: &mut Client| {
        // Filling the partition uses up its capacity for more than a minute and a half.
        create_table(client, "harvest");
        fill_partition(client, "harvest", 0, 100);
        client.request("POST", "/harvest", &[], br#"{"PartitionKey":"p00000","RowKey":"new"}"#)
    };
    let (_server, mut client) = server(&["--throttle", "--partition-entities-per-second", "1"]);
    assert_answer(&insert(&mut client), 503, "The server is busy.");
    let (_server, mut client) = server(&["--throttle=false", "--partition-entities-per-second", "1"]);
    assert_answer(&insert(&mut client), 201, "new");
    let (_server, mut client) = server(&["--throttle", "--account-entities-per-second", "1"]);
    let busy = eventually("a request beyond the target", || {
        Some(client.request("GET", "/Tables", &[], b"")).filter(|answer| answer.status == 503)
    });
    assert_answer(&busy, 503, "Operations per second is over the account limit.");
}

#[test]
fn quotas_change_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts.toml");
    let write = |tables: u32| {
        let quota = format!("[account.quota]\nmax-tables = {tables}\n");
        fs::write(&file, format!("[[account]]\nname = \"{ACCOUNT}\"\nkey1 = \"{KEY}\"\n{quota}")).unwrap();
    };
    write(1);
    let (server, mut client) = server(&["--accounts", file.to_str().unwrap()]);
    create_table(&mut client, "one");
    let mut refused = |name| assert_answer(&create(&mut client, name), 403, "Write operations are not allowed.");
    refused("two");
    write(0);
    server.signal("HUP");
    server.wait_for_log("accounts: reloaded");
    refused("two");
    write(2);
    server.signal("HUP");
    // No line of the log tells that this file was read: if the server found the previous one before its signal arrived,
    // it reported it twice.
    eventually("the higher quota", || (create(&mut client, "two").status == 201).then_some(()));
}

#[test]
fn an_option_sets_a_quota_for_every_account() {
    let (_server, mut client) = server(&["--max-tables", "1"]);
    create_table(&mut client, "one");
    assert_answer(&create(&mut client, "two"), 403, "Write operations are not allowed.");
}

#[test]
fn options_set_the_secondary_endpoint_and_where_statistics_are() {
    const STATS: &str = "/?restype=service&comp=stats";
    let (_server, mut client) = server(&["--secondary", "off", "--stats-on-primary"]);
    for path in ["-secondary/Tables", STATS] {
        assert_answer(&client.request("GET", path, &[], b""), 403, "Read operations are currently disabled.");
    }
    let (_server, mut client) = server(&["--stats-on-primary"]);
    for path in [STATS.to_owned(), format!("-secondary{STATS}")] {
        assert_answer(&client.request("GET", &path, &[], b""), 200, "<Status>live</Status>");
    }
}

#[test]
fn an_extension_sets_the_limits_of_entities() {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"r","Text":"{}"}}"#, "x".repeat(100_000));
    let insert = |client: &mut Client| client.request("POST", "/harvest", &[], body.as_bytes());
    let (_server, mut client) = server(&["--extensions"]);
    create_table(&mut client, "harvest");
    assert_answer(&insert(&mut client), 400, "PropertyValueTooLarge");
    let (server, mut client) = server(&["--extensions", "--large-entities"]);
    server.wait_for_log("entities of up to 2 MiB are accepted (--large-entities)");
    create_table(&mut client, "harvest");
    assert_answer(&insert(&mut client), 201, "xxx");
    let ran = PROGRAM.folder().run("serve", &["--in-memory", "--large-entities"], &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("--large-entities is an extension: add --extensions"), "{}", ran.stderr);
}
