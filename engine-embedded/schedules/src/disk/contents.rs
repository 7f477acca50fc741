//! What the log and the sorted files contain, decoded with the engine's modules.

use crate::disk::layout::{self, EngineEntry, TableId};
use crate::disk::payload;
use crate::hardware::SortedFile;
use crate::sequence::Sequence;
use crate::tree::Value;
use model::{DateTime, RecordView};
use std::collections::{BTreeMap, BTreeSet};

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
