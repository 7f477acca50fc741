//! Concurrent connections that execute operations for a limited time: the phases of a run, and their totals.
//!
//! A phase ends when all operations that began in it have completed. The processor time that the server uses between
//! the ends of two phases is therefore exactly the time for the counted operations.

use crate::generator::latencies::Latencies;
use crate::generator::pace::{Pace, Turn};
use crate::generator::workload::{Client, Failure, Task};
use anyhow::Context;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
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

    /// Runs the task on every connection until the time is over or no work is left. `rate` is the number of operations
    /// per second over all connections. Without a rate, operations follow each other immediately.
    pub(crate) fn phase(&mut self, task: Task, time: Duration, rate: Option<u64>) -> (Tally, Duration) {
        let began = Instant::now();
        let pace = rate.map(|per_second| Arc::new(Pace::new(per_second, began, began + time)));
        std::thread::scope(|scope| {
            for lane in &mut self.lanes {
                let pace = pace.as_ref();
                scope.spawn(move || lane.run(task, began + time, pace));
            }
        });
        let mut total = Tally::default();
        for lane in &self.lanes {
            total.merge(std::mem::take(&mut *lane.tally.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        let missed = pace.map_or(0, |pace| pace.missed(total.begun()));
        if missed > 0 {
            total.errors.insert(MISSED.to_owned(), missed);
        }
        (total, began.elapsed())
    }
}

impl Lane {
    fn run(&mut self, task: Task, until: Instant, pace: Option<&Arc<Pace>>) {
        let clients = std::mem::take(&mut self.clients);
        self.clients = self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for client in clients {
                running.spawn(work(client, task, until, pace.cloned(), Arc::clone(&self.tally)));
            }
            running.join_all().await
        });
    }
}

async fn work(
    mut client: Client,
    task: Task,
    until: Instant,
    pace: Option<Arc<Pace>>,
    tally: Arc<Mutex<Tally>>,
) -> Client {
    let mut failures_in_a_row = 0;
    while failures_in_a_row < FAILURES_IN_A_ROW_MAX {
        let Some(began) = turn(pace.as_deref(), until).await else { break };
        let result = client.operation(task).await;
        let latency = began.elapsed();
        // Only tasks on this thread take the lock, and no task holds it while waiting.
        let count = |with: &dyn Fn(&mut Tally)| with(&mut tally.lock().unwrap_or_else(PoisonError::into_inner));
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
}
