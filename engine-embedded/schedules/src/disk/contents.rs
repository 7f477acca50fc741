//! What the log and the sorted files contain, decoded with the engine's modules, and what the engine's recovery finds
//! after a crash.

use crate::disk::layout::{self, EngineEntry, TableId};
use crate::disk::payload;
use crate::hardware::{Log, Remains, SortedFile, read};
use crate::log::disk::{Disk, DiskFile, ReadAt};
use crate::log::format::SEGMENT_HEADER_BYTES;
use crate::log::recovery::inspect;
use crate::sequence::Sequence;
use crate::tree::{RESERVED_KEY, Value};
use model::{DateTime, RecordView};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

pub(crate) type Contents = BTreeMap<Vec<u8>, Value>;

/// The keys and new values of a transaction. An item without a value is a deletion.
pub(super) type Items = Vec<(Vec<u8>, Option<Value>)>;

/// Decodes a record of the log, with the item of the last Timestamp that the engine derives from it.
pub(super) fn items_of(payload: &[u8], stamp: u64) -> Items {
    let stamp = Some(stamp).filter(|stamp| *stamp != 0);
    let stamp = stamp.map(|ticks| DateTime::from_ticks(ticks.try_into().unwrap()).unwrap());
    let Some(items) = payload::items(payload, stamp) else { return Items::new() };
    let mut items: Items = items.into_iter().map(|(key, value)| (key.to_vec(), value)).collect();
    items.extend(stamp.map(|stamp| (layout::LAST_STAMP.to_vec(), Some(layout::stamp_value(stamp).into()))));
    items
}

pub(super) fn apply(contents: &mut Contents, items: &Items) {
    for (key, value) in items {
        match value {
            Some(value) => contents.insert(key.clone(), value.clone()),
            None => contents.remove(key),
        };
    }
}

pub(super) fn contents_of_log(transactions: &[(Sequence, Items)]) -> Contents {
    let mut contents = Contents::new();
    for (_, items) in transactions {
        apply(&mut contents, items);
    }
    contents
}

/// Returns the newest value of each key in files, which are ordered from the newest to the oldest.
pub(super) fn contents_of_files(files: &[SortedFile]) -> Contents {
    let mut contents = Contents::new();
    for (key, versions) in files.iter().rev().flat_map(|file| file.iter()) {
        match &versions.last().unwrap().1 {
            Some(value) => contents.insert(key.to_vec(), value.clone()),
            None => contents.remove(&key[..]),
        };
    }
    contents
}

pub(crate) fn is_of_entity(key: &[u8]) -> bool {
    key >= &TableId::FIRST.to_bytes()[..]
}

pub(crate) fn properties(value: &[u8]) -> BTreeSet<String> {
    // The engine's own entries are not records.
    let Ok(record) = RecordView::new(value) else { return BTreeSet::new() };
    record.properties().filter_map(|property| Some(property.ok()?.name().ok()?.to_owned())).collect()
}

pub(super) fn last_stamp(items: &Items) -> Option<DateTime> {
    let (_, value) = items.iter().find(|(key, _)| *key == layout::LAST_STAMP)?;
    value.as_ref().map(|value| stamp(value))
}

pub(super) fn stamp(value: &[u8]) -> DateTime {
    match layout::decode_engine_entry(layout::LAST_STAMP, value) {
        Ok(EngineEntry::LastStamp(stamp)) => stamp,
        _ => DateTime::MIN,
    }
}

pub(crate) struct Survivors {
    pub(crate) contents: Contents,
    /// The last transaction.
    pub(crate) last: Sequence,
    pub(crate) is_clean: bool,
}

impl Survivors {
    /// Returns what recovery finds, and a violation if it refuses the folder.
    pub(super) fn new(Remains { log, sorted_files }: Remains) -> (Self, Option<String>) {
        let mut contents = contents_of_files(&sorted_files);
        let mark = contents.remove(RESERVED_KEY);
        let persisted = mark.map_or(0, |mark| u64::from_le_bytes(mark[..].try_into().unwrap()));
        let persisted = Sequence::new(persisted);
        let found = inspect(&CrashedDisk(log), SEGMENT_HEADER_BYTES, Some(persisted), &mut |record| {
            apply(&mut contents, &items_of(record.payload, record.header.stamp));
            Ok(())
        });
        let (last, is_clean, violation) = match found {
            Ok(Some(found)) => (found.last, found.is_clean, None),
            Ok(None) if persisted == Sequence::ZERO => (Sequence::ZERO, false, None),
            Ok(None) => (persisted, false, Some("the log is missing".to_owned())),
            Err(error) => (persisted, false, Some(error.to_string())),
        };
        (Self { contents, last, is_clean }, violation)
    }
}

/// The folder of the log as a crash left it.
#[derive(Debug)]
struct CrashedDisk(Log);

impl Disk for CrashedDisk {
    type File = CrashedFile;

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.names.keys().cloned().collect())
    }

    fn open_to_read(&self, name: &str) -> io::Result<CrashedFile> {
        let number = *self.0.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(CrashedFile(self.0.files[number].cached.clone()))
    }

    fn create(&self, _: &str) -> io::Result<CrashedFile> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, _: &str) -> io::Result<CrashedFile> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_folder(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn new_salt(&self) -> u64 {
        0
    }
}

#[derive(Debug)]
struct CrashedFile(Vec<u8>);

impl ReadAt for CrashedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(read(&self.0, bytes, offset))
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

impl DiskFile for CrashedFile {
    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
