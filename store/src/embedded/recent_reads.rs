//! Whether reads have lately loaded blocks from disk.
//!
//! A read that finds its blocks in memory takes some microseconds, less than handing it to another thread would. One that
//! waits for a disk may take a thousand times as long, and every task of its thread waits with it. The library cannot tell
//! in advance which it will be, but it counts the blocks that it loads, for all reads of all threads: gets, scans, and the
//! look-ups for writes. So time is divided into periods, and a read runs on its thread while few blocks are loaded, in this
//! period and the one before. While all data fit into the cache, reads always run on their threads: a block is loaded
//! once, if at all.
//!
//! Compactions do not count: they read files as a whole, past the cache.

use crate::monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a period is.
const PERIOD: Duration = Duration::from_secs(1);
/// A period with fewer reads says nothing about the next.
const READS_MIN: u64 = 100;
/// For this many reads, one block may be loaded. To hand a read over takes 10 µs of processor time or more. With one load in
/// fifty, and a disk that takes 0.5 ms, a read waits as long on average. Inserts beyond the cache load a block for about one
/// in a hundred, because a filter does not tell; handing all of them over took 60 % more processor time.
const READS_PER_LOAD: u64 = 50;

/// What is known about the reads of a database.
#[derive(Debug)]
pub(super) struct RecentReads {
    opened: Instant,
    /// The number of the period, counted from 1 on.
    period: AtomicU64,
    /// The reads of this period, counted only if there are more data than cache.
    reads: AtomicU64,
    /// How many blocks had been loaded when it began.
    loaded: AtomicU64,
    /// Reads of this period may wait for the disk once this many blocks were loaded.
    may_wait_from: AtomicU64,
}

impl RecentReads {
    pub(super) fn new() -> Self {
        Self {
            opened: monotonic::now(),
            period: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            may_wait_from: AtomicU64::new(0),
        }
    }

    /// Whether some reads at this time may wait for the disk. `loaded` is the number of blocks that were loaded so far.
    /// `fits_cache` tells whether all data fit into the cache; it is called once in a period.
    pub(super) fn may_wait(
        &self,
        now: Instant,
        reads: u64,
        loaded: impl Fn() -> u64,
        fits_cache: impl FnOnce() -> bool,
    ) -> bool {
        let period = 1 + now.saturating_duration_since(self.opened).as_secs() / PERIOD.as_secs();
        let last = self.period.load(Ordering::Acquire);
        if period > last && self.period.compare_exchange(last, period, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.begin_period(period == last + 1, loaded(), fits_cache);
        }
        let may_wait_from = self.may_wait_from.load(Ordering::Relaxed);
        if may_wait_from == u64::MAX {
            return false;
        }
        self.reads.fetch_add(reads, Ordering::Relaxed);
        loaded() >= may_wait_from
    }

    fn begin_period(&self, follows_the_last: bool, loaded: u64, fits_cache: impl FnOnce() -> bool) {
        let reads = self.reads.swap(0, Ordering::Relaxed);
        // The library counts from zero again after the database was opened again.
        let loads = loaded.saturating_sub(self.loaded.swap(loaded, Ordering::Relaxed));
        let allowed = reads / READS_PER_LOAD;
        let may_wait_from = if fits_cache() {
            u64::MAX
        } else if follows_the_last && reads >= READS_MIN && loads <= allowed {
            loaded + allowed + 1
        } else {
            0
        };
        self.may_wait_from.store(may_wait_from, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since the database was opened, how many reads are to begin, blocks loaded so far, whether the data fit into
    /// the cache, and whether the reads may wait.
    type Step = (u64, u64, u64, bool, bool);

    fn check(name: &str, steps: &[Step]) {
        let recent = RecentReads::new();
        for (number, (seconds, reads, loaded, fits, expected)) in steps.iter().copied().enumerate() {
            let now = recent.opened + Duration::from_secs(seconds);
            assert_eq!(recent.may_wait(now, reads, || loaded, || fits), expected, "{name}, step {number}");
        }
    }

    #[test]
    fn a_read_may_wait_unless_those_before_it_did_not() {
        check("all data fit", &[(0, 1, 0, true, false), (0, 1, 9, true, false), (3, 1, 99, true, false)]);
        check("cold", &[(0, 500, 0, false, true), (0, 500, 500, false, true), (1, 500, 900, false, true)]);
        check("warm", &[(0, 100, 0, false, true), (1, 100, 0, false, false), (2, 100, 0, false, false)]);
        check("too few reads", &[(0, 99, 0, false, true), (1, 99, 0, false, true), (2, 1, 0, false, true)]);
        check(
            "one load in fifty reads",
            &[
                (0, 5000, 0, false, true),
                (1, 5000, 100, false, false),
                (1, 5000, 200, false, false),
                (1, 5000, 201, false, true),
                (2, 4999, 400, false, false),
                (3, 1, 500, false, true),
            ],
        );
        check("quiet", &[(0, 100, 0, false, true), (1, 100, 0, false, false), (3, 100, 0, false, true)]);
        check("they no longer fit", &[(0, 100, 5, true, false), (1, 1, 9, false, true), (2, 1, 9, true, false)]);
        check("opened again", &[(0, 100, 9, false, true), (1, 100, 0, false, false), (2, 100, 3, false, true)]);
        check("a late thread", &[(1, 100, 0, false, true), (2, 100, 0, false, false), (1, 100, 0, false, false)]);
    }
}
