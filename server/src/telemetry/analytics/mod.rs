//! Storage Analytics (specification 10 §8): metrics about the requests of each account, in tables of the account that
//! any client can read. `docs/analytics.md` describes these metrics.
//!
//! Requests are counted in memory. The totals of an hour or a minute are written when it is over and when the server
//! stops. They are added to the totals that the table already has for that interval.
//!
//! Invariants:
//!
//! 1. The totals of several servers add up, in whatever order they write.
//! 2. A request is counted at most once. Counts that were only in memory when a server was killed are lost.
//! 3. Only the shutdown of the server waits for analytics.

mod accumulator;
mod request_figures;
mod request_totals;
mod writer;

use crate::accounts::Accounts;
use crate::clock;
use crate::reload::Live;
use crate::request::OperationKind;
use crate::telemetry::summary::RequestSummary;
use accumulator::{Accumulator, IntervalKey, IntervalTotals, Origin, Sample};
use engine::Engine;
use model::service_properties::Metrics;
use model::{AccountName, Clock, DateTime, MetricsTable, ServiceProperties};
use parking_lot::Mutex;
use request_totals::{CallerKind, RequestFigures, ResultKind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tracing::{debug, warn};
use writer::WriteError;

/// The delay after a full minute, or after a test moved the clock, before metrics are written. It ensures that they
/// include the requests of the last moment.
const AFTER_MINUTE: Duration = Duration::from_millis(500);
const MINUTE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Analytics {
    accumulator: Mutex<Accumulator>,
    clock: Arc<dyn Clock>,
    /// Receives a message whenever a test has moved the clock; `None` if no test can move it.
    clock_moves: Option<watch::Receiver<()>>,
    /// Whether the secondary endpoint, whose requests have their own metrics tables, is served.
    pub(crate) has_secondary: bool,
    stopping: Notify,
}

impl Analytics {
    pub(crate) fn new(has_secondary: bool, clock: Arc<dyn Clock>, clock_moves: Option<watch::Receiver<()>>) -> Self {
        let mut accumulator = Accumulator::default();
        accumulator.begin(clock.now());
        Self { accumulator: Mutex::new(accumulator), clock, clock_moves, has_secondary, stopping: Notify::new() }
    }

    pub(crate) fn forget(&self, account: Option<&AccountName>) {
        self.accumulator.lock().forget(account);
    }

    pub(crate) fn record(&self, summary: &RequestSummary<'_>, properties: &ServiceProperties) {
        let Some(account) = summary.account.filter(|_| self.has_secondary || !summary.is_secondary) else { return };
        let sample = Sample {
            account,
            is_secondary: summary.is_secondary,
            origin: Origin::User,
            operation: summary.operation,
            figures: RequestFigures::from_summary(summary),
        };
        let at = DateTime::from_system_time(summary.began_at + summary.duration);
        self.accumulator.lock().record(&sample, properties, at);
    }

    fn record_own(
        &self,
        account: &AccountName,
        operation: OperationKind,
        time: Duration,
        properties: &ServiceProperties,
    ) {
        let milliseconds = time.as_secs_f64() * 1000.0;
        let figures = RequestFigures {
            result: ResultKind::Success,
            caller: CallerKind::Authenticated,
            ingress_bytes: 0,
            egress_bytes: 0,
            end_to_end_milliseconds: milliseconds,
            server_milliseconds: milliseconds,
        };
        let sample = Sample { account, is_secondary: false, origin: Origin::System, operation, figures };
        self.accumulator.lock().record(&sample, properties, self.clock.now());
    }
}

#[derive(Debug, Clone)]
pub(crate) struct AnalyticsWriter {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) accounts: Arc<Live<Accounts>>,
    pub(crate) analytics: Arc<Analytics>,
}

/// Writes the intervals that are over, minute by minute, until [`stop`] is called.
pub(crate) async fn run(writer: AnalyticsWriter) {
    let analytics = &*writer.analytics;
    let mut clock_moves = analytics.clock_moves.clone();
    let mut cleaned_hour = None;
    loop {
        let now = analytics.clock.now().to_system_time();
        let into_minute =
            now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() % MINUTE.as_millis();
        let into_minute = Duration::from_millis(u64::try_from(into_minute).unwrap_or_default());
        // Only the wait is interrupted, never a write.
        tokio::select! {
            () = tokio::time::sleep(MINUTE.saturating_sub(into_minute) + AFTER_MINUTE) => {}
            () = after_move(&mut clock_moves) => {}
            () = analytics.stopping.notified() => return,
        }
        let now = analytics.clock.now();
        write_finished(&writer, now).await;
        // Retention is in days, so an hour more or less does not matter.
        let hour = now.unix_seconds() / 3600;
        if cleaned_hour != Some(hour) {
            cleaned_hour = Some(hour);
            delete_old(&writer, now).await;
        }
    }
}

async fn after_move(clock_moves: &mut Option<watch::Receiver<()>>) {
    if let Some(moves) = clock_moves
        && moves.changed().await.is_ok()
    {
        tokio::time::sleep(AFTER_MINUTE).await;
        return;
    }
    std::future::pending::<()>().await;
}

async fn write_finished(writer: &AnalyticsWriter, now: DateTime) {
    let AnalyticsWriter { engine, accounts, analytics } = writer;
    for (account, _) in accounts.current().all() {
        let Ok(properties) = engine.service_properties(account) else { return };
        let mut accumulator = analytics.accumulator.lock();
        accumulator.open(account, &properties, false, now);
        if analytics.has_secondary {
            accumulator.open(account, &properties, true, now);
        }
    }
    let finished = analytics.accumulator.lock().take_finished(now);
    for (key, totals) in finished {
        write(&**engine, analytics, key, totals).await;
    }
}

/// Writes all totals; called when no more requests arrive. Takes no longer than `timeout`.
pub(crate) async fn stop(writer: &AnalyticsWriter, running: JoinHandle<()>, timeout: Duration) {
    writer.analytics.stopping.notify_one();
    let written = tokio::time::timeout(timeout, async {
        // If the task panicked, the panic was logged.
        let _panicked = running.await;
        write_all(writer).await;
    });
    if written.await.is_err() {
        warn!("not all analytics metrics could be written within {} s; the rest is lost", timeout.as_secs());
    }
}

async fn write_all(writer: &AnalyticsWriter) {
    let AnalyticsWriter { engine, analytics, .. } = writer;
    let all = analytics.accumulator.lock().take_all();
    for (key, totals) in all {
        write(&**engine, analytics, key, totals).await;
    }
}

async fn write(engine: &dyn Engine, analytics: &Analytics, key: IntervalKey, totals: IntervalTotals) {
    let began = clock::instant();
    let (account, partition) = (key.account.clone(), key.interval.partition());
    match writer::write(engine, &key, &totals).await {
        Ok(()) => {
            debug!(target: "rowhouse::analytics", %account, table = key.table.name(), partition, "wrote metrics");
            if let Ok(properties) = engine.service_properties(&account) {
                let time = clock::elapsed_since(began);
                analytics.record_own(&account, OperationKind::EntityGroupTransaction, time, &properties);
            }
        }
        Err(WriteError::NotYet(why)) => {
            let is_kept = analytics.accumulator.lock().put_back(key, &totals);
            warn!(%account, partition, is_kept, "metrics could not be written: {why}");
        }
        Err(WriteError::Unknown(why)) => {
            warn!(%account, partition, "metrics may not have been written, and the write is not retried: {why}");
        }
    }
}

async fn delete_old(writer: &AnalyticsWriter, now: DateTime) {
    let AnalyticsWriter { engine, accounts, .. } = writer;
    for (account, _) in accounts.current().all() {
        let Ok(properties) = engine.service_properties(account) else { return };
        // Includes the tables of the secondary endpoint, because that endpoint may have been served earlier.
        for table in MetricsTable::ALL {
            let Metrics { retention, .. } =
                if table.is_hourly() { properties.hour_metrics } else { properties.minute_metrics };
            let Some(keep) = retention else { continue };
            if let Err(why) = writer::delete_old(&**engine, account, table, keep, now).await {
                warn!(%account, table = table.name(), "old metrics could not be deleted: {why}");
            }
        }
    }
}
