//! Counts the entities and bytes of accounts whose quota limits them: at startup, and again when a count is uncertain
//! or old.

use super::Quotas;
use super::usage::{AccountUsage, ContentSize, entity_bytes};
use crate::accounts::Accounts;
use crate::clock;
use crate::reload::Live;
use engine::{Engine, EngineExt, EntitySink, Fault, ReadError, Scan, SinkDecision, TableKey, TablePages};
use model::limits::{
    QUOTA_CHECK_MILLISECONDS, QUOTA_COUNT_INTERVAL_RATIO, QUOTA_COUNT_SECONDS, QUOTA_COUNTS_MAX,
    QUOTA_UNCERTAIN_INTERVAL_RATIO,
};
use model::{AccountName, EntityView, TableName};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};

const TARGET: &str = "rowhouse::quota";
/// The maximum number of entities counted in one scan. The engine has a limited number of readers, so a scan must not
/// hold one for long.
const STEP_ENTITIES: usize = 10_000;
const STEP_TIME: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy)]
pub(super) struct CountRecord {
    pub(super) at: Instant,
    pub(super) took: Duration,
}

impl CountRecord {
    fn new(took: Duration) -> Self {
        Self { at: clock::instant(), took }
    }

    pub(super) fn is_due(self, needs_recount: bool, now: Instant) -> bool {
        let (least, share) = if needs_recount {
            (Duration::ZERO, QUOTA_UNCERTAIN_INTERVAL_RATIO)
        } else {
            (Duration::from_secs(QUOTA_COUNT_SECONDS), QUOTA_COUNT_INTERVAL_RATIO)
        };
        now.saturating_duration_since(self.at) >= least.max(self.took.saturating_mul(share))
    }
}

pub(crate) async fn run(engine: Arc<dyn Engine>, accounts: Arc<Live<Accounts>>, quotas: Arc<Quotas>) {
    let mut accounts = accounts.watch();
    let mut counts = RunningCounts::new();
    loop {
        let bounded = quotas.retain_limited(&accounts.borrow_and_update());
        counts.end_others(&bounded);
        // If no account is limited, there is nothing to do until the accounts change.
        while !bounded.is_empty() {
            for account in bounded.iter().filter(|account| quotas.is_due(account, clock::instant())) {
                let count =
                    Count { engine: Arc::clone(&engine), turns: Arc::clone(&counts.turns), took: Duration::ZERO };
                counts.start(account, count.run(Arc::clone(&quotas), account.clone()));
            }
            tokio::time::sleep(Duration::from_millis(QUOTA_CHECK_MILLISECONDS)).await;
            if accounts.has_changed().unwrap_or(true) {
                break;
            }
        }
        if bounded.is_empty() && accounts.changed().await.is_err() {
            return;
        }
    }
}

/// Each count has its own task. The tasks take turns after each step, so large accounts do not delay others.
#[derive(Debug)]
struct RunningCounts {
    running: HashMap<AccountName, JoinHandle<()>>,
    /// Only a few steps run at the same time, which leaves enough of the engine's readers for requests. The semaphore
    /// is fair.
    turns: Arc<Semaphore>,
}

impl RunningCounts {
    fn new() -> Self {
        Self { running: HashMap::new(), turns: Arc::new(Semaphore::new(QUOTA_COUNTS_MAX)) }
    }

    /// Does nothing if a count of the account is in progress.
    fn start(&mut self, account: &AccountName, count: impl Future<Output = ()> + Send + 'static) {
        if self.running.get(account).is_some_and(|running| !running.is_finished()) {
            return;
        }
        self.running.insert(account.clone(), tokio::spawn(count));
    }

    fn end_others(&mut self, bounded: &HashSet<AccountName>) {
        self.running.retain(|account, running| {
            let is_bounded = bounded.contains(account);
            if !is_bounded {
                running.abort();
            }
            is_bounded
        });
    }
}

/// The count of an account.
struct Count {
    engine: Arc<dyn Engine>,
    turns: Arc<Semaphore>,
    /// The time that the steps took, with their pauses.
    took: Duration,
}

impl Count {
    async fn run(mut self, quotas: Arc<Quotas>, account: AccountName) {
        match self.tables(&account).await {
            Ok(tables) => {
                let usage = AccountUsage::counted(tables);
                let ContentSize { entities, bytes } = usage.whole();
                if quotas.set(&account, usage, CountRecord::new(self.took)) {
                    info!(target: TARGET, %account, entities, bytes, "counted for the quota, which is enforced from now on");
                } else {
                    debug!(target: TARGET, %account, entities, bytes, "counted for the quota");
                }
            }
            Err(Fault::Closed) => {}
            Err(fault) => {
                quotas.set_failed(&account, CountRecord::new(self.took));
                warn!(target: TARGET, %account, "the entities of the account could not be counted for its quota; the count will be retried later: {fault}");
            }
        }
    }

    async fn tables(&mut self, account: &AccountName) -> Result<Vec<(Box<str>, ContentSize)>, Fault> {
        let engine = Arc::clone(&self.engine);
        let mut counted = Vec::new();
        let mut pages = TablePages::new(&*engine, account, String::new());
        while let Some(listed) = pages.next().await? {
            for name in listed {
                let folded = Box::from(name.folded());
                counted.push((folded, self.content(account, name).await?));
            }
        }
        Ok(counted)
    }

    /// Returns zero if the table has been deleted in the meantime.
    async fn content(&mut self, account: &AccountName, name: TableName) -> Result<ContentSize, Fault> {
        let table = TableKey { account: account.clone(), name };
        let (mut size, mut from) = (ContentSize::default(), None);
        loop {
            let _turn = self.turns.acquire().await;
            let began = clock::instant();
            let scan = Scan { from: from.take(), limit: STEP_ENTITIES, ..Scan::all(began + STEP_TIME) };
            let (sum, end) = match self.engine.scan(&table, scan, ContentSum::default()).await {
                Ok(page) => page,
                // A scan in the order of keys needs no index.
                Err(ReadError::TableNotFound | ReadError::IndexNotFound | ReadError::IndexNotReady) => {
                    return Ok(ContentSize::default());
                }
                Err(ReadError::Fault(fault)) => return Err(fault),
            };
            size.add(sum.0);
            let is_last = end.next.is_none();
            if !is_last {
                // Leaves half of the time to requests.
                tokio::time::sleep(clock::elapsed_since(began)).await;
            }
            self.took += clock::elapsed_since(began);
            if is_last {
                return Ok(size);
            }
            from = end.next;
        }
    }
}

#[derive(Debug, Default)]
struct ContentSum(ContentSize);

impl EntitySink for ContentSum {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        let bytes = entity_bytes(&entity.key.partition, &entity.key.row, entity.record.record_bytes());
        self.0.add(ContentSize { entities: 1, bytes });
        SinkDecision::Accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Accounts;
    use crate::limits::quota::{Quota, Quotas};
    use engine::Memory;
    use model::clock::SystemClock;
    use model::limits::TRANSACTION_OPERATIONS_MAX;
    use model::{EntityKey, KeyText, Mutation, RecordBuilder, Transaction};
    use std::future::pending;
    use tokio::sync::{mpsc, oneshot};

    #[test]
    fn a_failed_count_is_repeated_after_a_pause_too() {
        let (quotas, account, at) =
            (Quotas::new(Quota::default()), AccountName::new("orchard").unwrap(), Instant::now());
        let is_due = |seconds| quotas.is_due(&account, at + Duration::from_secs(seconds));
        let count = CountRecord { at, took: Duration::from_millis(1) };
        assert!(is_due(0), "never counted");
        quotas.set_failed(&account, count);
        assert!(!is_due(59) && is_due(60));
        let _first = quotas.set(&account, AccountUsage::default(), count);
        assert!(quotas.failed.lock().is_empty());
        quotas.set_failed(&account, count);
        assert!(quotas.retain_limited(&Accounts::development()).is_empty());
        assert!(is_due(0), "forgotten");
    }

    #[tokio::test]
    async fn a_count_that_never_ends_delays_no_other() {
        let account = |name| AccountName::new(name).unwrap();
        let (large, small) = (account("orchard"), account("meadow"));
        let mut counts = RunningCounts::new();
        let (large_counts, mut ended) = mpsc::channel::<()>(1);
        counts.start(&large, async move {
            let _counting = large_counts;
            pending::<()>().await;
        });
        for _ in 0..3 {
            let (counted, when_counted) = oneshot::channel();
            counts.start(&small, async move { counted.send(()).unwrap() });
            when_counted.await.unwrap();
            counts.running.remove(&small).unwrap().await.unwrap();
        }
        let (counted, when_counted) = oneshot::channel::<()>();
        counts.start(&large, async move { counted.send(()).unwrap() });
        assert!(when_counted.await.is_err(), "it is being counted already");
        counts.end_others(&HashSet::from([small]));
        assert_eq!(ended.recv().await, None);
        assert!(counts.running.is_empty());
    }

    #[tokio::test]
    async fn accounts_take_turns_to_be_counted() {
        let engine: Arc<dyn Engine> = Arc::new(Memory::new(SystemClock));
        let (large, small) = (AccountName::new("orchard").unwrap(), AccountName::new("meadow").unwrap());
        for (account, entities) in [(&large, STEP_ENTITIES + 1), (&small, 1)] {
            let table = TableKey { account: account.clone(), name: TableName::new("harvest").unwrap() };
            engine.create_table(&table).await.unwrap();
            let text = |text: &str| KeyText::new(text).unwrap();
            let insert = |row: usize| {
                let key = EntityKey { partition: text("p"), row: text(&row.to_string()) };
                Mutation::Insert { key, properties: RecordBuilder::default() }
            };
            for rows in (0..entities).collect::<Vec<_>>().chunks(TRANSACTION_OPERATIONS_MAX) {
                let inserts = Transaction::new(rows.iter().copied().map(insert).collect()).unwrap();
                engine.commit(&table, inserts).await.unwrap();
            }
        }
        let (quotas, turns) = (Arc::new(Quotas::new(Quota::default())), Arc::new(Semaphore::new(1)));
        let turn = turns.acquire().await.unwrap();
        let mut running = Vec::new();
        for account in [&large, &small] {
            let count = Count { engine: Arc::clone(&engine), turns: Arc::clone(&turns), took: Duration::ZERO };
            running.push(tokio::spawn(count.run(Arc::clone(&quotas), account.clone())));
            // On a single thread, the spawned task reaches its wait before the test continues.
            tokio::task::yield_now().await;
        }
        drop(turn);
        for count in running {
            count.await.unwrap();
        }
        let counted = quotas.counted.lock();
        assert_eq!(counted[&large].usage.whole().entities, STEP_ENTITIES as u64 + 1);
        assert!(counted[&small].number < counted[&large].number, "the large account was counted first");
    }

    #[test]
    fn counting_takes_a_small_share_of_the_time() {
        let at = Instant::now();
        let due = |took, needs_recount, later| {
            CountRecord { at, took: Duration::from_millis(took) }
                .is_due(needs_recount, at + Duration::from_millis(later))
        };
        for (took, needs_recount, not_yet, then) in
            [(1, false, 59_999, 60_000), (2_000, false, 99_999, 100_000), (1, true, 3, 4), (2_000, true, 7_999, 8_000)]
        {
            assert!(!due(took, needs_recount, not_yet), "{took} {needs_recount}");
            assert!(due(took, needs_recount, then), "{took} {needs_recount}");
        }
    }
}
