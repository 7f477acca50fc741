//! Writers that keep a model of what was acknowledged, and compare it with what is stored.

use crate::client::{statuses, transact};
use crate::{Account, Client, Random, Response, eventually};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

const ROWS: u64 = 30;
/// How long a writer waits after the server said that it is busy.
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// How long a writer goes on.
#[derive(Debug, Clone, Copy)]
pub enum Until<'a> {
    /// Until the server is gone. Everything succeeds until then.
    Crash,
    /// Until this is true, or the server does not know whether it wrote. Writes may be refused.
    Told(&'a AtomicBool),
}

impl Until<'_> {
    fn is_disk_faulty(self) -> bool {
        matches!(self, Self::Told(_))
    }

    fn is_over(self) -> bool {
        matches!(self, Self::Told(told) if told.load(Ordering::SeqCst))
    }
}

/// What a server whose disk fails answers to a write.
enum Faulty {
    /// It did not happen.
    Refused,
    /// It happened as a whole or not at all.
    Unknown,
}

/// Reads a response of a server whose disk may fail. Where no disk fails, only a crash may prevent a write.
fn faulty(answer: &Response, until: Until<'_>) -> Option<Faulty> {
    match answer.status {
        503 if until.is_disk_faulty() => {
            assert_eq!(answer.header("x-ms-error-code"), Some("ServerBusy"), "{answer:?}");
            assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
            std::thread::sleep(BUSY_PAUSE);
            Some(Faulty::Refused)
        }
        500 if until.is_disk_faulty() => Some(Faulty::Unknown),
        _ => None,
    }
}

/// A writer: it writes one thing after the other, of which at most the last is in doubt.
pub trait Writes {
    /// What was sent.
    type Sent;

    /// Sends the next write, which is in doubt from now on.
    fn send(&mut self, client: &mut Client) -> std::io::Result<(Self::Sent, Response)>;

    /// Notes that the write in doubt was not done.
    fn take_back(&mut self);

    /// Notes that the write in doubt was done, as the response says.
    fn acknowledge(&mut self, sent: Self::Sent, answer: &Response);

    /// Writes until it is over, and reports each acknowledged write.
    fn write(&mut self, address: &str, acknowledged: &Sender<()>, until: Until<'_>) {
        self.write_as(&Account::development(), address, acknowledged, until);
    }

    /// As [`Self::write`], for another account than the development account.
    fn write_as(&mut self, account: &Account, address: &str, acknowledged: &Sender<()>, until: Until<'_>) {
        let Ok(mut client) = Client::connect_as(address, account) else { return };
        while !until.is_over() {
            let Ok((sent, answer)) = self.send(&mut client) else { return };
            match faulty(&answer, until) {
                Some(Faulty::Refused) => {
                    self.take_back();
                    continue;
                }
                // Whether it was done is seen once the fault is gone.
                Some(Faulty::Unknown) => return,
                None => {}
            }
            self.acknowledge(sent, &answer);
            // The receiver is gone once the server is killed.
            let _ = acknowledged.send(());
        }
    }
}

type Properties = BTreeMap<String, Value>;

/// What is known of a stored entity.
#[derive(Debug, Clone, PartialEq)]
struct Stored {
    properties: Properties,
    /// `None` for a write that was never acknowledged.
    etag: Option<String>,
}

type Rows<T = Stored> = BTreeMap<String, T>;

/// A writer of the entities of one partition.
#[derive(Debug)]
pub struct Writer {
    partition: String,
    random: Random,
    rows: Rows,
    /// The row of the operation that was not acknowledged, and its state if the operation happened.
    doubt: Option<(String, Option<Stored>)>,
    /// The same for operations whose response said that their outcome is not known. These rows are written no more.
    postponed: Rows<Option<Stored>>,
}

impl Writer {
    /// A writer with a number and the seed of its choices.
    pub fn new(number: u64, seed: u64) -> Self {
        let (partition, random) = (format!("writer{number}"), Random::new(seed));
        Self { partition, random, rows: Rows::new(), doubt: None, postponed: Rows::new() }
    }

    /// The number of entities that should be stored.
    pub fn entities(&self) -> usize {
        self.rows.len()
    }

    /// Compares what is stored with the model, and finds out whether the operation in doubt was done.
    pub fn check(&mut self, client: &mut Client, round: u64) {
        let stored = stored_rows(client, self);
        self.learn(stored, round);
    }

    /// Writes until `is_over`, whatever happens to the database. The server itself must stay and answer.
    ///
    /// After `ServerBusy` nothing was written; after `OperationTimedOut` it may have been, so the entity is read in the end.
    /// No other error is allowed.
    pub fn write_through_faults(&mut self, address: &str, is_over: &AtomicBool, tally: &Tally) {
        let mut client = Client::connect(address).unwrap();
        while !is_over.load(Ordering::SeqCst) {
            let write = self.plan();
            let began = Instant::now();
            let answer = write.operation.send(&mut client, &self.partition, &write.row).unwrap();
            tally.longest_ms.fetch_max(u64::try_from(began.elapsed().as_millis()).unwrap(), Ordering::Relaxed);
            match fault(&answer) {
                None => {
                    self.acknowledge(write, &answer);
                    tally.acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                Some("ServerBusy") => {
                    self.doubt = None;
                    tally.busy.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(20));
                }
                Some(_out_of_time) => {
                    let (row, after) = self.doubt.take().unwrap();
                    self.postponed.insert(row, after);
                    assert!(self.postponed.len() < 20, "hardly anything is known any more");
                    tally.unknown.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        for (row, after) in std::mem::take(&mut self.postponed) {
            self.ask(&mut client, &row, after.as_ref());
        }
    }

    /// Reads an entity to find out whether the operation in doubt was done.
    fn ask(&mut self, client: &mut Client, row: &str, after: Option<&Stored>) {
        let path = format!("/crash(PartitionKey='{}',RowKey='{row}')", self.partition);
        let answer = eventually("an answer", || {
            let answer = client.request("GET", &path, &[], b"");
            fault(&answer).is_none().then_some(answer)
        });
        let found = match answer.status {
            200 => Some(stored(&self.partition, &answer.json()).1),
            404 => None,
            _ => panic!("{answer:?}"),
        };
        let is_old = found.as_ref() == self.rows.get(row);
        let is_new = found.as_ref().map(|found| &found.properties) == after.map(|after| &after.properties);
        assert!(is_old || is_new, "{row}: {found:?} is neither {:?} nor {after:?}", self.rows.get(row));
        match found {
            Some(found) => self.rows.insert(row.to_owned(), found),
            None => self.rows.remove(row),
        };
    }

    /// Chooses the next operation, which is in doubt from now on.
    fn plan(&mut self) -> Planned {
        let row = loop {
            let row = format!("{:03}", self.random.below(ROWS));
            if !self.postponed.contains_key(&row) {
                break row;
            }
        };
        let operation = Operation::any(&mut self.random);
        let before = self.rows.get(&row);
        let (expected, after) = operation.outcome(before.map(|stored| &stored.properties));
        let after = after.map(|properties| Stored { properties, etag: None });
        self.doubt = Some((row.clone(), after.clone()));
        Planned { row, operation, expected, after }
    }

    fn learn(&mut self, stored: Rows, round: u64) {
        let mut expected = self.rows.clone();
        if let Some((row, after)) = self.doubt.take() {
            let found = stored.get(&row);
            let happened = found.map(|found| &found.properties) == after.as_ref().map(|after| &after.properties)
                && found != self.rows.get(&row);
            if happened {
                // Its ETag was never received.
                match found {
                    Some(found) => expected.insert(row, found.clone()),
                    None => expected.remove(&row),
                };
            }
        }
        assert_eq!(stored, expected, "{} in round {round}", self.partition);
        self.rows = stored;
    }
}

impl Writes for Writer {
    type Sent = Planned;

    fn send(&mut self, client: &mut Client) -> std::io::Result<(Planned, Response)> {
        let write = self.plan();
        let answer = write.operation.send(client, &self.partition, &write.row)?;
        Ok((write, answer))
    }

    fn take_back(&mut self) {
        self.doubt = None;
    }

    fn acknowledge(&mut self, write: Planned, answer: &Response) {
        let Planned { row, operation, expected, after } = write;
        assert_eq!(answer.status, expected, "{operation:?} of {row} {:?}: {answer:?}", self.rows.get(&row));
        self.doubt = None;
        if expected < 400 {
            let etag = answer.header("etag").map(str::to_owned);
            match after {
                Some(after) => self.rows.insert(row, Stored { etag, ..after }),
                None => self.rows.remove(&row),
            };
        }
    }
}

/// An operation, its expected status, and what it leaves.
#[derive(Debug)]
pub struct Planned {
    row: String,
    operation: Operation,
    expected: u16,
    after: Option<Stored>,
}

/// The responses that a writer got.
#[derive(Debug, Default)]
pub struct Tally {
    /// The operation was done.
    pub acknowledged: AtomicU64,
    /// The operation was not done.
    pub busy: AtomicU64,
    /// The operation may have been done.
    pub unknown: AtomicU64,
    /// The longest time until a response, in milliseconds.
    pub longest_ms: AtomicU64,
}

/// The code of a response of a server that could not do its work. After these two, clients try again by themselves.
pub fn fault(answer: &Response) -> Option<&'static str> {
    let expected = match answer.status {
        503 => "ServerBusy",
        500 => "OperationTimedOut",
        _ => return None,
    };
    assert_eq!(answer.json()["odata.error"]["code"], expected, "{answer:?}");
    Some(expected)
}

/// Reads every entity of a writer's partition.
fn stored_rows(client: &mut Client, writer: &Writer) -> Rows {
    let path = format!("/crash()?$filter=PartitionKey%20eq%20'{}'", writer.partition);
    let answer = client.request("GET", &path, &[], b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("x-ms-continuation-nextpartitionkey"), None, "everything fits one page");
    let mut rows = Rows::new();
    for entity in answer.json()["value"].as_array().unwrap() {
        let (row, stored) = stored(&writer.partition, entity);
        rows.insert(row, stored);
    }
    rows
}

/// The row key of an entity of a partition, and the rest of it.
fn stored(partition: &str, entity: &Value) -> (String, Stored) {
    let mut properties: Properties = entity.as_object().unwrap().clone().into_iter().collect();
    assert_eq!(properties.remove("PartitionKey"), Some(Value::from(partition)));
    properties.remove("odata.metadata");
    let mut text = |name| properties.remove(name).unwrap().as_str().unwrap().to_owned();
    let (row, etag) = (text("RowKey"), text("odata.etag"));
    text("Timestamp");
    (row, Stored { properties, etag: Some(etag) })
}

#[derive(Debug)]
enum Operation {
    Insert(Properties),
    Update(Properties),
    Merge(Properties),
    InsertOrReplace(Properties),
    InsertOrMerge(Properties),
    Delete,
}

impl Operation {
    fn any(random: &mut Random) -> Self {
        match random.below(7) {
            0 | 1 => Self::Insert(properties(random)),
            2 => Self::Update(properties(random)),
            3 => Self::Merge(properties(random)),
            4 => Self::InsertOrReplace(properties(random)),
            5 => Self::InsertOrMerge(properties(random)),
            _ => Self::Delete,
        }
    }

    /// The status of the answer, and what is stored afterwards.
    fn outcome(&self, before: Option<&Properties>) -> (u16, Option<Properties>) {
        let merged = |new: &Properties| {
            let mut all = before.cloned().unwrap_or_default();
            all.extend(new.clone());
            Some(all)
        };
        match (self, before) {
            (Self::Insert(new), None) => (201, Some(new.clone())),
            (Self::Insert(_), Some(before)) => (409, Some(before.clone())),
            (Self::Update(_) | Self::Merge(_) | Self::Delete, None) => (404, None),
            (Self::Update(new), Some(_)) => (204, Some(new.clone())),
            (Self::InsertOrReplace(new), _) => (204, Some(new.clone())),
            (Self::Merge(new), Some(_)) => (204, merged(new)),
            (Self::InsertOrMerge(new), _) => (204, merged(new)),
            (Self::Delete, Some(_)) => (204, None),
        }
    }

    fn send(&self, client: &mut Client, partition: &str, row: &str) -> std::io::Result<Response> {
        let address = format!("/crash(PartitionKey='{partition}',RowKey='{row}')");
        let any_etag = [("If-Match", "*")];
        match self {
            Self::Insert(new) => {
                let mut body = new.clone();
                body.insert("PartitionKey".to_owned(), partition.into());
                body.insert("RowKey".to_owned(), row.into());
                client.try_request("POST", "/crash", &[], json!(body).to_string().as_bytes())
            }
            Self::Update(new) => client.try_request("PUT", &address, &any_etag, json!(new).to_string().as_bytes()),
            Self::Merge(new) => client.try_request("MERGE", &address, &any_etag, json!(new).to_string().as_bytes()),
            Self::InsertOrReplace(new) => client.try_request("PUT", &address, &[], json!(new).to_string().as_bytes()),
            Self::InsertOrMerge(new) => client.try_request("MERGE", &address, &[], json!(new).to_string().as_bytes()),
            Self::Delete => client.try_request("DELETE", &address, &any_etag, b""),
        }
    }
}

/// Some of a few properties, which differ with every write, from a few bytes to some KiB.
fn properties(random: &mut Random) -> Properties {
    let mut properties = Properties::new();
    let number = i32::try_from(random.below(1 << 31)).unwrap();
    properties.insert("Number".to_owned(), number.into());
    for name in ["A", "B", "C"] {
        if random.below(2) == 0 {
            let mut text = String::new();
            for _ in 0..=random.below(2) * random.below(200) {
                write!(text, "{:016x}", random.number()).unwrap();
            }
            properties.insert(name.to_owned(), text.into());
        }
    }
    properties
}

/// A writer of a whole partition by one transaction, again and again: all its entities have the same number.
#[derive(Debug)]
pub struct Transactions {
    /// The number of the last transaction that was acknowledged.
    number: u64,
    /// Whether the next one was sent and not acknowledged.
    is_in_doubt: bool,
    random: Random,
}

impl Transactions {
    const ROWS: usize = 24;

    /// A writer with the seed of its choices.
    pub fn new(seed: u64) -> Self {
        Self { number: 0, is_in_doubt: false, random: Random::new(seed) }
    }

    /// The number of entities that should be stored.
    pub fn entities(&self) -> usize {
        if self.number == 0 { 0 } else { Self::ROWS }
    }

    /// An upsert with a text, which together are more than is written to a file at a time. Row 99 does not exist and is
    /// updated, which fails.
    fn operation(&mut self, row: &str, number: u64) -> String {
        let text = format!("{:016x}", self.random.number()).repeat(usize::try_from(self.random.below(200)).unwrap());
        let condition = if row == "99" { "If-Match: *\r\n" } else { "" };
        format!(
            "PUT /crash(PartitionKey='transactions',RowKey='{row}') HTTP/1.1\r\n{condition}\
             Content-Type: application/json\r\n\r\n{}",
            json!({ "Number": number, "Text": text })
        )
    }

    /// Compares what is stored with what was acknowledged, and finds out whether the transaction in doubt was committed.
    pub fn check(&mut self, client: &mut Client, round: u64) {
        let answer = client.request("GET", "/crash()?$filter=PartitionKey%20eq%20'transactions'", &[], b"");
        let entities = answer.json()["value"].as_array().unwrap().clone();
        let numbers: Vec<_> = entities.iter().map(|entity| entity["Number"].as_u64().unwrap()).collect();
        let number = numbers.first().copied().unwrap_or(0);
        let rows = if number == 0 { 0 } else { Self::ROWS };
        assert_eq!(numbers, vec![number; rows], "a part of a transaction in round {round}");
        let newest = self.number + u64::from(std::mem::take(&mut self.is_in_doubt));
        assert!((self.number..=newest).contains(&number), "{number}, not {} in round {round}", self.number);
        self.number = number;
    }
}

impl Writes for Transactions {
    /// Whether the transaction is possible.
    type Sent = bool;

    fn send(&mut self, client: &mut Client) -> std::io::Result<(bool, Response)> {
        // A transaction whose last operation fails changes nothing.
        let is_possible = self.random.below(4) > 0;
        let (next, last) = (self.number + 1, if is_possible { "0" } else { "99" });
        let rows = (1..Self::ROWS).map(|row| row.to_string()).chain([last.to_owned()]);
        let operations: Vec<_> = rows.map(|row| self.operation(&row, next)).collect();
        self.is_in_doubt = is_possible;
        Ok((is_possible, transact(client, &operations)?))
    }

    fn take_back(&mut self) {
        self.is_in_doubt = false;
    }

    fn acknowledge(&mut self, is_possible: bool, answer: &Response) {
        self.is_in_doubt = false;
        if is_possible {
            assert_eq!(statuses(answer), [204; Self::ROWS]);
            self.number += 1;
        } else {
            assert_eq!(statuses(answer), [404]);
        }
    }
}

/// A writer that creates and deletes tables.
#[derive(Debug)]
pub struct Catalog {
    tables: BTreeSet<String>,
    /// The table whose creation or deletion was not acknowledged.
    doubt: Option<String>,
    random: Random,
}

impl Catalog {
    /// A writer with the seed of its choices.
    pub fn new(seed: u64) -> Self {
        Self { tables: BTreeSet::new(), doubt: None, random: Random::new(seed) }
    }

    /// Compares the tables with the model, and finds out whether the operation in doubt was done.
    pub fn check(&mut self, client: &mut Client, round: u64) {
        let answer = client.request("GET", "/Tables", &[], b"");
        let tables = answer.json()["value"].as_array().unwrap().clone();
        let mut stored: BTreeSet<_> = tables.iter().map(|t| t["TableName"].as_str().unwrap().to_owned()).collect();
        assert!(stored.remove("crash"));
        let doubt = self.doubt.take();
        let differences: Vec<_> = stored.symmetric_difference(&self.tables).collect();
        assert!(differences.iter().all(|table| Some(*table) == doubt.as_ref()), "{differences:?} in round {round}");
        self.tables = stored;
    }
}

impl Writes for Catalog {
    /// The table, and whether it existed.
    type Sent = (String, bool);

    fn send(&mut self, client: &mut Client) -> std::io::Result<((String, bool), Response)> {
        let table = format!("table{}", self.random.below(5));
        let exists = self.tables.contains(&table);
        self.doubt = Some(table.clone());
        let answer = if exists {
            client.try_request("DELETE", &format!("/Tables('{table}')"), &[], b"")
        } else {
            client.try_request("POST", "/Tables", &[], json!({ "TableName": table }).to_string().as_bytes())
        };
        Ok(((table, exists), answer?))
    }

    fn take_back(&mut self) {
        self.doubt = None;
    }

    fn acknowledge(&mut self, (table, exists): (String, bool), answer: &Response) {
        assert_eq!(answer.status, if exists { 204 } else { 201 }, "{table}: {answer:?}");
        self.doubt = None;
        if exists {
            self.tables.remove(&table);
        } else {
            self.tables.insert(table);
        }
    }
}
