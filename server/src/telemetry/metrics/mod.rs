//! The counters of requests and connections, and the page `/metrics` that shows them.
//!
//! A request costs a few additions in arrays at computed indices, but no lock and no allocation. Only the first request
//! of a thread for a table looks up the table under a lock (`by_table.rs`). This folder must not know how a request is
//! served.

mod by_table;
#[cfg(feature = "admin")]
mod engine_families;
#[cfg(feature = "admin")]
mod memory;
#[cfg(feature = "admin")]
mod metrics_page;
#[cfg(feature = "admin")]
mod open_metrics;
#[cfg(feature = "admin")]
mod process;
#[cfg(feature = "admin")]
mod server_families;
#[cfg(test)]
#[cfg(feature = "admin")]
mod tests;

#[cfg(feature = "admin")]
pub(crate) use metrics_page::MetricsSnapshot;
#[cfg(feature = "admin")]
pub(crate) use open_metrics::{CONTENT_TYPE, write};
#[cfg(feature = "admin")]
pub use process::begin as begin_process;

use crate::request::{CredentialKind, OperationKind};
use crate::telemetry::summary::{Outcome, RequestSummary};
use by_table::ByTable;
use engine::figures::Distribution;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::ErrorCode;

/// The bucket bounds for the duration of a request: 250 µs to 30 s, in nanoseconds.
const REQUEST_TIME_BOUNDS: &[u64] = &[
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
];

const OPERATIONS: usize = OperationKind::ALL.len();
const CODES: usize = ErrorCode::ALL.len();
/// The statuses of responses without an error code: responses of successful operations and of the explorer. Any other
/// status counts as the last one in the list.
const SUCCESSES: [u16; 9] = [200, 201, 202, 204, 304, 308, 404, 405, 0];
/// The number of ways in which a request may end: with an error, as a success, as a batch that failed because of an
/// error, or without a response.
const OUTCOME_COUNT: usize = CODES + SUCCESSES.len() + CODES + 1;

/// The counters of requests.
#[derive(Debug)]
pub struct Metrics {
    /// The source revision from which the program was built, if it is known.
    pub(crate) revision: Option<&'static str>,
    outcomes: Box<[AtomicU64]>,
    durations: Box<[Distribution]>,
    request_bytes: [AtomicU64; OPERATIONS],
    response_bytes: [AtomicU64; OPERATIONS],
    entities_examined: [AtomicU64; OPERATIONS],
    entities_returned: [AtomicU64; OPERATIONS],
    entities_written: [AtomicU64; OPERATIONS],
    authentication_failures: [AtomicU64; CredentialKind::ALL.len()],
    in_flight: AtomicU64,
    abandoned: AtomicU64,
    expired_deleted: AtomicU64,
    by_table: ByTable,
}

/// The sums over all completed requests since the server was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestTotals {
    /// Completed requests, whatever their result. A batch counts as one.
    pub requests: u64,
    /// Bytes in request bodies.
    pub request_bytes: u64,
    /// Bytes in response bodies.
    pub response_bytes: u64,
    /// Entities that operations examined, whether or not they match a filter.
    pub entities_examined: u64,
    /// Entities in responses to gets and queries.
    pub entities_returned: u64,
    /// Entities that were inserted, changed or deleted.
    pub entities_written: u64,
}

/// A request in flight; it is counted as such until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestInFlight<'m> {
    metrics: &'m Metrics,
    is_completed: bool,
}

impl Metrics {
    /// Creates counters at zero. `has_tables` determines whether tables have their own counters.
    pub(crate) fn new(has_tables: bool) -> Self {
        let counters = |count| std::iter::repeat_with(AtomicU64::default).take(count).collect();
        Self {
            revision: None,
            outcomes: counters(OPERATIONS * OUTCOME_COUNT),
            durations: OperationKind::ALL.iter().map(|_| Distribution::new(REQUEST_TIME_BOUNDS)).collect(),
            request_bytes: Default::default(),
            response_bytes: Default::default(),
            entities_examined: Default::default(),
            entities_returned: Default::default(),
            entities_written: Default::default(),
            authentication_failures: Default::default(),
            in_flight: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            expired_deleted: AtomicU64::new(0),
            by_table: ByTable::new(has_tables),
        }
    }

    pub(crate) fn with_revision(self, revision: Option<&'static str>) -> Self {
        Self { revision, ..self }
    }

    /// Returns the sums over all operations. A request is included even before its client has received the response.
    pub fn totals(&self) -> RequestTotals {
        let sum = |counters: &[AtomicU64]| counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
        RequestTotals {
            requests: sum(&self.outcomes),
            request_bytes: sum(&self.request_bytes),
            response_bytes: sum(&self.response_bytes),
            entities_examined: sum(&self.entities_examined),
            entities_returned: sum(&self.entities_returned),
            entities_written: sum(&self.entities_written),
        }
    }

    /// Counts expired entities that this server has deleted.
    pub(crate) fn count_expired(&self, deleted: u64) {
        self.expired_deleted.fetch_add(deleted, Ordering::Relaxed);
    }

    pub(crate) fn begin(&self) -> RequestInFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestInFlight { metrics: self, is_completed: false }
    }

    fn count(&self, summary: &RequestSummary<'_>) {
        let operation = summary.operation.index();
        add(self.outcomes.get(operation * OUTCOME_COUNT + outcome_index(summary.outcome)), 1);
        if let Some(durations) = self.durations.get(operation) {
            durations.record_time(summary.duration);
        }
        add(self.request_bytes.get(operation), summary.request_bytes);
        add(self.response_bytes.get(operation), summary.response_bytes);
        add(self.entities_examined.get(operation), summary.entities.examined);
        add(self.entities_returned.get(operation), summary.entities.returned);
        add(self.entities_written.get(operation), summary.entities.written);
        if is_authentication_failure(summary) {
            add(self.authentication_failures.get(summary.credential as usize), 1);
        }
        self.by_table.count(summary);
    }
}

impl RequestInFlight<'_> {
    pub(crate) fn complete(mut self, summary: &RequestSummary<'_>) {
        self.is_completed = true;
        self.metrics.count(summary);
    }
}

impl Drop for RequestInFlight<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.is_completed {
            // The client disconnected, so the task of the request was dropped.
            self.metrics.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn add(counter: Option<&AtomicU64>, value: u64) {
    if let (Some(counter), true) = (counter, value > 0) {
        counter.fetch_add(value, Ordering::Relaxed);
    }
}

fn is_authentication_failure(summary: &RequestSummary<'_>) -> bool {
    let code = summary.outcome.code();
    // In many versions, the error for a request without a credential is "not found" (07 §9).
    let codes = [
        ErrorCode::AuthenticationFailed,
        ErrorCode::InvalidAuthenticationInfo,
        ErrorCode::NoAuthenticationInformation,
        ErrorCode::ResourceNotFound,
        ErrorCode::TokenRefused,
    ];
    !summary.is_authenticated && code.is_some_and(|code| codes.contains(&code))
}

fn outcome_index(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Responded { status, code: Some(code) } if status == code.status() => code as usize,
        Outcome::Responded { code: Some(code), .. } => CODES + SUCCESSES.len() + code as usize,
        Outcome::Responded { status, code: None } => {
            CODES + SUCCESSES.iter().position(|success| *success == status).unwrap_or(SUCCESSES.len() - 1)
        }
        Outcome::Aborted => OUTCOME_COUNT - 1,
    }
}

/// Returns the status and the code of every way in which a request may end, in the order of their indices. The code is
/// empty for a success.
fn outcome_labels() -> impl Iterator<Item = (u16, &'static str)> {
    let codes = || ErrorCode::ALL.iter();
    let failures = codes().map(|code| (code.status(), code.as_str()));
    let successes = SUCCESSES.into_iter().map(|status| (status, ""));
    let failed_batches = codes().map(|code| (202, code.as_str()));
    failures.chain(successes).chain(failed_batches).chain([(0, "aborted")])
}
