//! Tests of which servers serve the explorer, what they print, and which settings the page gets from a server.

use super::{check_common_headers, get, send};
use crate::PROGRAM;
use crate::black_box::client::{account_file, key};
use crate::black_box::process::Folder;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use test_support::{ACCOUNT, KEY, Server, eventually};
use wire::sas::Fields;
use wire::signing::AccountKey;

fn announced(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = PROGRAM.serve(&[&["--in-memory"], arguments].concat());
    if !arguments.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    let mut child = command.envs(variables.iter().copied()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    // The lines are written at the same time.
    out.read_line(&mut lines).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    out.read_to_string(&mut lines).unwrap();
    assert!(lines.contains("connection string: "), "{lines}");
    lines
}

fn is_announced(arguments: &[&str], variables: &[(&str, &str)]) -> bool {
    let lines = announced(arguments, variables);
    let endpoint = lines.lines().next().unwrap().strip_prefix("listening on ").unwrap();
    let explorer = lines.lines().find_map(|line| line.strip_prefix("explorer: "));
    assert!(explorer.is_none_or(|address| address == format!("{endpoint}/_rowhouse/")), "{lines}");
    explorer.is_some()
}

fn page_settings(server: &Server, host: &str) -> Value {
    let response = send(&mut server.client(), "GET", "/_rowhouse/settings.json", &format!("Host: {host}\r\n"));
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    check_common_headers(&response, host);
    response.json()
}

#[test]
fn it_is_on_for_development_on_this_machine_and_else_on_request() {
    let folder = Folder::new();
    let own = folder.write("own", &account_file("orchard", &key(1), &key(2)));
    let development = folder.write("development", &account_file(ACCOUNT, KEY, &key(2)));
    let file = folder.write("off.toml", "explorer = false\n");
    let network = ["--listen", "0.0.0.0:0", "--allow-development-key-on-network", "--allow-plain-http-on-network"];
    for (arguments, variables, expected) in [
        (&[][..], &[][..], true),
        (&["--accounts", &development], &[], true),
        (&["--accounts", &own], &[], false),
        (&["--accounts", &own, "--explorer"], &[], true),
        (&["--accounts", &own, "--explorer=true"], &[], true),
        (&[], &[("ROWHOUSE_ACCOUNT_KEYS", &*format!("orchard:{}", key(1)))], false),
        (&["--accounts", &own, "--explorer=on"], &[], true),
        (&["--explorer=off"], &[], false),
        (&["--explorer=false"], &[], false),
        (&[], &[("ROWHOUSE_EXPLORER", "off")], false),
        (&[], &[("ROWHOUSE_EXPLORER", "false")], false),
        (&["--explorer"], &[("ROWHOUSE_EXPLORER", "false")], true),
        (&["--config", &file], &[], false),
        (&["--config", &file, "--explorer"], &[], true),
        (&network, &[], false),
        (&[&network[..], &["--explorer"]].concat(), &[], true),
    ] {
        assert_eq!(is_announced(arguments, variables), expected, "{arguments:?} {variables:?}");
    }
}

#[test]
fn a_server_with_tls_names_an_address_with_https() {
    let folder = Folder::new();
    let pair = crate::black_box::tls::write_pair(&folder);
    let lines = announced(&["--tls-cert", &pair.certificate, "--tls-key", &pair.key], &[]);
    let explorer = lines.lines().last().unwrap();
    assert!(explorer.starts_with("explorer: https://127.0.0.1:") && explorer.ends_with("/_rowhouse/"), "{lines}");
}

/// Returns the complete response to a request on a new connection, without the parts that always differ.
fn answer(server: &Server, method: &str, path: &str, headers: &str) -> (u16, Vec<(String, String)>, String) {
    let mut response = send(&mut server.client(), method, path, headers);
    let id = response.header("x-ms-request-id").unwrap().to_owned();
    response.headers.retain(|(name, _)| name != "x-ms-request-id");
    let mut body = String::from_utf8(response.body).unwrap().replace(&id, "");
    if let Some(at) = body.find("Time:") {
        body.replace_range(at..at + "Time:2031-03-14T08:15:30.1234567Z".len(), "");
    }
    (response.status, response.headers, body)
}

/// Returns a signature for everything in the table `tab`.
fn token() -> String {
    let fields = Fields {
        version: "2019-02-02".into(),
        table: "tab".into(),
        permissions: "raud".into(),
        expiry: "2999-01-01".into(),
        ..Fields::default()
    };
    fields.sign(ACCOUNT, &AccountKey::parse(KEY).unwrap()).unwrap()
}

#[test]
fn a_server_without_it_responds_as_to_any_account_that_does_not_exist() {
    let off = PROGRAM.start(&["--in-memory", "--explorer=false"]);
    for method in ["GET", "HEAD", "POST", "PUT", "OPTIONS"] {
        for path in ["", "/", "/index.html", "/settings.json", "/../x", "/%2e"] {
            for headers in ["", "Accept: application/json\r\n", "Host: devstoreaccount1.table.localhost\r\n"] {
                // This name cannot be an account name, either.
                let other = answer(&off, method, &format!("/_storehouse{path}"), headers);
                assert!((400..405).contains(&other.0), "{other:?}");
                assert!(other.1.iter().any(|(name, _)| name == "x-ms-error-code"), "{other:?}");
                assert_eq!(
                    answer(&off, method, &format!("/_rowhouse{path}"), headers),
                    other,
                    "{method} {path} {headers}"
                );
            }
        }
    }
    // This also applies with a credential if the host names the account: then the path names a table, but not the table
    // of the signature.
    let on = PROGRAM.start(&["--in-memory"]);
    let get_table = |server: &Server| {
        let token = token();
        let path = format!("/_rowhouse/?{token}");
        let response = send(&mut server.client(), "GET", &path, "Host: devstoreaccount1.table.localhost\r\n");
        response.header("x-ms-error-code").map(str::to_owned)
    };
    assert_eq!(get_table(&off).as_deref(), Some("AuthorizationFailure"));
    assert_eq!(get_table(&on), None);
}

#[test]
fn the_page_knows_whether_the_host_may_use_the_development_account() {
    let server = PROGRAM.start(&["--in-memory", "--domain", "tables.example.net"]);
    let expected = |development: bool, host_account: Option<&str>| {
        json!({
            "version": env!("CARGO_PKG_VERSION"), "development": development, "hostAccount": host_account,
            "extensions": false, "changes": false, "load": false
        })
    };
    for (host, development, host_account) in [
        ("127.0.0.1:10002", true, None),
        ("localhost", true, None),
        ("[::1]:1", true, None),
        ("tables.example.net", true, None),
        ("devstoreaccount1.tables.example.net:10002", true, Some(ACCOUNT)),
        ("devstoreaccount1.table.localhost:10002", true, Some(ACCOUNT)),
        ("orchard.table.localhost", false, Some("orchard")),
        // A page under a different name that resolves to this machine gets no useful information.
        ("evil.example", false, None),
        ("192.0.2.7:10002", false, None),
        ("devstoreaccount1.table.evil.example", false, Some(ACCOUNT)),
    ] {
        assert_eq!(page_settings(&server, host), expected(development, host_account), "{host}");
    }
    let open = PROGRAM.start(&["--in-memory", "--explorer", "--allow-development-key-on-network"]);
    assert_eq!(page_settings(&open, "evil.example")["development"], json!(true));
}

#[test]
fn the_page_knows_whether_the_server_has_extensions() {
    let server = PROGRAM.start(&["--in-memory", "--extensions"]);
    // This does not depend on the host, because it says nothing about accounts.
    for host in ["localhost", "evil.example"] {
        assert_eq!(page_settings(&server, host)["extensions"], json!(true), "{host}");
    }
}

#[test]
fn accounts_that_change_change_what_the_page_knows() {
    let folder = Folder::new();
    let accounts = folder.write("accounts", &account_file(ACCOUNT, KEY, &key(2)));
    let server = PROGRAM.start(&["--in-memory", "--accounts", &accounts]);
    assert_eq!(page_settings(&server, "localhost")["development"], json!(true));
    folder.replace("accounts", &account_file(ACCOUNT, &key(1), &key(2)));
    server.signal("HUP");
    eventually("the new accounts", || {
        (page_settings(&server, "localhost")["development"] == json!(false)).then_some(())
    });
    assert_eq!(get(&server, "/_rowhouse/").status, 200);
}

#[test]
fn the_settings_are_made_for_each_request() {
    let server = PROGRAM.start(&["--in-memory"]);
    let response = send(&mut server.client(), "GET", "/_rowhouse/settings.json", "If-None-Match: *\r\n");
    assert_eq!((response.status, response.header("etag")), (200, None));
}
