//! Measures which partitions of a Citus cluster cause how much work.

use engine_postgres::parts::RequestMeter;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The estimated processor time of the nodes, in seconds, for each read and each write without its rows, and for each
/// row that is read or written. `docs/lab/citus.md` contains the measurements. The time until a response is not
/// suitable as a measure, because it includes waiting: a node that is busy would seem to have more work than it would
/// give to another one.
const READ_SECONDS: f64 = 80e-6;
const WRITE_SECONDS: f64 = 250e-6;
const READ_ROW_SECONDS: f64 = 2.5e-6;
const WRITTEN_ROW_SECONDS: f64 = 24e-6;

/// An amount of work, or an amount of work per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Load {
    /// Requests that read, such as a page of a query.
    pub(crate) reads: f64,
    /// Requests that write: transactions.
    pub(crate) writes: f64,
    /// Rows that were read or written.
    pub(crate) rows: f64,
    /// How many of the rows were written.
    pub(crate) written: f64,
    /// The time until the database responded, in seconds.
    pub(crate) seconds: f64,
}

impl Load {
    /// Returns the estimated processor time of the nodes in seconds.
    pub(crate) fn cost(&self) -> f64 {
        let requests = self.reads * READ_SECONDS + self.writes * WRITE_SECONDS;
        requests + (self.rows - self.written) * READ_ROW_SECONDS + self.written * WRITTEN_ROW_SECONDS
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.rows += other.rows;
        self.written += other.written;
        self.seconds += other.seconds;
    }

    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            reads: self.reads * factor,
            writes: self.writes * factor,
            rows: self.rows * factor,
            written: self.written * factor,
            seconds: self.seconds * factor,
        }
    }
}

/// With 128 counters, a partition with at least 1% of the load has a counter whose error is small.
const COUNTERS: usize = 128;

#[derive(Debug, Clone, PartialEq)]
struct Counter {
    hash: i32,
    partition: Vec<u8>,
    weight: f64,
    /// At most this much of the weight belongs to other partitions.
    error: f64,
}

/// Finds the hottest partitions in bounded memory.
///
/// This is the space-saving algorithm (Metwally, Agrawal and El Abbadi, 2005) with weights. It keeps a fixed number of
/// counters. A partition without a counter takes over the smallest one and adds to its value. A counter is therefore
/// too high by at most the value that it was taken over with, and a partition whose weight exceeds the total divided by
/// the number of counters always has one.
#[derive(Debug, Default)]
pub(crate) struct Hottest {
    counters: Vec<Counter>,
}

impl Hottest {
    pub(crate) fn add(&mut self, hash: i32, partition: &[u8], weight: f64) {
        let known = |counter: &&mut Counter| counter.hash == hash && counter.partition == partition;
        if let Some(counter) = self.counters.iter_mut().find(known) {
            counter.weight += weight;
        } else if self.counters.len() < COUNTERS {
            self.counters.push(Counter { hash, partition: partition.to_vec(), weight, error: 0.0 });
        } else if let Some(least) = self.counters.iter_mut().min_by(|a, b| a.weight.total_cmp(&b.weight)) {
            least.error = least.weight;
            least.weight += weight;
            least.hash = hash;
            least.partition.clear();
            least.partition.extend_from_slice(partition);
        }
    }

    /// Multiplies all weights, so that earlier requests count less than later ones.
    pub(crate) fn fade(&mut self, factor: f64) {
        for counter in &mut self.counters {
            counter.weight *= factor;
            counter.error *= factor;
        }
        self.counters.retain(|counter| counter.weight > f64::EPSILON);
    }

    /// Returns the partitions with their weights, without those that may owe most of it to others. The weights are not
    /// too high.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (&[u8], f64)> {
        let sure = self.counters.iter().filter(|counter| counter.error < counter.weight / 2.0);
        sure.map(|counter| (counter.partition.as_slice(), counter.weight - counter.error))
    }
}

/// The number of equal ranges of hashes whose load is measured. With 32 shards, a shard has 32 of them, so a shard can
/// be split with an accuracy of 3% of its range.
pub(crate) const BUCKETS: usize = 1024;
/// The number of hashes in a range: 2^32 divided by [`BUCKETS`].
pub(crate) const BUCKET_WIDTH: f64 = 4_194_304.0;
/// The time in which the effect of a request falls to 1/e, in seconds.
pub(crate) const FADE_SECONDS: f64 = 20.0;

/// Returns the range to which a hash belongs.
pub(crate) fn bucket_of(hash: i32) -> usize {
    // The lowest hash is negative.
    let from_zero = hash.cast_unsigned() ^ (1 << 31);
    usize::try_from(from_zero >> (32 - BUCKETS.ilog2())).unwrap_or_default()
}

/// Returns the highest hash of a range.
pub(crate) fn last_of(bucket: usize) -> i32 {
    let width = 1_u64 << (32 - BUCKETS.ilog2());
    let last = (bucket as u64 + 1) * width - 1;
    (u32::try_from(last).unwrap_or(u32::MAX) ^ (1 << 31)).cast_signed()
}

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicU64,
    writes: AtomicU64,
    rows: AtomicU64,
    written: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Counts {
    #[allow(clippy::cast_precision_loss, reason = "a load needs no more precision")]
    fn take(&self) -> Load {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed) as f64;
        Load {
            reads: take(&self.reads),
            writes: take(&self.writes),
            rows: take(&self.rows),
            written: take(&self.written),
            seconds: take(&self.nanoseconds) * 1e-9,
        }
    }
}

/// Counts the requests since the last measurement, and remembers earlier ones for a while.
#[derive(Debug)]
pub(crate) struct Meter {
    counts: Vec<Counts>,
    faded: Mutex<Vec<Load>>,
    hottest: Mutex<Hottest>,
}

/// The load of one server, per second.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measurement {
    /// One for each range of hashes.
    pub(crate) buckets: Vec<Load>,
    /// The hottest partitions and their costs.
    pub(crate) hottest: Vec<(Vec<u8>, f64)>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| Counts::default()).collect(),
            faded: Mutex::new(vec![Load::default(); BUCKETS]),
            hottest: Mutex::default(),
        }
    }

    /// Begins a request to a partition with the given hash.
    pub(crate) fn begin(self: &Arc<Self>, hash: i32, partition: &[u8]) -> Request {
        Request {
            meter: Arc::clone(self),
            hash,
            partition: partition.to_vec(),
            rows: AtomicU64::new(0),
            written: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }
    }

    /// Ends a measurement that took this long.
    pub(crate) fn measure(&self, time: Duration) -> Measurement {
        let factor = (-time.as_secs_f64() / FADE_SECONDS).exp();
        let mut faded = self.faded.lock();
        for (load, counts) in faded.iter_mut().zip(&self.counts) {
            *load = load.times(factor);
            load.add(counts.take());
        }
        let mut hottest = self.hottest.lock();
        let measurement = Measurement {
            buckets: faded.iter().map(|load| load.times(1.0 / FADE_SECONDS)).collect(),
            hottest: hottest.partitions().map(|(key, cost)| (key.to_vec(), cost / FADE_SECONDS)).collect(),
        };
        hottest.fade(factor);
        measurement
    }
}

/// A request to one partition. It is counted when this value is dropped.
#[derive(Debug)]
pub(crate) struct Request {
    meter: Arc<Meter>,
    hash: i32,
    partition: Vec<u8>,
    rows: AtomicU64,
    written: AtomicU64,
    nanoseconds: AtomicU64,
}

impl RequestMeter for Request {
    fn add_read_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    fn add_written_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.written.fetch_add(rows as u64, Ordering::Relaxed);
    }

    fn add_time(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Drop for Request {
    #[allow(clippy::cast_precision_loss, reason = "a load needs no more precision")]
    fn drop(&mut self) {
        let (rows, written) = (*self.rows.get_mut(), *self.written.get_mut());
        let is_write = written > 0;
        if let Some(counts) = self.meter.counts.get(bucket_of(self.hash)) {
            let requests = if is_write { &counts.writes } else { &counts.reads };
            requests.fetch_add(1, Ordering::Relaxed);
            counts.rows.fetch_add(rows, Ordering::Relaxed);
            counts.written.fetch_add(written, Ordering::Relaxed);
            counts.nanoseconds.fetch_add(*self.nanoseconds.get_mut(), Ordering::Relaxed);
        }
        let request =
            if is_write { Load { writes: 1.0, ..Load::default() } } else { Load { reads: 1.0, ..Load::default() } };
        let cost = Load { rows: rows as f64, written: written as f64, ..request }.cost();
        self.meter.hottest.lock().add(self.hash, &self.partition, cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;

    #[test]
    fn frequent_partitions_are_found_among_many() {
        let mut hottest = Hottest::default();
        for round in 0..100_000_u32 {
            // A fifth of all requests go to two partitions, and the others to ever new ones.
            let partition = match round % 10 {
                0 => 1,
                5 => 2,
                _ => 1000 + round,
            };
            hottest.add(partition.cast_signed(), &partition.to_be_bytes(), 1.0);
        }
        assert_eq!(hottest.counters.len(), COUNTERS);
        let mut found: Vec<_> = hottest.partitions().collect();
        found.sort_by(|a, b| a.0.cmp(b.0));
        let names: Vec<_> = found.iter().map(|(partition, _)| *partition).collect();
        assert_eq!(names, [&1_u32.to_be_bytes()[..], &2_u32.to_be_bytes()]);
        assert!(found.iter().all(|(_, weight)| (9_000.0..=10_000.0).contains(weight)), "{found:?}");
    }

    #[test]
    fn earlier_requests_count_less() {
        let mut hottest = Hottest::default();
        hottest.add(1, b"early", 8.0);
        hottest.fade(0.25);
        hottest.add(2, b"late", 4.0);
        assert_eq!(hottest.partitions().collect::<Vec<_>>(), [(&b"early"[..], 2.0), (&b"late"[..], 4.0)]);
        (0..200).for_each(|_| hottest.fade(0.25));
        assert_eq!(hottest.partitions().count(), 0);
    }

    #[test]
    fn the_ranges_cover_all_hashes() {
        assert_eq!((bucket_of(i32::MIN), bucket_of(-1), bucket_of(0), bucket_of(i32::MAX)), (0, 511, 512, 1023));
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(last_of(bucket)), bucket);
            assert_eq!(last_of(bucket).checked_add(1).map_or(BUCKETS, bucket_of), bucket + 1);
        }
    }

    #[test]
    fn a_steady_load_is_measured_as_such() {
        let meter = Arc::new(Meter::new());
        let mut measured = None;
        for _ in 0..40 {
            for number in 0..50 {
                let request = meter.begin(hash(b"partition"), b"partition");
                if number % 5 == 0 {
                    request.add_written_rows(1);
                }
                request.add_read_rows(2);
                request.add_time(Duration::from_millis(1));
            }
            measured = Some(meter.measure(Duration::from_secs(5)));
        }
        let measured = measured.unwrap();
        let total = measured.buckets[bucket_of(hash(b"partition"))];
        // Ten requests a second; all in a burst before each measurement, so slightly more.
        let (reads, writes) = (total.reads, total.writes);
        assert!((7.9..9.2).contains(&reads) && (1.9..2.3).contains(&writes), "{total:?}");
        assert!((21.0..25.0).contains(&total.rows) && (1.9..2.3).contains(&total.written), "{total:?}");
        assert!((0.009..0.012).contains(&total.seconds), "{total:?}");
        let other: f64 = measured.buckets.iter().map(|load| load.reads + load.writes).sum();
        assert!((other - reads - writes).abs() < 1e-9);
        let [(partition, cost)] = &measured.hottest[..] else { panic!("{:?}", measured.hottest) };
        assert_eq!(partition, b"partition");
        assert!((cost / total.cost() - 1.0).abs() < 1e-6, "{cost} {total:?}");
        assert!(meter.measure(Duration::from_hours(1)).hottest.len() == 1);
        assert!(meter.measure(Duration::from_secs(5)).buckets.iter().all(|load| load.cost() < 1e-9));
    }
}
