//! Stamps: the instants that become the Timestamps of entities.
//!
//! Invariant: every stamp is later than all stamps before it, even if the clock stands still or goes back.

use model::{Clock, DateTime};

/// Gives out strictly increasing instants that follow a clock.
#[derive(Debug)]
pub(crate) struct Stamps<C> {
    clock: C,
    last: DateTime,
}

impl<C: Clock> Stamps<C> {
    /// Stamps later than `last`.
    pub(crate) fn after(last: DateTime, clock: C) -> Self {
        Self { clock, last }
    }

    /// The next stamp: the time of the clock, or 100 ns after the last stamp if that is later.
    pub(crate) fn propose(&self) -> DateTime {
        self.clock.now().max(self.last.next())
    }

    /// Gives out a proposed stamp. The stamp of a refused transaction is only proposed.
    pub(crate) fn give_out(&mut self, stamp: DateTime) {
        debug_assert!(stamp > self.last, "stamps grow");
        self.last = stamp;
    }

    /// The last stamp that was given out.
    pub(crate) fn last(&self) -> DateTime {
        self.last
    }

    /// The time of the clock, unstamped.
    pub(crate) fn now(&self) -> DateTime {
        self.clock.now()
    }
}
