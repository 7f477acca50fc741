//! The schedule of operations in a run with a fixed rate.
//!
//! Connections that wait for a stalled server send it nothing. A measurement that counts only sent requests would see
//! one long response where a thousand operations were due (coordinated omission). Here, if no connection is free, the
//! latency of an operation counts from the time at which the operation was due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// Operations at a constant rate, distributed among any number of connections.
#[derive(Debug)]
pub(crate) struct Pace {
    began: Instant,
    until: Instant,
    per_second: u64,
    next: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The operation is due in the future. Its latency counts from its actual start, because the server does not cause
    /// the delay of a timer.
    At(Instant),
    /// The operation has been due since this time, because all connections were waiting for responses.
    Since(Instant),
    Over,
}

impl Pace {
    pub(crate) fn new(per_second: u64, began: Instant, until: Instant) -> Self {
        Self { began, until, per_second: per_second.max(1), next: AtomicU64::new(0) }
    }

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

    /// Returns the number of operations that were due but not started. Call it after every connection has received
    /// [`Turn::Over`].
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

    /// A thousand operations per second for ten milliseconds.
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
        // No connection was free for 5 ms. The latency of operations that were due in that period counts from their due
        // time. The latency of the other operations counts as usual.
        let now = began + 5 * MILLISECOND;
        for number in 1..=5 {
            assert_eq!(pace.take(now), Turn::Since(began + number * MILLISECOND));
        }
        assert_eq!(pace.take(now), Turn::At(began + 6 * MILLISECOND));
    }

    #[test]
    fn operations_that_were_never_begun_are_counted() {
        let (pace, began) = pace();
        for _ in 0..3 {
            pace.take(began);
        }
        assert_eq!(pace.take(began + 10 * MILLISECOND), Turn::Over, "no backlog is processed after the end");
        assert_eq!(pace.missed(3), 7);
    }

    #[test]
    fn odd_rates_do_not_drift() {
        let began = Instant::now();
        let pace = Pace::new(3, began, began + Duration::from_hours(1));
        let last = (0..3 * 3600).map(|_| pace.take(began)).last();
        assert_eq!(last, Some(Turn::At(began + Duration::from_nanos(3_599_666_666_666))));
        assert_eq!(pace.take(began), Turn::Over);
    }
}
