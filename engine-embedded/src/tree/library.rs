//! The names of the library that the writer, the flushes and the reads use, and reads without the library's lock.
//!
//! The package in `schedules/` compiles their modules with a model of the library in place of this file.

pub(super) use lsm_tree::{
    AbstractTree, AnyTree, Cache, Checksum, Config, Error, InternalValue, Memtable, Table, Tree, UserKey, UserValue,
    ValueType,
};

use lsm_tree::table::filter::standard_bloom::Builder as FilterBuilder;
use std::ops::Bound;
use std::sync::Arc;

pub(super) type Bounds<'b> = (Bound<&'b [u8]>, Bound<&'b [u8]>);
pub(super) type Items = Box<dyn DoubleEndedIterator<Item = Result<(UserKey, UserValue), Error>> + Send>;

/// A list of memtables and files. While it exists, so do they.
///
/// The library's own reads take the lock of its lists, which it holds during the syncs of a new list. The library gives
/// its types no public names, so this one contains the files one by one, and a function.
pub(super) struct List {
    /// From the newest to the oldest.
    memtables: Vec<Arc<Memtable>>,
    /// From the uppermost to the lowest. A level consists of runs, the newest first, and the files of a run do not
    /// overlap.
    levels: Vec<Vec<Box<[Table]>>>,
    range: Box<dyn Fn(Bounds<'_>, u64) -> Items + Send + Sync>,
}

impl List {
    /// Returns the newest list of the library, with these memtables, from the newest to the oldest. Waits while a list
    /// is installed.
    pub(super) fn newest(library: &Tree, memtables: Vec<Arc<Memtable>>) -> Self {
        loop {
            let version = library.current_version();
            let list = library.get_version_history_lock().latest_version();
            // Another list may have been installed between.
            if library.current_version().id() == version.id() {
                let levels = version.iter_levels().map(|level| level.iter().map(|run| run.to_vec().into()).collect());
                return Self {
                    memtables,
                    levels: levels.collect(),
                    range: Box::new(move |bounds, number| {
                        let items = Tree::create_internal_range::<&[u8], _>(list.clone(), &bounds, number, None);
                        Box::new(items.map(|item| item.map(|item| (item.key.user_key, item.value))))
                    }),
                };
            }
        }
    }

    pub(super) fn memtables(&self) -> &[Arc<Memtable>] {
        &self.memtables
    }

    pub(super) fn levels(&self) -> impl Iterator<Item = impl Iterator<Item = &Table>> {
        self.levels.iter().map(|runs| runs.iter().flatten())
    }

    pub(super) fn uppermost_runs(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Returns the newest value below the number, as the library's own function does.
    pub(super) fn get(&self, key: &[u8], number: u64) -> Result<Option<UserValue>, Error> {
        let value = |item: InternalValue| (!item.is_tombstone()).then_some(item.value);
        for memtable in &self.memtables {
            if let Some(item) = memtable.get(key, number) {
                return Ok(value(item));
            }
        }
        let hash = FilterBuilder::get_hash(key);
        for run in self.levels.iter().flatten() {
            let index = run.partition_point(|file| **file.metadata.key_range.max() < *key);
            if let Some(file) = run.get(index).filter(|file| **file.metadata.key_range.min() <= *key)
                && let Some(item) = file.get(key, number, hash)?
            {
                return Ok(value(item));
            }
        }
        Ok(None)
    }

    /// Returns the newest values below the number.
    pub(super) fn range(&self, bounds: Bounds<'_>, number: u64) -> Items {
        (self.range)(bounds, number)
    }
}
