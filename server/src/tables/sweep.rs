//! Deletes expired entities of tables with a retention, in the background. They are invisible already, so this only
//! frees their storage.
//!
//! A table is swept in passes: scans that see only expired entities, and transactions that delete them. A pass yields
//! to clients: it deletes a few entities at a time, at most 10,000 a second, and pauses after each step for at least as
//! long as the step took.
//!
//! Invariants:
//!
//! 1. A table is examined for at most a fifth of the time, whatever its size. The time of deletions does not count:
//!    they are as many as entities expire, however often passes begin.
//! 2. If a table is examined in less than four seconds, every entity is found within half a minute of its expiry.
//!
//! Entities that expire by age are never written with an expiry in the near future. The next pass therefore waits until
//! one of the entities that the last pass left can expire.

use super::account_tables::AccountTables;
use super::deletion::{Deletion, DeletionEnd};
use crate::clock;
use crate::failure::Failure;
use crate::telemetry::metrics::Metrics;
use engine::{Engine, Fault, TableKey};
use model::limits::{
    SWEEP_CHECK_SECONDS, SWEEP_DELETIONS_PER_SECOND, SWEEP_ENTITIES_IN_FLIGHT_MAX, SWEEP_INTERVAL_SECONDS, SWEEP_SHARE,
    SWEEP_STEP_MILLISECONDS, SWEEP_TRANSACTIONS_IN_FLIGHT_MAX,
};
use model::{Clock, DateTime, KeyRange, Retention, Visibility};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// What the last pass over a table found.
#[derive(Debug)]
struct LastPass {
    retention: Retention,
    /// When the next pass may begin, so that passes do not take too much time.
    not_before: Instant,
    /// The time before which no entity expires.
    nothing_before: DateTime,
}

/// The passes over all tables that this process sweeps.
#[derive(Debug)]
struct Sweep {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    passes: HashMap<(Box<str>, Box<str>), LastPass>,
    metrics: Option<Arc<Metrics>>,
}

/// Sweeps until the engine is closed.
pub(crate) async fn run(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, metrics: Option<Arc<Metrics>>) {
    let mut sweep = Sweep { engine, clock, passes: HashMap::new(), metrics };
    let mut is_failing = false;
    loop {
        tokio::time::sleep(Duration::from_secs(SWEEP_CHECK_SECONDS)).await;
        match sweep.sweep_due_tables().await {
            Ok(()) => is_failing = false,
            Err(Fault::Closed) => return,
            Err(fault) if !is_failing => {
                is_failing = true;
                warn!("expired entities could not be deleted, which will be retried: {fault}");
            }
            Err(_) => {}
        }
    }
}

impl Sweep {
    /// Makes a pass over each table that is due.
    async fn sweep_due_tables(&mut self) -> Result<(), Fault> {
        let tables = self.engine.tables_to_sweep().await?;
        let key = |table: &TableKey| (Box::from(table.account.as_str()), Box::from(table.name.folded()));
        self.passes.retain(|known, _| tables.iter().any(|(table, _)| key(table) == *known));
        for (table, retention) in tables {
            let is_due = self.passes.get(&key(&table)).is_none_or(|last| {
                clock::instant() >= last.not_before
                    && (last.retention != retention || self.clock.now() >= last.nothing_before)
            });
            if is_due {
                let pass = self.pass(&table, retention).await;
                self.passes.insert(key(&table), pass);
            }
        }
        Ok(())
    }

    /// Deletes the entities of a table that have expired. A failure ends the pass early.
    async fn pass(&self, table: &TableKey, retention: Retention) -> LastPass {
        let (began, began_at) = (clock::instant(), self.clock.now());
        let tables = AccountTables::new(&*self.engine, &table.account, None, None, None, None);
        let (mut from, mut examined, mut deleted) = (None, Duration::ZERO, 0);
        // A property may contain any time, so that an entity can expire as soon as it is written.
        let mut nothing_before = match retention.property() {
            None => began_at.plus_seconds(retention.seconds()).unwrap_or(DateTime::MAX),
            Some(_) => began_at,
        };
        loop {
            let (step_began, deleted_before) = (clock::instant(), deleted);
            let deletion = Deletion {
                ranges: vec![KeyRange::all()],
                is_confined: false,
                filter: None,
                visible: Visibility::Expired,
                from: from.take(),
                deadline: step_began + Duration::from_millis(SWEEP_STEP_MILLISECONDS),
                entities_in_flight_max: SWEEP_ENTITIES_IN_FLIGHT_MAX,
                transactions_in_flight_max: SWEEP_TRANSACTIONS_IN_FLIGHT_MAX,
            };
            match Box::pin(tables.delete_matching(table.name.as_str(), deletion)).await {
                Ok(DeletionEnd { deleted: count, next, earliest_expiry, examining, .. }) => {
                    examined += examining;
                    deleted += count;
                    if let Some(metrics) = &self.metrics {
                        metrics.count_expired(count);
                    }
                    nothing_before = earliest_expiry.map_or(nothing_before, |expiry| expiry.min(nothing_before));
                    from = next;
                }
                Err(Failure { error, source, .. }) => {
                    nothing_before = began_at;
                    let reason = source.map_or_else(|| error.code.as_str().to_owned(), |source| source.to_string());
                    debug!(account = %table.account, table = %table.name, "a pass over expired entities ended early: {reason}");
                }
            }
            let took = clock::elapsed_since(step_began);
            let least = Duration::from_micros((deleted - deleted_before) * 1_000_000 / SWEEP_DELETIONS_PER_SECOND);
            if from.is_none() {
                break;
            }
            tokio::time::sleep(took.max(least.saturating_sub(took))).await;
        }
        if deleted > 0 {
            debug!(account = %table.account, table = %table.name, deleted, "deleted expired entities");
        }
        let interval = Duration::from_secs(SWEEP_INTERVAL_SECONDS).max(examined * SWEEP_SHARE);
        LastPass { retention, not_before: began + interval, nothing_before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_controls::TestClock;
    use engine::{EngineExt, EntitySink, Memory, Scan, SinkDecision};
    use model::{
        AccountName, EntityKey, EntityView, KeyText, Mutation, RecordBuilder, TableName, TableSettingsUpdate,
        Transaction,
    };

    struct Counter(u64);

    impl EntitySink for Counter {
        fn entity(&mut self, _: &EntityView<'_>) -> SinkDecision {
            self.0 += 1;
            SinkDecision::Accepted
        }
    }

    fn table() -> TableKey {
        TableKey { account: AccountName::new("orchard").unwrap(), name: TableName::new("harvest").unwrap() }
    }

    async fn insert(engine: &dyn Engine, partition: u32, row: u32) {
        let text = |number: u32| KeyText::new(&format!("{number:05}")).unwrap();
        let key = EntityKey { partition: text(partition), row: text(row) };
        let insert = Mutation::Insert { key, properties: RecordBuilder::default() };
        engine.commit(&table(), Transaction::single(insert)).await.unwrap();
    }

    async fn stored(engine: &dyn Engine) -> (u64, u64) {
        let count = async |visible| {
            let scan = Scan { visible, ..Scan::all(clock::instant() + Duration::from_mins(1)) };
            engine.scan(&table(), scan, Counter(0)).await.unwrap().0.0
        };
        (count(Visibility::Live).await, count(Visibility::Expired).await)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_pass_deletes_what_has_expired_and_waits_for_the_next_expiry() {
        let clock = TestClock::new();
        clock.pause();
        let engine: Arc<dyn Engine> = Arc::new(Memory::for_tests(clock.clone()));
        engine.create_table(&table()).await.unwrap();
        let retention = Retention::by_age(60);
        let update = TableSettingsUpdate { retention: Some(retention), ..TableSettingsUpdate::default() };
        engine.update_settings(&table(), update).await.unwrap();
        for number in 0..2500 {
            insert(&*engine, number % 50, number).await;
        }
        let mut sweep = Sweep {
            engine: Arc::clone(&engine),
            clock: Arc::new(clock.clone()),
            passes: HashMap::new(),
            metrics: None,
        };
        sweep.sweep_due_tables().await.unwrap();
        assert_eq!(stored(&*engine).await, (2500, 0));
        let first = sweep.passes.values().next().unwrap();
        assert!(first.nothing_before > Clock::now(&clock) && first.not_before > clock::instant());
        clock.advance(Duration::from_secs(61));
        insert(&*engine, 1, 9999).await;
        assert_eq!(stored(&*engine).await, (1, 2500));
        // It is not due, although entities have expired.
        sweep.sweep_due_tables().await.unwrap();
        assert_eq!(stored(&*engine).await, (1, 2500));
        sweep.passes.values_mut().for_each(|last| last.not_before = clock::instant());
        sweep.sweep_due_tables().await.unwrap();
        assert_eq!(stored(&*engine).await, (1, 0));
        engine.delete_table(&table()).await.unwrap();
        sweep.sweep_due_tables().await.unwrap();
        assert!(sweep.passes.is_empty());
    }
}
