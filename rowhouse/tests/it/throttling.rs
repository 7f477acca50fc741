//! Tests of the throttling targets on the built server. The targets are so small that a transaction of 100 entities
//! uses up the capacity of minutes, so the speed of the machine does not matter.

use crate::PROGRAM;
use test_support::{Client, Response, Server};

const ACCOUNT_BUSY: &str = "Operations per second is over the account limit.";
const PARTITION_BUSY: &str = "The server is currently unable to receive requests. Please retry your request.";

fn server(args: &[&str]) -> (Server, Client) {
    let server = PROGRAM.start(&[&["--in-memory"], args].concat());
    let client = server.client();
    (server, client)
}

pub(crate) fn create_table(client: &mut Client, name: &str) -> Response {
    client.request("POST", "/Tables", &[], format!("{{\"TableName\":\"{name}\"}}").as_bytes())
}

pub(crate) fn insert(client: &mut Client, partition: &str, row: &str) -> Response {
    let body = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}");
    client.request("POST", "/harvest", &[], body.as_bytes())
}

fn hundred(client: &mut Client, partition: &str) -> Response {
    let put = |row| {
        format!(
            "--c\nContent-Type: application/http\n\nPUT /harvest(PartitionKey='{partition}',RowKey='{row:02}') HTTP/1.1\n\
             Accept: application/json\nContent-Type: application/json\n\n{{}}\n"
        )
    };
    let parts = (0..100).map(put).collect::<String>();
    let body = format!("--b\nContent-Type: multipart/mixed; boundary=c\n\n{parts}--c--\n--b--\n");
    client.request("POST", "/$batch", &[("Content-Type", "multipart/mixed; boundary=b")], body.as_bytes())
}

fn assert_busy(answer: &Response, message: &str) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("x-ms-error-code"), Some("ServerBusy"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    let body = answer.json();
    assert_eq!(body["odata.error"]["code"], "ServerBusy");
    assert!(body["odata.error"]["message"]["value"].as_str().unwrap().starts_with(message), "{body}");
}

#[test]
fn options_set_the_targets() {
    let (_server, mut client) = server(&["--throttle", "--partition-entities-per-second", "1"]);
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    assert_eq!(hundred(&mut client, "a").status, 202);
    assert_busy(&insert(&mut client, "a", "new"), PARTITION_BUSY);
    let (_server, mut client) = server(&["--throttle", "--account-entities-per-second", "1"]);
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    assert_busy(&create_table(&mut client, "other"), ACCOUNT_BUSY);
}

#[test]
fn a_query_counts_the_entities_it_examined() {
    // One partition is enough, unless the machine stalls between the two queries.
    let partitions: Vec<_> = (0..20).map(|number| format!("p{number}")).collect();
    let folder = tempfile::tempdir().unwrap();
    let data = ["--data", folder.path().to_str().unwrap()];
    let unthrottled = PROGRAM.start(&data);
    let mut client = unthrottled.client();
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    for partition in &partitions {
        assert_eq!(hundred(&mut client, partition).status, 202);
    }
    assert!(unthrottled.stop().0.success());
    let server = PROGRAM.start(&[&data[..], &["--throttle", "--partition-entities-per-second", "2"]].concat());
    let mut client = server.client();
    // Two queries that counted as one entity each would be admitted. The first query examines 100 entities and returns
    // none, so the partition is busy for a second and a half.
    let refused = partitions.iter().find_map(|partition| {
        let query = format!("/harvest()?$filter=PartitionKey%20eq%20'{partition}'%20and%20Kind%20eq%20'none'");
        let first = client.request("GET", &query, &[], b"");
        assert_eq!(first.status, 200, "{first:?}");
        assert!(first.json()["value"].as_array().unwrap().is_empty());
        Some(client.request("GET", &query, &[], b"")).filter(|second| second.status != 200)
    });
    assert_busy(&refused.unwrap(), PARTITION_BUSY);
}

#[test]
fn nothing_is_throttled_when_throttling_is_off() {
    let (_server, mut client) = server(&["--throttle=false", "--partition-entities-per-second", "1"]);
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    for _ in 0..3 {
        assert_eq!(hundred(&mut client, "a").status, 202);
    }
}
