//! What requests can write to the log: single lines of bounded length, without control characters, and only a few of
//! them if the client has no valid credential.

use super::page::{get, text};
use crate::PROGRAM;
use model::control_characters::is_control_character;
use test_support::{ACCOUNT, head};

const FORGED: &str = "ERROR server: forged";

#[test]
fn a_request_does_not_forge_a_line_of_the_log() {
    for format in ["text", "json"] {
        let server = PROGRAM.start(&["--in-memory", "--log", "debug", "--log-format", format]);
        let mut client = server.client();
        assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"tab"}"#).status, 201);
        // The literal is out of range, and the message quotes the whole filter.
        let filter =
            "A%20eq%2099999999999%20or%20B%20eq%20'%0AERROR%20server:%20forged%0D%1B[2J%C2%9B%E2%80%A8%E2%80%AE'";
        let answer = client.request("GET", &format!("/tab()?$filter={filter}"), &[], b"");
        assert_eq!(answer.status, 400);
        drop(client);
        let (_, log) = server.stop();
        assert!(log.iter().any(|line| line.contains(FORGED)), "the filter is not logged: {log:#?}");
        for line in &log {
            assert!(!line.starts_with(FORGED) && !line.contains(is_control_character), "{line:?}");
            if format == "json" {
                assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
            }
        }
    }
}

fn denied(path: &str) -> String {
    let authorization = format!("SharedKey {ACCOUNT}:{}=", "A".repeat(43));
    head("GET", path, &[("Authorization", &authorization)])
}

#[test]
fn a_failed_signature_logs_a_short_line() {
    for format in ["text", "json"] {
        let server = PROGRAM.start(&["--in-memory", "--log", "debug", "--log-format", format]);
        let mut client = server.client();
        for path in ["/x".repeat(30_000), format!("/{}", "%0a".repeat(20_000))] {
            client.send(denied(&path).as_bytes()).unwrap();
            assert_eq!(client.receive().unwrap().status, 403);
        }
        drop(client);
        let (_, log) = server.stop();
        assert!(log.iter().any(|line| line.contains("string to sign") && line.contains("left out")), "{log:#?}");
        assert!(log.iter().all(|line| line.len() < 8 * 1024), "{log:#?}");
    }
}

#[test]
fn denied_requests_do_not_fill_the_log_and_are_counted() {
    const REQUESTS: usize = 1000;
    let server = PROGRAM.start(&["--in-memory", "--log-format", "json", "--admin", "127.0.0.1:0"]);
    let mut client = server.client();
    for _ in 0..REQUESTS {
        client.send(denied("/tab").as_bytes()).unwrap();
        assert_eq!(client.receive().unwrap().status, 403);
    }
    let metrics = text(&get(&server, "/metrics")).to_owned();
    drop(client);
    let (_, log) = server.stop();
    let events = log.iter().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let (counts, denials): (Vec<_>, Vec<_>) = events
        .filter(|event| event["count"].is_u64() || event["code"] == "AuthenticationFailed")
        .partition(|event| event["count"].is_u64());
    let left_out: u64 = counts.iter().filter_map(|event| event["count"].as_u64()).sum();
    assert!(denials.len() < REQUESTS / 2, "{}", denials.len());
    assert_eq!(denials.len() as u64 + left_out, REQUESTS as u64);
    let counted = metrics.lines().filter(|line| line.starts_with("rowhouse_requests_total{"));
    let counted: u64 = counted.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
    assert_eq!(counted, REQUESTS as u64, "{metrics}");
}
