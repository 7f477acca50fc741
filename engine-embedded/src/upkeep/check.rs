//! Checks an entire data folder without changing anything in it.
//!
//! The storage library can only open a tree for writing: it deletes unknown files. The check therefore opens a
//! temporary folder with links to the sorted files, which never change, and with copies of everything else. The log is
//! only read.
//!
//! Invariant: in the checked folder, files are opened only for reading.

use crate::disk::folder::{self, Folder};
use crate::disk::layout::{self, EngineEntry, EngineEntryError, TableId, TableIndex};
use crate::disk::manifest::{self, Damage, Manifest, TABLES};
use crate::disk::open_error::OpenError;
use crate::disk::storage::{Storage, inspect_log};
use crate::disk::storage_error::StorageError;
use crate::reading::EmbeddedSnapshot;
use crate::tree::{Key, Tree, Value};
use engine::check::{CheckReport, ENTITIES_BETWEEN_REPORTS, check_entity, check_snapshot};
use engine::parts::cancellation::Cancellation;
use engine::parts::index;
use engine::snapshot::SnapshotContents;
use model::DateTime;
use platform::files::{is_too_many_open_files, link_to_read};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::path::{Path, PathBuf};

fn report_unreadable(files: Vec<PathBuf>, report: &mut CheckReport) {
    for file in files {
        report.problem(file.display(), "its checksum does not match the manifest");
    }
}

fn note_orphans(files: &[PathBuf], report: &mut CheckReport) {
    let what = "the manifest does not list it, which can happen after a crash; it will be removed at the next startup";
    report.notes.extend(files.iter().map(|file| format!("{}: {what}", file.display())));
}

/// An error that is not damage means that the folder could not be checked.
fn report_damage(error: OpenError, report: &mut CheckReport) -> Result<(), OpenError> {
    match error {
        OpenError::Damaged { path, what } => report.problem(path.display(), what),
        OpenError::Storage { path, source } => report.problem(path.display(), source),
        other => return Err(other),
    }
    Ok(())
}

/// Checks a folder that no process has open. `scratch` is an empty folder for temporary files, with room for a
/// copy of the lists of sorted files. For `read`, see [`check_snapshot`](engine::check_snapshot).
///
/// An error means that the folder could not be checked. Damage is reported in the result.
pub fn check_folder(path: &Path, scratch: &Path, read: &dyn Fn(u64) -> bool) -> Result<CheckReport, OpenError> {
    let mut report = CheckReport::default();
    let folder = match Folder::acquire_to_read(path) {
        Ok(folder) => folder,
        Err(error) => return report_damage(error, &mut report).map(|()| report),
    };
    let (tree, log) = (folder.tree(), folder.log());
    check_log(&log, &mut report)?;
    let SortedFiles { unnamed, preceding } = check_sorted_files(&tree, &mut report)?;
    if !report.problems.is_empty() {
        // The library would repair anything that looks like the result of a crash, and then show different contents.
        report_unreadable(unnamed, &mut report);
        return Ok(report);
    }
    copy_to_read(&tree, scratch).map_err(|error| OpenError::io("copy for the check to", scratch, error))?;
    if let Some((manifest, _)) = &preceding {
        manifest.make_current(scratch)?;
    }
    match Storage::open_read_only(scratch, &log) {
        Ok(opened) => {
            report.notes.extend(preceding.map(|(_, damage)| {
                format!(
                    "{}: a crash interrupted a change of the sorted files; the manifest before it and the log contain \
                     everything, and are used at the next startup",
                    damage.path.display()
                )
            }));
            let named = opened.sorted_files();
            let is_named = |file: &PathBuf| file.file_name().is_some_and(|name| named.contains(name));
            let (damaged, orphans): (Vec<_>, Vec<_>) = unnamed.into_iter().partition(is_named);
            report_unreadable(damaged, &mut report);
            note_orphans(&orphans, &mut report);
            walk_tree(&opened, path, &mut report, read);
        }
        // The copy could not be opened, for a reason unrelated to the checked folder.
        Err(OpenError::Storage { source, .. }) if is_of_scratch(&source) => {
            return Err(OpenError::Storage { path: scratch.to_owned(), source });
        }
        Err(error) => {
            report_unreadable(unnamed, &mut report);
            if let Some((_, damage)) = preceding {
                report.problem(damage.path.display(), damage.what);
            }
            match error {
                OpenError::Damaged { path, what } if path.starts_with(&log) => {
                    report.problem(path.display(), what);
                }
                // The library's error names the copy, which will soon be removed.
                OpenError::Storage { source, .. } => report.problem(tree.display(), source),
                OpenError::Damaged { what, .. } => report.problem(tree.display(), what),
                other => return Err(other),
            }
        }
    }
    Ok(report)
}

fn check_log(log: &Path, report: &mut CheckReport) -> Result<(), OpenError> {
    match inspect_log(log, None) {
        Ok(inspected) => {
            report.notes.extend(inspected.cut.map(|cut| {
                format!(
                    "{}: the log ends at byte {} of segment {}; what follows is ignored at startup: an incomplete \
                     write, of which nothing was acknowledged as synced, or remains of an earlier use of the file",
                    log.display(),
                    cut.offset,
                    cut.segment
                )
            }));
            Ok(())
        }
        Err(error) => report_damage(error, report),
    }
}

#[derive(Default)]
struct SortedFiles {
    /// The files that the manifest does not list with their checksums: they are either damaged or left over from a
    /// crash.
    unnamed: Vec<PathBuf>,
    /// The manifest that is used in place of a damaged one, and the damage of that one.
    preceding: Option<(Manifest, Damage)>,
}

/// Compares the checksum of each sorted file with the checksum in the manifest.
fn check_sorted_files(tree: &Path, report: &mut CheckReport) -> Result<SortedFiles, OpenError> {
    let (manifest, damage) = match Manifest::read_or_preceding(tree) {
        Ok(read) => read,
        Err(error) => return report_damage(error, report).map(|()| SortedFiles::default()),
    };
    let mut unnamed = Vec::new();
    let tables = tree.join(TABLES);
    let names = match folder::names(&tables) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            report.problem(tables.display(), "the folder is missing");
            return Ok(SortedFiles::default());
        }
        names => names.map_err(|error| OpenError::io("read the folder", &tables, error))?,
    };
    for name in names {
        let path = tables.join(&name);
        let Ok(id) = name.parse::<u64>() else {
            report.problem(path.display(), "its name is not valid for a sorted file");
            continue;
        };
        match manifest::checksum(&path) {
            Err(error) => report.problem(path.display(), format_args!("it cannot be read: {error}")),
            Ok((checksum, bytes)) => {
                report.files += 1;
                report.file_bytes += bytes;
                if !manifest.names(id, checksum) {
                    unnamed.push(path);
                }
            }
        }
    }
    Ok(SortedFiles { unnamed, preceding: damage.map(|damage| (manifest, damage)) })
}

/// The scratch folder may lack space or permissions, which does not mean that the copied data is damaged.
fn is_of_scratch(error: &StorageError) -> bool {
    let Some(error) = error.io() else { return false };
    is_too_many_open_files(error)
        || matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem)
}

/// The copy can be opened, which changes it. The original must not be changed.
fn copy_to_read(from: &Path, to: &Path) -> io::Result<()> {
    let from = from.canonicalize()?;
    for entry in fs::read_dir(&from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_to_read(&path, &target)?;
        } else if from.ends_with(TABLES) {
            link_to_read(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// The report refers to the database by the path `database`. For `read`, see [`check_snapshot`].
fn walk_tree(tree: &Tree, database: &Path, report: &mut CheckReport, read: &dyn Fn(u64) -> bool) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

    use super::*;
    use crate::disk::layout::{self, CatalogEntry, TableId};
    use crate::disk::payload::{Operations, Origin};
    use crate::log::errors::DiskError;
    use crate::{Embedded, EmbeddedOptions};
    use engine::check::PROBLEMS_MAX;
    use engine::{Engine, TableKey};
    use model::clock::SystemClock;
    use model::{AccountName, DateTime, RecordBuilder, TableName};

    type Entry = (Vec<u8>, Vec<u8>);

    fn table() -> TableKey {
        TableKey { account: AccountName::new("acct").unwrap(), name: TableName::new("Cars").unwrap() }
    }

    fn record(ticks: i64) -> Vec<u8> {
        RecordBuilder::default().finish(DateTime::from_ticks(ticks).unwrap()).as_bytes().to_vec()
    }

    async fn problems(entries: &[Entry]) -> Vec<String> {
        let place = tempfile::tempdir().unwrap();
        let (folder, scratch) = (place.path().join("data"), place.path().join("scratch"));
        fs::create_dir(&scratch).unwrap();
        let engine = Embedded::open(&folder, &EmbeddedOptions::default(), SystemClock).unwrap();
        engine.create_table(&table()).await.unwrap();
        {
            let mut operations = Operations::default();
            operations.put(layout::LAST_STAMP, layout::stamp_value(DateTime::from_ticks(1000).unwrap()));
            for (key, value) in entries {
                operations.put(key.as_slice(), value.as_slice());
            }
            engine.shared.storage.write(vec![operations.into_transaction(Origin::Catalog)], None, true).unwrap();
        }
        engine.close().await.unwrap();
        drop(engine);
        let report = check_folder(&folder, &scratch, &|_| true).unwrap();
        report.problems.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn entries_that_do_not_belong_there_are_found() {
        let entity = |id: u64, key: &[u8]| [&id.to_be_bytes()[..], key].concat();
        let own = |rest: &[u8]| [&[0; 8][..], rest].concat();
        let catalog = |name: &str, id: u64| {
            let table = TableKey { name: TableName::new(name).unwrap(), ..table() };
            let id = TableId::from_bytes(&id.to_be_bytes()).unwrap();
            (layout::catalog_key(&table), CatalogEntry::new(table, id, DateTime::MIN).value())
        };
        let good = (entity(1, b"p\0r"), record(1000));
        assert_eq!(problems(std::slice::from_ref(&good)).await, [""; 0]);
        let cases: [(Entry, &str); 13] = [
            ((entity(1, b"p\0r"), record(1001)), "later than the last one issued"),
            ((entity(1, b"p\0r"), b"x".to_vec()), "cannot be read"),
            ((entity(1, b"p\0r"), [record(1), vec![0]].concat()), "its record cannot be read"),
            ((entity(1, b"pr"), record(1)), "cannot be read"),
            ((entity(1, b"p/q\0r"), record(1)), "its key is not valid"),
            ((entity(7, b"p\0r"), record(1)), "belongs to no table"),
            ((b"\0\0\0\0\0\0\0\x01".to_vec(), record(1)), "cannot be read"),
            ((own(b"x"), b"1".to_vec()), "does not know this kind of key"),
            ((own(b"mother"), b"1".to_vec()), "does not know this kind of key"),
            ((own(b"sAB"), b"1".to_vec()), "service properties"),
            ((own(b"p123"), b"\x01".to_vec()), "the marker of a deleted table"),
            (catalog("Other", 1), "another table has the same ID"),
            (catalog("Other", 2), "was already issued"),
        ];
        for (entry, expected) in cases {
            // An entity of a table is reported by its key inside the table.
            let key = entry.0.strip_prefix(&1_u64.to_be_bytes()).unwrap_or(&entry.0).escape_ascii().to_string();
            let found = problems(&[good.clone(), entry]).await;
            assert!(found.len() == 1 && found[0].contains(expected), "{key}: {found:?}");
            assert!(found[0].contains(&key) || expected == "was already issued", "{key}: {found:?}");
        }
    }

    #[tokio::test]
    async fn a_folder_that_is_missing_is_damage() {
        let place = tempfile::tempdir().unwrap();
        let (folder, scratch) = (place.path().join("data"), place.path().join("scratch"));
        let engine = Embedded::open(&folder, &EmbeddedOptions::default(), SystemClock).unwrap();
        engine.close().await.unwrap();
        drop(engine);
        let tables = folder.join("tree/tables");
        fs::remove_dir_all(&tables).unwrap();
        let report = check_folder(&folder, &scratch, &|_| true).unwrap();
        let found = report.problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found, [format!("{}: the folder is missing", tables.display())]);
    }

    #[test]
    fn trouble_with_the_copy_is_no_damage() {
        for (number, expected) in [(5, false), (23, true), (24, true), (28, true), (30, true), (122, true)] {
            let error = || io::Error::from_raw_os_error(number);
            let error = DiskError::new("write", "file", error());
            assert_eq!(is_of_scratch(&error.into()), expected, "{number}");
        }
        assert!(!is_of_scratch(&StorageError::NO_ROOM));
    }

    #[tokio::test]
    async fn the_number_of_listed_problems_is_bounded() {
        let strangers: Vec<Entry> =
            (0..150_u8).map(|row| ([&[0, 0, 0, 0, 0, 0, 0, 9][..], &[b'p', 0, row]].concat(), record(1))).collect();
        assert_eq!(problems(&strangers).await.len(), PROBLEMS_MAX);
    }
}
