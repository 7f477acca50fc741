//! Tests of backups during writes: a snapshot shows one instant.

use super::repository::Place;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use test_support::command::CommandResult;
use test_support::content::create_table;
use test_support::writers::{Transactions, Until, Writer as _};
use test_support::{Client, Random, TIMEOUT};

const WRITERS: u64 = 3;
const BACKUPS: usize = 4;

/// The result of an operation on an entity: its `ETag` and value, or nothing.
type Operation = (String, Option<(String, u64)>);

/// A writer that writes and deletes in its own partition and remembers the acknowledged operations.
struct Writer {
    partition: String,
    random: Random,
    log: Vec<Operation>,
}

impl Writer {
    fn work(&mut self, client: &mut Client, acknowledged: &AtomicUsize, is_over: &AtomicBool) {
        while !is_over.load(Ordering::SeqCst) {
            let row = format!("{:02}", self.random.below(40));
            let path = format!("/log(PartitionKey='{}',RowKey='{row}')", self.partition);
            let number = self.log.len() as u64;
            let outcome = if self.random.below(4) == 0 {
                let answer = client.request("DELETE", &path, &[("If-Match", "*")], b"");
                assert!([204, 404].contains(&answer.status), "{answer:?}");
                None
            } else {
                let body = json!({ "Number": number, "Padding": "x".repeat(500) }).to_string();
                let answer = client.request("PUT", &path, &[], body.as_bytes());
                assert_eq!(answer.status, 204, "{answer:?}");
                Some((answer.header("etag").unwrap().to_owned(), number))
            };
            self.log.push((row, outcome));
            acknowledged.store(self.log.len(), Ordering::SeqCst);
        }
    }

    fn state(&self, operations: usize) -> BTreeMap<String, (String, u64)> {
        let mut state = BTreeMap::new();
        for (row, outcome) in &self.log[..operations] {
            match outcome {
                Some(stored) => state.insert(row.clone(), stored.clone()),
                None => state.remove(row),
            };
        }
        state
    }

    fn found(&self, client: &mut Client) -> BTreeMap<String, (String, u64)> {
        let path = format!("/log()?$filter=PartitionKey%20eq%20'{}'", self.partition);
        let answer = client.request("GET", &path, &[("Accept", "application/json;odata=fullmetadata")], b"");
        assert_eq!(answer.status, 200, "{answer:?}");
        let entry = |entity: &serde_json::Value| {
            let text = |name: &str| entity[name].as_str().unwrap().to_owned();
            (text("RowKey"), (text("odata.etag"), entity["Number"].as_u64().unwrap()))
        };
        answer.json()["value"].as_array().unwrap().iter().map(entry).collect()
    }
}

#[test]
fn a_backup_under_load_shows_one_instant() {
    let place = Place::new();
    let server = place.serve();
    let mut random = super::random();
    for table in ["crash", "log"] {
        create_table(&mut server.client(), table);
    }
    let mut transactions = Transactions::new(random.number());
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|number| Writer { partition: format!("w{number}"), random: Random::new(random.number()), log: Vec::new() })
        .collect();
    let acknowledged: Vec<_> = (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let mut bounds = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| transactions.write(&server.address, &channel().0, Until::Flag(&is_over)));
        for (writer, acknowledged) in writers.iter_mut().zip(&acknowledged) {
            let mut client = server.client();
            let is_over = &is_over;
            scope.spawn(move || writer.work(&mut client, acknowledged, is_over));
        }
        let known = || acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect::<Vec<_>>();
        let began = Instant::now();
        while known().iter().any(|count| *count < 50) {
            assert!(began.elapsed() < TIMEOUT);
            thread::sleep(Duration::from_millis(5));
        }
        for _ in 0..BACKUPS {
            let before = known();
            let backup = place.back_up(&[]);
            // An operation that was in flight when the snapshot was taken may be in it, too.
            let after: Vec<_> = known().iter().map(|count| count + 1).collect();
            bounds.push((backup["backup"].as_str().unwrap().to_owned(), before, after));
        }
        is_over.store(true, Ordering::SeqCst);
    });
    for (id, before, after) in bounds {
        let restored = place.restored(&id, &["--backup", &id]);
        Transactions::last(&mut restored.client());
        for (writer, (before, after)) in writers.iter().zip(before.into_iter().zip(after)) {
            let found = writer.found(&mut restored.client());
            let after = after.min(writer.log.len());
            let at = (before..=after).find(|operations| writer.state(*operations) == found);
            assert!(
                at.is_some(),
                "{}: not the state after {before} to {after} operations: {found:?}",
                writer.partition
            );
        }
    }
}

#[test]
fn slow_and_malformed_clients_of_the_socket_are_bounded_and_delay_no_others() {
    const REQUEST: &[u8] = b"rowhouse control 1 snapshot\n";
    const CLIENTS_MAX: usize = 4;
    let place = Place::new();
    let server = place.serve();
    // More than the buffers of a socket hold.
    test_support::content::fill(&server, "Cars", 20, 1000);
    let connect = |request: &[u8]| {
        let mut stream = UnixStream::connect(Path::new(&place.data).join("control.sock")).unwrap();
        stream.write_all(request).unwrap();
        stream
    };
    let answer = |mut stream: UnixStream| {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert!(answer(connect(b"rowhouse control 2 snapshot\n")).contains("does not support the request"));
    // A client that disconnects frees its slot.
    for _ in 0..8 {
        let mut stream = connect(REQUEST);
        stream.read_exact(&mut [0; 10]).unwrap();
    }
    let is_one_too_many =
        |ran: &CommandResult| ran.code == Some(1) && ran.stderr.contains("maximum number of concurrent snapshots");
    let began = Instant::now();
    let mut ran = place.try_back_up(&[]);
    // The server notices when it writes to them.
    while is_one_too_many(&ran) && began.elapsed() < TIMEOUT {
        ran = place.try_back_up(&[]);
    }
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["entities"], 20_000);
    let mut stalled = Vec::new();
    while stalled.len() < CLIENTS_MAX {
        assert!(began.elapsed() < TIMEOUT);
        let mut stream = connect(REQUEST);
        let mut tag = [0];
        // A snapshot starts, unless the server is still disconnecting earlier clients.
        if stream.read(&mut tag).is_ok() && tag == *b"H" {
            stalled.push(stream);
        } else {
            thread::sleep(Duration::from_millis(10));
        }
    }
    assert!(answer(connect(REQUEST)).contains("maximum number of concurrent snapshots"));
    let ran = place.try_back_up(&[]);
    assert!(is_one_too_many(&ran), "{ran:?}");
    // These clients delay neither writers nor the shutdown of the server.
    test_support::content::put(&mut server.client(), "Cars", "p", "r", &json!({}));
    let began = Instant::now();
    let (status, log) = server.stop();
    // Clients that do not read are disconnected only after a longer time than this limit.
    assert!(status.success() && began.elapsed() < TIMEOUT, "{:?}: {log:?}", began.elapsed());
    drop(stalled);
    assert_eq!(place.back_up(&[])["entities"], 20_001);
}
