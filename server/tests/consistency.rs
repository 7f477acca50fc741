//! Consistency under load: clerks move amounts between the entities of one partition by transactions, while auditors read
//! pages, and the server is killed with `kill -9` again and again. No page ever shows another sum.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod support;

use serde_json::{Value, json};
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use support::{Client, Random, Response, Server};

const ROUNDS: u64 = 4;
const CLERKS: u64 = 5;
const AUDITORS: usize = 2;
const DRAWERS: u64 = 24;
const AMOUNT_AT_START: i64 = 1000;
const TOTAL: i64 = DRAWERS.cast_signed() * AMOUNT_AT_START;
/// How long the clerks work before the server is killed, in milliseconds, beside a random part of the same size.
const WORK_MILLISECONDS: u64 = 600;
const SEED: &str = "ROWHOUSE_CONSISTENCY_SEED";

/// The whole partition, and the part of it that has an amount: two ways to the same sum.
const AUDITS: [&str; 2] = [
    "/bank()?$filter=PartitionKey%20eq%20'p'",
    "/bank()?$filter=PartitionKey%20eq%20'p'%20and%20Amount%20ge%200&$select=Amount",
];

#[test]
fn no_page_shows_a_part_of_a_transaction() {
    let seed = std::env::var(SEED).map_or_else(|_| RandomState::new().hash_one(0), |text| text.parse().unwrap());
    println!("{SEED}={seed}");
    let mut random = Random(seed);
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data", folder.path().to_str().unwrap()];
    let mut clerks: Vec<_> = (0..CLERKS).map(|number| Clerk::new(number, random.next())).collect();
    let pages = AtomicU64::new(0);
    for round in 0..ROUNDS {
        let server = Server::start(&arguments);
        let mut client = server.client();
        if round == 0 {
            open_bank(&mut client);
        }
        check_sums(&mut client);
        learn(&mut clerks, &mut client);
        work_and_crash(server, &mut clerks, &pages, WORK_MILLISECONDS + random.below(WORK_MILLISECONDS));
    }
    let server = Server::start(&arguments);
    let mut client = server.client();
    check_sums(&mut client);
    learn(&mut clerks, &mut client);
    let done: u64 = clerks.iter().map(|clerk| clerk.done).sum();
    let refused: u64 = clerks.iter().map(|clerk| clerk.refused).sum();
    println!("{done} transactions, {refused} refused, {} pages", pages.load(Ordering::Relaxed));
    assert!(done > ROUNDS, "the clerks got something done");
}

fn open_bank(client: &mut Client) {
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"bank"}"#).status, 201);
    let drawers = (0..DRAWERS).map(|drawer| insert(drawer, AMOUNT_AT_START)).collect::<Vec<_>>();
    assert_eq!(statuses(&transact(client, &drawers).unwrap()), vec![204; drawers.len()]);
}

fn learn(clerks: &mut [Clerk], client: &mut Client) {
    for clerk in clerks {
        clerk.learn(client);
    }
}

/// Lets everybody work for a while, then kills the server under them.
fn work_and_crash(server: Server, clerks: &mut [Clerk], pages: &AtomicU64, milliseconds: u64) {
    let address = server.address.clone();
    let is_open = AtomicBool::new(true);
    thread::scope(|scope| {
        let (address, is_open) = (address.as_str(), &is_open);
        for clerk in clerks {
            scope.spawn(move || {
                clerk.work(address);
                assert!(!is_open.load(Ordering::SeqCst), "the server ended before it was killed");
            });
        }
        for auditor in 0..AUDITORS {
            scope.spawn(move || audit(address, AUDITS[auditor % AUDITS.len()], pages));
        }
        thread::sleep(Duration::from_millis(milliseconds));
        is_open.store(false, Ordering::SeqCst);
        server.kill9();
    });
}

/// Reads pages until the server is gone.
fn audit(address: &str, path: &str, pages: &AtomicU64) {
    let Ok(mut client) = Client::connect(address) else { return };
    while let Ok(page) = client.try_request("GET", path, &[], b"") {
        check_sum(&page);
        pages.fetch_add(1, Ordering::Relaxed);
    }
}

fn check_sums(client: &mut Client) {
    for path in AUDITS {
        check_sum(&client.request("GET", path, &[], b""));
    }
}

fn check_sum(page: &Response) {
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(page.header("x-ms-continuation-nextpartitionkey"), None, "everything fits one page");
    let page = page.json();
    let amounts = page["value"].as_array().unwrap().iter().filter_map(|entity| entity["Amount"].as_i64());
    assert_eq!(amounts.sum::<i64>(), TOTAL, "{page}");
}

/// A thread that moves amounts. It counts its transactions in an entity that is written with each.
struct Clerk {
    name: String,
    random: Random,
    /// The transactions that were acknowledged.
    done: u64,
    refused: u64,
    /// Whether a transaction was sent whose end is not known.
    is_in_doubt: bool,
}

/// What a clerk knows of a drawer.
struct Drawer {
    number: u64,
    /// ETag and amount; `None` if there is no such drawer.
    content: Option<(String, i64)>,
}

impl Clerk {
    fn new(number: u64, seed: u64) -> Self {
        Self { name: format!("clerk{number}"), random: Random(seed), done: 0, refused: 0, is_in_doubt: false }
    }

    /// Moves amounts until the server is gone.
    fn work(&mut self, address: &str) {
        let Ok(mut client) = Client::connect(address) else { return };
        loop {
            let first = self.random.below(DRAWERS);
            let second = (first + 1 + self.random.below(DRAWERS - 1)) % DRAWERS;
            let Ok(from) = look(&mut client, first) else { return };
            let Ok(to) = look(&mut client, second) else { return };
            let Some(mut operations) = self.plan(&from, &to) else { continue };
            let count = json!({ "Count": self.done + 1 });
            operations.push(operation("PUT", &address_of(&self.name), None, Some(&count)));
            self.is_in_doubt = true;
            let Ok(answer) = transact(&mut client, &operations) else { return };
            self.is_in_doubt = false;
            match statuses(&answer).as_slice() {
                all if *all == vec![204; operations.len()] => self.done += 1,
                // Another clerk was faster.
                [404 | 409 | 412] => self.refused += 1,
                other => panic!("{other:?}: {}", String::from_utf8_lossy(&answer.body)),
            }
        }
    }

    /// Moves a random amount, all of it at times; a drawer that is empty is taken away, and one that is missing is put in.
    fn plan(&mut self, from: &Drawer, to: &Drawer) -> Option<Vec<String>> {
        let (from_etag, available) = from.content.as_ref()?;
        let moved = if self.random.below(5) == 0 { *available } else { self.random.upto(*available) };
        let taken = match available - moved {
            0 => operation("DELETE", &address_of(&drawer_name(from.number)), Some(from_etag), None),
            rest => merge(from.number, from_etag, rest),
        };
        let given = match &to.content {
            Some((etag, amount)) => merge(to.number, etag, amount + moved),
            None => insert(to.number, moved),
        };
        // The order must not matter.
        Some(if self.random.below(2) == 0 { vec![taken, given] } else { vec![given, taken] })
    }

    /// Compares the count that is stored with what was acknowledged.
    fn learn(&mut self, client: &mut Client) {
        let answer = client.request("GET", &format!("/bank{}", address_of(&self.name)), &[], b"");
        let stored = if answer.status == 404 { 0 } else { answer.json()["Count"].as_u64().unwrap() };
        let known = self.done..=self.done + u64::from(self.is_in_doubt);
        assert!(known.contains(&stored), "{}: {stored} transactions are stored, not {known:?}", self.name);
        self.done = stored;
        self.is_in_doubt = false;
    }
}

fn look(client: &mut Client, number: u64) -> std::io::Result<Drawer> {
    let answer = client.try_request("GET", &format!("/bank{}", address_of(&drawer_name(number))), &[], b"")?;
    let content = match answer.status {
        200 => Some((answer.header("etag").unwrap().to_owned(), answer.json()["Amount"].as_i64().unwrap())),
        404 => None,
        other => panic!("{other}: {answer:?}"),
    };
    Ok(Drawer { number, content })
}

fn drawer_name(number: u64) -> String {
    format!("drawer{number:02}")
}

fn address_of(row: &str) -> String {
    format!("(PartitionKey='p',RowKey='{row}')")
}

fn insert(number: u64, amount: i64) -> String {
    let entity = json!({ "PartitionKey": "p", "RowKey": drawer_name(number), "Amount": amount });
    operation("POST", "", None, Some(&entity))
}

fn merge(number: u64, etag: &str, amount: i64) -> String {
    operation("MERGE", &address_of(&drawer_name(number)), Some(etag), Some(&json!({ "Amount": amount })))
}

/// An operation on the table as it stands in a change set.
fn operation(method: &str, address: &str, etag: Option<&str>, body: Option<&Value>) -> String {
    let mut text = format!("{method} /bank{address} HTTP/1.1\r\nPrefer: return-no-content\r\n");
    if let Some(etag) = etag {
        write!(text, "If-Match: {etag}\r\n").unwrap();
    }
    if let Some(body) = body {
        write!(text, "Content-Type: application/json\r\n\r\n{body}").unwrap();
    }
    text
}

fn transact(client: &mut Client, operations: &[String]) -> std::io::Result<Response> {
    let parts =
        operations.iter().map(|operation| format!("--c\r\nContent-Type: application/http\r\n\r\n{operation}\r\n"));
    let parts = parts.collect::<String>();
    let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n");
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    client.try_request("POST", "/$batch", &headers, body.as_bytes())
}

/// The statuses of the parts of an answer.
fn statuses(answer: &Response) -> Vec<u16> {
    assert_eq!(answer.status, 202, "{answer:?}");
    let text = std::str::from_utf8(&answer.body).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()).collect()
}
