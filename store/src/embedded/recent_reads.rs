//! Whether reads have lately loaded blocks from disk.
//!
//! A read that finds its blocks in memory takes some microseconds, less than handing it to another thread would. One that
//! waits for a disk may take a thousand times as long, and every task of its thread waits with it. The library cannot tell
//! in advance which it will be, but it counts the blocks that it finds in its cache and those that it loads, for all reads
//! of all threads: gets, scans, and the look-ups for writes. So time is divided into periods, and a read runs on its thread
//! while nearly all blocks were found, in this period and the one before. The few that were not are those of new files, which
//! are loaded once. While all data fit into the cache, reads always run on their threads.
//!
//! Compactions do not count: they read files as a whole, past the cache.

use crate::monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a period is.
const PERIOD: Duration = Duration::from_secs(1);
/// A period with fewer look-ups of blocks says nothing about the next.
const LOOK_UPS_MIN: u64 = 100;
/// Of this many look-ups, one may load its block. While a table is written to, its new files need some. With ten thousand
/// gets a second and a disk that takes a millisecond, the threads that serve requests wait for the disk for a few percent of
/// their time at most; to hand over every get takes more.
const LOOK_UPS_PER_LOAD: u64 = 1000;

/// The blocks that the library has looked up since the database was opened.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BlockReads {
    /// Found in the cache.
    pub(super) cached: u64,
    /// Loaded from disk, or from the cache of the operating system.
    pub(super) loaded: u64,
}

/// What is known about the reads of a database.
#[derive(Debug)]
pub(super) struct RecentReads {
    opened: Instant,
    /// The number of the period, counted from 1 on.
    period: AtomicU64,
    /// What had been read when it began.
    cached: AtomicU64,
    loaded: AtomicU64,
    /// Reads of this period may wait for the disk once this many blocks were loaded.
    may_wait_from: AtomicU64,
}

impl RecentReads {
    pub(super) fn new() -> Self {
        Self {
            opened: monotonic::now(),
            period: AtomicU64::new(0),
            cached: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            may_wait_from: AtomicU64::new(0),
        }
    }

    /// Whether a read at this time may wait for the disk. `fits_cache` tells whether all data fit into the cache; it is
    /// called once in a period.
    pub(super) fn may_wait(
        &self,
        now: Instant,
        block_reads: impl Fn() -> BlockReads,
        fits_cache: impl FnOnce() -> bool,
    ) -> bool {
        let period = 1 + now.saturating_duration_since(self.opened).as_secs() / PERIOD.as_secs();
        let last = self.period.load(Ordering::Acquire);
        if period > last && self.period.compare_exchange(last, period, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.begin_period(period == last + 1, block_reads(), fits_cache);
        }
        match self.may_wait_from.load(Ordering::Relaxed) {
            u64::MAX => false,
            0 => true,
            loaded => block_reads().loaded >= loaded,
        }
    }

    fn begin_period(&self, follows_the_last: bool, now: BlockReads, fits_cache: impl FnOnce() -> bool) {
        let cached_before = self.cached.swap(now.cached, Ordering::Relaxed);
        let loaded_before = self.loaded.swap(now.loaded, Ordering::Relaxed);
        // The counters begin again when the database is opened again.
        let loads = now.loaded.saturating_sub(loaded_before);
        let look_ups = loads + now.cached.saturating_sub(cached_before);
        let allowed = look_ups / LOOK_UPS_PER_LOAD;
        let may_wait_from = if fits_cache() {
            u64::MAX
        } else if follows_the_last && look_ups >= LOOK_UPS_MIN && loads <= allowed {
            now.loaded + allowed + 1
        } else {
            0
        };
        self.may_wait_from.store(may_wait_from, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since the database was opened, blocks read from the cache and from disk so far, whether the data fit into the
    /// cache, and whether a read may wait then.
    type Step = (u64, u64, u64, bool, bool);

    fn check(name: &str, steps: &[Step]) {
        let reads = RecentReads::new();
        for (number, (seconds, cached, loaded, fits, expected)) in steps.iter().copied().enumerate() {
            let now = reads.opened + Duration::from_secs(seconds);
            assert_eq!(
                reads.may_wait(now, || BlockReads { cached, loaded }, || fits),
                expected,
                "{name}, step {number}"
            );
        }
    }

    #[test]
    fn a_read_may_wait_unless_those_before_it_did_not() {
        check("all data fit", &[(0, 0, 0, true, false), (0, 0, 9, true, false), (3, 0, 99, true, false)]);
        check("cold", &[(0, 0, 0, false, true), (0, 500, 500, false, true), (1, 900, 900, false, true)]);
        check("warm", &[(0, 0, 0, false, true), (1, 100, 0, false, false), (2, 200, 0, false, false)]);
        check("too few reads", &[(0, 0, 0, false, true), (1, 99, 0, false, true), (2, 199, 0, false, false)]);
        check(
            "a load ends it at once, and until a whole period was without one",
            &[
                (0, 0, 7, false, true),
                (1, 500, 8, false, true),
                (2, 1000, 8, false, false),
                (2, 1100, 8, false, false),
                (2, 1200, 9, false, true),
                (3, 1500, 9, false, true),
                (4, 2000, 9, false, false),
            ],
        );
        check("quiet", &[(0, 0, 0, false, true), (1, 100, 0, false, false), (3, 1000, 0, false, true)]);
        check("they no longer fit", &[(0, 0, 5, true, false), (1, 0, 9, false, true), (2, 0, 9, true, false)]);
        check(
            "one load in a thousand look-ups",
            &[
                (0, 0, 0, false, true),
                (1, 4996, 4, false, false),
                (1, 5000, 9, false, false),
                (1, 5000, 10, false, true),
                (2, 9990, 10, false, true),
                (3, 19_980, 20, false, false),
                (4, 29_969, 31, false, true),
            ],
        );
        check("opened again", &[(0, 900, 9, false, true), (1, 5, 0, false, true), (2, 105, 0, false, false)]);
        check("a late thread", &[(1, 0, 0, false, true), (2, 200, 0, false, false), (1, 200, 0, false, false)]);
    }
}
