//! The workload on a real engine, through the engine contract.

use engine::{CommitError, Engine, EntitySink, Memory, Scan, SinkDecision, TableKey};
use history::{Answer, Choices, Client, Kind, Mix, Mutation, NoAnswer, Page, Property, Query, Recorder, Refusal};
use history::{Rules, StampOrder, Value, Version, check, run_client};
use model::clock::SystemClock;
use model::filter::{Comparison, Literal, Operator, PropertyName};
use model::{AccountName, Condition, DateTime, ETag, EdmValue, EntityKey, EntityView, Filter, KeyRange, Position};
use model::{MutationError, MutationResult, RecordBuilder, RecordView, TableName, Transaction};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 32;
const REQUESTS_OF_CLIENT: u64 = 800;

/// A client in the process of the engine.
struct EngineClient<E> {
    engine: Arc<E>,
    table: TableKey,
}

fn stamp(timestamp: DateTime) -> u64 {
    timestamp.ticks().try_into().unwrap()
}

fn key(partition: &str, row: &str) -> EntityKey {
    EntityKey::new(partition, row).unwrap()
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
        builder.push(&property.name().to_string(), EdmValue::Int64((*token).try_into().unwrap()));
    }
    builder
}

fn mutation(partition: &str, mutation: &Mutation) -> model::Mutation {
    let (key, properties) = (key(partition, &mutation.row), properties(&mutation.value));
    let condition = mutation.if_match.map_or(Condition::Any, |etag| {
        let timestamp = DateTime::from_ticks(etag.try_into().unwrap()).unwrap();
        Condition::parse(&ETag::from_timestamp(timestamp).to_string()).unwrap()
    });
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

impl<E: Engine> Client for EngineClient<E> {
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
            bytes_expected: usize::MAX,
            deadline: Instant::now() + Duration::from_secs(60),
        };
        let (found, end) =
            self.engine.scan(&self.table, scan, Entities::default()).await.map_err(|_| NoAnswer::Failed)?;
        let next = end.next.map(|position| position.keys().unwrap().row.to_string());
        let until = next.or_else(|| query.until.clone());
        Ok(Page { from: query.from.clone(), until, filter: query.filter, entities: found.0 })
    }

    async fn write(&mut self, partition: &str, mutations: &[Mutation]) -> Result<Answer, NoAnswer> {
        let transaction = mutations.iter().map(|one| mutation(partition, one)).collect();
        let stored = |result: &MutationResult| match result {
            MutationResult::Stored(timestamp) => Some(stamp(*timestamp)),
            MutationResult::Deleted => None,
        };
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_engine_is_strictly_serializable() {
    let engine = Arc::new(Memory::new(SystemClock));
    let table = TableKey { account: AccountName::new("account1").unwrap(), name: TableName::new("Table").unwrap() };
    engine.create_table(&table).await.unwrap();
    let recorder = Recorder::new();
    let is_over = Arc::new(AtomicBool::new(false));
    let clients = (0..CLIENTS).map(|seed| {
        let mut client = EngineClient { engine: Arc::clone(&engine), table: table.clone() };
        let (log, is_over) = (recorder.client(), Arc::clone(&is_over));
        let mut choices = Choices::new(seed, Mix { partitions: 4, rows: 6, has_filters: seed % 2 == 0 });
        tokio::spawn(async move { run_client(&mut client, &log, &mut choices, REQUESTS_OF_CLIENT, &is_over).await })
    });
    for client in clients.collect::<Vec<_>>() {
        assert_eq!(client.await.unwrap(), REQUESTS_OF_CLIENT);
    }
    let report = check(&recorder.history(), Rules::new(StampOrder::Partition));
    assert!(report.is_valid(), "{report}");
    assert_eq!((report.operations, report.partitions), (CLIENTS * REQUESTS_OF_CLIENT, 4));
}
