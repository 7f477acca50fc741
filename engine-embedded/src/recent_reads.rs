//! Tracks whether recent reads had to load blocks from disk.
//!
//! A read that finds its blocks in memory takes a few microseconds, less than the time to pass it to another thread. A
//! read that waits for a disk may take a thousand times as long and blocks every other task on its thread. The library
//! cannot predict which case applies. It does, however, count the blocks that it loads, for all reads on all threads:
//! gets, scans, and lookups for writes. Time is therefore divided into periods. A read runs on the caller's thread as
//! long as few blocks are loaded in this period and in the previous one. While all data fits into the cache, reads
//! always run on the callers' threads, because each block is loaded at most once.
//!
//! Compactions do not count: they read entire files and bypass the cache.

use engine::parts::monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_secs(1);
/// The number of reads below which a period does not predict the next one.
const READS_MIN: u64 = 100;
/// The number of reads per loaded block from which reads stay on the caller's thread. Passing a read to another thread
/// takes at least 10 µs of processor time. If one in fifty reads loads a block, and the disk takes 0.5 ms, a read also
/// waits 10 µs on average. When the data exceeds the cache size, about one in a hundred inserts loads a block, because
/// of false positives of the filter. Passing all of these inserts to other threads took 60% more processor time.
const READS_PER_LOAD: u64 = 50;

#[derive(Debug)]
pub(crate) struct RecentReads {
    opened: Instant,
    /// The number of the current period, counted from 1.
    period: AtomicU64,
    /// The number of reads in this period, counted only if the data does not fit into the cache.
    reads: AtomicU64,
    /// The number of blocks that had been loaded when the period began.
    loaded: AtomicU64,
    /// The number of loaded blocks above which reads in this period count as likely to wait for the disk.
    may_wait_from: AtomicU64,
}

impl RecentReads {
    pub(crate) fn new() -> Self {
        Self {
            opened: monotonic::now(),
            period: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            may_wait_from: AtomicU64::new(0),
        }
    }

    /// Returns whether the given number of reads may wait for the disk at this time. `loaded` returns the number of
    /// blocks loaded so far. `fits_cache` returns whether all data fits into the cache; it is called once per period.
    pub(crate) fn may_wait(
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
        // The library's counter restarts at zero when the database is reopened.
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

    /// Seconds since the database was opened, number of reads about to start, blocks loaded so far, whether the data
    /// fits into the cache, and whether the reads may wait.
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
        check("all data fits", &[(0, 1, 0, true, false), (0, 1, 9, true, false), (3, 1, 99, true, false)]);
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
        check("data no longer fits", &[(0, 100, 5, true, false), (1, 1, 9, false, true), (2, 1, 9, true, false)]);
        check("reopened", &[(0, 100, 9, false, true), (1, 100, 0, false, false), (2, 100, 3, false, true)]);
        check("a late thread", &[(1, 100, 0, false, true), (2, 100, 0, false, false), (1, 100, 0, false, false)]);
    }
}
