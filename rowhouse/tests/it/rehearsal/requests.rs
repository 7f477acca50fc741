//! Tests of requests that are refused, lost or delayed.

use super::*;
use std::time::{Duration, Instant};
use test_support::{eventually, transact};

const UPSERT: &str = "PUT /harvest(PartitionKey='a',RowKey='1') HTTP/1.1\r\nAccept: application/json\r\n\
                      Content-Type: application/json\r\n\r\n{\"Kind\":\"apple\"}";
const BUSY: &str = "The server is currently unable to receive requests. Please retry your request.";

fn lost(server: &Server, send: impl FnOnce(&mut Client) -> std::io::Result<Response>) {
    let answer = send(&mut server.client());
    assert!(answer.is_err(), "{answer:?}");
}

#[test]
fn a_busy_server_refuses_operations_and_does_nothing() {
    let (server, mut client) = rehearsing("busy=100%");
    let operations = [("GET", "/Tables"), ("POST", "/Tables"), ("GET", "/harvest()")];
    for (method, path) in operations {
        for endpoint in ["", "-secondary"].iter().take(if method == "GET" { 2 } else { 1 }) {
            let path = format!("{endpoint}{path}");
            let answer = client.request(method, &path, &[], br#"{"TableName":"harvest"}"#);
            assert_eq!((answer.status, code(&answer)), (503, Some("ServerBusy")), "{method} {path}");
            assert_eq!(answer.header("retry-after"), Some("1"), "{method} {path}");
            assert!(String::from_utf8(answer.body).unwrap().contains(BUSY));
        }
    }
    // A transaction is refused as a whole, not one of its operations.
    let batch = transact(&mut client, &[UPSERT.to_owned()]).unwrap();
    assert_eq!((batch.status, batch.header("retry-after")), (503, Some("1")));
    // These requests do not concern tables, entities or a change.
    let properties = "/?restype=service&comp=properties";
    assert_eq!(client.request("GET", properties, &[], b"").status, 200);
    assert_eq!(client.request("GET", "-secondary/?restype=service&comp=stats", &[], b"").status, 200);
    // A request that is refused for a different reason does not get 503, and neither do requests to the admin listener.
    assert_eq!(client.request("GET", "/Tables", &[("x-ms-date", "Mon, 01 Jan 2001 00:00:00 GMT")], b"").status, 403);
    let mut admin = Client::connect(&server.admin).unwrap();
    admin.send(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    assert_eq!(admin.receive().unwrap().status, 200);
    // The explorer is enabled on a server that listens only on this machine.
    client.send(b"GET /_rowhouse/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    assert_eq!(client.receive().unwrap().status, 200);
    client.send(b"OPTIONS /devstoreaccount1/harvest HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    assert_eq!(client.receive().unwrap().status, 400, "it lacks an origin");
}

#[test]
fn targets_are_those_of_throttling() {
    let server = PROGRAM.start(&["--in-memory", "--rehearse", "targets", "--account-entities-per-second", "1"]);
    let mut client = server.client();
    let busy = eventually("a request beyond the target", || {
        Some(client.request("GET", "/Tables", &[], b"")).filter(|answer| answer.status == 503)
    });
    assert!(String::from_utf8(busy.body).unwrap().contains("over the account limit"));
}

#[test]
fn a_lost_answer_is_that_of_a_write_that_was_committed() {
    let (server, mut client) = rehearsing("lost-answers=100%");
    let table = br#"{"TableName":"harvest"}"#;
    lost(&server, |client| client.try_request("POST", "/Tables", &[], table));
    // Responses to writes that changed nothing, and to reads, arrive.
    let again = client.request("POST", "/Tables", &[], table);
    assert_eq!((again.status, code(&again)), (409, Some("TableAlreadyExists")));
    let entity = br#"{"PartitionKey":"a","RowKey":"1"}"#;
    lost(&server, |client| client.try_request("POST", "/harvest", &[], entity));
    assert_eq!(code(&client.request("POST", "/harvest", &[], entity)), Some("EntityAlreadyExists"));
    let address = "/harvest(PartitionKey='a',RowKey='1')";
    let stored = client.request("GET", address, &[], b"");
    let etag = stored.header("etag").unwrap();
    lost(&server, |client| client.try_request("PUT", address, &[("If-Match", etag)], b"{}"));
    let again = client.request("PUT", address, &[("If-Match", etag)], b"{}");
    assert_eq!((again.status, code(&again)), (412, Some("UpdateConditionNotSatisfied")));
    lost(&server, |client| client.try_request("DELETE", address, &[("If-Match", "*")], b""));
    assert_eq!(code(&client.request("DELETE", address, &[("If-Match", "*")], b"")), Some("ResourceNotFound"));
    let properties = "/?restype=service&comp=properties";
    let xml = [("Content-Type", "application/xml")];
    let cors = b"<StorageServiceProperties><Cors/></StorageServiceProperties>";
    lost(&server, |client| client.try_request("PUT", properties, &xml, cors));
    let preflight = b"OPTIONS /devstoreaccount1/harvest HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    client.send(preflight).unwrap();
    assert_eq!(client.receive().unwrap().status, 400);
}

#[test]
fn the_answer_to_a_batch_is_lost_only_if_it_was_committed() {
    let (server, mut client) = rehearsing("lost-answers=100%");
    lost(&server, |client| client.try_request("POST", "/Tables", &[], br#"{"TableName":"harvest"}"#));
    lost(&server, |client| transact(client, &[UPSERT.to_owned()]));
    let stored = client.request("GET", "/harvest(PartitionKey='a',RowKey='1')", &[], b"");
    assert_eq!(stored.json()["Kind"], "apple");
    let insert = "POST /harvest HTTP/1.1\r\nAccept: application/json\r\nContent-Type: application/json\r\n\r\n\
                  {\"PartitionKey\":\"a\",\"RowKey\":\"1\"}";
    let refused = transact(&mut client, &[insert.to_owned()]).unwrap();
    assert!(String::from_utf8(refused.body).unwrap().contains("EntityAlreadyExists"));
    let query = "--b\r\nContent-Type: application/http\r\n\r\nGET /harvest() HTTP/1.1\r\nAccept: application/json\r\n\r\n\r\n--b--\r\n";
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    assert_eq!(client.request("POST", "/$batch", &headers, query.as_bytes()).status, 202);
}

#[test]
fn every_request_is_late_and_the_admin_listener_is_not() {
    let (server, mut client) = rehearsing("latency=1s");
    let began = Instant::now();
    // The latency does not count toward the time limit of a query.
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    assert!(began.elapsed() >= Duration::from_secs(1));
    let mut admin = Client::connect(&server.admin).unwrap();
    let began = Instant::now();
    let quick = eventually("a response without the latency", || {
        let began = Instant::now();
        admin.send(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        admin.receive().unwrap();
        Some(began.elapsed()).filter(|elapsed| *elapsed < Duration::from_secs(1))
    });
    assert!(quick <= began.elapsed());
}
