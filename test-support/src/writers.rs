//! Writers that keep a model of acknowledged writes and compare it with the stored data.

use crate::client::{outcome, statuses, transact};
use crate::{Account, Client, Random, Response, eventually};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

const ROWS: u64 = 30;
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// The time at which a writer stops.
#[derive(Debug, Clone, Copy)]
pub enum Until<'a> {
    /// When the server is down. All writes succeed until then.
    Crash,
    /// When the flag is set, or when the server does not know whether a write took effect. Writes may be rejected.
    Flag(&'a AtomicBool),
}

impl Until<'_> {
    fn is_disk_faulty(self) -> bool {
        matches!(self, Self::Flag(_))
    }

    fn is_over(self) -> bool {
        matches!(self, Self::Flag(told) if told.load(Ordering::SeqCst))
    }
}

enum WriteFailure {
    /// The write did not take effect.
    Refused,
    /// The write took effect completely or not at all.
    Unknown,
}

/// Classifies a response. Only a server whose disk may fail can refuse a write or lose track of it.
fn write_failure(answer: &Response, until: Until<'_>) -> Option<WriteFailure> {
    match outcome(answer) {
        (503, code) if until.is_disk_faulty() => {
            assert_eq!(code, "ServerBusy", "{answer:?}");
            assert_eq!(answer.header("retry-after").is_some(), answer.status == 503, "{answer:?}");
            std::thread::sleep(BUSY_PAUSE);
            Some(WriteFailure::Refused)
        }
        (500, _) if until.is_disk_faulty() => Some(WriteFailure::Unknown),
        _ => None,
    }
}

/// A writer that writes sequentially, so that only the last write can be in doubt.
pub trait Writer {
    /// The data that `send` passes to `acknowledge`.
    type Sent;

    /// Sends the next write, which is in doubt from then on.
    fn send(&mut self, client: &mut Client) -> std::io::Result<(Self::Sent, Response)>;

    /// Records that the write in doubt did not take effect.
    fn roll_back(&mut self);

    /// Records that the write in doubt took effect, according to the response.
    fn acknowledge(&mut self, sent: Self::Sent, answer: &Response);

    /// Writes until the given time, and reports each acknowledged write.
    fn write(&mut self, address: &str, acknowledged: &Sender<()>, until: Until<'_>) {
        self.write_as(&Account::development(), address, acknowledged, until);
    }

    /// Like [`Self::write`], but for the given account instead of the development account.
    fn write_as(&mut self, account: &Account, address: &str, acknowledged: &Sender<()>, until: Until<'_>) {
        let Ok(mut client) = Client::connect_as(address, account) else { return };
        while !until.is_over() {
            let Ok((sent, answer)) = self.send(&mut client) else { return };
            match write_failure(&answer, until) {
                Some(WriteFailure::Refused) => {
                    self.roll_back();
                    continue;
                }
                // A later check shows whether the write took effect.
                Some(WriteFailure::Unknown) => return,
                None => {}
            }
            self.acknowledge(sent, &answer);
            // The receiver is dropped after the server was killed.
            let _ = acknowledged.send(());
        }
    }
}

type Properties = BTreeMap<String, Value>;

#[derive(Debug, Clone, PartialEq)]
struct StoredEntity {
    properties: Properties,
    etag: Option<String>,
}

type Rows<T = StoredEntity> = BTreeMap<String, T>;

/// Makes random changes to the entities of one partition, and knows the state that results from them.
#[derive(Debug)]
pub struct EntityWriter {
    partition: String,
    random: Random,
    rows: Rows,
    /// The row key of the operation in doubt, and the resulting state if the operation took effect.
    doubt: Option<(String, Option<StoredEntity>)>,
    /// The operations whose response reported an unknown outcome, in the same form. Their entities are not written
    /// again.
    postponed: Rows<Option<StoredEntity>>,
}

impl EntityWriter {
    /// Creates a writer with a number and a random seed.
    pub fn new(number: u64, seed: u64) -> Self {
        let (partition, random) = (format!("writer{number}"), Random::new(seed));
        Self { partition, random, rows: Rows::new(), doubt: None, postponed: Rows::new() }
    }

    /// Returns the number of entities that should be stored.
    pub fn entities(&self) -> usize {
        self.rows.len()
    }

    /// Compares the stored entities with the model, and determines whether the operation in doubt took effect.
    pub fn check(&mut self, client: &mut Client, round: u64) {
        let path = format!("/crash()?$filter=PartitionKey%20eq%20'{}'", self.partition);
        let entities = client.query(&path, &[]).unwrap();
        let stored: Rows = entities.into_iter().map(|entity| stored(&self.partition, entity)).collect();
        let mut expected = self.rows.clone();
        if let Some((row, after)) = self.doubt.take() {
            let found = stored.get(&row);
            let happened = found.map(|found| &found.properties) == after.as_ref().map(|after| &after.properties)
                && found != self.rows.get(&row);
            if happened {
                // The ETag was never received.
                match found {
                    Some(found) => expected.insert(row, found.clone()),
                    None => expected.remove(&row),
                };
            }
        }
        assert_eq!(stored, expected, "{} in round {round}", self.partition);
        self.rows = stored;
    }

    /// Writes until `is_over` is set, whatever happens to the database. The server itself must keep running and
    /// respond.
    ///
    /// After `ServerBusy`, nothing was written. After `OperationTimedOut`, the write may have taken effect, so the
    /// entity is read after all other writes. No other error is allowed.
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
                    assert!(self.postponed.len() < 20, "too many operations have an unknown outcome");
                    tally.unknown.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        for (row, after) in std::mem::take(&mut self.postponed) {
            self.resolve_doubt(&mut client, &row, after.as_ref());
        }
    }

    fn resolve_doubt(&mut self, client: &mut Client, row: &str, after: Option<&StoredEntity>) {
        let path = format!("/crash(PartitionKey='{}',RowKey='{row}')", self.partition);
        let answer = eventually("an answer", || {
            let answer = client.request("GET", &path, &[], b"");
            fault(&answer).is_none().then_some(answer)
        });
        let found = match answer.status {
            200 => Some(stored(&self.partition, answer.json().as_object().unwrap().clone()).1),
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

    /// Chooses the next operation, which is in doubt from then on.
    fn plan(&mut self) -> PlannedOperation {
        let row = loop {
            let row = format!("{:03}", self.random.below(ROWS));
            if !self.postponed.contains_key(&row) {
                break row;
            }
        };
        let operation = Operation::any(&mut self.random);
        let before = self.rows.get(&row);
        let (expected, after) = operation.outcome(before.map(|stored| &stored.properties));
        let after = after.map(|properties| StoredEntity { properties, etag: None });
        self.doubt = Some((row.clone(), after.clone()));
        PlannedOperation { row, operation, expected, after }
    }
}

impl Writer for EntityWriter {
    type Sent = PlannedOperation;

    fn send(&mut self, client: &mut Client) -> std::io::Result<(PlannedOperation, Response)> {
        let write = self.plan();
        let answer = write.operation.send(client, &self.partition, &write.row)?;
        Ok((write, answer))
    }

    fn roll_back(&mut self) {
        self.doubt = None;
    }

    fn acknowledge(&mut self, write: PlannedOperation, answer: &Response) {
        let PlannedOperation { row, operation, expected, after } = write;
        assert_eq!(answer.status, expected, "{operation:?} of {row} {:?}: {answer:?}", self.rows.get(&row));
        self.doubt = None;
        if expected < 400 {
            let etag = answer.header("etag").map(str::to_owned);
            match after {
                Some(after) => self.rows.insert(row, StoredEntity { etag, ..after }),
                None => self.rows.remove(&row),
            };
        }
    }
}

/// An operation, its expected status, and the expected resulting state.
#[derive(Debug)]
pub struct PlannedOperation {
    row: String,
    operation: Operation,
    expected: u16,
    after: Option<StoredEntity>,
}

/// The numbers of responses that a writer received.
#[derive(Debug, Default)]
pub struct Tally {
    /// The number of operations that took effect.
    pub acknowledged: AtomicU64,
    /// The number of operations that did not take effect.
    pub busy: AtomicU64,
    /// The number of operations that may have taken effect.
    pub unknown: AtomicU64,
    /// The longest response time, in milliseconds.
    pub longest_ms: AtomicU64,
}

impl Tally {
    /// Returns the number of responses after which a client retries.
    pub fn faults(&self) -> u64 {
        self.busy.load(Ordering::SeqCst) + self.unknown.load(Ordering::SeqCst)
    }
}

/// Returns the code of an error response of a server that could not process the request. Clients automatically retry
/// after these two codes.
pub fn fault(answer: &Response) -> Option<&'static str> {
    let expected = match answer.status {
        503 => "ServerBusy",
        500 => "OperationTimedOut",
        _ => return None,
    };
    assert_eq!(answer.json()["odata.error"]["code"], expected, "{answer:?}");
    Some(expected)
}

fn stored(partition: &str, entity: Map<String, Value>) -> (String, StoredEntity) {
    let mut properties: Properties = entity.into_iter().collect();
    assert_eq!(properties.remove("PartitionKey"), Some(Value::from(partition)));
    properties.remove("odata.metadata");
    let mut text = |name| properties.remove(name).unwrap().as_str().unwrap().to_owned();
    let (row, etag) = (text("RowKey"), text("odata.etag"));
    text("Timestamp");
    (row, StoredEntity { properties, etag: Some(etag) })
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

/// Returns random properties of a few bytes to several KiB, different for every write.
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

/// A writer that repeatedly writes a whole partition in one transaction, so that all its entities have the same number.
#[derive(Debug)]
pub struct Transactions {
    number: u64,
    is_in_doubt: bool,
    random: Random,
}

impl Transactions {
    const ROWS: usize = 24;

    /// Creates a writer with a random seed.
    pub fn new(seed: u64) -> Self {
        Self { number: 0, is_in_doubt: false, random: Random::new(seed) }
    }

    /// Returns the number of entities that should be stored.
    pub fn entities(&self) -> usize {
        if self.number == 0 { 0 } else { Self::ROWS }
    }

    /// Returns an upsert with a string. The upserts of a transaction together exceed the size of a single write to a
    /// file. Row 99 does not exist, so its update fails.
    fn operation(&mut self, row: &str, number: u64) -> String {
        let text = format!("{:016x}", self.random.number()).repeat(usize::try_from(self.random.below(200)).unwrap());
        let condition = if row == "99" { "If-Match: *\r\n" } else { "" };
        format!(
            "PUT /crash(PartitionKey='transactions',RowKey='{row}') HTTP/1.1\r\n{condition}\
             Content-Type: application/json\r\n\r\n{}",
            json!({ "Number": number, "Text": text })
        )
    }

    /// Returns the number of the last stored transaction, after a check that it is stored as a whole.
    pub fn last(client: &mut Client) -> u64 {
        let answer = client.request("GET", "/crash()?$filter=PartitionKey%20eq%20'transactions'", &[], b"");
        let entities = answer.json()["value"].as_array().unwrap().clone();
        let numbers: Vec<_> = entities.iter().map(|entity| entity["Number"].as_u64().unwrap()).collect();
        let number = numbers.first().copied().unwrap_or(0);
        let rows = if number == 0 { 0 } else { Self::ROWS };
        assert_eq!(numbers, vec![number; rows], "a partial transaction");
        number
    }

    /// Compares the stored entities with the acknowledged transactions, and determines whether the transaction in doubt
    /// was committed.
    pub fn check(&mut self, client: &mut Client, round: u64) {
        let number = Self::last(client);
        let newest = self.number + u64::from(std::mem::take(&mut self.is_in_doubt));
        assert!((self.number..=newest).contains(&number), "{number} instead of {} in round {round}", self.number);
        self.number = number;
    }
}

impl Writer for Transactions {
    /// True if the transaction can succeed.
    type Sent = bool;

    fn send(&mut self, client: &mut Client) -> std::io::Result<(bool, Response)> {
        // A transaction whose last operation fails must change nothing.
        let is_possible = self.random.below(4) > 0;
        let (next, last) = (self.number + 1, if is_possible { "0" } else { "99" });
        let rows = (1..Self::ROWS).map(|row| row.to_string()).chain([last.to_owned()]);
        let operations: Vec<_> = rows.map(|row| self.operation(&row, next)).collect();
        self.is_in_doubt = is_possible;
        Ok((is_possible, transact(client, &operations)?))
    }

    fn roll_back(&mut self) {
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
    doubt: Option<String>,
    random: Random,
}

impl Catalog {
    /// Creates a writer with a random seed.
    pub fn new(seed: u64) -> Self {
        Self { tables: BTreeSet::new(), doubt: None, random: Random::new(seed) }
    }

    /// Compares the tables with the model, and determines whether the operation in doubt took effect.
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

impl Writer for Catalog {
    /// The table, and whether it existed before the operation.
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

    fn roll_back(&mut self) {
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
