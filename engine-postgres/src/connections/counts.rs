//! The counters of the database engine.

use engine::figures::{Distribution, STORAGE_TIME_BOUNDS};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryReason {
    /// Another transaction changed the same rows concurrently.
    Conflict,
    /// The database did not respond in time, or a lock was held for too long.
    Timeout,
    /// There was no connection, or it broke, or it led to a database that does not accept writes.
    Connection,
}

#[derive(Debug)]
pub(crate) struct NodeCounts {
    pub(crate) wait_time: Distribution,
    pub(crate) step_time: Distribution,
}

impl NodeCounts {
    pub(crate) fn new() -> Self {
        Self { wait_time: Distribution::new(STORAGE_TIME_BOUNDS), step_time: Distribution::new(STORAGE_TIME_BOUNDS) }
    }
}

#[derive(Debug)]
pub(crate) struct PostgresCounts {
    conflicts: AtomicU64,
    timeouts: AtomicU64,
    connections: AtomicU64,
    /// The number of deleted tables at the last count; negative before the first count.
    purge_backlog: AtomicI64,
}

impl PostgresCounts {
    pub(crate) fn new() -> Self {
        Self {
            conflicts: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            purge_backlog: AtomicI64::new(-1),
        }
    }

    pub(crate) fn retry(&self, reason: RetryReason) {
        let counter = match reason {
            RetryReason::Conflict => &self.conflicts,
            RetryReason::Timeout => &self.timeouts,
            RetryReason::Connection => &self.connections,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn retries(&self) -> [(&'static str, u64); 3] {
        [("conflict", &self.conflicts), ("timeout", &self.timeouts), ("connection", &self.connections)]
            .map(|(reason, counter)| (reason, counter.load(Ordering::Relaxed)))
    }

    pub(crate) fn note_purge_backlog(&self, count: i64) {
        self.purge_backlog.store(count, Ordering::Relaxed);
    }

    /// Returns `None` before the first count.
    pub(crate) fn purge_backlog(&self) -> Option<u64> {
        u64::try_from(self.purge_backlog.load(Ordering::Relaxed)).ok()
    }
}
