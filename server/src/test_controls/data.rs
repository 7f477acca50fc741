//! The data of a server that keeps it in memory, together with the state that the server derived from it: changes that
//! are not in effect yet, the usage of quotas, and analytics metrics that have not been written yet.
//!
//! Invariant: code here that replaces or removes data also removes the state derived from it.

use super::clock::TestClock;
use crate::limits::quota::Quotas;
use crate::rehearsal::Rehearsal;
use crate::telemetry::analytics::Analytics;
use engine::{MemoryCheckpoint, MemoryCheckpoints};
use model::AccountName;
use std::fmt;
use std::sync::Arc;

/// Resets a running server to an earlier state of its data.
pub struct TestData {
    pub(crate) clock: TestClock,
    pub(crate) engine: MemoryCheckpoints,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) rehearsal: Option<Arc<Rehearsal>>,
    pub(crate) analytics: Option<Arc<Analytics>>,
}

impl fmt::Debug for TestData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestData").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl TestData {
    /// Takes a checkpoint of the current state.
    pub fn take(&self) -> MemoryCheckpoint {
        self.engine.take()
    }

    /// Restores a checkpoint. The clock does not change, and request counting continues.
    pub fn restore(&self, checkpoint: &MemoryCheckpoint) {
        self.engine.restore(checkpoint);
        self.forget_changes(None);
    }

    /// Restores a checkpoint as if nothing had happened since it was taken, and resets the clock to the operating
    /// system's time.
    pub fn reset_to(&self, checkpoint: &MemoryCheckpoint) {
        // The clock is reset first, so that writes to the restored data have the right time.
        self.clock.reset();
        self.engine.reset_to(checkpoint);
        self.forget_changes(None);
        self.forget_requests(None);
    }

    pub(crate) fn clear_account(&self, account: &AccountName) {
        self.engine.clear_account(account);
        self.forget_changes(Some(account));
        self.forget_requests(Some(account));
    }

    fn forget_changes(&self, account: Option<&AccountName>) {
        self.quotas.forget_usage(account);
        if let Some(rehearsal) = &self.rehearsal {
            rehearsal.forget_changes(account);
        }
    }

    fn forget_requests(&self, account: Option<&AccountName>) {
        if let Some(analytics) = &self.analytics {
            analytics.forget(account);
        }
    }
}
