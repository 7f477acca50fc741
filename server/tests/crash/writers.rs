//! Writers that keep a model of what they were told, and compare it with what is stored.

use super::support::{Client, Random, Response};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

const ROWS: u64 = 30;
/// How long a writer waits that was told that the server is busy.
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// How long a writer goes on.
#[derive(Clone, Copy)]
pub(crate) enum Until<'a> {
    /// Until the server is gone. Everything succeeds until then.
    Crash,
    /// Until this is true, or the server says that it does not know what it did. Writes may be refused.
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

/// What a server whose disk fails says of a write.
enum Faulty {
    /// It did not happen.
    Refused,
    /// It happened as a whole or not at all.
    Unknown,
}

/// Reads the answer of a server whose disk may fail. Where no disk fails, nothing but a crash may come between.
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

type Properties = BTreeMap<String, Value>;

/// What is known of one stored entity.
#[derive(Debug, Clone, PartialEq)]
struct Stored {
    properties: Properties,
    /// `None` for a write that was never acknowledged.
    etag: Option<String>,
}

type Rows = BTreeMap<String, Stored>;

/// A thread that writes entities of one partition.
pub(crate) struct Writer {
    partition: String,
    random: Random,
    rows: Rows,
    /// The row of the operation that was not acknowledged, and its state if the operation happened.
    doubt: Option<(String, Option<Stored>)>,
}

impl Writer {
    pub(crate) fn new(number: u64, seed: u64) -> Self {
        Self { partition: format!("writer{number}"), random: Random(seed), rows: Rows::new(), doubt: None }
    }

    /// How many entities are stored, as far as the writer knows.
    pub(crate) fn entities(&self) -> usize {
        self.rows.len()
    }

    /// Compares what is stored with what the writer knows, and learns what became of the operation in doubt.
    pub(crate) fn check(&mut self, client: &mut Client, round: u64) {
        let stored = stored_rows(client, self);
        self.learn(stored, round);
    }

    /// Writes until it is over.
    pub(crate) fn write(&mut self, address: &str, acknowledged: &Sender<()>, until: Until<'_>) {
        let Ok(mut client) = Client::connect(address) else { return };
        while !until.is_over() {
            let row = format!("{:03}", self.random.below(ROWS));
            let operation = Operation::any(&mut self.random);
            let before = self.rows.get(&row);
            let (expected, after) = operation.outcome(before.map(|stored| &stored.properties));
            let after = after.map(|properties| Stored { properties, etag: None });
            self.doubt = Some((row.clone(), after.clone()));
            let Ok(answer) = operation.send(&mut client, &self.partition, &row) else { return };
            match faulty(&answer, until) {
                Some(Faulty::Refused) => {
                    self.doubt = None;
                    continue;
                }
                // What became of it is seen once the fault is gone.
                Some(Faulty::Unknown) => return,
                None => {}
            }
            assert_eq!(answer.status, expected, "{operation:?} of {row} {before:?}: {answer:?}");
            self.doubt = None;
            if expected < 400 {
                let etag = answer.header("etag").map(str::to_owned);
                match after {
                    Some(after) => self.rows.insert(row, Stored { etag, ..after }),
                    None => self.rows.remove(&row),
                };
            }
            // Nobody listens any more once the server is killed.
            let _ = acknowledged.send(());
        }
    }

    fn learn(&mut self, stored: Rows, round: u64) {
        let mut expected = self.rows.clone();
        if let Some((row, after)) = self.doubt.take() {
            let found = stored.get(&row);
            let happened = found.map(|found| &found.properties) == after.as_ref().map(|after| &after.properties)
                && found != self.rows.get(&row);
            if happened {
                // Its ETag was never told.
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

/// Reads every entity of a writer's partition.
fn stored_rows(client: &mut Client, writer: &Writer) -> Rows {
    let path = format!("/crash()?$filter=PartitionKey%20eq%20'{}'", writer.partition);
    let answer = client.request("GET", &path, &[], b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("x-ms-continuation-nextpartitionkey"), None, "everything fits one page");
    let mut rows = Rows::new();
    for entity in answer.json()["value"].as_array().unwrap() {
        let mut properties: Properties = entity.as_object().unwrap().clone().into_iter().collect();
        assert_eq!(properties.remove("PartitionKey"), Some(Value::from(writer.partition.as_str())));
        let mut text = |name| properties.remove(name).unwrap().as_str().unwrap().to_owned();
        let (row, etag) = (text("RowKey"), text("odata.etag"));
        text("Timestamp");
        rows.insert(row, Stored { properties, etag: Some(etag) });
    }
    rows
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
                write!(text, "{:016x}", random.next()).unwrap();
            }
            properties.insert(name.to_owned(), text.into());
        }
    }
    properties
}

/// A thread that creates and deletes tables.
pub(crate) struct Catalog {
    tables: BTreeSet<String>,
    /// The table whose creation or deletion was not acknowledged.
    doubt: Option<String>,
    random: Random,
}

impl Catalog {
    pub(crate) fn new(seed: u64) -> Self {
        Self { tables: BTreeSet::new(), doubt: None, random: Random(seed) }
    }

    /// Writes until it is over.
    pub(crate) fn write(&mut self, address: &str, acknowledged: &Sender<()>, until: Until<'_>) {
        let Ok(mut client) = Client::connect(address) else { return };
        while !until.is_over() {
            let table = format!("table{}", self.random.below(5));
            let exists = self.tables.contains(&table);
            self.doubt = Some(table.clone());
            let answer = if exists {
                client.try_request("DELETE", &format!("/Tables('{table}')"), &[], b"")
            } else {
                client.try_request("POST", "/Tables", &[], json!({ "TableName": table }).to_string().as_bytes())
            };
            let Ok(answer) = answer else { return };
            match faulty(&answer, until) {
                Some(Faulty::Refused) => {
                    self.doubt = None;
                    continue;
                }
                Some(Faulty::Unknown) => return,
                None => {}
            }
            assert_eq!(answer.status, if exists { 204 } else { 201 }, "{table}: {answer:?}");
            self.doubt = None;
            if exists {
                self.tables.remove(&table);
            } else {
                self.tables.insert(table);
            }
            // Nobody listens any more once the server is killed.
            let _ = acknowledged.send(());
        }
    }

    /// Compares what is stored with what the writer knows, and learns what became of the operation in doubt.
    pub(crate) fn check(&mut self, client: &mut Client, round: u64) {
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
