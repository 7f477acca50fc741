//! Reads every key and value of a database, and finds what does not belong there.

use super::check::{CheckReport, CheckedTable};
use super::layout::{self, TableId};
use super::storage::Storage;
use crate::engine::TableKey;
use crate::properties_value;
use fjall::Readable;
use model::{DateTime, EntityView, KeyText};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

/// How many entities are read between two reports.
const ENTITIES_BETWEEN_REPORTS: u64 = 256;

/// A key and its value.
type Entry = (fjall::UserKey, fjall::UserValue);

/// What an id stands for.
enum Owner {
    Table(TableKey),
    /// A deleted table.
    Purged,
}

/// A check of a database under way.
pub(super) struct Walk<'a> {
    storage: &'a Storage,
    snapshot: fjall::Snapshot,
    /// What is checked, for people.
    database: &'a Path,
    report: &'a mut CheckReport,
    read: &'a dyn Fn(u64) -> bool,
    owners: BTreeMap<TableId, Owner>,
    next_table_id: Option<TableId>,
    last_stamp: DateTime,
    is_stopped: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        storage: &'a Storage,
        database: &'a Path,
        report: &'a mut CheckReport,
        read: &'a dyn Fn(u64) -> bool,
    ) -> Self {
        Self {
            snapshot: storage.db.snapshot(),
            storage,
            database,
            report,
            read,
            owners: BTreeMap::new(),
            next_table_id: None,
            last_stamp: DateTime::MIN,
            is_stopped: false,
        }
    }

    /// Reads everything.
    pub(super) fn run(mut self) {
        let first_entity = TableId::FIRST.to_bytes().to_vec();
        self.range(Bound::Unbounded, Bound::Excluded(first_entity), Self::own_entry);
        self.check_ids();
        let owners = std::mem::take(&mut self.owners);
        let mut from = TableId::FIRST.to_bytes().to_vec();
        for (id, owner) in owners {
            let (start, end) = (id.to_bytes().to_vec(), id.next().to_bytes().to_vec());
            self.strangers(from, Bound::Excluded(start.clone()));
            let (entities, bytes) = self.table(start, end.clone());
            match owner {
                Owner::Table(table) => self.report.tables.push(CheckedTable { table, entities, bytes }),
                Owner::Purged => self.report.purged_entities += entities,
            }
            from = end;
        }
        self.strangers(from, Bound::Unbounded);
        let name =
            |table: &CheckedTable| (table.table.account.as_str().to_owned(), table.table.name.folded().to_owned());
        self.report.tables.sort_by_key(name);
    }

    /// Gives the entries of a range to the visitor, until one cannot be read.
    fn range(
        &mut self,
        start: Bound<Vec<u8>>,
        end: Bound<Vec<u8>>,
        mut visit: impl FnMut(&mut Self, Entry, Option<&[u8]>),
    ) {
        let mut last: Option<Vec<u8>> = None;
        for entry in self.snapshot.range(&self.storage.data, (start, end)) {
            match entry.into_inner() {
                Ok(entry) => {
                    let key = entry.0.to_vec();
                    visit(self, entry, last.as_deref());
                    last = Some(key);
                }
                Err(error) => {
                    let after = match &last {
                        Some(last) => format!("after the key {}", last.escape_ascii()),
                        None => "the first key of a range".to_owned(),
                    };
                    let place = format_args!("{}: {after}", self.database.display());
                    return self.report.problem(place, format_args!("the storage library cannot read on: {error}"));
                }
            }
            if self.is_stopped {
                return;
            }
        }
    }

    /// Looks at an entry that is the engine's own.
    fn own_entry(&mut self, (key, value): Entry, _: Option<&[u8]>) {
        let is_good = if *key == *layout::NEXT_TABLE_ID {
            self.next_table_id = TableId::from_bytes(&value);
            self.next_table_id.is_some()
        } else if *key == *layout::LAST_STAMP {
            let stamp = layout::decode_stamp(&value);
            self.last_stamp = stamp.unwrap_or(DateTime::MAX);
            stamp.is_some()
        } else if key.starts_with(layout::CATALOG_PREFIX) {
            let entry = layout::decode_catalog_entry(&key, &value);
            entry.is_some_and(|entry| self.own(entry.id, Owner::Table(entry.table)))
        } else if key.starts_with(layout::PURGE_PREFIX) {
            let id = layout::decode_purge_key(&key).filter(|_| *value == *layout::PURGE_VALUE);
            id.is_some_and(|id| self.own(id, Owner::Purged))
        } else if key.starts_with(layout::SERVICE_PROPERTIES_PREFIX) {
            layout::decode_service_properties_key(&key).is_some() && properties_value::decode(&value).is_some()
        } else {
            false
        };
        if !is_good {
            let what = match key.get(size_of::<TableId>()) {
                Some(b'c') => "the entry of a table cannot be read, or its id is that of another table",
                Some(b'p') => "the marker of a deleted table cannot be read, or its id is that of another table",
                Some(b's') => "the service properties of an account cannot be read",
                Some(b'm') => "the number cannot be read, or is not known",
                _ => "nobody knows this kind of key",
            };
            self.report.problem(format_args!("the key {}", key.escape_ascii()), what);
        }
    }

    /// Whether an id had no owner yet.
    fn own(&mut self, id: TableId, owner: Owner) -> bool {
        id >= TableId::FIRST && self.owners.insert(id, owner).is_none()
    }

    fn check_ids(&mut self) {
        let next = self.next_table_id.unwrap_or(TableId::FIRST);
        if self.owners.keys().next_back().is_some_and(|highest| *highest >= next) {
            let place = format!("the key {}", layout::NEXT_TABLE_ID.escape_ascii());
            self.report.problem(place, "the id of the next table is missing or was already given out");
        }
    }

    /// Reads the entities of a table; answers their number and their bytes.
    fn table(&mut self, start: Vec<u8>, end: Vec<u8>) -> (u64, u64) {
        let (mut entities, mut bytes) = (0_u64, 0);
        self.range(Bound::Included(start), Bound::Excluded(end), |walk, (key, record), last| {
            if last.is_some_and(|last| last >= &*key) {
                walk.report.problem(format_args!("the key {}", key.escape_ascii()), "it is not in order");
            }
            if let Err(what) = walk.entity(layout::key_in_table(&key).unwrap_or_default(), &record) {
                walk.report.problem(format_args!("the key {}", key.escape_ascii()), what);
            }
            entities += 1;
            bytes += (key.len() + record.len()) as u64;
            if entities.is_multiple_of(ENTITIES_BETWEEN_REPORTS) {
                walk.is_stopped = !(walk.read)(ENTITIES_BETWEEN_REPORTS);
            }
        });
        self.is_stopped |= !(self.read)(entities % ENTITIES_BETWEEN_REPORTS);
        (entities, bytes)
    }

    fn entity(&self, key: &[u8], record: &[u8]) -> Result<(), &'static str> {
        let entity = EntityView::new(key, record).map_err(|_| "the key or the record of an entity cannot be read")?;
        let is_key = |text: &str| KeyText::new(text).is_ok();
        if !is_key(&entity.key.partition) || !is_key(&entity.key.row) {
            return Err("no entity can have this key");
        }
        entity.record.check().map_err(|_| "the record of an entity cannot be read")?;
        if entity.record.timestamp() > self.last_stamp {
            return Err("its Timestamp is later than the highest that was given out");
        }
        Ok(())
    }

    /// Reports entities where there is no table.
    fn strangers(&mut self, start: Vec<u8>, end: Bound<Vec<u8>>) {
        if matches!(&end, Bound::Excluded(end) if *end <= start) {
            return;
        }
        self.range(Bound::Included(start), end, |walk, (key, _), _| {
            walk.report.problem(format_args!("the key {}", key.escape_ascii()), "it belongs to no table");
        });
    }
}
