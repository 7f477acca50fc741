//! Stamps: the instants that become the Timestamps of entities.
//!
//! Invariant: every stamp is later than all previous stamps, even if the clock stands still or moves backwards.

use model::{Clock, DateTime};
use std::sync::Arc;

/// A source of strictly increasing instants that follow a clock.
#[derive(Debug)]
pub struct Stamps {
    clock: Arc<dyn Clock>,
    last: DateTime,
}

impl Stamps {
    /// Creates a sequence of stamps later than `last`.
    pub fn after(last: DateTime, clock: Arc<dyn Clock>) -> Self {
        Self { clock, last }
    }

    /// Returns the next stamp: the current time, or 100 ns after the last stamp if that is later.
    pub fn propose(&self) -> DateTime {
        self.clock.now().max(self.last.next())
    }

    /// Issues a proposed stamp. A refused transaction's stamp is proposed but never issued.
    pub fn issue(&mut self, stamp: DateTime) {
        debug_assert!(stamp > self.last, "stamps increase");
        self.last = stamp;
    }

    /// Returns the last stamp that was issued.
    pub fn last(&self) -> DateTime {
        self.last
    }

    /// Returns the current time, which may be earlier than the last stamp.
    pub fn now(&self) -> DateTime {
        self.clock.now()
    }
}
