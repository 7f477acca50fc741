//! The figures of the embedded engine.

use super::counts::MergeCounts;
use super::state::EmbeddedState;
use crate::disk::storage::Storage;
use crate::disk::{layout, space};
use crate::reading::scans::Scans;
use crate::writing::committer::Request;
use crate::writing::fair_queue::FairQueue;
use crate::writing::queue_memory::QueueMemory;
use engine::figures::{CommitterFigures, DiskFigures, Figures, Refusal, TreeFigures, TreeMemory};
use fjall::{AbstractTree, Readable};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The memory overhead of cached blocks, caused by the allocator's size classes and the cache's table, in percent. A 30
/// KiB block takes 32 KiB.
const CACHE_SHARE_PERCENT: u64 = 7;
/// The memory overhead of memtables, caused by the allocator's size classes, in percent of the bytes that a memtable
/// counts. The memtable counts the nodes of its skiplist correctly.
const MEMTABLE_SHARE_PERCENT: u64 = 10;

#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) folder: PathBuf,
    pub(crate) reserve_bytes: u64,
}

impl Disk {
    fn figures(&self) -> Option<DiskFigures> {
        let free_bytes = space::free_bytes(&self.folder).ok()?;
        Some(DiskFigures { free_bytes, reserve_bytes: self.reserve_bytes })
    }

    /// Returns the number of bytes that can be written before the free space falls below the reserve, or `u64::MAX` if
    /// the free space is unknown.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.figures().map_or(u64::MAX, |disk| disk.free_bytes.saturating_sub(disk.reserve_bytes))
    }
}

/// Accesses the file system, so it may block.
pub(crate) fn figures(
    shared: &EmbeddedState,
    disk: &Disk,
    queue: &FairQueue<Request>,
    queue_memory: &QueueMemory,
    scans: &Scans,
) -> Figures {
    let counts = &shared.counts;
    let storage = shared.storage().ok();
    let disk = disk.figures();
    let committer = CommitterFigures {
        queue: number(queue.len()),
        queue_bytes: number(queue_memory.held()),
        group_transactions: counts.group_transactions.read(),
        group_entities: counts.group_entities.read(),
        write_nanoseconds: counts.write_time.read(),
        busy_nanoseconds: counts.busy(),
        transactions: counts.transactions.load(Ordering::Relaxed),
        stored_bytes: counts.stored_bytes.load(Ordering::Relaxed),
        outages: counts.outages.load(Ordering::Relaxed),
    };
    let refusal = if shared.check_open().is_err() {
        Some(Refusal::Closed)
    } else if counts.is_in_outage.load(Ordering::Relaxed) {
        Some(Refusal::Outage)
    } else {
        disk.filter(|disk| disk.free_bytes < disk.reserve_bytes).map(|_| Refusal::DiskFull)
    };
    Figures {
        tables: Some(number(shared.catalog().count())),
        purge_backlog: storage.as_deref().and_then(purge_backlog),
        refusal,
        disk,
        committer: Some(committer),
        tree: storage.as_ref().map(|storage| tree(storage, scans, &shared.merges)),
        database: None,
    }
}

/// A deleted table keeps its marker until its last entity is removed.
fn purge_backlog(storage: &Storage) -> Option<u64> {
    let mut backlog = 0;
    for marker in storage.db.snapshot().prefix(&storage.data, layout::PURGE_PREFIX) {
        marker.key().ok()?;
        backlog += 1;
    }
    Some(backlog)
}

fn tree(storage: &Arc<Storage>, scans: &Scans, merges: &MergeCounts) -> TreeFigures {
    let (db, data) = (&storage.db, &storage.data);
    let metrics = data.metrics();
    let journal_bytes = db.journal_disk_space().unwrap_or(0);
    // The library does not count the merges that the engine requests.
    let merging = u64::from(merges.is_merging.load(Ordering::Relaxed));
    let merge_time = Duration::from_nanos(merges.nanoseconds.load(Ordering::Relaxed));
    TreeFigures {
        disk_bytes: data.disk_space() + journal_bytes,
        journal_bytes,
        journals: number(db.journal_count()),
        sorted_files: number(data.table_count()),
        memtable_bytes: db.write_buffer_size(),
        flushes_waiting: number(data.sealed_memtable_count()),
        cache_bytes: db.cache_size(),
        cache_capacity_bytes: db.cache_capacity(),
        cache_hits: number(metrics.block_load_cached_count()),
        cache_misses: storage.blocks_loaded(),
        memory: memory(storage),
        compactions_running: number(db.active_compactions()) + merging,
        compactions: number(db.compactions_completed()) + merges.merges.load(Ordering::Relaxed),
        compaction_seconds: (db.time_compacting() + merge_time).as_secs_f64(),
        scans_running: number(scans.running()),
        scans_waiting: number(scans.waiting()),
    }
}

fn memory(storage: &Storage) -> TreeMemory {
    let tree = &storage.data.tree;
    let with_share = |bytes: u64, percent: u64| bytes + bytes / 100 * percent;
    TreeMemory {
        cache: with_share(storage.db.cache_size(), CACHE_SHARE_PERCENT),
        memtables: with_share(tree.version_memtable_size_sum(), MEMTABLE_SHARE_PERCENT),
        pinned: number(tree.pinned_filter_size() + tree.pinned_block_index_size()),
    }
}

fn number(count: usize) -> u64 {
    count as u64
}
