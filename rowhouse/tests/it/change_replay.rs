//! A reader of the change feed that follows servers through faults.
//!
//! It applies each change once, in order, and resumes after the last one that it has read. If a change were missing or
//! repeated, or if one that was read did not survive a fault, the result would differ from what is stored.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use test_support::Client;

type Entities = BTreeMap<(String, String), Map<String, Value>>;

pub(crate) const WITHOUT_METADATA: [(&str, &str); 1] = [("Accept", "application/json;odata=nometadata")];

/// The state that follows from the changes up to the last position.
#[derive(Debug, Default)]
pub(crate) struct ChangeReplay {
    /// The row key of the last change; empty at first.
    last: String,
    tables: BTreeMap<String, Entities>,
    changes: u64,
}

impl ChangeReplay {
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Applies changes as they are committed, until the server is down or the flag is set.
    pub(crate) fn follow(&mut self, address: &str, is_over: &AtomicBool) {
        let Ok(mut client) = Client::connect(address) else { return };
        while !is_over.load(Ordering::SeqCst) && self.read(&mut client).is_ok() {}
    }

    pub(crate) fn has_table(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    /// Applies the changes that can be read now. Fails if the server is down.
    pub(crate) fn read(&mut self, client: &mut Client) -> io::Result<()> {
        let mut continuation = String::new();
        loop {
            let path = format!("/$Changes()?$filter=RowKey%20gt%20'{}'{continuation}", self.last);
            let answer = client.try_request("GET", &path, &WITHOUT_METADATA, b"")?;
            if answer.status == 503 {
                continue;
            }
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            for row in answer.results() {
                self.apply(row);
            }
            continuation = answer.continuation();
            if continuation.is_empty() {
                return Ok(());
            }
        }
    }

    fn apply(&mut self, mut row: Map<String, Value>) {
        let mut take = |name: &str| row.remove(name).map(|value| value.as_str().unwrap().to_owned());
        let position = take("RowKey").unwrap();
        assert!(self.last < position, "{position} follows {}", self.last);
        self.last = position;
        self.changes += 1;
        let (operation, table) = (take("Operation").unwrap(), take("Table").unwrap().to_lowercase());
        let key = take("Entity_PartitionKey").zip(take("Entity_RowKey"));
        let tables = &mut self.tables;
        match (operation.as_str(), key) {
            ("CreateTable", None) => assert!(tables.insert(table, Entities::new()).is_none(), "a table exists"),
            ("DeleteTable", None) => assert!(tables.remove(&table).is_some(), "no table is deleted"),
            ("Put", Some(key)) => {
                let own = row.into_iter();
                let own = own.filter_map(|(name, value)| Some((name.strip_prefix("Entity_")?.to_owned(), value)));
                tables.get_mut(&table).unwrap().insert(key, own.collect());
            }
            ("Delete", Some(key)) => {
                assert!(tables.get_mut(&table).unwrap().remove(&key).is_some(), "no entity is deleted");
            }
            (operation, key) => panic!("{operation} {key:?}"),
        }
    }

    /// Reads the rest of the changes, and compares their result with what is stored.
    pub(crate) fn check(&mut self, client: &mut Client) {
        self.read(client).unwrap();
        let tables = client.query("/Tables?", &WITHOUT_METADATA).unwrap();
        let mut tables: Vec<_> =
            tables.into_iter().map(|table| table["TableName"].as_str().unwrap().to_lowercase()).collect();
        tables.sort();
        assert!(self.tables.keys().eq(&tables), "the changes result in {:?}, not {tables:?}", self.tables.keys());
        for table in tables {
            let mut stored = Entities::new();
            for mut entity in client.query(&format!("/{table}()?"), &WITHOUT_METADATA).unwrap() {
                let mut take = |name| entity.remove(name).unwrap().as_str().unwrap().to_owned();
                let key = (take("PartitionKey"), take("RowKey"));
                stored.insert(key, entity);
            }
            assert!(self.tables[&table] == stored, "the changes of {table} do not result in what is stored");
        }
    }
}
