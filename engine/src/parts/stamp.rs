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
    lead: Lead,
}

impl Stamps {
    /// Creates a sequence of stamps later than `last`.
    pub fn after(last: DateTime, clock: Arc<dyn Clock>) -> Self {
        Self { clock, last, lead: Lead::default() }
    }

    /// Returns the next stamp: the current time, or 100 ns after the last stamp if that is later.
    pub fn propose(&mut self) -> DateTime {
        let now = self.clock.now();
        self.lead.observe(self.last, now);
        now.max(self.last.next())
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

/// The number of ticks by which stamps may be ahead of the clock without a message: one minute.
const LEAD_TICKS_MAX: i64 = 600_000_000;

/// Whether the stamps are far ahead of the clock. Logs when that begins and ends.
#[derive(Debug, Default)]
pub struct Lead {
    is_long: bool,
}

impl Lead {
    /// Compares the last stamp with the current time. Returns true if the log got a message.
    pub fn observe(&mut self, last: DateTime, now: DateTime) -> bool {
        let ticks = last.ticks() - now.ticks();
        // Once the lead is long, it ends only when the clock has reached the stamps.
        let is_long = ticks > if self.is_long { 0 } else { LEAD_TICKS_MAX };
        if is_long == self.is_long {
            return false;
        }
        self.is_long = is_long;
        if is_long {
            tracing::warn!(
                last_timestamp = %last,
                %now,
                "the last Timestamp is ahead of the clock, so until the clock reaches it, each new Timestamp is 100 ns \
                 later than the last one; correct the clock if it is wrong; if it is right, it was wrong when that \
                 Timestamp was issued: to get true Timestamps again, copy the tables with `rowhouse copy` into a new \
                 data folder or database"
            );
        } else {
            tracing::info!(last_timestamp = %last, %now, "the clock has reached the last Timestamp, so new Timestamps are true again");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_contract::support::ManualClock;

    #[test]
    fn a_long_lead_is_logged_when_it_begins_and_ends() {
        const NOW: i64 = 10 * LEAD_TICKS_MAX;
        let at = |ticks| DateTime::from_ticks(ticks).unwrap();
        let mut lead = Lead::default();
        let long = NOW + LEAD_TICKS_MAX + 1;
        for (last, now, is_logged) in [
            (0, NOW, false),
            (long - 1, NOW, false),
            (long, NOW, true),
            (long + 1, NOW, false),
            // It becomes short, but does not end.
            (long + 2, long, false),
            (long + 3, NOW, false),
            (long + 4, long + 4, true),
            (long + 5, long + 6, false),
            (2 * long, NOW, true),
        ] {
            assert_eq!(lead.observe(at(last), at(now)), is_logged, "{last} at {now}");
        }
    }

    #[test]
    fn stamps_continue_after_one_that_is_ahead_of_the_clock() {
        let clock = ManualClock::at(1000);
        let ahead = DateTime::from_ticks(10 * LEAD_TICKS_MAX).unwrap();
        let mut stamps = Stamps::after(ahead, Arc::new(clock.clone()));
        let next = stamps.propose();
        assert_eq!(next, ahead.next());
        assert!(stamps.lead.is_long, "the log says so at the first write");
        stamps.issue(next);
        clock.set(20 * LEAD_TICKS_MAX);
        assert_eq!(stamps.propose().ticks(), 20 * LEAD_TICKS_MAX);
        assert!(!stamps.lead.is_long);
        stamps.issue(stamps.last().next());
        clock.set(1000);
        stamps.propose();
        assert!(stamps.lead.is_long, "the clock was set back");
    }
}
