//! Overload: clients that do not read their responses, and many idle connections. Memory stays bounded, requests beyond the
//! limits are refused, and all others are served.

use crate::PROGRAM;
use std::fs;
use test_support::{Client, Server, head};

const ENTITIES: usize = 300;
/// Bytes of the text of each entity: a page of all of them is about 3 MiB.
const TEXT_BYTES: usize = 10_000;
/// Queries that a client sends without reading, more than the buffers of the system hold the answers of.
const QUERIES: usize = 12;
const SLOW_READERS: usize = 24;
const IDLE: usize = 2000;
const MIB: u64 = 1024 * 1024;

/// A server with little memory for bodies, and a table that does not fit it many times.
fn server() -> Server {
    let server = PROGRAM.start(&["--in-memory", "--body-mib", "16"]);
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"large"}"#).status, 201);
    let text = "x".repeat(TEXT_BYTES);
    for number in 0..ENTITIES {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{number:03}","Text":"{text}"}}"#);
        assert_eq!(client.request("POST", "/large", &[], body.as_bytes()).status, 201);
    }
    server
}

fn resident_bytes(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn slow_readers_take_bounded_memory_and_delay_no_others() {
    let server = server();
    let mut client = server.client();
    assert_eq!(client.request("GET", "/large", &[], b"").status, 200);
    let before = resident_bytes(&server);
    let query = head("GET", "/large", &[]);
    let slow: Vec<Client> = (0..SLOW_READERS)
        .map(|_| {
            let mut client = server.client();
            client.send(query.repeat(QUERIES).as_bytes()).unwrap();
            client
        })
        .collect();
    // Sooner or later the slow ones hold all the memory there is for pages; small answers go on all the time.
    loop {
        assert_eq!(client.request("GET", "/large(PartitionKey='p',RowKey='007')", &[], b"").status, 200);
        let answer = client.request("GET", "/large", &[], b"");
        if answer.status == 503 {
            assert_eq!(answer.header("x-ms-error-code"), Some("ServerBusy"));
            assert_eq!(answer.header("retry-after"), Some("1"));
            break;
        }
        assert_eq!(answer.status, 200);
    }
    let more = resident_bytes(&server).saturating_sub(before);
    assert!(more < 64 * MIB, "{SLOW_READERS} slow readers took {} MiB", more / MIB);
    // Once they are gone, there is room again.
    drop(slow);
    while client.request("GET", "/large", &[], b"").status == 503 {}
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
}

#[test]
fn idle_connections_cost_little_and_delay_nobody() {
    let server = server();
    let mut client = server.client();
    let before = resident_bytes(&server);
    let idle: Vec<Client> = (0..IDLE)
        .map(|_| {
            let mut client = server.client();
            assert_eq!(client.request("GET", "/Tables", &[], b"").status, 200);
            client
        })
        .collect();
    assert_eq!(client.request("GET", "/large", &[], b"").status, 200);
    let each = resident_bytes(&server).saturating_sub(before) / idle.len() as u64;
    assert!(each < 64 * 1024, "an idle connection takes {each} bytes");
    drop(idle);
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
}

/// A batch of inserts into one partition, whose answer is three times as long: each of its characters is two bytes in
/// the request and an escape of six in the answer.
fn growing_batch(partition: &str, entities: usize) -> Vec<u8> {
    let text = "é".repeat(32 * 1024);
    let properties: Vec<String> = (0..15).map(|number| format!("\"P{number}\":\"{text}\"")).collect();
    let operation = |row| {
        let head = "--c\nContent-Type: application/http\n\nPOST /large HTTP/1.1";
        let entity = format!("\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",{}", properties.join(","));
        format!("{head}\nAccept: application/json\nContent-Type: application/json\n\n{{{entity}}}\n")
    };
    let operations: Vec<String> = (0..entities).map(operation).collect();
    let start = "--b\nContent-Type: multipart/mixed; boundary=c\n\n";
    format!("{start}{}--c--\n--b--\n", operations.concat()).into_bytes()
}

#[test]
fn a_completed_write_is_not_answered_with_server_busy() {
    let server = PROGRAM.start(&["--in-memory", "--body-mib", "16"]);
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"large"}"#).status, 201);
    let batch = ("Content-Type", "multipart/mixed; boundary=b");
    // A response of 11 MiB, which is not read.
    let body = growing_batch("unread", 4);
    let length = body.len().to_string();
    let mut slow = server.client();
    slow.send(head("POST", "/$batch", &[batch, ("Content-Length", &length)]).as_bytes()).unwrap();
    slow.send(&body).unwrap();
    assert_eq!(slow.receive_head().unwrap().status, 202);
    // There is room for a body and what it becomes, but not for its answer.
    let answer = client.request("POST", "/$batch", &[batch], &growing_batch("p", 2));
    assert_eq!(answer.status, 202);
    assert!(answer.body.len() as u64 > 5 * MIB);
    // A query in a batch wrote nothing.
    let query = "--b\nContent-Type: application/http\n\nGET /large HTTP/1.1\nAccept: application/json\n\n--b--\n";
    assert_eq!(client.request("POST", "/$batch", &[batch], query.as_bytes()).status, 503);
    drop(slow);
    while client.request("POST", "/$batch", &[batch], query.as_bytes()).status == 503 {}
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
}
