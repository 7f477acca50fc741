//! The engine's folder of the same name: its modules that threads share, on a model of the library.

#[path = "../../../src/tree/error.rs"]
mod error;
#[path = "../../../src/tree/flushing.rs"]
mod flushing;
mod library;
#[path = "../../../src/tree/lists.rs"]
mod lists;
#[path = "../../../src/tree/reading.rs"]
mod reading;
#[path = "../../../src/tree/registry.rs"]
mod registry;
#[path = "../../../src/tree/room.rs"]
mod room;
#[path = "../../../src/tree/sequence.rs"]
mod sequence;
#[path = "../../../src/tree/store.rs"]
mod store;

pub(crate) use config::TreeSettings;
pub(crate) use error::TreeError;
pub(crate) use library::FULL_MEMTABLE_ITEMS;
pub(crate) use reading::{Range, Snapshot};
pub(crate) use store::{Key, RESERVED_KEY, Tree, Value};

const _: () = assert!(FULL_MEMTABLE_ITEMS * library::ITEM_BYTES == store::MEMTABLE_BYTES);

impl Tree {
    /// Merges all files, as the engine's method of this name does.
    pub(crate) fn merge_everything(&self) -> Result<(), TreeError> {
        let store = &*self.0;
        let _merging = store.merging.lock();
        let result = store.library.compact(store.registry.oldest().snapshot_number());
        store.renew_list(<[_]>::to_vec);
        store.room.merge_ended(result.is_err(), store.lists.newest().uppermost_runs());
        result?;
        store.release_or_warn();
        Ok(())
    }

    /// Returns the number of lists of files that are kept for snapshots.
    pub(crate) fn retained_lists(&self) -> usize {
        self.0.lists.older().len()
    }

    pub(crate) fn open_snapshots(&self) -> usize {
        self.0.registry.count()
    }

    pub(crate) fn sealed_memtables(&self) -> usize {
        self.0.sealed.lock().len()
    }

    /// Returns the number of items in memtables.
    pub(crate) fn unflushed_items(&self) -> u64 {
        let sealed: u64 = self.0.sealed.lock().iter().map(|memtable| memtable.bytes).sum();
        (sealed + self.0.active_memtable_bytes()) * FULL_MEMTABLE_ITEMS / store::MEMTABLE_BYTES
    }

    pub(crate) fn blocks_loaded(&self) -> u64 {
        0
    }
}

/// Replaces the settings of the library, of which the model has none.
mod config {
    use super::error::TreeError;
    use super::library::Config;
    use crate::hardware::Hardware;
    use std::path::Path;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct TreeSettings {
        pub(crate) cache_bytes: u64,
    }

    pub(super) fn exists(_: &Path) -> Result<bool, TreeError> {
        Ok(Hardware::current().has_tree())
    }

    pub(super) fn config(path: &Path, _: TreeSettings) -> Config {
        Config { path: path.to_owned() }
    }
}
