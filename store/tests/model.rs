//! Random operations on a durable engine and on the memory engine, which must answer alike.
//!
//! A run is determined by its seed, which is printed; `ROWHOUSE_SEED` replays one, `ROWHOUSE_STEPS` makes it longer.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout, reason = "a test")]

#[path = "support/cluster.rs"]
mod cluster;
mod support;

use cluster::Cluster;
use model::filter::{Comparison, Literal, Operator, PropertyName};
use model::{AccountName, Condition, DateTime, ETag, EntityKey, Filter, KeyRange, Mutation, Position, RecordBuilder};
use model::{EdmValue, Permissions, StoredAccessPolicies, StoredAccessPolicy, Transaction, Written};
use std::time::{SystemTime, UNIX_EPOCH};
use store::{CommitError, Embedded, EmbeddedOptions, Engine, Memory, Postgres, PostgresOptions, Scan, TableKey};
use support::*;

const STEPS_DEFAULT: u64 = 3000;
/// How far ahead of the clock a table may begin in the engine that has no serial order: a second, and a little.
const CREATED_AHEAD_TICKS_MAX: i64 = 10_001_000;

/// A small generator (`SplitMix64`): a run depends on nothing but its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn table(&mut self) -> TableKey {
        let account = self.one(&["account1", "account2"]);
        table_of(account, self.one(&["Alpha", "alpha", "ALPHA", "Beta", "gamma"]))
    }

    fn entity(&mut self) -> EntityKey {
        let partition = self.one(&["", "a", "ab", "é", "\u{E000}", "😀"]);
        key(partition, &self.row())
    }

    fn row(&mut self) -> String {
        let row = self.one(&["", "0", "1", "2", "3", "30", "😀", "\u{FFFD}"]);
        row.to_owned()
    }

    fn properties(&mut self) -> RecordBuilder {
        let mut builder = RecordBuilder::default();
        for name in ["value", "other", "text"] {
            if self.one_in(2) {
                builder.push(name, EdmValue::Int64(i64::try_from(self.below(4)).unwrap()));
            }
        }
        if self.one_in(20) {
            builder.push("large", EdmValue::Binary(&vec![7; 20_000]));
        }
        builder
    }

    fn condition(&mut self, stamps: &[DateTime]) -> Condition {
        if stamps.is_empty() || self.one_in(3) {
            return Condition::Any;
        }
        let recent = stamps.len() - 1 - self.below(stamps.len().min(20));
        Condition::parse(&ETag::of(stamps[recent]).to_string()).unwrap()
    }

    fn mutation(&mut self, key: EntityKey, stamps: &[DateTime]) -> Mutation {
        match self.below(8) {
            0 => Mutation::Insert { key, properties: self.properties() },
            1 => Mutation::Replace { key, properties: self.properties(), condition: self.condition(stamps) },
            2 => Mutation::Merge { key, properties: self.properties(), condition: self.condition(stamps) },
            3 => Mutation::Delete { key, condition: self.condition(stamps) },
            4 | 5 => Mutation::InsertOrMerge { key, properties: self.properties() },
            _ => Mutation::InsertOrReplace { key, properties: self.properties() },
        }
    }

    fn transaction(&mut self, stamps: &[DateTime]) -> Transaction {
        let first = self.entity();
        let mut mutations = vec![self.mutation(first.clone(), stamps)];
        if self.one_in(3) {
            for _ in 0..self.below(6) {
                let key =
                    EntityKey { partition: first.partition.clone(), row: model::KeyText::new(&self.row()).unwrap() };
                if mutations.iter().all(|mutation| *mutation.key() != key) {
                    mutations.push(self.mutation(key, stamps));
                }
            }
        }
        Transaction::new(mutations).unwrap()
    }

    fn policies(&mut self) -> StoredAccessPolicies {
        let policy = |random: &mut Self, index: usize| {
            let mut policy = StoredAccessPolicy::new(&format!("é{index}")).unwrap();
            policy.start = random.one_in(2).then_some(DateTime::MIN);
            policy.expiry = random.one_in(2).then_some(DateTime::MAX);
            policy.permissions = random.one_in(2).then(|| *random.one(&[&Permissions::NONE, &Permissions::ENTITIES]));
            policy
        };
        StoredAccessPolicies::new((0..self.below(6)).map(|index| policy(self, index)).collect()).unwrap()
    }

    fn scan(&mut self) -> Scan {
        let mut edges: Vec<Vec<u8>> = (0..2 * self.below(3)).map(|_| self.entity().encode()).collect();
        edges.sort();
        let mut ranges: Vec<KeyRange> =
            edges.chunks(2).map(|pair| KeyRange { start: pair[0].clone(), end: Some(pair[1].clone()) }).collect();
        if ranges.is_empty() {
            ranges.push(KeyRange::all());
        }
        let from = self.one_in(3).then(|| Position::from_key_bytes(self.entity().encode()));
        let filter = self.one_in(2).then(|| {
            Filter::Compare(Comparison {
                property: PropertyName::Custom("value".into()),
                operator: *self.one(&[&Operator::Equal, &Operator::LessThan, &Operator::NotEqual]),
                literal: Literal::Int64(i64::try_from(self.below(4)).unwrap()),
            })
        });
        let limit = if self.one_in(2) { self.below(5) } else { usize::MAX };
        let byte_budget = if self.one_in(4) { self.below(500) } else { usize::MAX };
        Scan { ranges, from, filter, limit, byte_budget, ..scan_all() }
    }
}

/// How the durable engine is opened, again and again.
trait Opens {
    type Engine: Engine;

    /// Whether the engine goes on behind its last stamp when it is opened again, whatever the clock says then.
    const KEEPS_LAST_STAMP: bool;

    async fn open(&self, clock: ManualClock) -> Self::Engine;
}

struct InFolder(tempfile::TempDir);

impl Opens for InFolder {
    type Engine = Embedded;
    const KEEPS_LAST_STAMP: bool = true;

    async fn open(&self, clock: ManualClock) -> Embedded {
        Embedded::open(self.0.path(), &EmbeddedOptions::default(), clock).unwrap()
    }
}

struct InDatabase(String);

impl Opens for InDatabase {
    type Engine = Postgres<ManualClock>;
    // A server knows nothing of the stamps of another, or of the one before it, but those that its writes meet.
    const KEEPS_LAST_STAMP: bool = false;

    async fn open(&self, clock: ManualClock) -> Postgres<ManualClock> {
        let options = PostgresOptions { url: self.0.clone(), password: None, connections_max: 4, distribute: false };
        Postgres::open(&options, clock).await.unwrap()
    }
}

/// The two engines, and what they answered so far.
struct Pair<O: Opens> {
    opens: O,
    clock: ManualClock,
    /// Before this the clock does not go back.
    begin: i64,
    memory: Memory<ManualClock>,
    durable: Option<O::Engine>,
    /// The Timestamps that were given out, for conditions that may hold.
    stamps: Vec<DateTime>,
}

impl<O: Opens> Pair<O> {
    async fn new(opens: O) -> Self {
        let clock = ManualClock::at(START_TICKS);
        let durable = Some(opens.open(clock.clone()).await);
        let pair =
            Self { opens, memory: Memory::new(clock.clone()), clock, begin: START_TICKS, durable, stamps: Vec::new() };
        let aside = table_of("account3", "Aside");
        same("create aside", (pair.memory.create_table(&aside).await, pair.durable().create_table(&aside).await));
        pair
    }

    fn durable(&self) -> &O::Engine {
        self.durable.as_ref().unwrap()
    }

    async fn reopen(&mut self, closes_first: bool) {
        let durable = self.durable.take().unwrap();
        if closes_first {
            durable.close().await.unwrap();
        }
        drop(durable);
        self.durable = Some(self.opens.open(self.clock.clone()).await);
        if !O::KEEPS_LAST_STAMP {
            self.go_on(1_000).await;
        }
    }

    /// Lets the clock go on, behind all stamps so far, and takes both engines along by a write.
    async fn go_on(&mut self, ticks: i64) {
        self.begin = self.stamps.iter().max().map_or(START_TICKS, |last| last.ticks()) + ticks;
        self.clock.set(self.begin);
        let aside = table_of("account3", "Aside");
        let write = || Transaction::single(upsert("p", "r", 1));
        let memory = self.memory.commit(&aside, write()).await;
        self.keep_stamps(&memory);
        same("write aside", (memory, self.durable().commit(&aside, write()).await));
    }

    fn keep_stamps(&mut self, answer: &Result<Vec<Written>, CommitError>) {
        let written = answer.iter().flatten();
        self.stamps.extend(written.filter_map(|written| match written {
            Written::Stored(stamp) => Some(*stamp),
            Written::Deleted => None,
        }));
    }

    async fn step(&mut self, random: &mut Random) -> String {
        let table = random.table();
        match random.below(40) {
            0 => {
                let memory = self.memory.create_table(&table).await;
                let is_new = memory.is_ok();
                let what = same(&format!("create {table:?}"), (memory, self.durable().create_table(&table).await));
                if is_new && !O::KEEPS_LAST_STAMP {
                    // A table of the same name before it may let this one begin ahead of the clock.
                    self.go_on(CREATED_AHEAD_TICKS_MAX).await;
                }
                what
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
                self.reopen(closes_first).await;
                format!("reopen, closing first: {closes_first}")
            }
            4 => {
                let ticks = self.begin + i64::try_from(random.below(100_000)).unwrap();
                self.clock.set(ticks);
                format!("the clock says {ticks}")
            }
            5 => {
                let policies = random.policies();
                let what = format!("set {policies:?} of {table:?}");
                let memory = self.memory.set_policies(&table, policies.clone()).await;
                same(&what, (memory, self.durable().set_policies(&table, policies).await))
            }
            6 => {
                let answers = (self.memory.policies(&table).await, self.durable().policies(&table).await);
                same(&format!("policies of {table:?}"), answers)
            }
            7..=12 => {
                let scan = random.scan();
                let answers = (
                    self.memory.scan(&table, scan.clone(), Kept::default()).await,
                    self.durable().scan(&table, scan.clone(), Kept::default()).await,
                );
                same(&format!("scan {table:?} {scan:?}"), answers)
            }
            13..=18 => {
                let key = random.entity();
                let answers = (self.memory.get(&table, &key).await, self.durable().get(&table, &key).await);
                same(&format!("get {table:?} {key:?}"), answers)
            }
            _ => {
                let transaction = random.transaction(&self.stamps);
                let what = format!("commit {table:?} {transaction:?}");
                let memory = self.memory.commit(&table, transaction.clone()).await;
                self.keep_stamps(&memory);
                same(&what, (memory, self.durable().commit(&table, transaction).await))
            }
        }
    }
}

fn same<T: std::fmt::Debug>(what: &str, (memory, durable): (T, T)) -> String {
    let (memory, durable) = (format!("{memory:?}"), format!("{durable:?}"));
    assert_eq!(memory, durable, "the engines differ in: {what}");
    what.to_owned()
}

fn setting(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_engine_answers_as_the_memory_engine() {
    answers_as_the_memory_engine(InFolder(tempfile::tempdir().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_on_postgresql_answers_as_the_memory_engine() {
    let Some(cluster) = Cluster::shared() else { return };
    answers_as_the_memory_engine(InDatabase(cluster.database())).await;
}

async fn answers_as_the_memory_engine(opens: impl Opens) {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = setting("ROWHOUSE_SEED").unwrap_or_else(|| u64::from(since_epoch.subsec_nanos()));
    let steps = setting("ROWHOUSE_STEPS").unwrap_or(STEPS_DEFAULT);
    println!("ROWHOUSE_SEED={seed} ROWHOUSE_STEPS={steps} replays this run");
    let mut pair = Pair::new(opens).await;
    let mut random = Random(seed);
    for step in 0..steps {
        let what = pair.step(&mut random).await;
        if std::env::var_os("ROWHOUSE_TRACE").is_some() {
            println!("{step}: {what}");
        }
    }
    // Whatever the steps happened to look at, in the end everything must be equal, also after a restart.
    pair.reopen(true).await;
    for account in ["account1", "account2"] {
        for name in ["Alpha", "Beta", "gamma"] {
            let table = table_of(account, name);
            let memory = pair.memory.scan(&table, scan_all(), Kept::default()).await;
            same("the last scan", (memory, pair.durable().scan(&table, scan_all(), Kept::default()).await));
            let answers = (pair.memory.policies(&table).await, pair.durable().policies(&table).await);
            same("the last policies", answers);
        }
    }
}
