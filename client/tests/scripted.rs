//! The client against servers with scripted responses: too large, busy, broken, malformed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

use model::{EdmValue, EntityKey, KeyText, RecordBuilder};
use rowhouse_client::{
    Continuation, Credential, DEVELOPMENT_KEY, Endpoint, Entity, Error, Query, TableService, WriteMode,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wire::batch::{Batch, ChangesetWriter, read};

/// A request as the server received it.
#[derive(Debug, Clone)]
struct ReceivedRequest {
    target: String,
    body: Vec<u8>,
}

/// The status, further header lines, and the body.
type Reply = (&'static str, String, Vec<u8>);

/// Starts a server that answers by the script and records the requests.
fn service(
    script: impl Fn(usize, &ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (TableService, Arc<Mutex<Vec<ReceivedRequest>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (script, log) = (Arc::new(script), Arc::clone(&seen));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (script, log) = (Arc::clone(&script), Arc::clone(&log));
            // Ends when the client closes.
            thread::spawn(move || connection(stream, &*script, &log));
        }
    });
    let endpoint = Endpoint::parse(&format!("http://{address}"), None).unwrap();
    (TableService::new(endpoint, Credential::parse(DEVELOPMENT_KEY).unwrap()).unwrap(), seen)
}

fn connection(
    stream: TcpStream,
    script: &dyn Fn(usize, &ReceivedRequest) -> Reply,
    log: &Mutex<Vec<ReceivedRequest>>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut target, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if target.is_empty() {
                line.split(' ').nth(1)?.clone_into(&mut target);
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        let seen = ReceivedRequest { target, body };
        let number = {
            let mut log = log.lock().unwrap();
            log.push(seen.clone());
            log.len()
        };
        let (status, headers, body) = script(number, &seen);
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        stream.get_mut().write_all(head.as_bytes()).ok()?;
        stream.get_mut().write_all(&body).ok()?;
    }
}

fn entities(count: usize) -> Vec<Entity> {
    let text = |text: &str| KeyText::new(text).unwrap();
    let mut properties = RecordBuilder::default();
    properties.push("Number", EdmValue::Int32(1));
    let key = |row: usize| EntityKey { partition: text("p"), row: text(&row.to_string()) };
    let entity = |row: usize| Entity::new(key(row), properties.clone());
    (0..count).map(entity).collect()
}

fn operations(body: &[u8]) -> usize {
    match read(ChangesetWriter::CONTENT_TYPE, body).unwrap() {
        Batch::Changeset(changeset) => changeset.operations.len(),
        other => panic!("{other:?}"),
    }
}

const STORED: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// The answer to a transaction with these parts.
fn batch_answer(parts: &[&str]) -> Reply {
    let head = "--c\r\nContent-Type: application/http\r\n\r\n";
    let parts: String = parts.iter().flat_map(|part| [head, part, "\r\n"]).collect();
    let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n");
    ("202 Accepted", "Content-Type: multipart/mixed; boundary=b\r\n".to_owned(), body.into_bytes())
}

#[tokio::test]
async fn a_transaction_that_is_too_large_is_sent_in_parts() {
    let (service, seen) = service(|_, request| match operations(&request.body) {
        count if count > 30 => ("413 Too Large", String::new(), Vec::new()),
        count => batch_answer(&vec![STORED; count]),
    });
    service.write("cars", &entities(100), WriteMode::Replace).await.unwrap();
    let sent: Vec<usize> = seen.lock().unwrap().iter().map(|seen| operations(&seen.body)).collect();
    assert_eq!(sent, [100, 50, 25, 25, 50, 25, 25]);
    let (service, _) = self::service(|_, _| ("413 Too Large", String::new(), Vec::new()));
    let refused = service.write("cars", &entities(2), WriteMode::Replace).await.unwrap_err();
    assert_eq!(refused.refusal().map(|(status, _)| status), Some(413), "one entity cannot be split");
}

#[tokio::test]
async fn transient_errors_are_retried_and_others_are_returned() {
    let busy = "HTTP/1.1 503 Busy\r\n\r\n{\"odata.error\":{\"code\":\"ServerBusy\",\"message\":{\"value\":\"Busy.\"}}}";
    let (service, seen) = service(move |number, _| match number {
        1 => ("429 Too Many", "Retry-After: 1\r\n".to_owned(), Vec::new()),
        2 => batch_answer(&[busy]),
        3 => ("500 Error", "x-ms-error-code: OperationTimedOut\r\n".to_owned(), Vec::new()),
        _ => batch_answer(&[STORED]),
    });
    let began = Instant::now();
    service.write("cars", &entities(1), WriteMode::Replace).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1), "the service asked for a second");
    assert_eq!(seen.lock().unwrap().len(), 4);
    let (service, _) = self::service(|_, _| batch_answer(&[STORED, STORED]));
    let error = service.write("cars", &entities(3), WriteMode::Replace).await.unwrap_err();
    assert!(error.to_string().contains("2 operations, not of 3"), "{error}");
    let refusal = "HTTP/1.1 400 Bad\r\n\r\n{\"odata.error\":{\"code\":\"PropertyNameInvalid\",\"message\":{\"value\":\"0:No.\"}}}";
    let (service, seen) = self::service(move |_, _| batch_answer(&[refusal]));
    let error = service.write("cars", &entities(1), WriteMode::Replace).await.unwrap_err();
    assert_eq!(error.to_string(), "writing to the table 'cars' was refused: 400 PropertyNameInvalid 0:No.");
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_page_that_is_too_large_is_requested_with_fewer_entities() {
    let (service, seen) = service(|_, request| {
        let top = request.target.split("$top=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok());
        let top: usize = top.unwrap();
        let entity = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"Text\":\"{}\"}}", "x".repeat(1024 * 1024));
        let next = "x-ms-continuation-NextPartitionKey: 1!4!cA--\r\n".to_owned();
        ("200 OK", next, format!("{{\"value\":[{}]}}", vec![entity; top].join(",")).into_bytes())
    });
    let from = Continuation { partition: "1!4!cA--".to_owned(), row: Some("a&b".to_owned()) };
    let query = Query { filter: Some("N eq 'x&y'".to_owned()), select: vec!["N".to_owned(), "RowKey".to_owned()] };
    let page = service.page("cars", &query, Some(&from), 100).await.unwrap();
    assert_eq!(page.entities.len(), 50);
    assert_eq!(page.next, Some(Continuation { partition: "1!4!cA--".to_owned(), row: None }));
    let seen = seen.lock().unwrap();
    let position = "&$filter=N%20eq%20%27x%26y%27&$select=PartitionKey%2CRowKey%2CTimestamp%2CN&NextPartitionKey=1%214%21cA--&NextRowKey=a%26b";
    for (seen, top) in seen.iter().zip([100, 50]) {
        assert_eq!(seen.target, format!("/devstoreaccount1/cars()?$top={top}{position}"));
    }
}

#[tokio::test]
async fn malformed_responses_are_errors() {
    let (service, _) = service(|_, _| ("200 OK", "Content-Type: text/html\r\n".to_owned(), b"<html>".to_vec()));
    assert!(matches!(service.tables().await, Err(Error::Unreadable { .. })));
    assert!(matches!(service.page("cars", &Query::default(), None, 10).await, Err(Error::Unreadable { .. })));
    assert!(matches!(service.write("cars", &entities(1), WriteMode::Replace).await, Err(Error::Unreadable { .. })));
    assert!(matches!(service.policies("cars").await, Err(Error::Unreadable { .. })));
    assert!(matches!(service.properties().await, Err(Error::Unreadable { .. })));
}

#[tokio::test]
async fn operations_that_are_not_idempotent_are_sent_once() {
    let entity = || entities(1).remove(0);
    let key = entity().key;
    // After such a response it is unknown whether the operation was executed.
    let (service, seen) = service(|_, _| ("500 Error", String::new(), Vec::new()));
    assert!(service.create_new_table("cars").await.is_err());
    assert!(service.delete_table("cars").await.is_err());
    assert!(service.put("cars", &entity(), WriteMode::Insert, None).await.is_err());
    assert!(service.put("cars", &entity(), WriteMode::Merge, Some("*")).await.is_err());
    assert!(service.delete("cars", &key, "*").await.is_err());
    assert_eq!(seen.lock().unwrap().len(), 5);
    // An operation that the service did not begin is sent again.
    let (service, seen) = self::service(|number, _| match number {
        1 => ("503 Busy", "Retry-After: 0\r\n".to_owned(), Vec::new()),
        _ => ("204 No Content", "ETag: W/\"x\"\r\n".to_owned(), Vec::new()),
    });
    let etag = service.put("cars", &entity(), WriteMode::Insert, None).await.unwrap();
    assert_eq!((etag.as_deref(), seen.lock().unwrap().len()), (Some("W/\"x\""), 2));
}
