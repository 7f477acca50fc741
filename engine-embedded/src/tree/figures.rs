//! The figures of the tree.

use super::store::Tree;
use lsm_tree::AbstractTree;
use std::collections::HashSet;
use std::ffi::OsString;

/// What the tree occupies and what it has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeState {
    pub(crate) disk_bytes: u64,
    pub(crate) files: u64,
    /// The size of the memtables that are not in files yet, in bytes.
    pub(crate) memtable_bytes: u64,
    /// The size of all memtables in memory, in bytes. It includes those that are kept for snapshots.
    pub(crate) retained_memtable_bytes: u64,
    pub(crate) sealed_memtables: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) cache_capacity_bytes: u64,
    pub(crate) cache_hits: u64,
    pub(crate) blocks_loaded: u64,
    /// The size of the filters and indexes of files that are always in memory, in bytes.
    pub(crate) pinned_bytes: u64,
    pub(crate) open_snapshots: u64,
    /// The number of lists of files that are kept for snapshots.
    pub(crate) retained_lists: u64,
}

impl Tree {
    /// Waits for a list of files that is being installed, which takes five syncs.
    pub(crate) fn state(&self) -> TreeState {
        let (store, library) = (&*self.0, &self.0.library);
        let cache = &library.config.cache;
        let sealed = store.sealed.lock();
        let (sealed_memtables, sealed_bytes) =
            (sealed.len(), sealed.iter().map(|memtable| memtable.bytes).sum::<u64>());
        drop(sealed);
        TreeState {
            disk_bytes: self.disk_bytes(),
            files: number(library.table_count()),
            memtable_bytes: sealed_bytes + store.active_memtable_bytes(),
            retained_memtable_bytes: library.version_memtable_size_sum(),
            sealed_memtables: number(sealed_memtables),
            cache_bytes: cache.size(),
            cache_capacity_bytes: cache.capacity(),
            cache_hits: number(library.metrics.block_load_cached_count()),
            blocks_loaded: self.blocks_loaded(),
            pinned_bytes: number(library.pinned_filter_size() + library.pinned_block_index_size()),
            open_snapshots: number(store.registry.count()),
            retained_lists: number(library.version_free_list_len()),
        }
    }

    /// Returns the number of blocks that reads have loaded from disk, or from the operating system's cache, since the
    /// tree was opened. Takes no lock.
    pub(crate) fn blocks_loaded(&self) -> u64 {
        number(self.0.library.metrics.block_load_io_count())
    }

    /// Returns the size of the files in the newest list, in bytes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.0.library.disk_space()
    }

    /// Returns the names of the sorted files in the newest list.
    pub(crate) fn sorted_files(&self) -> HashSet<OsString> {
        let version = self.0.library.current_version();
        version.iter_tables().filter_map(|table| Some(table.path.file_name()?.to_owned())).collect()
    }
}

fn number(count: usize) -> u64 {
    count as u64
}
