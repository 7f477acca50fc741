//! Compares a durable engine with the memory engine under random operations. Both must give the same responses, even
//! across restarts and while the durable engine cannot write.
//!
//! A run is determined by its seed, which is printed. `ROWHOUSE_SEED` replays a run, `ROWHOUSE_STEPS` sets its length,
//! and `ROWHOUSE_TRACE` prints every step. Only the position at which a failing write is torn depends on timing.

mod faults;
mod random;

use crate::support::*;
use async_trait::async_trait;
use engine::{BoxFuture, CommitError, Engine, EngineExt, Memory, Order, ReadError, Scan, ScanEnd, TableKey};
use faults::Faults;
use model::{AccountName, DateTime, Entity, KeyRange, MutationResult, Position, TableSettingsUpdate, Transaction};
use random::Choices;

/// One in this many restarts uses the durability that waits for the disk. If there were more, the test would spend most
/// of its time waiting for the disk.
const SYNC_SHARE: usize = 16;
/// A server on PostgreSQL issues only one in this many stamps: those with the number of its slot.
const SLOTS: i64 = 64;
/// One in this many steps is a period in which nothing can be written.
const FAULT_SHARE: usize = 4000;

/// Opens the durable engine, repeatedly.
#[async_trait]
pub trait EngineOpener: Send + Sync {
    fn steps_default(&self) -> u64;
    /// Returns whether all stamps of the engine are in a single order, whatever the clock shows.
    fn has_order_of_stamps(&self) -> bool;

    /// Opens the engine. If it is synced, a write is on disk before its response; otherwise, a short time later. A
    /// crash of the process has the same effects either way.
    async fn open(&self, clock: ManualClock, is_synced: bool) -> Box<dyn Engine>;

    /// Returns the function that makes writes fail that extend a file beyond a size in bytes, until it is called
    /// without a size; `None` if there is none.
    fn file_limit(&self) -> Option<fn(Option<u64>)>;
}

struct Pair {
    opener: Box<dyn EngineOpener>,
    clock: ManualClock,
    memory: Memory,
    durable: Option<Box<dyn Engine>>,
    /// The issued Timestamps, for conditions that can be met.
    stamps: Vec<DateTime>,
    /// The time to which [`Self::synchronize_stamps`] set the clock.
    leading: i64,
    faults: Faults,
}

/// Returns a table that the random operations never use.
pub fn reserved_table() -> TableKey {
    table_of("account3", "Aside")
}

impl Pair {
    async fn new(opener: Box<dyn EngineOpener>) -> Self {
        let clock = ManualClock::at(START_TICKS);
        let durable = Some(opener.open(clock.clone(), false).await);
        let (memory, faults) = (Memory::new(clock.clone()), Faults::default());
        let pair = Self { opener, memory, clock, durable, stamps: Vec::new(), leading: START_TICKS, faults };
        same(
            "create aside",
            (pair.memory.create_table(&reserved_table()).await, pair.durable().create_table(&reserved_table()).await),
        );
        pair
    }

    fn durable(&self) -> &dyn Engine {
        self.durable.as_deref().unwrap()
    }

    async fn reopen(&mut self, closes_first: bool, is_synced: bool) {
        let durable = self.durable.take().unwrap();
        if closes_first {
            durable.close().await.unwrap();
        }
        drop(durable);
        self.durable = Some(self.opener.open(self.clock.clone(), is_synced).await);
    }

    /// Makes both engines issue the same stamps, for engines whose stamps are not in a single order. Sets the clock
    /// after all stamps so far, to a stamp that the durable engine may issue.
    async fn synchronize_stamps(&mut self) {
        if !self.opener.has_order_of_stamps() {
            self.clock.set(self.leading + 1);
            let slot = stamp(commit_one(self.durable(), &reserved_table(), upsert("lead", "", 0)).await.unwrap());
            self.leading = slot.ticks() + SLOTS;
            self.clock.set(self.leading);
        }
    }

    async fn commit_in_memory(
        &mut self,
        table: &TableKey,
        transaction: Transaction,
    ) -> Result<Vec<MutationResult>, CommitError> {
        let answer = self.memory.commit(table, transaction).await;
        self.stamps.extend(answer.iter().flatten().filter_map(MutationResult::timestamp));
        answer
    }

    /// Compares the results of a query over the ranges of its plan, as the server runs it, with the results of a full
    /// scan.
    async fn planned_query(&mut self, table: &TableKey, random: &mut Choices) -> String {
        let filter = random.filter(3);
        let ranges = model::plan::plan(Some(&filter)).ranges;
        let order = Order::Key { is_descending: random.one_in(2) };
        let planned = Scan { ranges, order, filter: Some(filter), ..scan_all() };
        let everything = Scan { ranges: vec![KeyRange::all()], ..planned.clone() };
        let entities = |answer: Result<(CollectingSink, _), _>| answer.map(|(kept, _)| kept.entities);
        let memory = self.memory.scan(table, everything, CollectingSink::default()).await;
        let embedded = self.durable().scan(table, planned.clone(), CollectingSink::default()).await;
        same(&format!("query {table:?} {planned:?}"), (entities(memory), entities(embedded)))
    }

    async fn compare_all(&self) {
        for account in ["account1", "account2"] {
            for name in ["Alpha", "Beta", "gamma"] {
                let table = table_of(account, name);
                same("all entities", (all_of(&self.memory, &table).await, all_of(self.durable(), &table).await));
                let answers = (self.memory.policies(&table).await, self.durable().policies(&table).await);
                same("all policies", answers);
                same("all settings", (self.memory.settings(&table).await, self.durable().settings(&table).await));
            }
        }
    }

    async fn step(&mut self, random: &mut Choices) -> String {
        if let Some(limit_files) = self.opener.file_limit()
            && random.one_in(FAULT_SHARE)
        {
            return self.fault(limit_files, random).await;
        }
        let table = random.table();
        match random.below(40) {
            0 => {
                let answers = (self.memory.create_table(&table).await, self.durable().create_table(&table).await);
                same(&format!("create {table:?}"), answers)
            }
            1 if random.one_in(2) => {
                let answers = (self.memory.delete_table(&table).await, self.durable().delete_table(&table).await);
                same(&format!("delete {table:?}"), answers)
            }
            2 => {
                let (from, limit) = (random.one(&["", "alpha", "b"]), random.below(4));
                let account = AccountName::new(table.account.as_str()).unwrap();
                let memory = self.memory.list_tables(&account, from, limit).await;
                same("list", (memory, self.durable().list_tables(&account, from, limit).await))
            }
            3 if random.one_in(10) => {
                let closes_first = random.one_in(2);
                let is_synced = random.one_in(SYNC_SHARE);
                self.reopen(closes_first, is_synced).await;
                format!("reopen, synced: {is_synced}, closing first: {closes_first}")
            }
            4 => {
                let ticks = START_TICKS + i64::try_from(random.below(100_000)).unwrap();
                self.clock.set(ticks);
                format!("set the clock to {ticks}")
            }
            5 if random.one_in(2) => {
                let retention = (!random.one_in(4)).then(|| random.retention());
                let indexes = random.one_in(2).then(|| random.indexes());
                let update = TableSettingsUpdate { retention, indexes };
                let what = format!("set {update:?} of {table:?}");
                let memory = self.memory.update_settings(&table, update.clone()).await;
                same(&what, (memory, self.durable().update_settings(&table, update).await))
            }
            5 => {
                let policies = random.policies();
                let what = format!("set {policies:?} of {table:?}");
                let memory = self.memory.set_policies(&table, policies.clone()).await;
                same(&what, (memory, self.durable().set_policies(&table, policies).await))
            }
            6 if random.one_in(2) => {
                let answers = (self.memory.settings(&table).await, self.durable().settings(&table).await);
                same(&format!("settings of {table:?}"), answers)
            }
            6 => {
                let answers = (self.memory.policies(&table).await, self.durable().policies(&table).await);
                same(&format!("policies of {table:?}"), answers)
            }
            7..=9 => self.planned_query(&table, random).await,
            10..=12 => {
                let scan = random.scan();
                let memory = self.memory.scan(&table, scan.clone(), CollectingSink::default()).await;
                let durable = self.durable().scan(&table, scan.clone(), CollectingSink::default()).await;
                same(&format!("scan {table:?} {scan:?}"), (without_index(memory), without_index(durable)))
            }
            13 => {
                let scan = Scan { order: random.order(), ..random.scan() };
                let memory = self.memory.scan(&table, scan.clone(), CollectingSink::default()).await;
                match self.durable().scan(&table, scan.clone(), CollectingSink::default()).await {
                    // It is ready in memory at once.
                    Err(ReadError::IndexNotReady) => "an index that is not ready".to_owned(),
                    durable => {
                        same(&format!("list {table:?} {scan:?}"), (without_index(memory), without_index(durable)))
                    }
                }
            }
            14..=18 => {
                let key = random.entity();
                let answers = (self.memory.get(&table, &key).await, self.durable().get(&table, &key).await);
                same(&format!("get {table:?} {key:?}"), answers)
            }
            _ => {
                let transaction = random.transaction(&self.stamps);
                self.synchronize_stamps().await;
                let what = format!("commit {table:?} {transaction:?}");
                let memory = self.commit_in_memory(&table, transaction.clone()).await;
                same(&what, (memory, self.durable().commit(&table, transaction).await))
            }
        }
    }
}

/// Removes what differs while an index is not ready.
fn without_index(
    page: Result<(CollectingSink, ScanEnd), ReadError>,
) -> Result<(Vec<Entity>, Option<Position>), ReadError> {
    page.map(|(kept, end)| (kept.entities, end.next))
}

async fn all_of(engine: &dyn Engine, table: &TableKey) -> Option<Vec<Entity>> {
    engine.scan(table, scan_all(), CollectingSink::default()).await.ok().map(|(kept, _)| kept.entities)
}

fn same<T: std::fmt::Debug>(what: &str, (memory, embedded): (T, T)) -> String {
    let (memory, embedded) = (format!("{memory:?}"), format!("{embedded:?}"));
    assert_eq!(memory, embedded, "the engines differ in: {what}");
    what.to_owned()
}

/// Compares the engine with the memory engine.
pub fn answers_as_the_memory_engine(opener: Box<dyn EngineOpener>) -> BoxFuture<'static, ()> {
    Box::pin(compare(opener))
}

async fn compare(opener: Box<dyn EngineOpener>) {
    let steps = setting("ROWHOUSE_STEPS").unwrap_or(opener.steps_default());
    println!("ROWHOUSE_STEPS={steps}");
    let mut pair = Pair::new(opener).await;
    let mut random = Choices(Random::from_environment(SEED));
    for step in 0..steps {
        let what = pair.step(&mut random).await;
        if std::env::var_os("ROWHOUSE_TRACE").is_some() {
            println!("{step}: {what}");
        }
    }
    // In addition to the comparisons in each step, everything must be equal at the end, even after a restart.
    pair.reopen(true, true).await;
    pair.compare_all().await;
    println!("{:?}", pair.faults);
}
