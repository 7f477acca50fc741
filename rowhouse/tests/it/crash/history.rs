//! Writers that know what must be stored after a power loss at any moment of the record.
//!
//! Before and after each write, a writer notes the length of the log of `disk.c`. A power loss at a position of the log
//! must preserve the writes that were acknowledged before it, must not show the writes that were sent after it, and
//! must preserve all or nothing of each write in between.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use test_support::{Client, Random, Response, outcome, statuses, transact};

/// The maximum number of characters in a string property.
const TEXT_CHARACTERS: usize = 30_000;
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// A writer stops when it does not know this many outcomes.
const UNKNOWN_MAX: usize = 20;
/// The maximum number of rows in a write after the first one, of large and of other entities.
const MORE_LARGE_ROWS_MAX: u64 = 3;
const MORE_ROWS_MAX: u64 = 30;

/// The time after the last write at which everything in memory is flushed and merged, with some reserve.
pub(super) const IDLE: Duration = Duration::from_millis(900);

/// The version of each stored entity, by its row.
pub(super) type Versions = BTreeMap<u64, u64>;

#[derive(Debug)]
struct Write {
    rows: Vec<u64>,
    /// `None` for a deletion.
    version: Option<u64>,
    /// The length of the log before the write was sent.
    sent: u64,
    /// The length of the log after the write was acknowledged. `None` if its outcome is unknown.
    acknowledged: Option<u64>,
}

impl Write {
    fn apply(&self, versions: &mut Versions) {
        for row in &self.rows {
            match self.version {
                Some(version) => versions.insert(*row, version),
                None => versions.remove(row),
            };
        }
    }
}

/// Lets writers work for some time. `log` is the log of the disk.
pub(super) fn work(address: &str, log: &Path, writers: &mut [HistoryWriter], time: Duration) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in writers {
            scope.spawn(|| writer.write(address, log, &is_over));
        }
        thread::sleep(time);
        is_over.store(true, Ordering::SeqCst);
    });
}

/// Writes to one partition, one write after the other.
#[derive(Debug)]
pub(super) struct HistoryWriter {
    number: u64,
    rows: u64,
    bytes_max: usize,
    random: Random,
    next_version: u64,
    before: Versions,
    current: Versions,
    history: Vec<Write>,
    /// The rows of writes whose outcome is unknown. They are not written again.
    unknown: BTreeSet<u64>,
}

impl HistoryWriter {
    pub(super) fn new(number: u64, rows: u64, bytes_max: usize, seed: u64) -> Self {
        let random = Random::new(seed);
        let (before, current) = (Versions::new(), Versions::new());
        let (history, unknown) = (Vec::new(), BTreeSet::new());
        let writer = Self { number, rows, bytes_max, random, next_version: 1, before, current, history, unknown };
        assert!(rows >= UNKNOWN_MAX as u64 + writer.more_rows_max(), "no row might be left to write");
        writer
    }

    /// Returns the number of acknowledged writes.
    pub(super) fn acknowledged(&self) -> usize {
        self.history.iter().filter(|write| write.acknowledged.is_some()).count()
    }

    /// Writes until `is_over` is set or the server is down.
    pub(super) fn write(&mut self, address: &str, log: &Path, is_over: &AtomicBool) {
        let position = || fs::metadata(log).unwrap().len();
        let Ok(mut client) = Client::connect(address) else { return };
        while !is_over.load(Ordering::SeqCst) && self.unknown.len() < UNKNOWN_MAX {
            let mut write = self.plan(position());
            let answer = self.send(&mut client, &write);
            match &answer {
                Ok(answer) if outcome(answer).0 == 503 => {
                    thread::sleep(BUSY_PAUSE);
                    continue;
                }
                Ok(answer) if outcome(answer).0 == 500 => self.unknown.extend(&write.rows),
                Ok(answer) => {
                    let expected = if write.rows.len() > 1 { 202 } else { 204 };
                    assert_eq!(answer.status, expected, "{write:?}: {answer:?}");
                    if expected == 202 {
                        assert_eq!(statuses(answer), vec![204; write.rows.len()]);
                    }
                    write.acknowledged = Some(position());
                    write.apply(&mut self.current);
                }
                Err(_) => {}
            }
            self.history.push(write);
            if answer.is_err() {
                return;
            }
        }
    }

    fn plan(&mut self, sent: u64) -> Write {
        let kind = self.random.below(16);
        let count = if kind < 3 { 2 + self.random.below(self.more_rows_max()) } else { 1 };
        let mut rows = BTreeSet::new();
        while (rows.len() as u64) < count {
            rows.insert(self.random.below(self.rows));
            rows = &rows - &self.unknown;
        }
        let rows: Vec<_> = rows.into_iter().collect();
        if kind == 3 && self.current.contains_key(&rows[0]) {
            return Write { rows, version: None, sent, acknowledged: None };
        }
        self.next_version += 1;
        Write { rows, version: Some(self.next_version), sent, acknowledged: None }
    }

    fn send(&self, client: &mut Client, write: &Write) -> std::io::Result<Response> {
        let path = |row: &u64| format!("/crash(PartitionKey='p{}',RowKey='{row:05}')", self.number);
        match (write.version, write.rows.as_slice()) {
            (None, rows) => client.try_request("DELETE", &path(&rows[0]), &[("If-Match", "*")], b""),
            (Some(version), [row]) => {
                let (method, body) = self.upsert(*row, version);
                client.try_request(method, &path(row), &[], body.as_bytes())
            }
            (Some(version), rows) => {
                let operation = |row: &u64| {
                    let (method, body) = self.upsert(*row, version);
                    format!("{method} {} HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{body}", path(row))
                };
                transact(client, &rows.iter().map(operation).collect::<Vec<_>>())
            }
        }
    }

    /// Returns the method and the body of a request that stores an entity. The strings of a large entity are sent only
    /// once; the server writes all of it again when its version changes.
    fn upsert(&self, row: u64, version: u64) -> (&'static str, String) {
        if self.has_large_rows() && self.current.contains_key(&row) {
            return ("MERGE", json!({ "Version": version.to_string() }).to_string());
        }
        ("PUT", Value::from(self.properties(row, version)).to_string())
    }

    fn more_rows_max(&self) -> u64 {
        if self.has_large_rows() { MORE_LARGE_ROWS_MAX } else { MORE_ROWS_MAX }
    }

    fn has_large_rows(&self) -> bool {
        self.bytes_max > TEXT_CHARACTERS
    }

    /// Returns the properties of an entity, which depend only on its key and version. They cannot be compressed much.
    fn properties(&self, row: u64, version: u64) -> Map<String, Value> {
        let is_large = self.has_large_rows();
        let mut random = Random::new((self.number << 56) ^ (row << 40) ^ if is_large { 0 } else { version });
        let least = if is_large { self.bytes_max / 2 } else { 0 };
        let mut left = least + random.index(self.bytes_max - least);
        let mut properties = Map::new();
        properties.insert("Version".to_owned(), version.to_string().into());
        while left > 0 {
            let characters = left.min(TEXT_CHARACTERS);
            let mut text = String::with_capacity(characters + 8);
            while text.len() < characters {
                text.extend(random.number().to_le_bytes().map(|byte| char::from(b'0' + byte % 32)));
            }
            text.truncate(characters);
            properties.insert(format!("Text{}", properties.len()), text.into());
            left -= characters;
        }
        properties
    }

    /// Compares the stored entities with what must be there after a power loss at the given position of the log.
    /// Returns what is stored, or the response of a server that cannot read it.
    pub(super) fn check(&self, client: &mut Client, position: u64) -> Result<Versions, Response> {
        self.check_except(client, position, u64::MAX)
    }

    /// Does the same, but also allows that writes are missing that were acknowledged after the position `lost`.
    pub(super) fn check_except(&self, client: &mut Client, position: u64, lost: u64) -> Result<Versions, Response> {
        let stored = self.stored(client)?;
        let mut expected = self.before.clone();
        for write in self.history.iter().take_while(|write| write.sent < position) {
            if write.acknowledged.is_some_and(|at| at <= position && at < lost) {
                write.apply(&mut expected);
            } else {
                let mut happened = expected.clone();
                write.apply(&mut happened);
                let row = &write.rows[0];
                if stored.get(row) == happened.get(row) {
                    expected = happened;
                }
            }
        }
        let is_different = |row: &&u64| stored.get(row) != expected.get(row);
        let rows: BTreeSet<_> = stored.keys().chain(expected.keys()).filter(is_different).collect();
        let different: Vec<_> = rows
            .iter()
            .take(5)
            .map(|row| {
                let writes: Vec<_> = self.history.iter().filter(|write| write.rows.contains(row)).collect();
                (row, stored.get(row), expected.get(row), writes)
            })
            .collect();
        assert!(
            different.is_empty(),
            "p{} has {} wrong rows after a power loss at {position}; row, found, expected, history: {different:?}",
            self.number,
            rows.len()
        );
        Ok(stored)
    }

    /// Continues from what a power loss left.
    pub(super) fn continue_from(&mut self, stored: Versions) {
        self.before.clone_from(&stored);
        self.current = stored;
        self.history.clear();
        self.unknown.clear();
    }

    fn stored(&self, client: &mut Client) -> Result<Versions, Response> {
        let mut stored = Versions::new();
        let path = format!("/crash()?$filter=PartitionKey%20eq%20'p{}'", self.number);
        for mut found in client.query(&path, &[("Accept", "application/json;odata=nometadata")])? {
            let [partition, row, _] = ["PartitionKey", "RowKey", "Timestamp"].map(|name| found.remove(name).unwrap());
            assert_eq!(partition, format!("p{}", self.number));
            let row = row.as_str().unwrap().parse().unwrap();
            let version = found["Version"].as_str().unwrap().parse().unwrap();
            assert!(found == self.properties(row, version), "p{} {row} {version} has wrong properties", self.number);
            stored.insert(row, version);
        }
        Ok(stored)
    }
}
