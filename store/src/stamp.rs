//! Stamps: the instants that become the Timestamps of entities.
//!
//! Invariant: every stamp is later than all previous stamps, even if the clock stands still or moves backwards.

use model::{Clock, DateTime};

/// A source of strictly increasing instants that follow a clock.
#[derive(Debug)]
pub(crate) struct Stamps<C> {
    clock: C,
    last: DateTime,
}

impl<C: Clock> Stamps<C> {
    /// All stamps are later than `last`.
    pub(crate) fn after(last: DateTime, clock: C) -> Self {
        Self { clock, last }
    }

    /// Returns the current time, or 100 ns after the last stamp if that is later.
    pub(crate) fn propose(&self) -> DateTime {
        self.clock.now().max(self.last.next())
    }

    /// A refused transaction's stamp is proposed but never issued.
    pub(crate) fn issue(&mut self, stamp: DateTime) {
        debug_assert!(stamp > self.last, "stamps increase");
        self.last = stamp;
    }

    pub(crate) fn last(&self) -> DateTime {
        self.last
    }

    /// The result may be earlier than the last stamp.
    pub(crate) fn now(&self) -> DateTime {
        self.clock.now()
    }
}
