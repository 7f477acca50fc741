//! Whether reads have lately had to wait for the disk.
//!
//! A read that finds its block in memory takes some microseconds, less than handing it to another thread would. One that
//! waits for a disk may take a thousand times as long, and every task of its thread waits with it. The library cannot tell
//! in advance which it will be, but slow reads come together: with the working set in memory there are none, and with a
//! cold cache many. So after a slow read, the reads of the next second are expected to be slow too.

use crate::monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Reads that take longer than this have waited for something. A block that is read from memory and decompressed takes a
/// tenth of it.
const SLOW_READ: Duration = Duration::from_micros(500);
/// For how long after a slow read the next ones are expected to be slow, too.
const EXPECTATION: Duration = Duration::from_secs(1);

/// What is known about the reads of a database.
#[derive(Debug)]
pub(super) struct SlowReads {
    opened: Instant,
    /// Until when slow reads are expected, in nanoseconds since `opened`; zero if there never was one.
    expected_until: AtomicU64,
}

impl SlowReads {
    pub(super) fn new() -> Self {
        Self { opened: monotonic::now(), expected_until: AtomicU64::new(0) }
    }

    /// Whether the next read may be slow.
    pub(super) fn are_expected(&self) -> bool {
        self.are_expected_at(monotonic::now)
    }

    /// Whether a read at that time may be slow. The clock is not read before there was a slow read.
    pub(super) fn are_expected_at(&self, then: impl FnOnce() -> Instant) -> bool {
        match self.expected_until.load(Ordering::Relaxed) {
            0 => false,
            until => self.nanos(then()) < until,
        }
    }

    /// Notes a read that began at that time and has just ended. `may_be_of_disk` is called only if it was slow, and tells
    /// whether it may have waited for the disk and not for a processor.
    pub(super) fn note(&self, began: Instant, may_be_of_disk: impl FnOnce() -> bool) {
        let now = monotonic::now();
        if now.duration_since(began) > SLOW_READ && may_be_of_disk() {
            self.expected_until.fetch_max(self.nanos(now + EXPECTATION), Ordering::Relaxed);
        }
    }

    /// Expects slow reads from now on, so that a test does not depend on [`EXPECTATION`].
    #[cfg(test)]
    pub(super) fn expect_always(&self) {
        self.expected_until.store(u64::MAX, Ordering::Relaxed);
    }

    fn nanos(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.opened).as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_read_of_the_disk_speaks_for_those_that_follow() {
        let reads = SlowReads::new();
        assert!(!reads.are_expected());
        let long_ago = reads.opened.checked_sub(Duration::from_secs(2)).unwrap();
        reads.note(long_ago, || false);
        assert!(!reads.are_expected(), "it waited for something else");
        let before = Instant::now();
        reads.note(long_ago, || true);
        assert!(reads.are_expected_at(|| before));
        reads.expect_always();
        assert!(reads.are_expected());
        reads.expected_until.store(1, Ordering::Relaxed);
        assert!(!reads.are_expected(), "it was long ago");
    }
}
