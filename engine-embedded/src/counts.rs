//! The counters of the committer and of merges.

use engine::figures::{Distribution, GROUP_BOUNDS, STORAGE_TIME_BOUNDS, nanoseconds};
use engine::parts::monotonic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Only the committer writes these counters.
#[derive(Debug)]
pub(crate) struct CommitterCounts {
    pub(crate) group_transactions: Distribution,
    pub(crate) group_entities: Distribution,
    pub(crate) write_time: Distribution,
    /// The time spent in each phase of the groups, in nanoseconds, in the order of [`Phase`].
    busy: [AtomicU64; 4],
    pub(crate) transactions: AtomicU64,
    pub(crate) stored_bytes: AtomicU64,
    pub(crate) outages: AtomicU64,
    pub(crate) is_in_outage: AtomicBool,
}

impl CommitterCounts {
    pub(crate) fn new() -> Self {
        Self {
            group_transactions: Distribution::new(GROUP_BOUNDS),
            group_entities: Distribution::new(GROUP_BOUNDS),
            write_time: Distribution::new(STORAGE_TIME_BOUNDS),
            busy: Default::default(),
            transactions: AtomicU64::new(0),
            stored_bytes: AtomicU64::new(0),
            outages: AtomicU64::new(0),
            is_in_outage: AtomicBool::new(false),
        }
    }

    pub(crate) fn busy(&self) -> [(&'static str, u64); 4] {
        let [room, apply, write, answer] = &self.busy;
        [("room", room), ("apply", apply), ("write", write), ("answer", answer)]
            .map(|(phase, time)| (phase, time.load(Ordering::Relaxed)))
    }
}

/// Only the thread that merges sorted files writes these counters.
#[derive(Debug, Default)]
pub(crate) struct MergeCounts {
    pub(crate) merges: AtomicU64,
    pub(crate) nanoseconds: AtomicU64,
    pub(crate) is_merging: AtomicBool,
}

impl MergeCounts {
    pub(crate) fn count<T>(&self, merge: impl FnOnce() -> T) -> T {
        let began = monotonic::now();
        self.is_merging.store(true, Ordering::Relaxed);
        let result = merge();
        self.is_merging.store(false, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds(began.elapsed()), Ordering::Relaxed);
        self.merges.fetch_add(1, Ordering::Relaxed);
        result
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Phase {
    Room,
    Apply,
    Write,
    Answer,
}

pub(crate) struct PhaseTimer(Instant);

impl PhaseTimer {
    pub(crate) fn begin() -> Self {
        Self(monotonic::now())
    }

    /// Returns the duration of the ended phase.
    pub(crate) fn end(&mut self, counts: &CommitterCounts, phase: Phase) -> Duration {
        let now = monotonic::now();
        let time = now.duration_since(self.0);
        self.0 = now;
        if let Some(busy) = counts.busy.get(phase as usize) {
            busy.fetch_add(nanoseconds(time), Ordering::Relaxed);
        }
        time
    }
}
