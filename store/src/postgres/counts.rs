//! What the engine on a database counts while it works.

use crate::figures::{Distribution, STORAGE_TIME_BOUNDS};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Why an attempt is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// Somebody else changed the same at the same time.
    Conflict,
    /// The database did not answer in time, or a lock was held for too long.
    Timeout,
    /// There is no connection, or it broke, or it leads to a database that does not write.
    Connection,
}

/// What connections and attempts count.
#[derive(Debug)]
pub(super) struct PostgresCounts {
    /// How long requests waited for a connection.
    pub(super) wait_time: Distribution,
    /// How long the database took to answer a step.
    pub(super) step_time: Distribution,
    conflicts: AtomicU64,
    timeouts: AtomicU64,
    connections: AtomicU64,
    /// Deleted tables at the last look; negative before the first.
    purge_backlog: AtomicI64,
}

impl PostgresCounts {
    pub(super) fn new() -> Self {
        Self {
            wait_time: Distribution::new(STORAGE_TIME_BOUNDS),
            step_time: Distribution::new(STORAGE_TIME_BOUNDS),
            conflicts: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            purge_backlog: AtomicI64::new(-1),
        }
    }

    /// Counts an attempt that is made again.
    pub(super) fn retry(&self, reason: Retry) {
        let counter = match reason {
            Retry::Conflict => &self.conflicts,
            Retry::Timeout => &self.timeouts,
            Retry::Connection => &self.connections,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The attempts that were made again, by reason.
    pub(super) fn retries(&self) -> [(&'static str, u64); 3] {
        [("conflict", &self.conflicts), ("timeout", &self.timeouts), ("connection", &self.connections)]
            .map(|(reason, counter)| (reason, counter.load(Ordering::Relaxed)))
    }

    /// Keeps the number of deleted tables that somebody saw.
    pub(super) fn note_purge_backlog(&self, count: i64) {
        self.purge_backlog.store(count, Ordering::Relaxed);
    }

    /// The number of deleted tables at the last look, if there was one.
    pub(super) fn purge_backlog(&self) -> Option<u64> {
        u64::try_from(self.purge_backlog.load(Ordering::Relaxed)).ok()
    }
}
