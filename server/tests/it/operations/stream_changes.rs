//! Streams of changes as server-sent events (`docs/change-feed.md`).

use crate::Layer::{Query, Storage};
use crate::{Case, Server, check, delete, get, post, signature, timestamp};
use engine::KeepChanges;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use test_support::{Account, eventually};

const DATE: &str = "Fri, 14 Mar 2031 08:15:30 GMT";
const KEEP: KeepChanges = KeepChanges { age: Duration::from_hours(1), bytes: u64::MAX };

fn server() -> Server {
    let server = Server::with_changes(KEEP, |settings| settings.change_streams_max = 4);
    server.create(&["cars", "boats"]);
    server
}

fn insert(server: &Server, table: &str, row: &str) {
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
    check(server, [post(&format!("/{table}"), &body).answers(201, None)]);
}

fn stream(path: &str) -> Case {
    get(path).with("Accept", "text/event-stream, application/json")
}

/// An open stream.
struct Events {
    reader: BufReader<TcpStream>,
    head: String,
    received: Vec<u8>,
}

impl Events {
    fn open(server: &Server, path: &str, headers: &[(&str, &str)]) -> Self {
        let headers = [&[("Accept", "text/event-stream"), ("x-ms-date", DATE)], headers].concat();
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let mut head = Account::development().head("GET", path, &headers);
        if path.contains("sig=") {
            head =
                head.split("\r\n").filter(|line| !line.starts_with("Authorization")).collect::<Vec<_>>().join("\r\n");
        }
        stream.write_all(head.as_bytes()).unwrap();
        let (mut reader, mut head) = (BufReader::new(stream), String::new());
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        }
        Self { reader, head, received: Vec::new() }
    }

    /// Opens a stream and reads its first line.
    fn begin(server: &Server, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut events = Self::open(server, path, headers);
        assert!(events.head.starts_with("HTTP/1.1 200 OK\r\n"), "{}", events.head);
        let first = events.next().unwrap();
        assert!(first.starts_with("retry: 1000\nid: ") && first.len() == "retry: 1000\nid: ".len() + 24, "{first}");
        events
    }

    /// Returns the next block of lines, or `None` at the end of the stream.
    fn next(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\n\n") {
                let rest = self.received.split_off(end + 2);
                let block = std::mem::replace(&mut self.received, rest);
                return Some(String::from_utf8(block[..end].to_vec()).unwrap());
            }
            let mut size = String::new();
            self.reader.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).expect("the stream ends with an empty chunk");
            let mut chunk = vec![0; size + 2];
            self.reader.read_exact(&mut chunk).unwrap();
            if size == 0 {
                assert!(self.received.is_empty());
                return None;
            }
            self.received.extend_from_slice(&chunk[..size]);
        }
    }

    /// Returns the transaction, operation and row key of the next event.
    fn event(&mut self) -> (u64, String) {
        let block = self.next().unwrap();
        let lines: Vec<&str> = block.split('\n').collect();
        let [id, "event: change", data] = lines[..] else { panic!("{block}") };
        let row: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(id.strip_prefix("id: "), row["RowKey"].as_str());
        let key = row["Entity_RowKey"].as_str().unwrap_or_default();
        let transaction = row["Transaction"].as_str().unwrap().parse().unwrap();
        (transaction, format!("{} {} {key}", row["Operation"].as_str().unwrap(), row["Table"].as_str().unwrap()))
    }
}

fn event(transaction: u64, text: &str) -> (u64, String) {
    (transaction, text.to_owned())
}

#[test]
fn a_stream_begins_with_what_is_committed_from_now_on() {
    let server = server();
    insert(&server, "cars", "a");
    let mut events = Events::begin(&server, "/$Changes()", &[]);
    let head = &events.head;
    for line in ["Content-Type: text/event-stream", "Cache-Control: no-cache", "Transfer-Encoding: chunked"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
    }
    assert!(!head.contains("Content-Length"), "{head}");
    insert(&server, "boats", "b");
    let data = format!(
        r#"{{"odata.etag":"{}","PartitionKey":"20310314T0815","RowKey":"00000000000000000004-000","Timestamp":"{}","Operation":"Put","Table":"boats","Transaction@odata.type":"Edm.Int64","Transaction":"4","Index":0,"Entity_PartitionKey":"p","Entity_RowKey":"b","Entity_Timestamp@odata.type":"Edm.DateTime","Entity_Timestamp":"{}"}}"#,
        crate::etag(1).replace('"', "\\\""),
        timestamp(1),
        timestamp(1)
    );
    assert_eq!(events.next().unwrap(), format!("id: 00000000000000000004-000\nevent: change\ndata: {data}"));
    insert(&server, "cars", "c");
    assert_eq!(events.event(), event(5, "Put cars c"));
    server.assert_unharmed();
    assert_eq!(events.next(), None, "a stream ends when the server stops");
}

#[test]
fn a_stream_continues_after_the_last_event() {
    let server = server();
    insert(&server, "cars", "a");
    insert(&server, "cars", "b");
    let last = [("Last-Event-ID", "00000000000000000003-000")];
    let mut events = Events::begin(&server, "/$ChangesCars()", &last);
    assert_eq!(events.event(), event(4, "Put cars b"));
    drop(events);
    // The bound of a filter is where a stream begins, unless the client names the last event.
    let all = "/$ChangesCars()?$filter=RowKey%20gt%20''";
    let mut events = Events::begin(&server, all, &[]);
    assert_eq!(events.event(), event(1, "CreateTable cars "));
    assert_eq!(events.event(), event(3, "Put cars a"));
    drop(events);
    let mut events = Events::begin(&server, all, &last);
    assert_eq!(events.event(), event(4, "Put cars b"));
    drop(events);
    let of_minute = "/$Changes()?$filter=PartitionKey%20ge%20'20310314T0815'%20and%20Operation%20eq%20'Put'";
    let mut events = Events::begin(&server, of_minute, &[]);
    assert_eq!(events.event(), event(3, "Put cars a"));
    drop(events);
    let part = "/$Changes()?$filter=RowKey%20ge%20'00000000000000000002-000'%20and%20RowKey%20lt%20'00000000000000000004-000'&$select=RowKey";
    let mut events = Events::begin(&server, part, &[]);
    for expected in ["00000000000000000002-000", "00000000000000000003-000"] {
        let block = events.next().unwrap();
        assert!(
            block.starts_with(&format!("id: {expected}\n"))
                && block.ends_with(&format!(",\"RowKey\":\"{expected}\"}}")),
            "{block}"
        );
    }
    // No later change can match.
    assert_eq!(events.next().unwrap(), ": heartbeat\nid: 00000000000000000003-999");
    assert_eq!(events.next(), None);
    check(&server, [stream(part).with("Last-Event-ID", "00000000000000000003-999").answers(204, None)]);
}

#[test]
fn a_stream_ends_at_the_upper_bound_of_its_filter() {
    let server = server();
    insert(&server, "cars", "a");
    let at_end =
        |filter: &str| stream(&format!("/$Changes()?$filter={}", filter.replace(' ', "%20"))).answers(204, None);
    check(
        &server,
        [
            at_end("PartitionKey lt '20310314T0815'"),
            at_end("PartitionKey eq '20200101T0000'"),
            at_end("RowKey lt '00000000000000000002-000'"),
            at_end("RowKey gt '00000000000000000002-000' and RowKey lt '00000000000000000002-001'"),
            at_end("RowKey eq '1' and RowKey eq '2'"),
        ],
    );
    let minute = "/$Changes()?$filter=PartitionKey%20eq%20'20310314T0815'%20and%20Operation%20eq%20'Put'";
    let mut events = Events::begin(&server, minute, &[]);
    assert_eq!(events.event(), event(3, "Put cars a"));
    server.clock.advance(Duration::from_mins(1));
    insert(&server, "cars", "b");
    assert_eq!(events.next().unwrap(), ": heartbeat\nid: 00000000000000000004-000");
    assert_eq!(events.next(), None);
    check(&server, [stream(minute).with("Last-Event-ID", "00000000000000000004-000").answers(204, None)]);
}

#[test]
fn a_stream_continues_at_a_continuation_token() {
    let server = server();
    insert(&server, "cars", "a");
    let page = get("/$Changes()?$top=2").send(&mut server.client());
    let token = |name: &str| page.header(&format!("x-ms-continuation-next{name}")).unwrap();
    let path = format!("/$Changes()?NextPartitionKey={}&NextRowKey={}", token("partitionkey"), token("rowkey"));
    assert_eq!(Events::begin(&server, &path, &[]).event(), event(3, "Put cars a"));
}

#[test]
fn what_prevents_a_stream_is_an_ordinary_error() {
    let server = Server::with_changes(KeepChanges { bytes: 0, ..KEEP }, |_| {});
    server.create(&["cars", "boats"]);
    let expired =
        |case: Case, end: &str| case.fails(410, "PositionExpired", Query).header("x-ms-rowhouse-position", end);
    let last = |path: &str, id: &str| stream(path).with("Last-Event-ID", id);
    check(
        &server,
        [
            expired(last("/$Changes()", "00000000000000000000-000"), "00000000000000000001-999"),
            expired(stream("/$Changes()?$filter=RowKey%20gt%20'00000000000000000001-000'"), "00000000000000000001-999"),
            expired(last("/$Changes()", "00000000000000000009-000"), "00000000000000000002-999"),
            last("/$Changes()", "9").fails(400, "InvalidHeaderValue", Query),
            stream("/$Changes()?$filter=x%20eq").fails(400, "InvalidInput", Query),
            stream("/$Changes()?$orderby=RowKey").fails(501, "NotImplemented", Storage),
            stream("/$Changes()?NextPartitionKey=1!0!&NextRowKey=1!4!cGs-").answers(400, "InvalidInput"),
            stream("/$ChangesTrains()").fails(404, "TableNotFound", Query),
            // Whether a table ever existed is known when the log has been read.
            stream("/$ChangesTrains()?$filter=RowKey%20gt%20''")
                .fails(404, "TableNotFound", Query)
                .header("x-ms-rowhouse-position", "00000000000000000002-999"),
            stream("/$ChangesBoats()").signed(&signature("r", |_| {})).fails(403, "AuthorizationFailure", Storage),
            // Only the change feed can be streamed.
            get("/cars()").with("Accept", "text/event-stream").answers(415, "MediaTypeNotSupported"),
            get("/$Changes(PartitionKey='p',RowKey='r')")
                .with("Accept", "text/event-stream")
                .answers(404, "ResourceNotFound"),
        ],
    );
    check(
        &Server::start(),
        [get("/$Changes()").with("Accept", "text/event-stream").answers(415, "MediaTypeNotSupported")],
    );
}

#[test]
fn a_stream_has_the_changes_of_a_deleted_table() {
    let server = server();
    check(&server, [delete("/Tables('cars')").answers(204, None)]);
    let mut events = Events::begin(&server, "/$ChangesCars()?$filter=RowKey%20gt%20''", &[]);
    assert_eq!(events.event(), event(1, "CreateTable cars "));
    assert_eq!(events.event(), event(3, "DeleteTable cars "));
}

#[test]
fn the_number_of_streams_is_limited() {
    let server = server();
    let first = Events::begin(&server, "/$Changes()", &[]);
    let _second = Events::begin(&server, "/$ChangesCars()", &[]);
    // An account has half of them.
    check(&server, [get("/$Changes()").with("Accept", "text/event-stream").answers(503, "ServerBusy")]);
    assert!(server.log().contains("--max-change-streams"), "{}", server.log());
    let (began, mut client) = (Instant::now(), server.client());
    for _ in 0..400 {
        let refused = get("/$Changes()").with("Accept", "text/event-stream").send(&mut client);
        assert_eq!(refused.status, 503);
    }
    // The refusals are no errors, and the log is not full of them.
    let (log, most) = (server.log(), 100 + 10 * (1 + began.elapsed().as_secs()));
    assert!(log.matches("--max-change-streams").count() as u64 <= most && !log.contains("ERROR"), "{log}");
    // A client that closes its connection frees its stream.
    drop(first);
    eventually("the stream is closed", || {
        Events::open(&server, "/$Changes()", &[]).head.starts_with("HTTP/1.1 200").then_some(())
    });
}

#[test]
fn a_stream_whose_position_is_dropped_ends_with_an_error() {
    let server = server();
    let mut events = Events::begin(&server, "/$Changes()", &[]);
    let checkpoints = &server.checkpoints;
    checkpoints.reset_to(&checkpoints.take());
    let error = events.next().unwrap();
    let data = error.strip_prefix("id: 00000000000000000002-999\nevent: failure\ndata: ").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["odata.error"]["code"], "PositionExpired");
    assert_eq!(events.next(), None);
}

#[test]
fn a_stream_of_a_signature_has_its_keys_and_ends_when_it_expires() {
    let server = server();
    let signature = signature("r", |fields| {
        (fields.start_partition, fields.end_partition) = ("q".into(), "q".into());
        fields.expiry = "2031-03-14T08:15:33Z".into();
    });
    let mut events = Events::begin(&server, &format!("/$ChangesCars()?{signature}"), &[]);
    insert(&server, "cars", "outside");
    check(&server, [post("/cars", r#"{"PartitionKey":"q","RowKey":"inside"}"#).answers(201, None)]);
    assert_eq!(events.event(), event(4, "Put cars inside"));
    assert_eq!(events.next(), None);
}

#[test]
fn a_long_backlog_arrives_complete_and_in_order() {
    let server = server();
    let mut client = server.client();
    let text = "x".repeat(10_000);
    for number in 0..300 {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{number}\",\"Text\":\"{text}\"}}");
        assert_eq!(client.request("POST", "/cars", &[], body.as_bytes()).status, 201);
    }
    let mut events = Events::begin(&server, "/$ChangesCars()", &[("Last-Event-ID", "00000000000000000001-999")]);
    for number in 0..300 {
        assert_eq!(events.event(), event(3 + number, &format!("Put cars {number}")));
    }
}
