//! When the operations of a run are due, if they come at a rate of their own and not as fast as they are answered.
//!
//! Connections that wait for a server that stands still ask it nothing, so a measurement that only looks at what was
//! asked sees one long answer where a thousand were due. Here an operation that no connection was free for counts from
//! the moment at which it was due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// Operations at a steady rate from a moment on, for any number of connections that take them one by one.
#[derive(Debug)]
pub(crate) struct Pace {
    began: Instant,
    until: Instant,
    per_second: u64,
    next: AtomicU64,
}

/// What a connection that asked for its next operation has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// One that is due in the future. It counts from when it is begun: what a timer is late by is not the server's.
    At(Instant),
    /// One that has been due since then, because every connection was waiting for an answer.
    Since(Instant),
    /// None is left.
    Over,
}

impl Pace {
    /// A rate from `began` to `until`.
    pub(crate) fn new(per_second: u64, began: Instant, until: Instant) -> Self {
        Self { began, until, per_second: per_second.max(1), next: AtomicU64::new(0) }
    }

    /// Takes the next operation.
    pub(crate) fn take(&self, now: Instant) -> Turn {
        let due = self.due(self.next.fetch_add(1, Ordering::Relaxed));
        if due >= self.until || now >= self.until {
            Turn::Over
        } else if due > now {
            Turn::At(due)
        } else {
            Turn::Since(due)
        }
    }

    /// How many operations were due and not begun, once every connection has been told that it is over.
    pub(crate) fn missed(&self, begun: u64) -> u64 {
        let time = self.until.saturating_duration_since(self.began).as_nanos();
        let due = (time * u128::from(self.per_second)).div_ceil(NANOSECONDS_PER_SECOND);
        u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(begun)
    }

    fn due(&self, number: u64) -> Instant {
        let nanoseconds = u128::from(number) * NANOSECONDS_PER_SECOND / u128::from(self.per_second);
        self.began + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// A thousand a second for ten milliseconds.
    fn pace() -> (Pace, Instant) {
        let began = Instant::now();
        (Pace::new(1000, began, began + 10 * MILLISECOND), began)
    }

    #[test]
    fn operations_are_due_at_the_rate() {
        let (pace, began) = pace();
        assert_eq!(pace.take(began), Turn::Since(began));
        for number in 1..10 {
            assert_eq!(pace.take(began), Turn::At(began + number * MILLISECOND));
        }
        assert_eq!(pace.take(began), Turn::Over);
        assert_eq!(pace.missed(10), 0);
    }

    #[test]
    fn after_a_stall_operations_count_from_when_they_were_due() {
        let (pace, began) = pace();
        assert_eq!(pace.take(began), Turn::Since(began));
        // Nothing was free for 5 ms; what was due meanwhile is due since then, and the rest as ever.
        let now = began + 5 * MILLISECOND;
        for number in 1..=5 {
            assert_eq!(pace.take(now), Turn::Since(began + number * MILLISECOND));
        }
        assert_eq!(pace.take(now), Turn::At(began + 6 * MILLISECOND));
    }

    #[test]
    fn what_was_never_begun_is_counted() {
        let (pace, began) = pace();
        for _ in 0..3 {
            pace.take(began);
        }
        assert_eq!(pace.take(began + 10 * MILLISECOND), Turn::Over, "no backlog is worked off behind the end");
        assert_eq!(pace.missed(3), 7);
    }

    #[test]
    fn odd_rates_do_not_drift() {
        let began = Instant::now();
        let pace = Pace::new(3, began, began + Duration::from_secs(3600));
        let last = (0..3 * 3600).map(|_| pace.take(began)).last();
        assert_eq!(last, Some(Turn::At(began + Duration::from_nanos(3_599_666_666_666))));
        assert_eq!(pace.take(began), Turn::Over);
    }
}
