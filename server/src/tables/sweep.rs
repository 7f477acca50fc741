//! Deletes expired entities of tables with a retention, in the background. They are invisible already, so this only
//! frees their storage.
//!
//! A table is swept in passes: scans that see only expired entities, and transactions that delete them. A pass yields
//! to clients: it deletes a few entities at a time, at most 10,000 a second, and pauses after each step for at least as
//! long as the step took. Passes over several tables take turns after each step ([`Turns`]).
//!
//! Invariants:
//!
//! 1. A table is examined for at most a fifth of the time, whatever its size. The time of deletions does not count:
//!    they are as many as entities expire, however often passes begin.
//! 2. If a table is examined in less than four seconds while no other table is, every entity is found within half a
//!    minute of its expiry. For each step of a pass, every other account adds at most one step, and so does every other
//!    table of the same account, whatever their size.
//!
//! Entities that expire by age are never written with an expiry in the near future. The next pass therefore waits until
//! one of the entities that the last pass left can expire.

use super::account_tables::AccountTables;
use super::deletion::{Deletion, DeletionEnd};
use crate::clock;
use crate::failure::Failure;
use crate::telemetry::metrics::Metrics;
use engine::parts::turns::Turns;
use engine::{Engine, Fault, TableKey};
use model::limits::{
    SWEEP_CHECK_SECONDS, SWEEP_DELETIONS_PER_SECOND, SWEEP_ENTITIES_IN_FLIGHT_MAX, SWEEP_INTERVAL_SECONDS, SWEEP_SHARE,
    SWEEP_STEP_MILLISECONDS, SWEEP_TRANSACTIONS_IN_FLIGHT_MAX,
};
use model::{AccountName, Clock, DateTime, KeyRange, Position, Retention, Visibility};
use std::collections::{HashMap, HashSet};
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

/// A pass that has begun.
#[derive(Debug)]
struct Pass {
    table: TableKey,
    retention: Retention,
    began: Instant,
    began_at: DateTime,
    /// The position to continue from.
    from: Option<Position>,
    /// The time that the scans took.
    examined: Duration,
    deleted: u64,
    /// The time before which none of the entities that the pass leaves expires.
    nothing_before: DateTime,
}

/// The passes over all tables that this process sweeps.
#[derive(Debug)]
struct Sweep {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    last: HashMap<(AccountName, Box<str>), LastPass>,
    turns: Turns<AccountName, Box<str>, Pass>,
    step: Duration,
    metrics: Option<Arc<Metrics>>,
}

/// Sweeps until the engine is closed.
pub(crate) async fn run(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, metrics: Option<Arc<Metrics>>) {
    let step = Duration::from_millis(SWEEP_STEP_MILLISECONDS);
    let mut sweep = Sweep { engine, clock, last: HashMap::new(), turns: Turns::default(), step, metrics };
    let mut is_failing = false;
    loop {
        let next_check = clock::instant() + Duration::from_secs(SWEEP_CHECK_SECONDS);
        while clock::instant() < next_check && sweep.take_turn().await {}
        tokio::time::sleep_until(next_check.into()).await;
        match sweep.begin_due_passes().await {
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
    /// Lets a pass over each table that is due take turns. Ends passes over tables that no longer exist.
    async fn begin_due_passes(&mut self) -> Result<(), Fault> {
        let tables = self.engine.tables_to_sweep().await?;
        let (began, began_at) = (clock::instant(), self.clock.now());
        let known: HashSet<_> = tables.iter().map(|(table, _)| key(table)).collect();
        self.last.retain(|table, _| known.contains(table));
        let due = tables.into_iter().filter(|(table, retention)| {
            self.last.get(&key(table)).is_none_or(|last| {
                began >= last.not_before && (last.retention != *retention || began_at >= last.nothing_before)
            })
        });
        let passes = due.map(|(table, retention)| {
            // A property may contain any time, so that an entity can expire as soon as it is written.
            let nothing_before = match retention.property() {
                None => began_at.plus_seconds(retention.seconds()).unwrap_or(DateTime::MAX),
                Some(_) => began_at,
            };
            let (account, name) = key(&table);
            let (from, examined, deleted) = (None, Duration::ZERO, 0);
            (account, name, Pass { table, retention, began, began_at, from, examined, deleted, nothing_before })
        });
        self.turns.update(passes);
        Ok(())
    }

    /// Makes a step of the pass whose turn it is, and pauses. Returns false if no pass has begun.
    async fn take_turn(&mut self) -> bool {
        let Some((account, name, mut pass)) = self.turns.take() else { return false };
        let began = clock::instant();
        let deleted = self.make_step(&mut pass).await;
        let took = clock::elapsed_since(began);
        if pass.from.is_some() {
            self.turns.put_back(account, name, pass);
        } else {
            self.last.insert((account, name), pass.end());
        }
        let least = Duration::from_micros(deleted * 1_000_000 / SWEEP_DELETIONS_PER_SECOND);
        tokio::time::sleep(took.max(least.saturating_sub(took))).await;
        true
    }

    /// Deletes some entities of a table that have expired, and returns their number. A failure ends the pass early.
    async fn make_step(&self, pass: &mut Pass) -> u64 {
        let tables = AccountTables::new(&*self.engine, &pass.table.account, None, None, None, None);
        let deletion = Deletion {
            ranges: vec![KeyRange::all()],
            is_confined: false,
            filter: None,
            visible: Visibility::Expired,
            from: pass.from.take(),
            deadline: clock::instant() + self.step,
            entities_in_flight_max: SWEEP_ENTITIES_IN_FLIGHT_MAX,
            transactions_in_flight_max: SWEEP_TRANSACTIONS_IN_FLIGHT_MAX,
        };
        match Box::pin(tables.delete_matching(pass.table.name.as_str(), deletion)).await {
            Ok(DeletionEnd { deleted, next, earliest_expiry, examining, .. }) => {
                pass.examined += examining;
                pass.deleted += deleted;
                if let Some(metrics) = &self.metrics {
                    metrics.count_expired(deleted);
                }
                let earliest = earliest_expiry.map(|expiry| expiry.min(pass.nothing_before));
                pass.nothing_before = earliest.unwrap_or(pass.nothing_before);
                pass.from = next;
                deleted
            }
            Err(Failure { error, source, .. }) => {
                pass.nothing_before = pass.began_at;
                let reason = source.map_or_else(|| error.code.as_str().to_owned(), |source| source.to_string());
                debug!(account = %pass.table.account, table = %pass.table.name, "a pass over expired entities ended early: {reason}");
                0
            }
        }
    }
}

impl Pass {
    fn end(self) -> LastPass {
        let Self { table, retention, began, examined, deleted, nothing_before, .. } = self;
        if deleted > 0 {
            debug!(account = %table.account, table = %table.name, deleted, "deleted expired entities");
        }
        let interval = Duration::from_secs(SWEEP_INTERVAL_SECONDS).max(examined * SWEEP_SHARE);
        LastPass { retention, not_before: began + interval, nothing_before }
    }
}

fn key(table: &TableKey) -> (AccountName, Box<str>) {
    (table.account.clone(), Box::from(table.name.folded()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_controls::TestClock;
    use engine::{EngineExt, EntitySink, Memory, Scan, SinkDecision};
    use model::{EntityKey, EntityView, KeyText, Mutation, RecordBuilder, TableName, TableSettingsUpdate, Transaction};

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

    async fn insert(engine: &dyn Engine, table: &TableKey, partition: u32, row: u32) {
        let text = |number: u32| KeyText::new(&format!("{number:05}")).unwrap();
        let key = EntityKey { partition: text(partition), row: text(row) };
        let insert = Mutation::Insert { key, properties: RecordBuilder::default() };
        engine.commit(table, Transaction::single(insert)).await.unwrap();
    }

    async fn stored(engine: &dyn Engine, table: &TableKey) -> (u64, u64) {
        let count = async |visible| {
            let scan = Scan { visible, ..Scan::all(clock::instant() + Duration::from_mins(1)) };
            engine.scan(table, scan, Counter(0)).await.unwrap().0.0
        };
        (count(Visibility::Live).await, count(Visibility::Expired).await)
    }

    /// Returns an engine with a table whose entities expire after a minute, filled with some.
    async fn filled(clock: &TestClock, entities: u32) -> Arc<dyn Engine> {
        let engine: Arc<dyn Engine> = Arc::new(Memory::for_tests(clock.clone()));
        fill(&*engine, &table(), entities).await;
        engine
    }

    async fn fill(engine: &dyn Engine, table: &TableKey, entities: u32) {
        engine.create_table(table).await.unwrap();
        let retention = Retention::by_age(60);
        let update = TableSettingsUpdate { retention: Some(retention), ..TableSettingsUpdate::default() };
        engine.update_settings(table, update).await.unwrap();
        for number in 0..entities {
            insert(engine, table, number % 50, number).await;
        }
    }

    fn sweep(engine: &Arc<dyn Engine>, clock: &TestClock, step: Duration) -> Sweep {
        let (engine, clock) = (Arc::clone(engine), Arc::new(clock.clone()));
        Sweep { engine, clock, last: HashMap::new(), turns: Turns::default(), step, metrics: None }
    }

    async fn sweep_due_tables(sweep: &mut Sweep) {
        sweep.begin_due_passes().await.unwrap();
        while sweep.take_turn().await {}
    }

    fn paused_clock() -> TestClock {
        let clock = TestClock::new();
        clock.pause();
        clock
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_pass_deletes_what_has_expired_and_waits_for_the_next_expiry() {
        let clock = paused_clock();
        let engine = filled(&clock, 2500).await;
        let mut sweep = sweep(&engine, &clock, Duration::from_millis(SWEEP_STEP_MILLISECONDS));
        sweep_due_tables(&mut sweep).await;
        assert_eq!(stored(&*engine, &table()).await, (2500, 0));
        let first = sweep.last.values().next().unwrap();
        assert!(first.nothing_before > Clock::now(&clock) && first.not_before > clock::instant());
        clock.advance(Duration::from_secs(61));
        insert(&*engine, &table(), 1, 9999).await;
        assert_eq!(stored(&*engine, &table()).await, (1, 2500));
        // It is not due, although entities have expired.
        sweep_due_tables(&mut sweep).await;
        assert_eq!(stored(&*engine, &table()).await, (1, 2500));
        sweep.last.values_mut().for_each(|last| last.not_before = clock::instant());
        sweep_due_tables(&mut sweep).await;
        assert_eq!(stored(&*engine, &table()).await, (1, 0));
        engine.delete_table(&table()).await.unwrap();
        sweep_due_tables(&mut sweep).await;
        assert!(sweep.last.is_empty());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_large_table_does_not_delay_the_sweep_of_others() {
        let clock = paused_clock();
        let engine = filled(&clock, 2500).await;
        let account = AccountName::new("zebra").unwrap();
        let small =
            ["first", "second"].map(|name| TableKey { account: account.clone(), name: TableName::new(name).unwrap() });
        for small in &small {
            fill(&*engine, small, 1).await;
        }
        clock.advance(Duration::from_secs(61));
        // Each step makes as little progress as possible.
        let mut sweep = sweep(&engine, &clock, Duration::ZERO);
        sweep.begin_due_passes().await.unwrap();
        let mut left = Vec::new();
        for _ in 0..4 {
            assert!(sweep.take_turn().await);
            left.push([stored(&*engine, &small[0]).await.1, stored(&*engine, &small[1]).await.1]);
        }
        assert_eq!(left, [[1, 1], [0, 1], [0, 1], [0, 0]], "the accounts take turns");
        assert!(stored(&*engine, &table()).await.1 > 2000);
        // The pass over the large table continues where it was, and a pass over a deleted table ends.
        sweep.begin_due_passes().await.unwrap();
        assert!(sweep.take_turn().await);
        engine.delete_table(&table()).await.unwrap();
        sweep.begin_due_passes().await.unwrap();
        assert!(!sweep.take_turn().await);
    }
}
