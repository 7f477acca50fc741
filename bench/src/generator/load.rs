//! Concurrent connections that execute operations for a limited time: the phases of a run, and their totals.
//!
//! A phase ends when all operations that began in it have completed. The processor time that the server uses between
//! the ends of two phases is therefore exactly the time for the counted operations.

use crate::generator::workload::{Client, Failure, Workload};
use anyhow::Context;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// Each thread has its own connections, which is cheaper than sharing them.
const THREADS: usize = 2;
/// The number of consecutive failures after which a connection stops.
const FAILURES_IN_A_ROW_MAX: u32 = 20;
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// The name of the error for operations that were due but for which no connection became free.
const MISSED: &str = "due but not started in time";

#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    /// The number of entities that these operations read or wrote.
    pub(crate) entities: u64,
    pub(crate) latencies: Latencies,
    /// The number of errors by status or kind.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) first_error: Option<String>,
}

impl Tally {
    pub(crate) fn count_success(&mut self, entities: u64, latency: Duration) {
        self.operations += 1;
        self.entities += entities;
        self.latencies.record(latency);
    }

    fn count_failure(&mut self, failure: &Failure) {
        let kind = match failure {
            Failure::Status(status, _) => status.to_string(),
            Failure::Busy => "503 with Retry-After".to_owned(),
            Failure::Content(_) => "content".to_owned(),
            Failure::Connection(error) => format!("connection: {}", error.kind()),
        };
        *self.errors.entry(kind).or_default() += 1;
        self.first_error.get_or_insert_with(|| failure.to_string());
    }

    fn begun(&self) -> u64 {
        self.operations + self.errors.values().sum::<u64>()
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.operations += other.operations;
        self.entities += other.entities;
        self.latencies.merge(&other.latencies);
        for (kind, count) in other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

#[derive(Debug)]
pub(crate) struct Load {
    lanes: Vec<Lane>,
}

#[derive(Debug)]
struct Lane {
    runtime: Runtime,
    clients: Vec<Client>,
    tally: Arc<Mutex<Tally>>,
}

impl Load {
    pub(crate) fn new(clients: Vec<Client>) -> anyhow::Result<Self> {
        let threads = THREADS.min(clients.len());
        let mut lanes = Vec::with_capacity(threads);
        for _ in 0..threads {
            let runtime = Builder::new_current_thread().enable_all().build().context("starting a thread")?;
            lanes.push(Lane { runtime, clients: Vec::new(), tally: Arc::default() });
        }
        for (index, client) in clients.into_iter().enumerate() {
            if let Some(lane) = lanes.get_mut(index % threads) {
                lane.clients.push(client);
            }
        }
        Ok(Self { lanes })
    }

    /// Runs the workload on every connection until the time is over or no work is left. `rate` is the number of
    /// operations per second over all connections. Without a rate, operations follow each other immediately.
    pub(crate) fn phase(&mut self, workload: Workload, time: Duration, rate: Option<u64>) -> (Tally, Duration) {
        let began = Instant::now();
        let pace = rate.map(|per_second| Arc::new(Pace::new(per_second, began, began + time)));
        std::thread::scope(|scope| {
            for lane in &mut self.lanes {
                let pace = pace.as_ref();
                scope.spawn(move || lane.run(workload, began + time, pace));
            }
        });
        let mut total = Tally::default();
        for lane in &self.lanes {
            total.merge(std::mem::take(&mut *lane.tally.lock()));
        }
        let missed = pace.map_or(0, |pace| pace.missed(total.begun()));
        if missed > 0 {
            total.errors.insert(MISSED.to_owned(), missed);
        }
        (total, began.elapsed())
    }
}

impl Lane {
    fn run(&mut self, workload: Workload, until: Instant, pace: Option<&Arc<Pace>>) {
        let clients = std::mem::take(&mut self.clients);
        self.clients = self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for client in clients {
                running.spawn(work(client, workload, until, pace.cloned(), Arc::clone(&self.tally)));
            }
            running.join_all().await
        });
    }
}

async fn work(
    mut client: Client,
    workload: Workload,
    until: Instant,
    pace: Option<Arc<Pace>>,
    tally: Arc<Mutex<Tally>>,
) -> Client {
    let mut failures_in_a_row = 0;
    while failures_in_a_row < FAILURES_IN_A_ROW_MAX {
        let Some(began) = turn(pace.as_deref(), until).await else { break };
        let result = client.operation(workload).await;
        let latency = began.elapsed();
        // Only tasks on this thread take the lock, and no task holds it while waiting.
        let count = |with: &dyn Fn(&mut Tally)| with(&mut tally.lock());
        match result {
            Ok(Some(entities)) => {
                failures_in_a_row = 0;
                count(&|tally| tally.count_success(entities, latency));
            }
            Ok(None) => break,
            Err(failure) => {
                // A server that reports that it is busy is alive, so the request is retried.
                failures_in_a_row = if matches!(failure, Failure::Busy) { 0 } else { failures_in_a_row + 1 };
                count(&|tally| tally.count_failure(&failure));
                if matches!(failure, Failure::Connection(_)) {
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                }
            }
        }
    }
    client
}

/// Returns the time from which the latency of the operation counts, or `None` if there are no more operations.
async fn turn(pace: Option<&Pace>, until: Instant) -> Option<Instant> {
    let now = Instant::now();
    match pace.map(|pace| pace.take(now)) {
        None => (now < until).then_some(now),
        Some(Turn::Over) => None,
        Some(Turn::Since(due)) => Some(due),
        Some(Turn::At(due)) => {
            tokio::time::sleep_until(due.into()).await;
            Some(Instant::now())
        }
    }
}

/// About 18 minutes. Longer latencies count as this one.
const NANOSECONDS_MAX: u64 = (1 << 40) - 1;
/// With two significant digits, every quantile is accurate to 1% and the histogram takes 35 KiB. With three digits, it
/// would take 240 KiB.
const SIGNIFICANT_DIGITS: u8 = 2;

/// A histogram of latencies, and the exact longest latency.
#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    nanoseconds: Histogram<u64>,
    max: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        let nanoseconds = Histogram::new_with_max(NANOSECONDS_MAX, SIGNIFICANT_DIGITS);
        Self { nanoseconds: nanoseconds.expect("the library accepts these constant bounds"), max: Duration::ZERO }
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.nanoseconds.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        self.max = self.max.max(latency);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.nanoseconds.add(&other.nanoseconds).expect("both have the same bounds");
        self.max = self.max.max(other.max);
    }

    /// Returns zero if there are no operations. `share` is from 0 to 1.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.nanoseconds.value_at_quantile(share)).min(self.max)
    }

    pub(crate) fn max(&self) -> Duration {
        self.max
    }
}

// The schedule of operations in a run with a fixed rate.
//
// Connections that wait for a stalled server send it nothing. A measurement that counts only sent requests would see
// one long response where a thousand operations were due (coordinated omission). Here, if no connection is free, the
// latency of an operation counts from the time at which the operation was due.

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

    #[test]
    fn tallies_add_up() {
        let mut one = Tally::default();
        one.count_success(1000, Duration::from_millis(2));
        one.count_failure(&Failure::Status(503, "busy".to_owned()));
        let mut other = Tally::default();
        other.count_success(500, Duration::from_millis(7));
        other.count_failure(&Failure::Status(503, "still busy".to_owned()));
        other.count_failure(&Failure::Content("an empty page".to_owned()));
        one.merge(other);
        assert_eq!((one.operations, one.entities), (2, 1500));
        assert_eq!(one.errors, BTreeMap::from([("503".to_owned(), 2), ("content".to_owned(), 1)]));
        assert_eq!(one.first_error.as_deref(), Some("status 503: busy"));
        assert_eq!(one.latencies.max(), Duration::from_millis(7));
    }

    #[test]
    fn quantiles_of_a_thousand_latencies() {
        let mut latencies = Latencies::default();
        let mut other = Latencies::default();
        for microseconds in 1..=1000 {
            let into = if microseconds % 2 == 0 { &mut latencies } else { &mut other };
            into.record(Duration::from_micros(microseconds));
        }
        latencies.merge(&other);
        for (share, expected) in [(0.5, 500), (0.95, 950), (0.99, 990), (0.999, 999), (1.0, 1000), (0.001, 1)] {
            let got = latencies.quantile(share).as_nanos();
            let expected = Duration::from_micros(expected).as_nanos();
            assert!(got >= expected && got <= expected + expected / 100, "{share}: {got}");
        }
        assert_eq!(latencies.max(), Duration::from_millis(1));
        assert_eq!(latencies.nanoseconds.len(), 1000);
    }

    #[test]
    fn no_latencies_and_endless_ones() {
        assert_eq!(Latencies::default().quantile(0.99), Duration::ZERO);
        let mut latencies = Latencies::default();
        latencies.record(Duration::MAX);
        assert_eq!(latencies.max(), Duration::MAX);
        assert_eq!(latencies.quantile(0.5).as_secs(), Duration::from_nanos(NANOSECONDS_MAX).as_secs());
    }

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
