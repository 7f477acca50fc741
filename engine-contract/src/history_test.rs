//! Checks that an engine is strictly serializable in each partition, with a workload and the checker of histories.

use crate::support::{Random, if_match, key, setting, table};
use engine::{BoxFuture, CommitError, Engine, EngineExt, EntitySink, Scan, SinkDecision, TableKey};
pub use history::StampOrder;
use history::{Answer, Choices, Client, Kind, Mix, Mutation, NoAnswer, Page, Property, Query, Recorder, Refusal};
use history::{Rules, Value, Version, check, run_client};
use model::filter::{Comparison, Literal, Operator, PropertyName};
use model::{Condition, DateTime, EdmValue, EntityView, Filter, KeyRange, Position};
use model::{MutationError, MutationResult, RecordBuilder, RecordView, Transaction};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 32;
/// The usual number of operations, and the number in one table.
const OPERATIONS: u64 = 6400;

/// A client in the process of the engine.
struct EngineClient {
    engine: Arc<dyn Engine>,
    table: TableKey,
}

fn stamp(timestamp: DateTime) -> u64 {
    timestamp.ticks().try_into().unwrap()
}

fn version(record: &RecordView<'_>) -> Version {
    let properties = record.properties().map(|property| {
        let property = property.unwrap();
        let EdmValue::Int64(token) = property.value().unwrap() else { panic!("a token was expected") };
        (Property::new(property.name().unwrap()).unwrap(), token.try_into().unwrap())
    });
    Version { etag: stamp(record.timestamp()), value: properties.collect() }
}

fn properties(value: &Value) -> RecordBuilder {
    let mut builder = RecordBuilder::default();
    for (property, token) in value.properties() {
        builder.push(&property.name().to_string(), EdmValue::Int64(token.try_into().unwrap()));
    }
    builder
}

fn mutation(partition: &str, mutation: &Mutation) -> model::Mutation {
    let (key, properties) = (key(partition, &mutation.row), properties(&mutation.value));
    let condition = mutation
        .if_match
        .map_or(Condition::Any, |etag| if_match(DateTime::from_ticks(etag.try_into().unwrap()).unwrap()));
    match mutation.kind {
        Kind::Insert => model::Mutation::Insert { key, properties },
        Kind::Replace => model::Mutation::Replace { key, properties, condition },
        Kind::Merge => model::Mutation::Merge { key, properties, condition },
        Kind::InsertOrReplace => model::Mutation::InsertOrReplace { key, properties },
        Kind::InsertOrMerge => model::Mutation::InsertOrMerge { key, properties },
        Kind::Delete => model::Mutation::Delete { key, condition },
    }
}

#[derive(Default)]
struct Entities(Vec<(String, Version)>);

impl EntitySink for Entities {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        self.0.push((entity.key.row.to_string(), version(&entity.record)));
        SinkDecision::Accepted
    }
}

impl Client for EngineClient {
    async fn get(&mut self, partition: &str, row: &str) -> Result<Option<Version>, NoAnswer> {
        let record = self.engine.get(&self.table, &key(partition, row)).await.map_err(|_| NoAnswer::Failed)?;
        Ok(record.map(|record| version(&record.view().unwrap())))
    }

    async fn page(&mut self, partition: &str, query: &Query) -> Result<Page, NoAnswer> {
        let from = if query.is_continued { Bound::Unbounded } else { Bound::Included(query.from.as_str()) };
        let until = query.until.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let filter = query.filter.map(|filter| {
            Filter::Compare(Comparison {
                property: PropertyName::Custom(filter.property.name().to_string().into()),
                operator: Operator::GreaterThanOrEqual,
                literal: Literal::Int64(filter.at_least.try_into().unwrap()),
            })
        });
        let scan = Scan {
            ranges: vec![KeyRange::rows(partition, from, until)],
            from: query.is_continued.then(|| Position::new(partition, &query.from)),
            filter,
            limit: query.limit,
            ..Scan::all(Instant::now() + Duration::from_mins(1))
        };
        let (found, end) =
            self.engine.scan(&self.table, scan, Entities::default()).await.map_err(|_| NoAnswer::Failed)?;
        let next = end.next.map(|position| position.keys().unwrap().row.to_string());
        let until = next.or_else(|| query.until.clone());
        Ok(Page { from: query.from.clone(), until, filter: query.filter, entities: found.0 })
    }

    async fn write(&mut self, partition: &str, mutations: &[Mutation]) -> Result<Answer, NoAnswer> {
        let transaction = mutations.iter().map(|one| mutation(partition, one)).collect();
        let stored = |result: &MutationResult| result.timestamp().map(stamp);
        match self.engine.commit(&self.table, Transaction::new(transaction).unwrap()).await {
            Ok(results) => Ok(Answer::Done(results.iter().map(stored).collect())),
            Err(CommitError::Refused(index, error)) => {
                let reason = match error {
                    MutationError::AlreadyExists => Refusal::Exists,
                    MutationError::NotFound => Refusal::NotFound,
                    MutationError::ConditionNotMet => Refusal::ConditionNotMet,
                    other => panic!("{other:?}"),
                };
                Ok(Answer::Refused { index, reason })
            }
            Err(_) => Err(NoAnswer::Failed),
        }
    }
}

/// Runs conflicting clients on an engine, and checks their histories. Prints the seed and what ran.
/// `ROWHOUSE_HISTORY_OPERATIONS` is the number of operations; each part of them uses a new table.
pub fn is_strictly_serializable(engine: Arc<dyn Engine>, order: StampOrder) -> BoxFuture<'static, ()> {
    Box::pin(run_parts(engine, order))
}

async fn run_parts(engine: Arc<dyn Engine>, order: StampOrder) {
    let count = setting("ROWHOUSE_HISTORY_OPERATIONS").unwrap_or(OPERATIONS);
    let mut random = Random::from_environment("ROWHOUSE_HISTORY_SEED");
    let mut answered = 0;
    for part in 0..count.div_ceil(OPERATIONS) {
        let table = table(&format!("History{part}"));
        engine.create_table(&table).await.unwrap();
        answered += check_part(&engine, &table, order, &mut random).await;
        engine.delete_table(&table).await.unwrap();
    }
    println!("{answered} of {count} operations were answered, and are serializable");
    // A database on a busy machine may refuse some.
    assert!(2 * answered > count, "most operations failed");
}

/// Returns the number of answers.
async fn check_part(engine: &Arc<dyn Engine>, table: &TableKey, order: StampOrder, random: &mut Random) -> u64 {
    let recorder = Recorder::new();
    let is_over = Arc::new(AtomicBool::new(false));
    let clients = (0..CLIENTS).map(|client| {
        let mut choices = Choices::new(random.number(), Mix { partitions: 4, rows: 6, has_filters: client % 2 == 0 });
        let (log, is_over) = (recorder.client(), Arc::clone(&is_over));
        let mut client = EngineClient { engine: Arc::clone(engine), table: table.clone() };
        tokio::spawn(async move { run_client(&mut client, &log, &mut choices, OPERATIONS / CLIENTS, &is_over).await })
    });
    let mut answered = 0;
    for client in clients.collect::<Vec<_>>() {
        answered += client.await.unwrap();
    }
    let report = check(&recorder.history(), Rules::new(order));
    assert!(report.is_valid(), "{report}");
    answered
}
