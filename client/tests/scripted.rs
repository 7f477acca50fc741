//! The client against servers with scripted responses.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

use rowhouse_client::{
    AccessToken, BoxFuture, Continuation, Credential, DEVELOPMENT_KEY, ETag, Endpoint, Error, ErrorKind, IfMatch,
    PropertyBag, ReadFrom, RetryPolicy, TableService, TableServiceBuilder, TokenCredential, TokenError, Transaction,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

#[derive(Debug, Clone)]
struct ReceivedRequest {
    target: String,
    authorization: String,
    client_request_id: String,
    body: Vec<u8>,
}

/// The status, additional header lines, and the body.
type Reply = (&'static str, String, Vec<u8>);

/// Starts a server that responds according to the script and records the requests.
fn builder(
    script: impl Fn(usize, &ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (TableServiceBuilder, Arc<Mutex<Vec<ReceivedRequest>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (script, log) = (Arc::new(script), Arc::clone(&seen));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (script, log) = (Arc::clone(&script), Arc::clone(&log));
            // The thread exits when the client closes the connection.
            thread::spawn(move || connection(stream, &*script, &log));
        }
    });
    let endpoint = Endpoint::parse(&format!("http://{address}"), None).unwrap();
    (TableService::builder(endpoint, Credential::parse(DEVELOPMENT_KEY).unwrap()), seen)
}

fn service(
    script: impl Fn(usize, &ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (TableService, Arc<Mutex<Vec<ReceivedRequest>>>) {
    let (builder, seen) = builder(script);
    (builder.build().unwrap(), seen)
}

fn connection(
    stream: TcpStream,
    script: &dyn Fn(usize, &ReceivedRequest) -> Reply,
    log: &Mutex<Vec<ReceivedRequest>>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut target, mut authorization, mut length) = (String::new(), String::new(), 0);
        let mut client_request_id = String::new();
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
            match line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim())) {
                Some((name, value)) if name == "authorization" => value.clone_into(&mut authorization),
                Some((name, value)) if name == "x-ms-client-request-id" => value.clone_into(&mut client_request_id),
                _ => {}
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        let seen = ReceivedRequest { target, authorization, client_request_id, body };
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

fn entity(row: usize) -> PropertyBag {
    PropertyBag::new("p", &row.to_string()).unwrap().with("Number", 1).unwrap()
}

fn replacing(count: usize) -> Transaction {
    (0..count).fold(Transaction::new(), |transaction, row| transaction.insert_or_replace(&entity(row)))
}

const STORED: &str = "HTTP/1.1 204 No Content\r\n\r\n";

fn batch_answer(parts: &[&str]) -> Reply {
    let head = "--c\r\nContent-Type: application/http\r\n\r\n";
    let parts: String = parts.iter().flat_map(|part| [head, part, "\r\n"]).collect();
    let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n");
    ("202 Accepted", "Content-Type: multipart/mixed; boundary=b\r\n".to_owned(), body.into_bytes())
}

#[tokio::test]
async fn a_transaction_is_never_split() {
    let (service, seen) = service(|_, _| ("413 Too Large", String::new(), Vec::new()));
    let table = service.table("cars");
    let refused = table.commit(replacing(100)).await.unwrap_err();
    assert_eq!((refused.kind(), seen.lock().unwrap().len()), (ErrorKind::TooLarge, 1));
    let sent = String::from_utf8(seen.lock().unwrap()[0].body.clone()).unwrap();
    assert_eq!(sent.matches("\r\nPUT http://").count(), 100);

    let large = "x".repeat(32 * 1024);
    let entity = |row: usize| entity(row).with("Text", large.as_str()).and_then(|bag| bag.with("More", large.as_str()));
    let too_large = (0..70).fold(Transaction::new(), |transaction, row| transaction.insert(&entity(row).unwrap()));
    let error = table.commit(too_large).await.unwrap_err();
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::TooLarge, Some(63)), "{error}");

    let error = table.commit(replacing(101)).await.unwrap_err();
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::Invalid, None), "{error}");
    assert_eq!(table.commit(Transaction::new()).await.unwrap_err().kind(), ErrorKind::Invalid);
    let twice = replacing(2).delete("p", "1", IfMatch::Any);
    let error = table.commit(twice).await.unwrap_err();
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::Invalid, Some(2)), "{error}");
    let elsewhere = replacing(1).delete("q", "1", IfMatch::Any);
    let error = table.commit(elsewhere).await.unwrap_err();
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::Invalid, Some(1)), "{error}");
    let malformed = replacing(1).delete("p", "a/b", IfMatch::Any);
    let error = table.commit(malformed).await.unwrap_err();
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::Entity, Some(1)), "{error}");
    let forged = ETag::from("x\r\nX-Other: 1");
    let error = table.commit(replacing(1).delete("p", "1", forged)).await.unwrap_err();
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::Invalid, Some(1)), "{error}");
    assert_eq!(seen.lock().unwrap().len(), 1, "none of these was sent");
}

#[tokio::test]
async fn transient_errors_are_retried_and_others_are_returned() {
    let busy = "HTTP/1.1 503 Busy\r\n\r\n{\"odata.error\":{\"code\":\"ServerBusy\",\"message\":{\"value\":\"Busy.\"}}}";
    let late = "HTTP/1.1 500 Error\r\n\r\n{\"odata.error\":{\"code\":\"OperationTimedOut\",\"message\":{\"value\":\"Late.\"}}}";
    let (service, seen) = service(move |number, _| match number {
        1 => ("429 Too Many", "Retry-After: 1\r\n".to_owned(), Vec::new()),
        2 => batch_answer(&[busy]),
        3 => ("500 Error", "x-ms-error-code: OperationTimedOut\r\n".to_owned(), Vec::new()),
        4 => batch_answer(&[late]),
        _ => batch_answer(&[STORED]),
    });
    let began = Instant::now();
    service.table("cars").commit(replacing(1)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1), "the service requested a pause of one second");
    assert_eq!(seen.lock().unwrap().len(), 5);
    let (service, _) = self::service(|_, _| batch_answer(&[STORED, STORED]));
    let error = service.table("cars").commit(replacing(3)).await.unwrap_err();
    assert!(error.to_string().contains("2 operations instead of 3"), "{error}");
    let refusal = "HTTP/1.1 400 Bad\r\n\r\n{\"odata.error\":{\"code\":\"PropertyNameInvalid\",\"message\":{\"value\":\"0:No.\"}}}";
    let (service, seen) = self::service(move |_, _| batch_answer(&[refusal]));
    let error = service.table("cars").commit(replacing(1)).await.unwrap_err();
    let expected =
        "committing a transaction in the table 'cars' was refused: 400 PropertyNameInvalid No. (operation 0)";
    assert_eq!((error.to_string().as_str(), error.message()), (expected, Some("No.")));
    // This is no number of an operation.
    let refusal = refusal.replace("0:No.", "1:No.");
    let (service, _) = self::service(move |_, _| batch_answer(&[&refusal]));
    let error = service.table("cars").commit(replacing(1)).await.unwrap_err();
    assert_eq!((error.operation_index(), error.message()), (None, Some("1:No.")));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_table_is_looked_for_before_it_is_created() {
    let created = |answer: &'static str| async move {
        let (service, seen) =
            service(move |number, _| (if number == 1 { answer } else { "204 No Content" }, String::new(), Vec::new()));
        let result = service.table("cars").with_retry(RetryPolicy::none()).create_if_missing().await;
        let seen: Vec<_> = seen.lock().unwrap().iter().map(|request| request.target.clone()).collect();
        (result.map_err(|error| error.kind()), seen)
    };
    let (look, create) = ("/devstoreaccount1/Tables('cars')".to_owned(), "/devstoreaccount1/Tables".to_owned());
    assert_eq!(created("200 OK").await, (Ok(()), vec![look.clone()]));
    // Without an answer to the question, only the attempt to create the table decides.
    for answer in ["404 Not Found", "403 Forbidden", "501 Not Implemented"] {
        assert_eq!(created(answer).await, (Ok(()), vec![look.clone(), create.clone()]), "{answer}");
    }
}

#[tokio::test]
async fn every_attempt_has_the_client_request_id_of_its_operation() {
    let (service, seen) = service(|_, _| ("503 Busy", "Retry-After: 0\r\n".to_owned(), Vec::new()));
    let table = service.table("cars").with_retry(RetryPolicy::exponential().attempts(2));
    let first = table.insert(&entity(0)).await.unwrap_err();
    let second = table.insert(&entity(0)).await.unwrap_err();
    let named = table.with_client_request_id("import 7").insert(&entity(0)).await.unwrap_err();
    let ids = [first, second, named].map(|error| error.client_request_id().unwrap().to_owned());
    assert!(ids[0] != ids[1] && ids[0].len() == 32 && ids[2] == "import 7", "{ids:?}");
    let seen: Vec<_> = seen.lock().unwrap().iter().map(|request| request.client_request_id.clone()).collect();
    assert_eq!(seen, [0, 0, 1, 1, 2, 2].map(|at| ids[at].clone()));

    let (builder, seen) = builder(|_, _| ("204 No Content", String::new(), Vec::new()));
    let service = builder.client_request_id("nightly").build().unwrap();
    service.table("cars").create().await.unwrap();
    assert_eq!(seen.lock().unwrap()[0].client_request_id, "nightly");
    let forged = service.table("cars").with_client_request_id("x\r\nX-Other: 1").create().await.unwrap_err();
    assert_eq!((forged.kind(), seen.lock().unwrap().len()), (ErrorKind::Invalid, 1));
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
    let query = service.table("cars").query::<PropertyBag>().filter_text("N eq 'x&y'").page_size(100).resume(from);
    let page = query.resolve(&["N", "RowKey"], Ok).pages().next().await.unwrap().unwrap();
    assert_eq!(page.items.len(), 50);
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
    let table = service.table("cars");
    assert!(matches!(service.tables().all().await, Err(Error::Unreadable { .. })));
    assert!(matches!(table.query::<PropertyBag>().collect().await, Err(Error::Unreadable { .. })));
    assert!(matches!(table.get::<PropertyBag>("p", "r").await, Err(Error::Unreadable { .. })));
    assert!(matches!(table.commit(replacing(1)).await, Err(Error::Unreadable { .. })));
    assert!(matches!(table.policies().await, Err(Error::Unreadable { .. })));
    assert!(matches!(service.properties().await, Err(Error::Unreadable { .. })));
    assert!(matches!(service.statistics().await, Err(Error::Unreadable { .. })));
}

#[tokio::test]
async fn operations_that_are_not_idempotent_are_sent_once() {
    let entity = entity(0);
    let condition = ETag::from("W/\"x\"");
    // After such a response, it is unknown whether the operation was executed.
    let (service, seen) = service(|_, _| ("500 Error", String::new(), Vec::new()));
    let table = service.table("cars");
    assert!(table.create().await.is_err());
    assert!(table.delete_table().await.is_err());
    assert!(table.insert(&entity).await.is_err());
    assert!(table.merge(&entity, &condition).await.is_err());
    assert!(table.delete("p", "r", IfMatch::Any).await.is_err());
    assert!(table.delete_table_if_exists().await.is_err());
    assert!(table.commit(Transaction::new().insert(&entity)).await.is_err());
    assert_eq!(seen.lock().unwrap().len(), 7);
    // An operation that the service did not start is sent again.
    let (service, seen) = self::service(|number, _| match number {
        1 => ("503 Busy", "Retry-After: 0\r\n".to_owned(), Vec::new()),
        _ => ("204 No Content", "ETag: W/\"x\"\r\n".to_owned(), Vec::new()),
    });
    let written = service.table("cars").insert(&entity).await.unwrap();
    assert_eq!((written.etag.as_str(), seen.lock().unwrap().len()), ("W/\"x\"", 2));
    // A proxy lost the connection to the service after it forwarded the request.
    let (service, seen) = self::service(|_, _| ("503 Unavailable", String::new(), b"upstream reset".to_vec()));
    assert!(service.table("cars").insert(&entity).await.is_err());
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_change_without_a_condition_must_be_said() {
    // Neither an entity read without an ETag nor a deleted entity has a version.
    let (service, seen) = service(|_, request| match request.body.len() {
        0 => ("200 OK", String::new(), b"{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}".to_vec()),
        _ => ("204 No Content", String::new(), Vec::new()),
    });
    let table = service.table("cars");
    let stored = table.get::<PropertyBag>("p", "r").await.unwrap();
    for error in [
        table.replace(&stored, &stored).await.unwrap_err(),
        table.merge(&stored, ETag::from("*")).await.unwrap_err(),
        table.delete("p", "r", &stored).await.unwrap_err(),
        table.update::<PropertyBag>("p", "r", |_| Ok(())).await.unwrap_err(),
        table.commit(Transaction::new().replace(&stored, &stored)).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(seen.lock().unwrap().len(), 2, "only the two reads are sent");
}

#[tokio::test]
async fn an_update_ends_and_reads_the_primary() {
    let (builder, seen) = builder(|_, request| match request.body.len() {
        0 => ("200 OK", "ETag: W/\"x\"\r\n".to_owned(), b"{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}".to_vec()),
        _ => ("412 Precondition Failed", String::new(), Vec::new()),
    });
    let table = builder.read_from(ReadFrom::SecondaryThenPrimary).build().unwrap().table("cars");
    let error = table.update::<PropertyBag>("p", "r", |_| Ok(())).await.unwrap_err();
    let seen = seen.lock().unwrap();
    assert_eq!((error.kind(), seen.len()), (ErrorKind::PreconditionFailed, 200));
    assert!(!seen.iter().any(|seen| seen.target.contains("-secondary/")));
}

#[tokio::test]
async fn a_deletion_that_may_find_nothing_is_repeated() {
    let (service, seen) = service(|number, _| match number {
        1 => ("500 Error", "Retry-After: 0\r\n".to_owned(), Vec::new()),
        _ => ("404 Not Found", "x-ms-error-code: ResourceNotFound\r\n".to_owned(), Vec::new()),
    });
    assert!(!service.table("cars").delete_if_exists("p", "r", IfMatch::Any).await.unwrap());
    assert_eq!(seen.lock().unwrap().len(), 2);
    let (service, _) =
        self::service(|_, _| ("404 Not Found", "x-ms-error-code: TableNotFound\r\n".to_owned(), Vec::new()));
    let error = service.table("cars").delete_if_exists("p", "r", IfMatch::Any).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_page_has_no_more_entities_than_were_asked_for() {
    let two = "{\"value\":[{\"PartitionKey\":\"p\",\"RowKey\":\"1\"},{\"PartitionKey\":\"p\",\"RowKey\":\"2\"}]}";
    let (service, _) = service(move |_, _| ("200 OK", String::new(), two.as_bytes().to_vec()));
    let table = service.table("cars");
    assert_eq!(table.query::<PropertyBag>().take(2).collect().await.unwrap().len(), 2);
    let error = table.query::<PropertyBag>().first().await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");
}

#[tokio::test]
async fn a_continuation_that_cannot_be_read_is_not_the_end() {
    let next = "x-ms-continuation-NextPartitionKey: \u{e9}\r\n".to_owned();
    let (service, _) = service(move |_, _| ("200 OK", next.clone(), b"{\"value\":[]}".to_vec()));
    let error = service.table("cars").query::<PropertyBag>().collect().await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");
}

#[tokio::test]
async fn a_repeated_continuation_token_is_an_error() {
    let next = "x-ms-continuation-NextPartitionKey: p\r\nx-ms-continuation-NextRowKey: r\r\n\
                x-ms-continuation-NextTableName: t\r\n";
    let (service, seen) = service(move |number, _| {
        // End the list even if the client follows the token.
        ("200 OK", if number < 20 { next.to_owned() } else { String::new() }, b"{\"value\":[]}".to_vec())
    });
    let requests = || std::mem::take(&mut *seen.lock().unwrap()).len();
    let table = service.table("cars");
    let error = table.query::<PropertyBag>().collect().await.unwrap_err();
    assert!(error.to_string().contains("repeats its continuation token"), "{error}");
    assert_eq!(requests(), 2);
    let stored = Continuation { partition: "p".to_owned(), row: Some("r".to_owned()) };
    let error = table.query::<PropertyBag>().resume(stored).first().await.unwrap_err();
    assert_eq!((error.kind(), requests()), (ErrorKind::Unreadable, 1));
    for parallel in [1, 8] {
        // The first request asks the service to count, and its response is a page.
        let error = table.scan::<PropertyBag>().parallel(parallel).count().await.unwrap_err();
        assert_eq!((error.kind(), requests() <= 4), (ErrorKind::Unreadable, true));
        let error = table.scan::<PropertyBag>().parallel(parallel).stream().next().await.unwrap().unwrap_err();
        assert_eq!((error.kind(), requests() <= 3), (ErrorKind::Unreadable, true));
    }
    let error = service.tables().all().await.unwrap_err();
    assert!(error.to_string().contains("repeats its continuation token"), "{error}");
    assert_eq!(requests(), 2);
}

#[tokio::test]
async fn a_list_of_tables_goes_on_where_it_was_although_a_future_was_dropped() {
    let (service, seen) = service(|_, request| {
        if request.target.contains("NextTableName=b") {
            ("200 OK", String::new(), b"{\"value\":[{\"TableName\":\"b\"}]}".to_vec())
        } else {
            (
                "200 OK",
                "x-ms-continuation-NextTableName: b\r\n".to_owned(),
                b"{\"value\":[{\"TableName\":\"a\"}]}".to_vec(),
            )
        }
    });
    let mut tables = service.tables();
    assert_eq!(tables.next().await.unwrap().unwrap(), ["a"]);
    tokio::select! {
        biased;
        page = tables.next() => panic!("the first poll sends the request: {page:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(tables.next().await.unwrap().unwrap(), ["b"]);
    assert!(tables.next().await.is_none());
    assert!(seen.lock().unwrap().len() >= 2);
}

#[tokio::test]
async fn what_a_service_says_is_kept_in_part() {
    let (service, _) = service(|_, _| {
        let (code, message) = ("c".repeat(1000), "\u{e9}".repeat(1024 * 1024));
        let body = format!("{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"value\":\"x{message}\"}}}}}}");
        ("400 Bad", String::new(), body.into_bytes())
    });
    let error = service.table("cars").create().await.unwrap_err();
    assert_eq!((error.code().unwrap().len(), error.message().unwrap().len()), (256, 8191));
}

#[tokio::test]
async fn a_policy_bounds_attempts_and_decides_about_failures() {
    let busy = |_: usize, _: &ReceivedRequest| ("503 Busy", String::new(), Vec::new());
    for (policy, attempts) in [
        (RetryPolicy::none(), 1),
        (RetryPolicy::linear(Duration::ZERO).attempts(3), 3),
        (RetryPolicy::exponential().retry_if(|failure| failure.status != Some(503)), 1),
        (RetryPolicy::linear(Duration::from_mins(1)).budget(Duration::from_secs(30)), 1),
    ] {
        let (builder, seen) = builder(busy);
        let service = builder.retry(policy).build().unwrap();
        let error = service.table("cars").get::<PropertyBag>("p", "r").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Throttled);
        assert_eq!(error.refusal().unwrap().attempts, attempts);
        assert_eq!(seen.lock().unwrap().len(), attempts as usize);
    }
}

#[tokio::test]
async fn an_attempt_ends_in_time() {
    let (builder, _) = builder(|_, _| {
        thread::sleep(Duration::from_hours(1));
        ("200 OK", String::new(), Vec::new())
    });
    let service = builder.timeout(Duration::from_hours(1)).retry(RetryPolicy::none()).build().unwrap();
    let hurried = service.table("cars").with_timeout(Duration::from_millis(20));
    let error = hurried.get::<PropertyBag>("p", "r").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn what_a_program_no_longer_waits_for_is_given_up() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = Mutex::new(Some(sender));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 4096];
        assert!(stream.read(&mut bytes).unwrap() > 0);
        let sender = sender.lock().unwrap().take().unwrap();
        sender.send(()).unwrap();
        // Read until the client closes the connection.
        while stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
        sender.send(()).unwrap();
    });
    let endpoint = Endpoint::parse(&format!("http://{address}"), None).unwrap();
    let service = TableService::new(endpoint, Credential::parse(DEVELOPMENT_KEY).unwrap()).unwrap();
    let reading = tokio::spawn(async move { service.table("cars").get::<PropertyBag>("p", "r").await });
    let receiver = tokio::task::spawn_blocking(move || {
        receiver.recv().unwrap();
        receiver
    });
    let receiver = receiver.await.unwrap();
    reading.abort();
    tokio::task::spawn_blocking(move || receiver.recv().unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_secondary_is_read_as_the_program_says() {
    let stored = || ("200 OK", String::new(), b"{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}".to_vec());
    let missing = ("404 Not Found", "x-ms-error-code: ResourceNotFound\r\n".to_owned(), Vec::new());
    for (read_from, is_there, expected) in [
        (ReadFrom::Primary, true, vec![false]),
        (ReadFrom::Secondary, true, vec![true]),
        (ReadFrom::Secondary, false, vec![true]),
        (ReadFrom::SecondaryThenPrimary, true, vec![true]),
        (ReadFrom::SecondaryThenPrimary, false, vec![true, false]),
        (ReadFrom::PrimaryThenSecondary, true, vec![false, true]),
    ] {
        let missing = missing.clone();
        let (builder, seen) = builder(move |_, request| {
            let is_secondary = request.target.starts_with("/devstoreaccount1-secondary/");
            match (read_from, is_secondary) {
                (ReadFrom::PrimaryThenSecondary, false) => ("500 Error", "Retry-After: 0\r\n".to_owned(), Vec::new()),
                (_, true) if !is_there => missing.clone(),
                _ => stored(),
            }
        });
        let service = builder.read_from(read_from).build().unwrap();
        let found = service.table("cars").find::<PropertyBag>("p", "r").await.unwrap();
        assert_eq!(found.is_some(), is_there || read_from == ReadFrom::SecondaryThenPrimary);
        let seen: Vec<bool> = seen.lock().unwrap().iter().map(|seen| seen.target.contains("-secondary/")).collect();
        assert_eq!(seen, expected, "{read_from:?}");
        let written = service.table("cars").insert(&entity(1)).await;
        assert!(
            written.is_ok() || read_from == ReadFrom::PrimaryThenSecondary,
            "writes go to the primary: {written:?}"
        );
    }
}

#[tokio::test]
async fn what_the_secondary_does_not_have_may_be_at_the_primary() {
    // The primary is unavailable, and the secondary does not have the entity yet.
    let answer = |_: usize, request: &ReceivedRequest| {
        if request.target.contains("-secondary/") {
            ("404 Not Found", "x-ms-error-code: ResourceNotFound\r\n".to_owned(), Vec::new())
        } else {
            ("503 Busy", "Retry-After: 0\r\n".to_owned(), Vec::new())
        }
    };
    for attempts in [2, 3, 4] {
        let (builder, seen) = builder(answer);
        let policy = RetryPolicy::linear(Duration::ZERO).attempts(attempts);
        let service = builder.read_from(ReadFrom::PrimaryThenSecondary).retry(policy).build().unwrap();
        let error = service.table("cars").find::<PropertyBag>("p", "r").await.unwrap_err();
        assert_eq!((error.kind(), seen.lock().unwrap().len()), (ErrorKind::Throttled, attempts as usize));
    }
    let stored = || ("200 OK", String::new(), b"{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}".to_vec());
    let (builder, _) = builder(
        move |number, request| if request.target.contains("-secondary/") { answer(number, request) } else { stored() },
    );
    let service = builder.read_from(ReadFrom::SecondaryThenPrimary).retry(RetryPolicy::none()).build().unwrap();
    assert!(service.table("cars").find::<PropertyBag>("p", "r").await.unwrap().is_some(), "this needs no retry");
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_once() {
    let unauthorized = ("401 Unauthorized", "");
    let unauthenticated = ("403 Forbidden", "x-ms-error-code: AuthenticationFailed\r\n");
    let forbidden = ("403 Forbidden", "x-ms-error-code: AuthorizationPermissionMismatch\r\n");
    for (refused, (status, headers), expected) in [
        ("Bearer token0", unauthorized, Ok(2)),
        ("Bearer token0", unauthenticated, Ok(2)),
        ("Bearer", unauthenticated, Err(2)),
        ("Bearer", forbidden, Err(1)),
    ] {
        let (service, seen) = service(move |_, request| {
            if request.authorization.starts_with(refused) {
                (status, headers.to_owned(), Vec::new())
            } else {
                ("204 No Content", String::new(), Vec::new())
            }
        });
        let tokens = Tokens { given: AtomicU32::new(0), valid_for: Some(Duration::from_hours(1)) };
        let service = TableService::new(service.endpoint().clone(), Credential::Token(Arc::new(tokens))).unwrap();
        let result = service.table("cars").insert(&entity(1)).await;
        let attempts = seen.lock().unwrap().len();
        assert_eq!(result.map(|_| attempts).map_err(|_| attempts), expected);
    }
}

#[tokio::test]
async fn a_source_of_tokens_has_no_more_time_than_an_attempt() {
    struct Silent;
    impl TokenCredential for Silent {
        fn token<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<AccessToken, TokenError>> {
            Box::pin(std::future::pending())
        }
    }
    let endpoint = Endpoint::parse("http://127.0.0.1:1", None).unwrap();
    let service = TableService::builder(endpoint, Credential::Token(Arc::new(Silent)))
        .timeout(Duration::from_millis(10))
        .build()
        .unwrap();
    let error = service.tables().all().await.unwrap_err();
    assert!(matches!(error, Error::Token(_)), "{error}");
}

struct Tokens {
    given: AtomicU32,
    valid_for: Option<Duration>,
}

impl TokenCredential for Tokens {
    fn token<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Result<AccessToken, TokenError>> {
        assert_eq!(scope, "https://storage.azure.com/.default");
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if number == 9 {
                return Err("the source is exhausted".into());
            }
            let expires = self.valid_for.map(|time| SystemTime::now() + time);
            Ok(AccessToken::new(&format!("token{number}"), expires))
        })
    }
}

#[tokio::test]
async fn a_token_is_asked_for_again_before_it_expires() {
    let tokens = |valid_for, given| Arc::new(Tokens { given: AtomicU32::new(given), valid_for });
    let stored = || ("200 OK", String::new(), b"{\"value\":[]}".to_vec());
    for (valid_for, expected) in [(Some(Duration::from_hours(1)), 1), (Some(Duration::from_mins(1)), 3), (None, 3)] {
        let (service, seen) = service(move |_, _| stored());
        let tokens = tokens(valid_for, 0);
        let credential = Credential::Token(tokens.clone());
        let service = TableService::new(service.endpoint().clone(), credential).unwrap();
        for _ in 0..3 {
            service.tables().all().await.unwrap();
        }
        assert_eq!(tokens.given.load(Ordering::Relaxed), expected);
        let seen = seen.lock().unwrap();
        assert!(seen.iter().all(|seen| seen.authorization.starts_with("Bearer token")), "{seen:?}");
        assert_eq!(seen.last().unwrap().authorization, format!("Bearer token{}", expected - 1));
    }
    let (service, _) = service(move |_, _| stored());
    let exhausted = TableService::new(service.endpoint().clone(), Credential::Token(tokens(None, 9))).unwrap();
    let error = exhausted.tables().all().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Forbidden, "no bearer token could be sent: the source is exhausted")
    );
    let elsewhere = Endpoint::parse("http://orchard.tables.example.net", None).unwrap();
    let service = TableService::new(elsewhere, Credential::Token(tokens(None, 0))).unwrap();
    let error = service.tables().all().await.unwrap_err();
    assert!(matches!(error, Error::Token(_)), "a token must not be sent over plain HTTP: {error}");
}
