//! Tests of overload: clients that do not read their responses, and many idle connections. Memory stays bounded,
//! requests beyond the limits are refused, and all other requests are served.
//!
//! Linux only: memory is read from `/proc`.

#![cfg(target_os = "linux")]

use crate::PROGRAM;
use model::limits::ADMIN_CONNECTIONS_MAX;
use std::fs;
use test_support::{Client, Server, head};

const ENTITIES: usize = 300;
/// The length of the string in each entity. A page of all entities is about 3 MiB.
const TEXT_BYTES: usize = 10_000;
/// The number of queries that a client sends without reading. Their responses exceed the system's buffers.
const QUERIES: usize = 12;
const SLOW_READERS: usize = 24;
const IDLE: usize = 2000;
const MIB: u64 = 1024 * 1024;

/// Starts a server with little memory for bodies, and creates a table that fits into that memory only a few times.
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
    // The slow clients hold the memory for pages. Other pages therefore end early or are refused, but small responses
    // always succeed.
    let (mut entities, mut from) = (0, String::new());
    while entities < ENTITIES {
        assert_eq!(client.request("GET", "/large(PartitionKey='p',RowKey='007')", &[], b"").status, 200);
        let answer = client.request("GET", &format!("/large?{from}"), &[], b"");
        if answer.status == 503 {
            assert_eq!(answer.header("x-ms-error-code"), Some("ServerBusy"));
            assert_eq!(answer.header("retry-after"), Some("1"));
            continue;
        }
        assert_eq!(answer.status, 200);
        entities += answer.json()["value"].as_array().unwrap().len();
        if let Some(row) = answer.header("x-ms-continuation-nextrowkey") {
            let partition = answer.header("x-ms-continuation-nextpartitionkey").unwrap();
            from = format!("NextPartitionKey={partition}&NextRowKey={row}");
        }
    }
    let more = resident_bytes(&server).saturating_sub(before);
    assert!(more < 64 * MIB, "{SLOW_READERS} slow readers took {} MiB", more / MIB);
    // Once the slow clients are disconnected, there is memory again.
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

/// Returns a batch of inserts into one partition. The response is three times as long as the batch, because each
/// character takes two bytes in the request and six, as an escape, in the response.
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
fn a_batch_for_whose_response_there_is_no_memory_writes_nothing() {
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
    let answer = client.request("POST", "/$batch", &[batch], &growing_batch("p", 2));
    assert_eq!((answer.status, answer.header("x-ms-error-code")), (503, Some("ServerBusy")));
    assert_eq!(client.request("GET", "/large(PartitionKey='p',RowKey='0')", &[], b"").status, 404);
    drop(slow);
    while client.request("POST", "/$batch", &[batch], &growing_batch("p", 2)).status == 503 {}
    assert_eq!(client.request("GET", "/large(PartitionKey='p',RowKey='0')", &[], b"").status, 200);
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
}

#[test]
fn bodies_that_do_not_come_hold_no_memory() {
    let server = PROGRAM.start(&["--in-memory", "--body-mib", "16"]);
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"small"}"#).status, 201);
    let stalled: Vec<Client> = (0..66)
        .map(|_| {
            let mut stalled = server.client();
            stalled.send(head("POST", "/small", &[("Content-Length", "4194304")]).as_bytes()).unwrap();
            stalled.send(b"{").unwrap();
            stalled
        })
        .collect();
    for _ in 0..10 {
        assert_eq!(client.request("GET", "/small()", &[], b"").status, 200);
    }
    // The server does not wait for a body that makes no progress: it closes the connection without a response.
    for mut stalled in stalled {
        assert!(stalled.receive().is_err());
    }
}

#[test]
fn an_idle_connection_gives_its_place_to_a_new_one() {
    let server = PROGRAM.start(&["--in-memory", "--max-connections", "20", "--admin", "127.0.0.1:0"]);
    let idle: Vec<Client> = (0..20).map(|_| server.client()).collect();
    let idle_at_admin: Vec<Client> =
        (0..ADMIN_CONNECTIONS_MAX).map(|_| Client::connect(&server.admin).unwrap()).collect();
    let mut active = server.client();
    for _ in 0..30 {
        assert_eq!(active.request("GET", "/Tables", &[], b"").status, 200);
        assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200, "a new connection");
    }
    assert_eq!(crate::admin::page::ask(&server.admin, "GET", "/livez", "", "").status, 200);
    drop((idle, idle_at_admin));
}

#[test]
fn an_address_has_no_more_connections_than_it_may_have() {
    let server = PROGRAM.start(&["--in-memory", "--max-connections-per-address", "2"]);
    let mut first = server.client();
    assert_eq!(first.request("GET", "/Tables", &[], b"").status, 200);
    let mut second = server.client();
    assert_eq!(second.request("GET", "/Tables", &[], b"").status, 200);
    assert!(server.client().receive().is_err(), "the third one is closed");
    assert_eq!(first.request("GET", "/Tables", &[], b"").status, 200);
    drop(second);
    while server.client().try_request("GET", "/Tables", &[], b"").is_err() {}
}

#[test]
fn unfinished_heads_take_bounded_memory() {
    let server = PROGRAM.start(&["--in-memory"]);
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"small"}"#).status, 201);
    let before = resident_bytes(&server);
    let head_start = format!("GET /small() HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Unfinished: {}", "x".repeat(100 * 1024));
    let unfinished: Vec<Client> = (0..600)
        .map(|_| {
            let mut client = server.client();
            // The connections that have been idle longest are closed in the meantime.
            let _sent = client.send(head_start.as_bytes());
            client
        })
        .collect();
    let filter = format!("PartitionKey%20eq%20'{}'", "x".repeat(500)).repeat(1);
    let long = ("X-Long", "y".repeat(50 * 1024));
    let answer = client.request("GET", &format!("/small()?$filter={filter}"), &[(long.0, &long.1)], b"");
    assert_eq!(answer.status, 200, "a long head that is complete");
    let more = resident_bytes(&server).saturating_sub(before);
    assert!(more < 80 * MIB, "600 unfinished heads took {} MiB", more / MIB);
    drop(unfinished);
}
