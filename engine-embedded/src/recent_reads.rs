//! Decides whether reads run on the threads of their requests or on threads that are allowed to block.
//!
//! A read that finds its blocks in memory or in the operating system's cache takes some microseconds, less than the
//! time to pass it to another thread. A read that waits for a disk may take a thousand times as long, and delays every
//! other task on its thread. Nothing predicts which case applies, so the decision follows the recent reads that loaded
//! blocks: while they are fast, all reads run in place; when several of them are slow, all reads are moved.
//!
//! A thread that loses its processor during a read makes a fast read look slow. On a busy machine, this happens to a
//! small fraction of the reads. The time that a thread waits for a processor is therefore subtracted, where the system
//! tells it. As that costs a system call, it is only done once a read has looked slow. Elsewhere, a processor that is
//! taken away still looks like a disk. Therefore, no single read decides:
//!
//! - In place, the time that slow reads take adds up to a debt, which fast loads and time pay off. [`SLOW_READS_MAX`]
//!   bounds the number of reads that a disk delays when it suddenly becomes slow.
//! - Once reads are moved, they stay so for at least [`PERIOD_MIN`], and return at the end of a period in which most
//!   loads were fast. On blocking threads, which compete for the processors, more of the fast reads look slow. The
//!   bound is therefore higher, and the return is a trial: it begins with half of the debt that moves reads. The
//!   periods grow up to [`PERIOD_MAX`] while trials fail, so that a mixture of fast and slow reads hardly ever changes
//!   the decision.
//!
//! The number of loaded blocks is known only for all threads together. A read that loads nothing is therefore counted
//! as a fast load if another thread loads a block at the same time. The chance is small, because such a read is short.
//!
//! Small pages are decided in the same way, by the time that they take to step over tombstones and old versions.
//!
//! This module must not depend on the storage library. The decision is a function of the observed reads and their time.

use engine::parts::monotonic;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The duration from which a read that loaded blocks is slow.
pub(crate) const SLOW_READ: Duration = Duration::from_micros(250);
/// The maximum by which a read adds to the debt. A thread that loses its processor may wait much longer.
const WAIT_MAX: Duration = Duration::from_micros(1250);
/// The number of slow reads in immediate succession after which reads are moved, if each takes at least [`WAIT_MAX`].
/// Each of them may hold up a thread that serves requests. In addition, each such thread may have begun a read by then.
const SLOW_READS_MAX: u32 = 6;
/// The debt that a fast read with a loaded block pays off: about the cost of passing a read to another thread. The debt
/// therefore grows if waiting in place costs more than that, for example if one in 32 loads takes more than 1.25 ms, or
/// one in 8 takes 0.3 ms.
const LOAD_CREDIT: Duration = Duration::from_micros(40);
/// Time pays off this fraction of itself. If a thread waits for less of its time, reads stay in place: moving all reads
/// would cost more than the few delays.
const TIME_PER_CREDIT: u32 = 256;

/// The debt above which reads are moved.
const DEBT_MAX: Duration = WAIT_MAX.saturating_mul(SLOW_READS_MAX - 1);

/// The first period after which moved reads may return. It doubles with each return that does not last.
const PERIOD_MIN: Duration = Duration::from_secs(5);
/// The maximum period, and the time after which a return has lasted.
const PERIOD_MAX: Duration = Duration::from_secs(20);
/// Moved reads return after a period in which slow reads took at most this multiple of both credits. With 64
/// connections on two processors, and most blocks in the operating system's cache, up to 7% of the loads on blocking
/// threads looked slow, and 1% of those in place.
const RETURN_FACTOR: u32 = 2;

#[derive(Debug, Clone, Copy)]
enum Placement {
    InPlace {
        debt: Duration,
        /// The time up to which the debt has been paid off.
        paid_until: Instant,
        since: Instant,
        /// The period for which reads are moved next, unless this placement lasts.
        next_period: Duration,
    },
    Moved {
        period_began: Instant,
        period: Duration,
        loads: u32,
        waited: Duration,
    },
}

impl Placement {
    fn initial(now: Instant) -> Self {
        Self::InPlace { debt: Duration::ZERO, paid_until: now, since: now, next_period: PERIOD_MIN }
    }

    fn moved(now: Instant, period: Duration) -> Self {
        Self::Moved { period_began: now, period, loads: 0, waited: Duration::ZERO }
    }

    fn is_moved(self) -> bool {
        matches!(self, Self::Moved { .. })
    }

    /// Returns whether the following reads change the placement, even if they load nothing.
    fn is_watched(self) -> bool {
        !matches!(self, Self::InPlace { debt: Duration::ZERO, .. })
    }

    /// Returns the placement after a read that ended at the given time. `load_time` is its duration, if it loaded a
    /// block.
    fn after(self, load_time: Option<Duration>, now: Instant) -> Self {
        match self {
            Self::InPlace { debt, paid_until, since, next_period } => {
                // The time that reads wait for a slow disk pays off nothing.
                let paid = now.saturating_duration_since(paid_until).saturating_sub(load_time.unwrap_or_default());
                let debt = debt.saturating_sub(paid / TIME_PER_CREDIT);
                let debt = match (load_time, wait(load_time)) {
                    (Some(_), Duration::ZERO) => debt.saturating_sub(LOAD_CREDIT),
                    (_, wait) => debt.saturating_add(wait),
                };
                if debt > DEBT_MAX {
                    let has_lasted = now.saturating_duration_since(since) >= PERIOD_MAX;
                    return Self::moved(now, if has_lasted { PERIOD_MIN } else { next_period });
                }
                Self::InPlace { debt, paid_until: now.max(paid_until), since, next_period }
            }
            Self::Moved { period_began, period, loads, waited } => {
                let loads = loads.saturating_add(u32::from(load_time.is_some()));
                let waited = waited.saturating_add(wait(load_time));
                let credit = (period / TIME_PER_CREDIT).saturating_add(LOAD_CREDIT.saturating_mul(loads));
                if now.saturating_duration_since(period_began) < period {
                    Self::Moved { period_began, period, loads, waited }
                } else if waited <= credit.saturating_mul(RETURN_FACTOR) {
                    let next_period = (period * 2).min(PERIOD_MAX);
                    Self::InPlace { debt: DEBT_MAX / 2, paid_until: now, since: now, next_period }
                } else {
                    Self::moved(now, PERIOD_MIN)
                }
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct RecentReads {
    placement: Mutex<Placement>,
    /// Copies of the decision, so that reads which load nothing take no lock.
    are_moved: AtomicBool,
    are_watched: AtomicBool,
    pub(crate) in_place: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) slow: AtomicU64,
}

impl RecentReads {
    pub(crate) fn new() -> Self {
        Self {
            placement: Mutex::new(Placement::initial(monotonic::now())),
            are_moved: AtomicBool::new(false),
            are_watched: AtomicBool::new(false),
            in_place: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            slow: AtomicU64::new(0),
        }
    }

    /// Returns whether reads must not run on the threads of their requests, because they may wait for the disk.
    pub(crate) fn are_moved(&self) -> bool {
        self.are_moved.load(Ordering::Relaxed)
    }

    /// Returns whether the next reads are timed without their waits for a processor, and are recorded even if they load
    /// nothing: a read has looked slow recently.
    pub(crate) fn are_watched(&self) -> bool {
        self.are_watched.load(Ordering::Relaxed)
    }

    /// Like [`Self::are_moved`], for the given number of reads that are about to begin.
    pub(crate) fn begin(&self, reads: u64) -> bool {
        self.count(reads, self.are_moved())
    }

    /// Counts reads that are about to begin, on threads of requests or moved. Returns whether they are moved.
    pub(crate) fn count(&self, reads: u64, are_moved: bool) -> bool {
        let count = if are_moved { &self.moved } else { &self.in_place };
        count.fetch_add(reads, Ordering::Relaxed);
        are_moved
    }

    /// Records a read that has just ended, on whichever thread, and whether blocks were loaded during it.
    pub(crate) fn end(&self, timer: &ReadTimer, has_loaded: bool) {
        // Reads without loads tell that loads have become rare.
        if has_loaded || self.are_watched() {
            let now = monotonic::now();
            self.record(has_loaded.then(|| timer.read_time(now.saturating_duration_since(timer.began))), now);
        }
    }

    pub(crate) fn record(&self, load_time: Option<Duration>, now: Instant) {
        if wait(load_time) > Duration::ZERO {
            self.slow.fetch_add(1, Ordering::Relaxed);
        }
        let mut placement = self.placement.lock();
        *placement = placement.after(load_time, now);
        // Stored under the lock, so that it does not contradict the placement.
        self.are_moved.store(placement.is_moved(), Ordering::Relaxed);
        self.are_watched.store(placement.is_watched(), Ordering::Relaxed);
    }
}

/// The beginning of a read.
pub(crate) struct ReadTimer {
    began: Instant,
    /// How long the thread had waited for a processor by then, if that is measured.
    processor_wait: Option<Duration>,
}

impl ReadTimer {
    pub(crate) fn start(is_watched: bool) -> Self {
        let processor_wait = if is_watched { platform::process::processor_wait() } else { None };
        Self { began: monotonic::now(), processor_wait }
    }

    /// Returns the time that a read took, apart from what the thread that called [`Self::start`] has waited for a
    /// processor since.
    pub(crate) fn read_time(&self, elapsed: Duration) -> Duration {
        if elapsed < SLOW_READ {
            return elapsed;
        }
        let now = self.processor_wait.and_then(|_| platform::process::processor_wait());
        let waited = now.zip(self.processor_wait).map(|(now, before)| now.saturating_sub(before));
        elapsed.saturating_sub(waited.unwrap_or_default())
    }
}

/// Returns the time that a read has waited for the disk, at most [`WAIT_MAX`], or zero if it was fast.
fn wait(load_time: Option<Duration>) -> Duration {
    load_time.filter(|time| *time >= SLOW_READ).unwrap_or_default().min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint;
    use test_support::Random;

    const FAST: Option<Duration> = Some(Duration::from_micros(20));
    const SLOW: Option<Duration> = Some(Duration::from_millis(5));
    const CACHED: Option<Duration> = None;

    /// A sequence of reads, and what they did to the placement.
    struct Sequence {
        placement: Placement,
        now: Instant,
        slow_in_place: u64,
        moves: u64,
    }

    impl Sequence {
        fn new() -> Self {
            let now = Instant::now();
            Self { placement: Placement::initial(now), now, slow_in_place: 0, moves: 0 }
        }

        fn moved() -> Self {
            let mut sequence = Self::new();
            sequence.reads(u64::from(SLOW_READS_MAX), Duration::ZERO, |_| SLOW);
            assert!(sequence.placement.is_moved());
            sequence
        }

        /// Returns whether reads are moved after a read that begins after a pause.
        fn read(&mut self, pause: Duration, load_time: Option<Duration>) -> bool {
            self.now += pause + load_time.unwrap_or_default();
            let was_moved = self.placement.is_moved();
            self.slow_in_place += u64::from(!was_moved && wait(load_time) > Duration::ZERO);
            self.placement = self.placement.after(load_time, self.now);
            let is_moved = self.placement.is_moved();
            self.moves += u64::from(is_moved && !was_moved);
            is_moved
        }

        fn reads(&mut self, count: u64, pause: Duration, load_time: impl Fn(u64) -> Option<Duration>) -> bool {
            (1..=count).for_each(|number| _ = self.read(pause, load_time(number)));
            self.placement.is_moved()
        }

        /// Reads for some seconds, ten thousand times per second of pauses.
        fn seconds(&mut self, seconds: u64, load_time: impl FnMut() -> Option<Duration>) -> bool {
            let (end, mut load_time) = (self.now + Duration::from_secs(seconds), load_time);
            while self.now < end {
                self.read(Duration::from_micros(100), load_time());
            }
            self.placement.is_moved()
        }
    }

    fn every(period: u64) -> impl Fn(u64) -> Option<Duration> {
        move |number| if number % period == 0 { SLOW } else { FAST }
    }

    #[test]
    fn a_disk_that_is_slow_moves_reads_after_a_few() {
        let few = u64::from(SLOW_READS_MAX);
        for (time, reads) in [(SLOW_READ, 26), (WAIT_MAX, few), (WAIT_MAX * 4, few), (WAIT_MAX * 1000, few)] {
            let mut sequence = Sequence::new();
            assert!(!sequence.reads(reads - 1, Duration::ZERO, |_| Some(time)), "{time:?}");
            assert!(sequence.read(Duration::ZERO, Some(time)), "{time:?}");
        }
        let mut after_fast_reads = Sequence::new();
        assert!(!after_fast_reads.reads(100_000, Duration::from_micros(100), |_| FAST));
        assert!(after_fast_reads.reads(few, Duration::ZERO, |_| SLOW), "fast reads are no credit for later");
        let mut beside_cached_reads = Sequence::new();
        let mostly_cached = |number| if number % 100 == 0 { SLOW } else { CACHED };
        assert!(beside_cached_reads.reads(100 * (few + 1), Duration::from_micros(100), mostly_cached));
        let mut half = Sequence::new();
        assert!(half.reads(2 * few, Duration::ZERO, every(2)), "{}", half.slow_in_place);
    }

    #[test]
    fn reads_stay_in_place_while_slow_ones_are_few() {
        let mut fast = Sequence::new();
        assert!(!fast.reads(100_000, Duration::ZERO, |_| Some(SLOW_READ / 2)));
        let mut rare = Sequence::new();
        assert!(!rare.reads(10_000, WAIT_MAX * TIME_PER_CREDIT, |_| SLOW), "rarely anything is loaded");
        let mut one_in_fifty = Sequence::new();
        assert!(!one_in_fifty.reads(100_000, Duration::ZERO, every(50)));
        let mut solid_state = Sequence::new();
        let one_in_ten = |number| if number % 10 == 0 { Some(SLOW_READ) } else { FAST };
        assert!(!solid_state.reads(100_000, Duration::ZERO, one_in_ten), "waiting costs less than other threads");
        // The reads of several threads end together when the machine continues.
        let mut stalls = Sequence::new();
        for _ in 0..1000 {
            stalls.reads(u64::from(SLOW_READS_MAX) - 2, Duration::ZERO, |_| SLOW);
            stalls.reads(200, Duration::ZERO, |_| FAST);
        }
        assert_eq!(stalls.moves, 0);
    }

    #[test]
    fn reads_are_watched_until_the_debt_of_a_slow_one_is_paid_off() {
        let mut sequence = Sequence::new();
        sequence.reads(10, Duration::ZERO, |_| FAST);
        assert!(!sequence.placement.is_watched());
        sequence.read(Duration::ZERO, SLOW);
        assert!(sequence.placement.is_watched());
        sequence.reads(100, Duration::from_millis(1), |_| CACHED);
        assert!(sequence.placement.is_watched());
        sequence.reads(1000, Duration::from_millis(1), |_| CACHED);
        assert!(!sequence.placement.is_watched(), "cached reads notice that time has paid off the debt");
        assert!(Sequence::moved().placement.is_watched());
    }

    #[test]
    fn waiting_for_a_processor_is_not_waiting_for_the_disk() {
        let unknown = ReadTimer { began: monotonic::now(), processor_wait: None };
        assert_eq!(unknown.read_time(WAIT_MAX), WAIT_MAX);
        let timer = ReadTimer::start(true);
        let Some(before) = timer.processor_wait else { return };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().unwrap().get() * 2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        hint::spin_loop();
                    }
                });
            }
            while platform::process::processor_wait().unwrap() < before + WAIT_MAX {
                hint::spin_loop();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(timer.read_time(WAIT_MAX), Duration::ZERO);
        assert_eq!(timer.read_time(SLOW_READ / 2), SLOW_READ / 2, "a fast read is not measured again");
    }

    #[test]
    fn moved_reads_return_when_hardly_any_is_slow() {
        assert!(!Sequence::moved().seconds(6, || FAST), "fast again");
        assert!(!Sequence::moved().seconds(6, || CACHED), "everything is in the cache");
        let mut early = Sequence::moved();
        assert!(early.seconds(4, || FAST), "the period is not over");
        assert!(Sequence::moved().seconds(60, || SLOW), "still slow");
        let mut quiet = Sequence::moved();
        assert!(!quiet.read(Duration::from_hours(1), SLOW), "the last slow read was long ago");
        let mut rare = Sequence::moved();
        assert!(!rare.reads(10, Duration::from_secs(1), |_| SLOW), "rarely anything is loaded");
    }

    #[test]
    fn a_mixture_of_fast_and_slow_reads_does_not_alternate() {
        for percent in [3, 4, 5, 10, 20, 50, 100] {
            let mut random = Random::new(percent);
            let mut sequence = Sequence::moved();
            sequence.seconds(120, || if random.below(100) < percent { SLOW } else { FAST });
            // Trials fail after some reads. From 10%, there are none.
            let (moves, slow) = (sequence.moves, sequence.slow_in_place);
            let moves_max = if percent < 10 { 120 / PERIOD_MAX.as_secs() + 3 } else { 1 };
            assert!(moves <= moves_max && slow <= 40 * moves, "{percent}%: {moves} moves, {slow} slow reads in place");
        }
        // Reads of a table in the operating system's cache alternate with reads of one that is only on disk.
        let mut alternating = Sequence::new();
        for _ in 0..600 {
            alternating.reads(1000, Duration::from_micros(100), |_| FAST);
            alternating.reads(100, Duration::from_micros(100), |_| SLOW);
        }
        assert_eq!((alternating.moves, alternating.slow_in_place), (1, u64::from(SLOW_READS_MAX)));
    }

    /// A thread that loses its processor during a read gets it back after some milliseconds.
    #[test]
    fn a_busy_machine_is_no_slow_disk() {
        for seed in 0..3 {
            let mut random = Random::new(seed);
            let mut sequence = Sequence::new();
            let mut moved = 0;
            for _ in 0..200 {
                let is_preempted = |random: &mut Random| random.below(1000) < 5;
                moved += u64::from(sequence.seconds(1, || if is_preempted(&mut random) { SLOW } else { FAST }));
            }
            assert!(moved <= 10, "seed {seed}: moved in {moved} of 200 seconds");
        }
    }
}
