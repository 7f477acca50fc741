//! Tests of services that attack the command that uses them: they write to its terminal, or their responses never end.

use crate::PROGRAM;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

/// An escape sequence that clears a terminal, its eight-bit form, an extra line, and text that runs backwards.
const HOSTILE: &str = "\u{1b}[2J\u{9b}2J\r\nrowhouse: all is well\u{202e}\u{2028}\u{7}";

fn service(status: &str, body: &str) -> String {
    service_for(usize::MAX, status, body)
}

fn service_for(requests: usize, status: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/devstoreaccount1", listener.local_addr().unwrap());
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json;odata=minimalmetadata\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    // The thread stops with the test process.
    thread::spawn(move || {
        for stream in listener.incoming().take(requests) {
            let Ok(mut stream) = stream else { return };
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            let _ = stream.write_all(response.as_bytes());
        }
    });
    endpoint
}

/// Runs commands against the service. Their output must contain no control characters except their own line breaks.
fn assert_harmless(endpoint: &str, commands: &[&[&str]]) {
    let folder = PROGRAM.folder();
    for command in commands {
        let ran = folder.run(command[0], &command[1..], &[("ROWHOUSE_ENDPOINT", endpoint)]);
        for line in [&ran.stdout, &ran.stderr].into_iter().flat_map(|text| text.split('\n')) {
            assert!(!line.contains(model::control_characters::is_control_character), "{command:?}: {line:?}");
            assert!(!line.starts_with("rowhouse: all is well"), "{command:?}: {ran:?}");
        }
        assert!(
            format!("{ran:?}").contains("all is well"),
            "the command did not show the service's text: {command:?} {ran:?}"
        );
    }
}

#[test]
fn its_errors_do_not_control_the_terminal() {
    let message = serde_json::json!({ "lang": "en-US", "value": HOSTILE });
    let error = serde_json::json!({ "odata.error": { "code": format!("Bad{HOSTILE}"), "message": message } });
    let endpoint = service("400 Bad", &error.to_string());
    assert_harmless(
        &endpoint,
        &[
            &["table", "list"],
            &["table", "create", "tab"],
            &["entity", "get", "tab", "p", "r"],
            &["entity", "query", "tab"],
            &["export", "--from", &endpoint, "--to", "out"],
            &["copy", "--from", &endpoint, "--to", "data"],
        ],
    );
}

#[test]
fn its_names_and_values_do_not_control_the_terminal() {
    let tables = serde_json::json!({ "value": [{ "TableName": format!("tab{HOSTILE}") }] });
    assert_harmless(&service("200 OK", &tables.to_string()), &[&["table", "list", "--output", "table"]]);
    let entity = serde_json::json!({
        "odata.etag": format!("W/\"{HOSTILE}\""), "PartitionKey": "p", "RowKey": "r",
        "Timestamp": "2031-04-01T06:30:00Z", "Text": HOSTILE,
    });
    let endpoint = service("200 OK", &entity.to_string());
    for output in ["table", "json", "jsonl"] {
        assert_harmless(&endpoint, &[&["entity", "get", "tab", "p", "r", "--output", output]]);
    }
    let page = serde_json::json!({ "value": [entity] });
    let endpoint = service("200 OK", &page.to_string());
    for output in ["table", "json", "jsonl"] {
        assert_harmless(&endpoint, &[&["entity", "query", "tab", "--output", output]]);
    }
}

#[test]
fn a_repeated_continuation_token_ends_every_command() {
    let token = "200 OK\r\nx-ms-continuation-NextPartitionKey: p\r\nx-ms-continuation-NextRowKey: r\r\n\
                 x-ms-continuation-NextTableName: t";
    // The number of responses is limited. Otherwise, a command that follows the token would run forever, and the test
    // would not fail.
    let endpoint = || service_for(100, token, "{\"value\":[]}");
    let folder = PROGRAM.folder();
    for command in [
        &["table", "list"][..],
        &["entity", "query", "tab"],
        &["entity", "count", "tab"],
        &["export", "--from", "ENDPOINT", "--to", "out", "--table", "tab"],
        &["export", "--from", "ENDPOINT", "--to", "all"],
        &["copy", "--from", "ENDPOINT", "--to", "data"],
    ] {
        let endpoint = endpoint();
        let words: Vec<&str> = command.iter().map(|word| if *word == "ENDPOINT" { &endpoint } else { *word }).collect();
        let ran = folder.run(words[0], &words[1..], &[("ROWHOUSE_ENDPOINT", &endpoint)]);
        assert!(ran.code == Some(1) && ran.stderr.contains("repeats its continuation token"), "{command:?}: {ran:?}");
    }
}

#[test]
fn an_error_without_a_code_is_not_one_of_a_table_service() {
    let endpoint = service("404 Not Found", "<html>");
    let ran = PROGRAM.folder().run("table", &["list"], &[("ROWHOUSE_ENDPOINT", &endpoint)]);
    let expected =
        "listing the tables was refused: 404, without an error code of a Table service (is the address right?)";
    assert!(ran.stderr.contains(expected), "{ran:?}");
}
