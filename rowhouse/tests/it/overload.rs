//! Tests of overload: what many idle connections cost, and what happens at limits. `hostile` tests that memory stays
//! bounded while other requests are served.
//!
//! Linux only: memory is read from `/proc`.

#![cfg(target_os = "linux")]

use crate::PROGRAM;
use crate::admin::page::page;
use crate::hostile::scene::resident_bytes;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use test_support::content::{create_table, fill_partition};
use test_support::{Client, Server, TIMEOUT, eventually, head, outcome};

const IDLE: usize = 2000;

#[test]
fn idle_connections_cost_little_and_delay_nobody() {
    let server = PROGRAM.start(&["--in-memory"]);
    let mut client = server.client();
    let before = resident_bytes(server.id());
    let idle: Vec<Client> = (0..IDLE)
        .map(|_| {
            let mut client = server.client();
            assert_eq!(client.request("GET", "/Tables", &[], b"").status, 200);
            client
        })
        .collect();
    assert_eq!(client.request("GET", "/Tables", &[], b"").status, 200);
    let each = resident_bytes(server.id()).saturating_sub(before) / idle.len() as u64;
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
    assert_eq!(outcome(&answer), (503, "ServerBusy"));
    assert_eq!(client.request("GET", "/large(PartitionKey='p',RowKey='0')", &[], b"").status, 404);
    drop(slow);
    while outcome(&client.request("POST", "/$batch", &[batch], &growing_batch("p", 2))).0 == 503 {}
    assert_eq!(client.request("GET", "/large(PartitionKey='p',RowKey='0')", &[], b"").status, 200);
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
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

/// Slow senders do not delay other clients, and a body that arrives byte by byte is cut off after 30 s.
#[test]
fn slow_senders() {
    let server = PROGRAM.start(&["--in-memory"]);
    assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"tab"}"#).status, 201);
    let mut stalled: Vec<Client> = (0..200).map(|_| server.client()).collect();
    for (number, client) in stalled.iter_mut().enumerate() {
        let sent = if number % 2 == 0 {
            b"GET / HTTP/1.1\r\n".to_vec()
        } else {
            [head("POST", "/tab", &[("Content-Length", "1000")]).as_bytes(), &[b' '; 500]].concat()
        };
        client.send(&sent).unwrap();
    }
    assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200);

    let started = Instant::now();
    let mut dripping = server.client();
    dripping.send(head("POST", "/tab", &[("Content-Length", "100000")]).as_bytes()).unwrap();
    dripping.set_read_timeout(Duration::from_millis(200));
    let end = loop {
        assert!(started.elapsed() < TIMEOUT, "the server is still waiting");
        if let Err(error) = dripping.send(b" ") {
            break error.kind();
        }
        match dripping.receive().map_err(|error| error.kind()) {
            Ok(answer) => panic!("{answer:?}"),
            Err(ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(kind) => break kind,
        }
    };
    println!("cut off after {:?}: {end}", started.elapsed());
    assert!(stalled[1].receive().is_err(), "the server does not wait for a body that makes no progress");
    drop(stalled);
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
    assert!(!log.iter().any(|line| line.contains("ERROR") || line.contains("panicked")), "{log:?}");
}

/// The number of comparisons in the filter, which makes examining an entity slow.
const COMPARISONS: usize = 2000;
const ROWS: usize = 100;
/// The number of partitions that are added in each round, until a query no longer completes within its time limit, and
/// the maximum number of rounds.
const PARTITIONS: usize = 20;
const ROUNDS_MAX: usize = 50;

fn server(folder: &tempfile::TempDir) -> Server {
    let data = folder.path().to_str().unwrap();
    let server = PROGRAM.start(&["--data", data, "--query-seconds", "1", "--admin", "127.0.0.1:0"]);
    create_table(&mut server.client(), "Cars");
    server
}

/// Returns a slow query that selects nothing, because no entity has the property.
fn query() -> String {
    let terms: Vec<String> = (0..COMPARISONS).map(|number| format!("N%20eq%20{number}")).collect();
    format!("/Cars()?$filter={}", terms.join("%20or%20"))
}

fn next(client: &mut Client, query: &str) -> Option<String> {
    let answer = client.request("GET", query, &[], b"");
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(answer.json()["value"].as_array().unwrap().len(), 0);
    let partition = answer.header("x-ms-continuation-nextpartitionkey")?;
    let row = answer.header("x-ms-continuation-nextrowkey").unwrap();
    Some(format!("&NextPartitionKey={partition}&NextRowKey={row}"))
}

#[test]
fn a_query_that_finds_nothing_ends_in_time_and_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder);
    let (mut client, query) = (server.client(), query());
    let mut partitions = 0..;
    // The number of entities that cannot be examined in one second depends on the machine.
    let first = (0..ROUNDS_MAX).find_map(|_| {
        partitions.by_ref().take(PARTITIONS).for_each(|partition| fill_partition(&mut client, "Cars", partition, ROWS));
        next(&mut client, &query)
    });
    let mut token = Some(first.expect("a query that takes too long must end with a token"));
    // On a quiet machine, the rest of the table takes less than the time that was too short for the whole table.
    let mut pages = 1;
    while let Some(position) = token {
        token = next(&mut client, &format!("{query}{position}"));
        pages += 1;
    }
    assert!(pages >= 2);

    let abandoned = |server: &Server| {
        let page = page(server);
        let aborted = r#"rowhouse_requests_total{operation="QueryEntities",status="0",code="aborted"}"#;
        page.count("rowhouse_requests_abandoned_total") + page.count(aborted)
    };
    let before = abandoned(&server);
    eventually("a client that goes away while its query is read", || {
        let mut leaving = server.client();
        leaving.send(head("GET", &query, &[]).as_bytes()).unwrap();
        leaving.set_read_timeout(Duration::from_millis(1));
        while page(&server).count("rowhouse_scans_running") == 0 {
            let answer = leaving.receive().map_err(|error| error.kind());
            if !matches!(answer, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)) {
                // On a busy machine, the query may end before it is seen.
                return None;
            }
        }
        drop(leaving);
        eventually("the end of the scan", || (page(&server).count("rowhouse_scans_running") == 0).then_some(()));
        (abandoned(&server) > before).then_some(())
    });
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
}
