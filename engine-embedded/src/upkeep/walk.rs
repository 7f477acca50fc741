//! Reads every key and value of a database, and reports damage and unexpected entries.

use crate::disk::layout::{self, EngineEntry, EngineEntryError, TableId, TableIndex};
use crate::reading::snapshot::EmbeddedSnapshot;
use crate::tree::{Key, Tree, Value};
use engine::check::{CheckReport, ENTITIES_BETWEEN_REPORTS, check_entity, check_snapshot};
use engine::parts::cancellation::Cancellation;
use engine::parts::index;
use engine::snapshot::SnapshotContents;
use model::DateTime;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::Path;

/// The report refers to the database by the path `database`. For `read`, see [`check_snapshot`].
pub(crate) fn check(tree: &Tree, database: &Path, report: &mut CheckReport, read: &dyn Fn(u64) -> bool) {
    let contents =
        SnapshotContents { last_stamp: DateTime::MIN, properties: Vec::new(), tables: Vec::new(), position: None };
    let (snapshot, closing) = (tree.snapshot(), Cancellation::default());
    let tables = EmbeddedSnapshot { contents, ids: Vec::new(), snapshot, closing, _folder: None };
    let (ids, purged, indexes) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut walk = Walk { database, report, tables, ids, purged, indexes, next_table_id: None };
    walk.own_entries();
    if check_snapshot(&walk.tables, walk.report, read) && walk.outside_tables(read) {
        walk.all_indexes(read);
    }
}

struct Walk<'a> {
    database: &'a Path,
    report: &'a mut CheckReport,
    tables: EmbeddedSnapshot,
    /// The IDs of all tables and indexes, including deleted ones.
    ids: BTreeSet<TableId>,
    purged: BTreeSet<TableId>,
    /// The indexes, each with the ID of its table.
    indexes: Vec<(TableId, TableIndex)>,
    next_table_id: Option<TableId>,
}

impl Walk<'_> {
    /// The visitor returns whether to continue. Stops at the first unreadable entry.
    fn range(&mut self, range: (Bound<[u8; 8]>, Bound<[u8; 8]>), mut visit: impl FnMut(&mut Self, Key, Value) -> bool) {
        let mut last: Option<Key> = None;
        for entry in self.tables.snapshot.range(range) {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let after = match last {
                        Some(last) => format!("the data after the key {}", last.escape_ascii()),
                        None => "the first key of a range".to_owned(),
                    };
                    let place = format_args!("{}: {after}", self.database.display());
                    return self.report.problem(place, error);
                }
            };
            last = Some(key.clone());
            if !visit(self, key, value) {
                return;
            }
        }
    }

    fn own_entries(&mut self) {
        self.range((Bound::Unbounded, Bound::Excluded(TableId::FIRST.to_bytes())), |walk, key, value| {
            if let Err(what) = walk.own_entry(&key, &value) {
                walk.report.problem(format_args!("the key {}", key.escape_ascii()), what);
            }
            true
        });
        let next = self.next_table_id.unwrap_or(TableId::FIRST);
        if self.ids.last().is_some_and(|highest| *highest >= next) {
            let key = layout::NEXT_TABLE_ID.escape_ascii();
            self.report
                .problem(format_args!("the key {key}"), "the ID of the next table is missing or was already issued");
        }
    }

    fn own_entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let contents = &mut self.tables.contents;
        match layout::decode_engine_entry(key, value) {
            Ok(EngineEntry::NextTableId(id)) => self.next_table_id = Some(id),
            Ok(EngineEntry::LastStamp(stamp)) => contents.last_stamp = stamp,
            Ok(EngineEntry::ServiceProperties(account, properties)) => contents.properties.push((account, *properties)),
            Ok(EngineEntry::Table(entry)) => {
                for id in entry.ids() {
                    self.take_id(id)?;
                }
                self.indexes.extend(entry.indexes.iter().map(|index| (entry.id, index.clone())));
                self.tables.ids.push(entry.id);
                self.tables.contents.tables.push(entry.into_snapshot());
            }
            Ok(EngineEntry::Purge(id)) => {
                self.take_id(id)?;
                self.purged.insert(id);
            }
            // While its entities are removed, the purge names it too.
            Ok(EngineEntry::Deleted(_)) => {}
            Err(EngineEntryError::Damaged(what)) => {
                if key == layout::LAST_STAMP {
                    // Otherwise, every Timestamp would be reported as too late.
                    contents.last_stamp = DateTime::MAX;
                }
                return Err(what);
            }
            Err(EngineEntryError::UnknownKind) => {
                return Err("this version of Rowhouse does not know this kind of key");
            }
        }
        Ok(())
    }

    fn take_id(&mut self, id: TableId) -> Result<(), &'static str> {
        if id < TableId::FIRST {
            return Err("no table has its ID");
        }
        if self.ids.insert(id) { Ok(()) } else { Err("another table has the same ID") }
    }

    /// Also reports entities that belong to no table. Returns whether the check continues.
    fn outside_tables(&mut self, read: &dyn Fn(u64) -> bool) -> bool {
        let mut from = Bound::Included(TableId::FIRST.to_bytes());
        for id in std::mem::take(&mut self.ids) {
            let (start, end) = (id.to_bytes(), id.next().to_bytes());
            self.strangers(from, Bound::Excluded(start));
            if self.purged.contains(&id) && !self.purged_entities((Bound::Included(start), Bound::Excluded(end)), read)
            {
                return false;
            }
            from = Bound::Included(end);
        }
        self.strangers(from, Bound::Unbounded);
        true
    }

    /// Compares the indexes with the entities.
    fn all_indexes(&mut self, read: &dyn Fn(u64) -> bool) {
        for (table, index) in std::mem::take(&mut self.indexes) {
            let mut seen = 0_u64;
            // The entities have been counted before.
            let mut goes_on = || {
                seen += 1;
                !seen.is_multiple_of(ENTITIES_BETWEEN_REPORTS) || read(0)
            };
            self.entries(table, &index, &mut goes_on);
            if index.is_ready {
                self.indexed_entities(table, &index, &mut goes_on);
            }
            if !read(0) {
                return;
            }
        }
    }

    /// Checks that each entry belongs to an entity.
    fn entries(&mut self, table: TableId, index: &TableIndex, goes_on: &mut dyn FnMut() -> bool) {
        self.range(of_id(index.id), |walk, full_key, value| {
            let entry = layout::key_in_table(&full_key).unwrap_or_default();
            let key = index::key_of_entry(entry).unwrap_or_default();
            let record = walk.stored(&layout::entity_key(table, key));
            let expected = record.and_then(|record| index::entry_of(&index.property, key, &record));
            if expected.as_deref() != Some(entry) || !value.is_empty() {
                let place = format!("the key {}", full_key.escape_ascii());
                walk.report.problem(place, format_args!("no entity has this entry in the index of {}", index.property));
            }
            goes_on()
        });
    }

    /// Checks that each entity has its entry.
    fn indexed_entities(&mut self, table: TableId, index: &TableIndex, goes_on: &mut dyn FnMut() -> bool) {
        self.range(of_id(table), |walk, full_key, record| {
            let key = layout::key_in_table(&full_key).unwrap_or_default();
            if let Some(entry) = index::entry_of(&index.property, key, &record)
                && walk.stored(&layout::entity_key(index.id, &entry)).is_none()
            {
                let place = format!("the key {}", full_key.escape_ascii());
                walk.report.problem(place, format_args!("the index of {} lacks the entity", index.property));
            }
            goes_on()
        });
    }

    /// A value that cannot be read is reported, and counts as missing.
    fn stored(&mut self, key: &[u8]) -> Option<Value> {
        self.tables.snapshot.get(key).unwrap_or_else(|error| {
            self.report.problem(format_args!("the key {}", key.escape_ascii()), error);
            None
        })
    }

    /// Checks what a purge has not removed yet: the entities of a deleted table, or the entries of an index, which have
    /// no value. Returns whether the check continues.
    fn purged_entities(&mut self, range: (Bound<[u8; 8]>, Bound<[u8; 8]>), read: &dyn Fn(u64) -> bool) -> bool {
        let last_stamp = self.tables.contents.last_stamp;
        let (mut entities, mut entries, mut goes_on) = (0_u64, 0_u64, true);
        self.range(range, |walk, key, record| {
            let in_table = layout::key_in_table(&key).unwrap_or_default();
            if record.is_empty() && index::key_of_entry(in_table).is_some() {
                entries += 1;
                goes_on = !entries.is_multiple_of(ENTITIES_BETWEEN_REPORTS) || read(0);
                return goes_on;
            }
            if let Err(what) = check_entity(in_table, &record, last_stamp) {
                walk.report.problem(format_args!("the key {}", key.escape_ascii()), what);
            }
            entities += 1;
            goes_on = !entities.is_multiple_of(ENTITIES_BETWEEN_REPORTS) || read(ENTITIES_BETWEEN_REPORTS);
            goes_on
        });
        self.report.purged_entities += entities;
        goes_on && read(entities % ENTITIES_BETWEEN_REPORTS)
    }

    fn strangers(&mut self, start: Bound<[u8; 8]>, end: Bound<[u8; 8]>) {
        if matches!((start, end), (Bound::Included(start), Bound::Excluded(end)) if end <= start) {
            return;
        }
        self.range((start, end), |walk, key, _| {
            walk.report.problem(format_args!("the key {}", key.escape_ascii()), "it belongs to no table");
            true
        });
    }
}

fn of_id(id: TableId) -> (Bound<[u8; 8]>, Bound<[u8; 8]>) {
    (Bound::Included(id.to_bytes()), Bound::Excluded(id.next().to_bytes()))
}
