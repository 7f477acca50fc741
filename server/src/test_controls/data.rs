//! The data of a server that keeps them in memory, with what the server has noticed of them: changes that are not in effect
//! yet, the usage of quotas, and figures of analytics that are not written yet.
//!
//! Invariant: whoever replaces or removes data here removes what was noticed of them, too.

use super::clock::TestClock;
use crate::limits::quota::Quotas;
use crate::rehearsal::Rehearsal;
use crate::telemetry::analytics::Analytics;
use model::AccountName;
use std::fmt;
use std::sync::Arc;
use store::{MemoryCheckpoint, MemoryCheckpoints};

/// Returns a running server to a state of its data.
pub struct TestData {
    pub(crate) clock: TestClock,
    /// The states of the engine.
    pub(crate) engine: MemoryCheckpoints<TestClock>,
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
    /// Keeps the present state.
    pub fn take(&self) -> MemoryCheckpoint {
        self.engine.take()
    }

    /// Returns to a state. The clock stays as it is, and requests are counted on.
    pub fn return_to(&self, checkpoint: &MemoryCheckpoint) {
        self.engine.return_to(checkpoint);
        self.forget_changes(None);
    }

    /// Returns to a state as if nothing had happened since, with the clock of the operating system.
    pub fn begin_again(&self, checkpoint: &MemoryCheckpoint) {
        // The clock comes first, so that what is written after the return has the right time.
        self.clock.reset();
        self.engine.begin_again(checkpoint);
        self.forget_changes(None);
        self.forget_requests(None);
    }

    /// Removes everything that an account has.
    pub(crate) fn clear_account(&self, account: &AccountName) {
        self.engine.clear_account(account);
        self.forget_changes(Some(account));
        self.forget_requests(Some(account));
    }

    /// Forgets what was noticed of the data of one account, or of all.
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
