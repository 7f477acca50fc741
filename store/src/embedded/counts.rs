//! What the committer counts while it works.

use crate::figures::{Distribution, GROUP_BOUNDS, STORAGE_TIME_BOUNDS, nanoseconds};
use crate::monotonic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the committer counts. Only it writes here.
#[derive(Debug)]
pub(super) struct CommitterCounts {
    pub(super) group_transactions: Distribution,
    pub(super) group_entities: Distribution,
    pub(super) write_time: Distribution,
    /// Time spent in each phase of the groups, in nanoseconds, in the order of [`Phase`].
    busy: [AtomicU64; 4],
    pub(super) transactions: AtomicU64,
    /// Keys and records of committed transactions, in bytes.
    pub(super) stored_bytes: AtomicU64,
    pub(super) outages: AtomicU64,
    /// Nothing can be written, because a write has failed.
    pub(super) is_out: AtomicBool,
}

impl CommitterCounts {
    pub(super) fn new() -> Self {
        Self {
            group_transactions: Distribution::new(GROUP_BOUNDS),
            group_entities: Distribution::new(GROUP_BOUNDS),
            write_time: Distribution::new(STORAGE_TIME_BOUNDS),
            busy: Default::default(),
            transactions: AtomicU64::new(0),
            stored_bytes: AtomicU64::new(0),
            outages: AtomicU64::new(0),
            is_out: AtomicBool::new(false),
        }
    }

    /// The time of each phase so far, in nanoseconds.
    pub(super) fn busy(&self) -> [(&'static str, u64); 4] {
        let [room, apply, write, answer] = &self.busy;
        [("room", room), ("apply", apply), ("write", write), ("answer", answer)]
            .map(|(phase, time)| (phase, time.load(Ordering::Relaxed)))
    }
}

/// What the thread that merges sorted files counts. Only it writes here.
#[derive(Debug, Default)]
pub(super) struct MergeCounts {
    /// Merges that ended, and how long they took, in nanoseconds.
    pub(super) merges: AtomicU64,
    pub(super) nanoseconds: AtomicU64,
    pub(super) is_merging: AtomicBool,
}

impl MergeCounts {
    /// Counts what `merge` does as a merge.
    pub(super) fn count<T>(&self, merge: impl FnOnce() -> T) -> T {
        let began = monotonic::now();
        self.is_merging.store(true, Ordering::Relaxed);
        let result = merge();
        self.is_merging.store(false, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds(began.elapsed()), Ordering::Relaxed);
        self.merges.fetch_add(1, Ordering::Relaxed);
        result
    }
}

/// What the committer does with a group, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// It waits until the library has room in its memtables.
    Room,
    /// It applies the transactions.
    Apply,
    /// It writes the group and syncs it.
    Write,
    /// It answers the callers.
    Answer,
}

/// Measures the phases of a group.
pub(super) struct PhaseTimer(Instant);

impl PhaseTimer {
    /// The first phase begins.
    pub(super) fn begin() -> Self {
        Self(monotonic::now())
    }

    /// A phase has ended, and the next begins. Returns how long it took.
    pub(super) fn end(&mut self, counts: &CommitterCounts, phase: Phase) -> Duration {
        let now = monotonic::now();
        let time = now.duration_since(self.0);
        self.0 = now;
        if let Some(busy) = counts.busy.get(phase as usize) {
            busy.fetch_add(nanoseconds(time), Ordering::Relaxed);
        }
        time
    }
}
