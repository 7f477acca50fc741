//! Support for the engine tests: names, entities, a clock that is set explicitly, and a sink that keeps all entities.

use engine::{CommitError, Engine, EngineExt, EntitySink, Order, Scan, ScanEnd, SinkDecision, TableKey};
use model::{
    AccountName, Clock, Condition, CorsRule, CorsRules, DateTime, EdmValue, Entity, EntityKey, EntityLimits,
    EntityView, KeyText,
};
use model::{Mutation, MutationResult, Record, RecordBuilder, ServicePropertiesUpdate, TableName, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;
pub use test_support::{Random, TIMEOUT, setting};

pub const ACCOUNT: &str = "account1";

/// The variable that sets the seed of the random tests.
pub const SEED: &str = "ROWHOUSE_SEED";

#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    pub fn at(ticks: i64) -> Self {
        Self(Arc::new(AtomicI64::new(ticks)))
    }

    pub fn set(&self, ticks: i64) {
        self.0.store(ticks, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime {
        DateTime::from_ticks(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

/// The time at which the test clocks start, in ticks.
pub const START_TICKS: i64 = 1_000_000_000;

pub fn table(name: &str) -> TableKey {
    table_of(ACCOUNT, name)
}

pub fn table_of(account: &str, name: &str) -> TableKey {
    TableKey { account: AccountName::new(account).unwrap(), name: TableName::new(name).unwrap() }
}

pub fn key(partition: &str, row: &str) -> EntityKey {
    EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() }
}

pub fn properties(list: &[(&str, i64)]) -> RecordBuilder {
    let mut builder = RecordBuilder::default();
    for (name, value) in list {
        builder.push(name, EdmValue::Int64(*value));
    }
    builder
}

/// Returns as many properties as a record can have, one with a name of the maximum length, and one that makes the
/// entity as large as the wider dialect allows. The keys have a byte each.
pub fn widest() -> RecordBuilder {
    let limits = &EntityLimits::WIDEST;
    let mut builder = RecordBuilder::within(limits, limits.stored_bytes_max);
    builder.push("value", EdmValue::Int64(1));
    builder.push(&"n".repeat(limits.name_units_max), EdmValue::Boolean(true));
    for number in 3..limits.properties_max {
        builder.push(&format!("p{number}"), EdmValue::Int64(0));
    }
    // The name, its length, the type, and the length of the value take six bytes.
    let room = limits.stored_bytes_max - 2 - builder.record_bytes() - 6;
    builder.push("v", EdmValue::Binary(&vec![7; room]));
    builder
}

pub fn insert(partition: &str, row: &str, value: i64) -> Mutation {
    Mutation::Insert { key: key(partition, row), properties: properties(&[("value", value)]) }
}

pub fn upsert(partition: &str, row: &str, value: i64) -> Mutation {
    Mutation::InsertOrReplace { key: key(partition, row), properties: properties(&[("value", value)]) }
}

pub fn delete(partition: &str, row: &str) -> Mutation {
    Mutation::Delete { key: key(partition, row), condition: Condition::Any }
}

/// Returns the condition that an entity has the ETag of a Timestamp.
pub fn if_match(stamp: DateTime) -> Condition {
    Condition::from_timestamp(stamp)
}

/// Returns an update that sets one CORS rule, for an origin.
pub fn cors_update(origin: &str) -> ServicePropertiesUpdate {
    let rule = CorsRule::new(origin, "GET", "x-ms-*", "", 60).unwrap();
    ServicePropertiesUpdate { cors: Some(CorsRules::new(vec![rule]).unwrap()), ..ServicePropertiesUpdate::default() }
}

pub async fn commit_one(
    engine: &dyn Engine,
    table: &TableKey,
    mutation: Mutation,
) -> Result<MutationResult, CommitError> {
    let mut written = engine.commit(table, Transaction::single(mutation)).await?;
    assert_eq!(written.len(), 1);
    Ok(written.remove(0))
}

/// Commits upserts in transactions of at most 100. The value of each entity is the index of its key in the list.
pub async fn fill(engine: &dyn Engine, table: &TableKey, partition: &str, rows: &[String]) {
    for chunk in rows.chunks(100) {
        let mutations = chunk.iter().map(|row| upsert(partition, row, 1)).collect();
        engine.commit(table, Transaction::new(mutations).unwrap()).await.unwrap();
    }
}

pub fn stamp(written: MutationResult) -> DateTime {
    match written {
        MutationResult::Stored(stamp) => stamp,
        MutationResult::Returned(record) => record.view().unwrap().timestamp(),
        MutationResult::Deleted => panic!("the entity was deleted, not stored"),
    }
}

pub fn value(record: &Record) -> i64 {
    match record.view().unwrap().get("value").unwrap() {
        Some(EdmValue::Int64(value)) => value,
        other => panic!("no value: {other:?}"),
    }
}

/// The page ends after `most` entities.
#[derive(Debug, Default)]
pub struct CollectingSink {
    pub entities: Vec<Entity>,
    pub most: Option<usize>,
}

impl EntitySink for CollectingSink {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        let mut builder = RecordBuilder::within(&EntityLimits::WIDEST, 0);
        for property in entity.record.properties() {
            let property = property.unwrap();
            builder.push(property.name().unwrap(), property.value().unwrap());
        }
        let key = key(&entity.key.partition, &entity.key.row);
        self.entities.push(Entity { key, record: builder.finish(entity.record.timestamp()) });
        if self.most == Some(self.entities.len()) { SinkDecision::AcceptedLast } else { SinkDecision::Accepted }
    }
}

pub fn scan_all() -> Scan {
    Scan::all(Instant::now() + TIMEOUT)
}

pub async fn page(engine: &dyn Engine, table: &TableKey, scan: Scan) -> (Vec<Entity>, ScanEnd) {
    let (kept, end) = engine.scan(table, scan, CollectingSink::default()).await.unwrap();
    (kept.entities, end)
}

pub async fn all(engine: &dyn Engine, table: &TableKey) -> Vec<Entity> {
    let (entities, end) = page(engine, table, scan_all()).await;
    assert_eq!(end.next, None);
    entities
}

/// The orders of keys.
pub const KEY_ORDERS: [Order; 2] = [Order::KEYS, Order::Key { is_descending: true }];

/// Returns a list in an order of keys, given the list in the ascending one.
pub fn in_order<T: Clone>(order: &Order, ascending: &[T]) -> Vec<T> {
    let mut list = ascending.to_vec();
    if order.is_descending() {
        list.reverse();
    }
    list
}

/// Returns the keys of entities as `partition/row`.
pub fn names(entities: &[Entity]) -> Vec<String> {
    entities.iter().map(|entity| format!("{}/{}", entity.key.partition.as_str(), entity.key.row.as_str())).collect()
}
