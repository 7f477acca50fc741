//! A bank whose clerks move amounts between the drawers of one partition through transactions while auditors read
//! pages. The sum of the amounts in every page must be the same.

use crate::client::{statuses, transact};
use crate::{Client, Random, Response, TIMEOUT, eventually};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const DRAWERS: u64 = 24;
const AMOUNT_AT_START: i64 = 1000;
const TOTAL: i64 = DRAWERS.cast_signed() * AMOUNT_AT_START;

/// Two queries that must give the same sum: one for the whole partition, and one for only the entities that have an
/// amount.
pub const AUDITS: [&str; 2] = [
    "/bank()?$filter=PartitionKey%20eq%20'p'",
    "/bank()?$filter=PartitionKey%20eq%20'p'%20and%20Amount%20ge%200&$select=Amount",
];

/// Creates the table and its drawers.
pub fn open_bank(client: &mut Client) {
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"bank"}"#).status, 201);
    let drawers = (0..DRAWERS).map(|drawer| insert(drawer, AMOUNT_AT_START)).collect::<Vec<_>>();
    assert_eq!(statuses(&transact(client, &drawers).unwrap()), vec![204; drawers.len()]);
}

/// Compares the stored count of every clerk with its acknowledged transactions.
pub fn reconcile_all(clerks: &mut [Clerk], client: &mut Client) {
    for clerk in clerks {
        clerk.reconcile(client);
    }
}

/// Counts the acknowledged transactions of clerks while they work.
#[derive(Debug)]
pub struct Progress(Vec<Arc<AtomicU64>>);

impl Progress {
    /// Watches clerks.
    pub fn of(clerks: &[Clerk]) -> Self {
        Self(clerks.iter().map(|clerk| Arc::clone(&clerk.acknowledged)).collect())
    }

    /// Waits until the clerks have completed this number of transactions from now on.
    pub fn wait(&self, transactions: u64) {
        let count = || self.0.iter().map(|count| count.load(Ordering::SeqCst)).sum::<u64>();
        let enough = count() + transactions;
        eventually("transactions of the clerks", || (count() >= enough).then_some(()));
    }
}

/// Reads pages until the server is down.
pub fn audit(address: &str, path: &str, pages: &AtomicU64) {
    let Ok(mut client) = Client::connect(address) else { return };
    while let Ok(page) = client.try_request("GET", path, &[], b"") {
        check_sum(&page);
        pages.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads pages until `is_over` is set, and continues after faults.
pub fn audit_through_faults(address: &str, path: &str, pages: &AtomicU64, is_over: &AtomicBool) {
    let mut client = Client::connect(address).unwrap();
    while !is_over.load(Ordering::SeqCst) {
        let page = client.request("GET", path, &[], b"");
        if no_fault(&page).is_ok() {
            check_sum(&page);
            pages.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Checks the sum with both queries.
pub fn check_sums(client: &mut Client) {
    for path in AUDITS {
        check_sum(&client.request("GET", path, &[], b""));
    }
}

fn check_sum(page: &Response) {
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(page.header("x-ms-continuation-nextpartitionkey"), None, "everything fits on one page");
    let page = page.json();
    let amounts = page["value"].as_array().unwrap().iter().filter_map(|entity| entity["Amount"].as_i64());
    assert_eq!(amounts.sum::<i64>(), TOTAL, "{page}");
}

/// A client that moves amounts. Each transaction also updates an entity that counts the clerk's transactions.
#[derive(Debug)]
pub struct Clerk {
    name: String,
    random: Random,
    /// The number of acknowledged transactions.
    pub done: u64,
    /// The number of transactions that were refused because of a conflict with another clerk.
    pub refused: u64,
    /// The number of server error responses.
    pub faults: u64,
    acknowledged: Arc<AtomicU64>,
    /// True if the outcome of the last transaction is unknown.
    is_in_doubt: bool,
}

struct Drawer {
    number: u64,
    /// `None` if the drawer does not exist.
    content: Option<(String, i64)>,
}

impl Clerk {
    /// Creates a clerk with a number and a random seed.
    pub fn new(number: u64, seed: u64) -> Self {
        let name = format!("clerk{number}");
        let (random, acknowledged) = (Random::new(seed), Arc::default());
        Self { name, random, done: 0, refused: 0, faults: 0, acknowledged, is_in_doubt: false }
    }

    /// Moves amounts until the server is down.
    pub fn work(&mut self, address: &str) {
        match self.try_work(address, &AtomicBool::new(false)) {
            Err(ClerkError::Gone) => {}
            other => panic!("{other:?}"),
        }
    }

    /// Moves amounts until `is_over` is set, whatever happens to the database. After a fault, determines whether the
    /// last transaction was committed, and continues. The server itself must keep running.
    pub fn work_through_faults(&mut self, address: &str, is_over: &AtomicBool) {
        while let Err(error) = self.try_work(address, is_over) {
            assert!(matches!(error, ClerkError::Fault(_)), "{error:?}");
            self.faults += 1;
            let mut client = Client::connect(address).unwrap();
            let began = Instant::now();
            while let Err(error) = self.try_reconcile(&mut client) {
                assert!(began.elapsed() < TIMEOUT, "{error:?}");
                thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn try_work(&mut self, address: &str, is_over: &AtomicBool) -> Result<(), ClerkError> {
        let mut client = Client::connect(address)?;
        while !is_over.load(Ordering::SeqCst) {
            let first = self.random.below(DRAWERS);
            let second = (first + 1 + self.random.below(DRAWERS - 1)) % DRAWERS;
            let (from, to) = (look(&mut client, first)?, look(&mut client, second)?);
            let Some(mut operations) = self.plan(&from, &to) else { continue };
            let count = json!({ "Count": self.done + 1 });
            operations.push(operation("PUT", &address_of(&self.name), None, Some(&count)));
            self.is_in_doubt = true;
            let answer = transact(&mut client, &operations)?;
            let statuses = no_fault(&answer).map(|()| statuses(&answer))?;
            match statuses.as_slice() {
                all if *all == vec![204; operations.len()] => {
                    self.done += 1;
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                [404 | 409 | 412] => self.refused += 1,
                [500 | 503] => return Err(ClerkError::Fault(answer)),
                other => panic!("{other:?}: {}", String::from_utf8_lossy(&answer.body)),
            }
            self.is_in_doubt = false;
        }
        Ok(())
    }

    /// Plans to move a random amount, sometimes all of it. An emptied drawer is deleted, and a missing one is inserted.
    fn plan(&mut self, from: &Drawer, to: &Drawer) -> Option<Vec<String>> {
        let (from_etag, available) = from.content.as_ref()?;
        let moved = if self.random.below(5) == 0 { *available } else { self.random.up_to(*available) };
        let taken = match available - moved {
            0 => operation("DELETE", &address_of(&drawer_name(from.number)), Some(from_etag), None),
            rest => merge(from.number, from_etag, rest),
        };
        let given = match &to.content {
            Some((etag, amount)) => merge(to.number, etag, amount + moved),
            None => insert(to.number, moved),
        };
        // Use both orders, because the order of the operations must not matter.
        Some(if self.random.below(2) == 0 { vec![taken, given] } else { vec![given, taken] })
    }

    /// Compares the stored count with the acknowledged transactions.
    pub fn reconcile(&mut self, client: &mut Client) {
        self.try_reconcile(client).unwrap();
    }

    fn try_reconcile(&mut self, client: &mut Client) -> Result<(), ClerkError> {
        let answer = client.try_request("GET", &format!("/bank{}", address_of(&self.name)), &[], b"")?;
        no_fault(&answer)?;
        let stored = if answer.status == 404 { 0 } else { answer.json()["Count"].as_u64().unwrap() };
        let known = self.done..=self.done + u64::from(self.is_in_doubt);
        assert!(known.contains(&stored), "{}: {stored} transactions are stored instead of {known:?}", self.name);
        self.done = stored;
        self.is_in_doubt = false;
        Ok(())
    }
}

#[derive(Debug)]
#[allow(dead_code, reason = "printed when a test fails")]
enum ClerkError {
    Gone,
    Fault(Response),
}

impl From<std::io::Error> for ClerkError {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

fn no_fault(answer: &Response) -> Result<(), ClerkError> {
    if matches!(answer.status, 500 | 503) {
        return Err(ClerkError::Fault(answer.clone()));
    }
    Ok(())
}

fn look(client: &mut Client, number: u64) -> Result<Drawer, ClerkError> {
    let answer = client.try_request("GET", &format!("/bank{}", address_of(&drawer_name(number))), &[], b"")?;
    no_fault(&answer)?;
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

/// Returns an operation on the table, as encoded in a changeset.
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
