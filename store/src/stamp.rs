//! The instant that each transaction is stamped with.
//!
//! Invariant: every stamp is later than all stamps before it, also when the clock stands still or goes back.

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

    /// What the next stamp would be: the time of the clock, or 100 ns after the last stamp if that is later.
    pub(crate) fn propose(&self) -> DateTime {
        self.clock.now().max(self.last.next())
    }

    /// Gives out no stamp up to this one.
    pub(crate) fn skip_to(&mut self, last: DateTime) {
        self.last = self.last.max(last);
    }

    /// Gives out a proposed stamp. One that was proposed to a refused transaction was never given out.
    pub(crate) fn give_out(&mut self, stamp: DateTime) {
        debug_assert!(stamp > self.last, "stamps grow");
        self.last = stamp;
    }

    /// Takes a stamp back whose transaction was refused, unless a later one was given out since.
    pub(crate) fn take_back(&mut self, stamp: DateTime, last_before: DateTime) {
        if self.last == stamp {
            self.last = last_before;
        }
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
