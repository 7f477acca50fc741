//! What the committer counts while it works.

use crate::figures::{Distribution, GROUP_BOUNDS, STORAGE_TIME_BOUNDS};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What the committer counts. Only it writes here.
#[derive(Debug)]
pub(super) struct CommitterCounts {
    pub(super) group_transactions: Distribution,
    pub(super) group_entities: Distribution,
    pub(super) write_time: Distribution,
    pub(super) transactions: AtomicU64,
    pub(super) outages: AtomicU64,
    /// Merges of sorted files that the engine asked for.
    pub(super) merges: AtomicU64,
    /// Nothing can be written, because a write has failed.
    pub(super) is_out: AtomicBool,
}

impl CommitterCounts {
    pub(super) fn new() -> Self {
        Self {
            group_transactions: Distribution::new(GROUP_BOUNDS),
            group_entities: Distribution::new(GROUP_BOUNDS),
            write_time: Distribution::new(STORAGE_TIME_BOUNDS),
            transactions: AtomicU64::new(0),
            outages: AtomicU64::new(0),
            merges: AtomicU64::new(0),
            is_out: AtomicBool::new(false),
        }
    }
}
