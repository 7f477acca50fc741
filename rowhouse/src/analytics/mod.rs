//! Storage Analytics (specification 10 §8): figures about the requests of each account, in tables of the account that any
//! client reads. `docs/analytics.md` says what is in them.
//!
//! Requests are counted in memory. What belongs to an hour or a minute is written when it is over, and when the server
//! stops; a part of an hour is added to what is there of it.
//!
//! Invariants:
//!
//! 1. Figures of several servers add up, whoever writes first.
//! 2. What is counted is written once at most. What was in memory when a server was killed is not in the figures.
//! 3. Nobody waits for analytics but the stop of the server.

mod access;
mod args;
mod book;
mod ending;
mod tally;
mod writer;

pub(crate) use args::AnalyticsArgs;

use crate::completed::Completed;
use crate::operation_kind::OperationKind;
use crate::service::Service;
use book::{Book, Note, Origin, Page, PageKey};
use model::service_properties::Metrics;
use model::{AccountName, DateTime, MetricsTable, ServiceProperties};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use store::Engine;
use tally::{Counted, Ending, Party};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{debug, warn};
use writer::WriteError;

/// How long after a full minute the figures are written, so that the requests of its last moment are in them.
const AFTER_MINUTE: Duration = Duration::from_millis(500);
const MINUTE: Duration = Duration::from_secs(60);

/// What was counted and is not written yet.
#[derive(Debug)]
pub(crate) struct Analytics {
    book: Mutex<Book>,
    /// Whether requests to the secondary endpoint are served, so that there are tables for them.
    has_secondary: bool,
    stopping: Notify,
}

impl Analytics {
    /// Nothing was counted yet.
    pub(crate) fn new(has_secondary: bool, now: SystemTime) -> Self {
        let mut book = Book::default();
        book.begin(DateTime::from_system_time(now));
        Self { book: Mutex::new(book), has_secondary, stopping: Notify::new() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing that is done to it can panic half-way.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request to an account of this server, at an endpoint that it serves.
    pub(crate) fn note(&self, completed: &Completed<'_>, properties: &ServiceProperties) {
        let Some(account) = completed.account.filter(|_| self.has_secondary || !completed.is_secondary) else { return };
        let note = Note {
            account,
            is_secondary: completed.is_secondary,
            origin: Origin::User,
            operation: completed.operation,
            counted: Counted::of(completed),
        };
        let at = DateTime::from_system_time(completed.began_at + completed.duration);
        self.book().note(&note, properties, at);
    }

    /// Counts what the server itself did for analytics.
    fn note_own(
        &self,
        account: &AccountName,
        operation: OperationKind,
        time: Duration,
        properties: &ServiceProperties,
    ) {
        let milliseconds = time.as_secs_f64() * 1000.0;
        let counted = Counted {
            ending: Ending::Success,
            party: Party::Authenticated,
            ingress_bytes: 0,
            egress_bytes: 0,
            end_to_end_milliseconds: milliseconds,
            server_milliseconds: milliseconds,
        };
        let note = Note { account, is_secondary: false, origin: Origin::System, operation, counted };
        self.book().note(&note, properties, DateTime::from_system_time(SystemTime::now()));
    }
}

/// Writes what is over, minute by minute, until [`stop`] is called.
pub(crate) async fn run<E: Engine>(service: Arc<Service<E>>) {
    let Some(analytics) = &service.analytics else { return };
    let mut swept_hour = None;
    loop {
        let now = SystemTime::now();
        let into_minute =
            now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() % MINUTE.as_millis();
        let into_minute = Duration::from_millis(u64::try_from(into_minute).unwrap_or_default());
        // What is being written is never cut short.
        tokio::select! {
            () = tokio::time::sleep(MINUTE.saturating_sub(into_minute) + AFTER_MINUTE) => {}
            () = analytics.stopping.notified() => return,
        }
        let now = DateTime::from_system_time(SystemTime::now());
        write_finished(&service, analytics, now).await;
        // Retention is in days, so an hour more or less does not matter.
        let hour = now.unix_seconds() / 3600;
        if swept_hour != Some(hour) {
            swept_hour = Some(hour);
            sweep(&service, now).await;
        }
    }
}

/// Writes the pages of the intervals that are over.
async fn write_finished<E: Engine>(service: &Service<E>, analytics: &Analytics, now: DateTime) {
    for (account, _) in service.accounts.current().all() {
        let Ok(properties) = service.engine.service_properties(account) else { return };
        let mut book = analytics.book();
        book.open(account, &properties, false, now);
        if analytics.has_secondary {
            book.open(account, &properties, true, now);
        }
    }
    let finished = analytics.book().take_finished(now);
    for (key, page) in finished {
        write(&service.engine, analytics, key, page).await;
    }
}

/// Writes everything, as the server stops and no more requests come. It takes no longer than `patience`.
pub(crate) async fn stop<E: Engine>(service: &Service<E>, running: JoinHandle<()>, patience: Duration) {
    let Some(analytics) = &service.analytics else { return };
    analytics.stopping.notify_one();
    let written = tokio::time::timeout(patience, async {
        // A task that panicked has said so in the log.
        let _panicked = running.await;
        write_all(service, analytics).await;
    });
    if written.await.is_err() {
        warn!("the figures of analytics could not all be written in {} s", patience.as_secs());
    }
}

async fn write_all<E: Engine>(service: &Service<E>, analytics: &Analytics) {
    let all = analytics.book().take_all();
    for (key, page) in all {
        write(&service.engine, analytics, key, page).await;
    }
}

async fn write(engine: &impl Engine, analytics: &Analytics, key: PageKey, page: Page) {
    let began = Instant::now();
    let (account, partition) = (key.account.clone(), key.interval.partition());
    match writer::write(engine, &key, &page).await {
        Ok(()) => {
            debug!(target: "rowhouse::analytics", %account, table = key.table.name(), partition, "figures are written");
            if let Ok(properties) = engine.service_properties(&account) {
                analytics.note_own(&account, OperationKind::EntityGroupTransaction, began.elapsed(), &properties);
            }
        }
        Err(WriteError::NotYet(why)) => {
            let is_kept = analytics.book().put_back(key, &page);
            warn!(%account, partition, is_kept, "figures could not be written: {why}");
        }
        Err(WriteError::Unknown(why)) => {
            warn!(%account, partition, "figures may not have been written, and are not written again: {why}");
        }
    }
}

/// Deletes the figures that are older than the service properties of their account say.
async fn sweep<E: Engine>(service: &Service<E>, now: DateTime) {
    for (account, _) in service.accounts.current().all() {
        let Ok(properties) = service.engine.service_properties(account) else { return };
        // Those of the secondary endpoint, too: it may have been served before.
        for table in MetricsTable::ALL {
            let Metrics { retention, .. } =
                if table.is_hourly() { properties.hour_metrics } else { properties.minute_metrics };
            let Some(keep) = retention else { continue };
            if let Err(why) = writer::sweep(&service.engine, account, table, keep, now).await {
                warn!(%account, table = table.name(), "old figures could not be deleted: {why}");
            }
        }
    }
}
