//! Tests of the migration. They build folders of format 1 from the description of the format, because the program that
//! wrote such folders is no longer part of the repository. `rowhouse/tests/it/upgrade` opens folders that it left.

mod journals;
mod refusals;
mod steps;

use super::closing::{CLOSED, ClosedJournal, ClosingRecord};
use super::journal::{TAG_END, TAG_ITEM, TAG_START, TRAILER};
use crate::disk::layout::{self, CatalogEntry, TableId};
use crate::sequence::Sequence;
use crate::tree::{Tree, TreeSettings};
use crate::{Durability, Embedded, EmbeddedOptions, OpenError};
use engine_contract::support::{ManualClock, START_TICKS, all, key, table};
use model::{DateTime, EdmValue, RecordBuilder};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

const MARKER: &str = "rowhouse.format";
const MARKER_TEXT: &str = "rowhouse data folder\nformat 1\nWritten by Rowhouse. Do not edit or delete this file.\n";
const TREE: &str = "database/keyspaces/1";
const JOURNAL: &str = "database/0.jnl";
/// The length of the zeros at the end of an active journal. The former program wrote 64 MiB.
const ZEROS: usize = 5000;

pub(super) fn item(value_type: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    item_of(1, value_type, key, value)
}

fn item_of(keyspace: u64, value_type: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let key_bytes = u16::try_from(key.len()).unwrap().to_le_bytes();
    let value_bytes = u32::try_from(value.len()).unwrap().to_le_bytes();
    let head = [&[TAG_ITEM, value_type, 0][..], &keyspace.to_le_bytes(), &key_bytes];
    [&head.concat()[..], &value_bytes, &value_bytes, key, value].concat()
}

pub(super) fn batch(number: u64, items: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(items.len()).unwrap().to_le_bytes();
    let items = items.concat();
    let checksum = xxh3_64(&items).to_le_bytes();
    [&[TAG_START][..], &count, &number.to_le_bytes(), &items, &[TAG_END], &checksum, TRAILER].concat()
}

/// An entity of the table `Entities`.
fn entity(row: &str, bytes: &[u8], ticks: i64) -> [Vec<u8>; 2] {
    let mut properties = RecordBuilder::default();
    properties.push("bytes", EdmValue::Binary(bytes));
    let stamp = DateTime::from_ticks(ticks).unwrap();
    let record = properties.finish(stamp);
    [item(0, &entity_key(row), record.as_bytes()), item(0, layout::LAST_STAMP, &layout::stamp_value(stamp))]
}

fn entity_key(row: &str) -> Vec<u8> {
    layout::key_of_entity(TableId::FIRST, &key("p", row))
}

fn removal(row: &str) -> Vec<u8> {
    item(1, &entity_key(row), b"")
}

fn catalog_value() -> Vec<u8> {
    CatalogEntry::new(table("Entities"), TableId::FIRST, DateTime::MIN).value()
}

/// The batch that creates the table `Entities`.
fn creation() -> Vec<u8> {
    let next = item(0, layout::NEXT_TABLE_ID, &TableId::FIRST.next().to_bytes());
    batch(1, &[item(0, &layout::catalog_key(&table("Entities")), &catalog_value()), next])
}

/// A folder of format 1 whose journals contain the given batches.
fn folder(journals: &[&[Vec<u8>]]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("database");
    let settings = TreeSettings { cache_bytes: 1024 * 1024 };
    for keyspace in ["keyspaces/0", "keyspaces/1"] {
        let path = database.join(keyspace);
        fs::create_dir_all(&path).unwrap();
        drop(Tree::create(&path, settings).unwrap());
    }
    fs::write(database.join("version"), b"FJL\x03").unwrap();
    fs::write(database.join("lock"), b"").unwrap();
    for (number, batches) in journals.iter().enumerate() {
        let mut bytes = batches.concat();
        if number + 1 == journals.len() {
            bytes.resize(bytes.len() + ZEROS, 0);
        }
        fs::write(database.join(format!("{number}.jnl")), bytes).unwrap();
    }
    fs::write(folder.path().join("rowhouse.lock"), b"").unwrap();
    fs::write(folder.path().join(MARKER), MARKER_TEXT).unwrap();
    folder
}

/// Adds a sorted file that contains an item, and everything that was in sorted files before.
fn put_in_sorted_file(folder: &Path, key: &[u8], value: &[u8]) {
    let tree = Tree::open(&folder.join(TREE), TreeSettings { cache_bytes: 1024 * 1024 }).unwrap();
    let sequence: Sequence = tree.persisted().next();
    tree.apply(sequence, [(key.into(), Some(value.into()))]);
    tree.publish(sequence);
    assert!(tree.rotate() && tree.flush().unwrap());
}

/// Records that the folder was closed cleanly, as it is now.
fn close(folder: &Path) {
    let database = folder.join("database");
    let closed = (0_u64..).map_while(|number| {
        let bytes = fs::read(database.join(format!("{number}.jnl"))).ok()?;
        let valid = bytes.get(..super::journal::read(&bytes).valid_bytes).unwrap();
        Some(ClosedJournal { number, bytes: valid.len(), checksum: xxh3_128(valid) })
    });
    fs::write(folder.join(CLOSED), ClosingRecord(closed.collect()).to_text()).unwrap();
}

const IN_ORDER: [&str; 3] = ["first", "second", "third"];

fn needle(row: &str) -> Vec<u8> {
    format!("the {row} needle").into_bytes()
}

/// A folder as a crash leaves it: three entities, each in a separate batch.
fn interrupted() -> TempDir {
    let entities = IN_ORDER.iter().zip(2..).map(|(row, number)| {
        let ticks = START_TICKS - 100 + i64::try_from(number).unwrap();
        batch(number, &entity(row, &needle(row), ticks))
    });
    let batches: Vec<_> = std::iter::once(creation()).chain(entities).collect();
    folder(&[&batches])
}

/// The same folder after a clean shutdown.
fn closed() -> TempDir {
    let folder = interrupted();
    close(folder.path());
    folder
}

fn open(folder: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(folder, &EmbeddedOptions::default(), ManualClock::at(START_TICKS))
}

fn open_with_interval(folder: &Path) -> Result<Embedded, OpenError> {
    let durability = Durability::Interval(Duration::from_secs(1));
    Embedded::open(folder, &EmbeddedOptions { durability, ..EmbeddedOptions::default() }, ManualClock::at(START_TICKS))
}

fn refusal(opened: Result<Embedded, OpenError>) -> OpenError {
    match opened {
        Ok(_) => panic!("the folder was opened"),
        Err(error) => error,
    }
}

/// Returns the entities, with their bytes.
async fn entities(engine: &Embedded) -> BTreeMap<String, Vec<u8>> {
    let found = all(engine, &table("Entities")).await;
    found
        .iter()
        .map(|entity| match entity.record.view().unwrap().get("bytes").unwrap() {
            Some(EdmValue::Binary(bytes)) => (entity.key.row.as_str().to_owned(), bytes.to_vec()),
            other => panic!("{other:?}"),
        })
        .collect()
}

async fn rows(engine: &Embedded) -> Vec<String> {
    entities(engine).await.into_keys().collect()
}

/// Folders have no hash.
fn content(folder: &Path) -> BTreeMap<PathBuf, Option<u64>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
            found.insert(path, None);
        } else {
            let hash = xxh3_64(&fs::read(&path).unwrap());
            found.insert(path, Some(hash));
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn remove(path: &Path) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.unwrap();
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn place_in_journal(folder: &Path, row: &str) -> usize {
    let needle = needle(row);
    let bytes = fs::read(folder.join(JOURNAL)).unwrap();
    bytes.windows(needle.len()).position(|window| window == needle).unwrap()
}
