//! The figures of the embedded engine.

use super::recent_reads::RecentReads;
use super::state::EmbeddedState;
use crate::disk::space::Disk;
use crate::feed::EmbeddedFeed;
use crate::reading::Scans;
use crate::shipping::FENCED;
use crate::tree::TreeState;
use crate::upkeep::background::purge_marks;
use crate::writing::committer::Request;
use crate::writing::fair_queue::FairQueue;
use crate::writing::queue_memory::QueueMemory;
use engine::figures::{CommitterFigures, Figures, ReadFigures, Refusal, TreeFigures, TreeMemory};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The memory overhead of cached blocks, caused by the allocator's size classes and the cache's table, in percent. A 30
/// KiB block takes 32 KiB.
const CACHE_SHARE_PERCENT: u64 = 7;
/// The memory overhead of memtables, caused by the allocator's size classes, in percent of the bytes that a memtable
/// counts. The memtable counts the nodes of its skiplist correctly.
const MEMTABLE_SHARE_PERCENT: u64 = 10;

/// Accesses the file system, so it may block.
pub(crate) fn figures(
    shared: &EmbeddedState,
    disk: &Disk,
    queue: &FairQueue<Request>,
    queue_memory: &QueueMemory,
    scans: &Scans,
    feed: Option<&EmbeddedFeed>,
) -> Figures {
    let counts = &shared.counts;
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
    } else if shared.read_only.get() == Some(&FENCED) {
        Some(Refusal::Fenced)
    } else if counts.is_in_outage.load(Ordering::Relaxed) {
        Some(if shared.storage.is_unconfirmed() { Refusal::Unconfirmed } else { Refusal::Outage })
    } else {
        let unflushed_bytes = shared.storage.tree.unflushed_bytes();
        disk.filter(|disk| {
            disk.reserve_bytes > 0 && disk.free_bytes < disk.reserve_bytes.saturating_add(unflushed_bytes)
        })
        .map(|_| Refusal::DiskFull)
    };
    Figures {
        tables: Some(number(shared.catalog.read().count())),
        purge_backlog: purge_marks(&shared.storage).ok().map(|marks| number(marks.len())),
        refusal,
        disk,
        committer: Some(committer),
        tree: Some(tree(scans, shared)),
        database: None,
        change_log: feed.map(EmbeddedFeed::figures),
        replication: None,
    }
}

fn tree(scans: &Scans, shared: &EmbeddedState) -> TreeFigures {
    let EmbeddedState { storage, merges, .. } = shared;
    let state = storage.tree.state();
    let (log_segments, log_bytes) = storage.upkeep.size().unwrap_or_default();
    let merge_time = Duration::from_nanos(merges.nanoseconds.load(Ordering::Relaxed));
    TreeFigures {
        disk_bytes: state.disk_bytes + log_bytes,
        log_bytes,
        log_segments,
        sorted_files: state.files,
        memtable_bytes: state.memtable_bytes,
        flushes_waiting: state.sealed_memtables,
        cache_bytes: state.cache_bytes,
        cache_capacity_bytes: state.cache_capacity_bytes,
        cache_hits: state.cache_hits,
        cache_misses: state.blocks_loaded,
        memory: memory(&state),
        reads: reads(&shared.recent_reads),
        compactions_running: u64::from(merges.is_merging.load(Ordering::Relaxed)),
        compactions: merges.merges.load(Ordering::Relaxed),
        compaction_seconds: merge_time.as_secs_f64(),
        scans_running: number(scans.running()),
        scans_waiting: number(scans.waiting()),
    }
}

fn reads(recent: &RecentReads) -> ReadFigures {
    ReadFigures {
        are_moved: recent.are_moved(),
        in_place: recent.in_place.load(Ordering::Relaxed),
        moved: recent.moved.load(Ordering::Relaxed),
        slow: recent.slow.load(Ordering::Relaxed),
    }
}

fn memory(state: &TreeState) -> TreeMemory {
    let with_share = |bytes: u64, percent: u64| bytes + bytes / 100 * percent;
    TreeMemory {
        cache: with_share(state.cache_bytes, CACHE_SHARE_PERCENT),
        memtables: with_share(state.retained_memtable_bytes, MEMTABLE_SHARE_PERCENT),
        pinned: state.pinned_bytes,
    }
}

fn number(count: usize) -> u64 {
    count as u64
}
