//! Writes totals to the metrics tables, and deletes old metrics.
//!
//! Other servers may write the same entities at the same time, and this server may have written a part of an hour
//! before a restart. Totals are therefore added to the stored totals, on the condition that the stored totals have not
//! changed. If they have changed, everything is retried.

use super::accumulator::{IntervalKey, IntervalTotals, partition_of};
use super::request_totals::RequestTotals;
use crate::clock;
use engine::{
    CatalogError, CommitError, Engine, EngineExt, EntitySink, Fault, ReadError, Scan, SinkDecision, TableKey,
};
use model::limits::{
    ANALYTICS_SWEEP_STEPS_MAX, ANALYTICS_WRITE_ATTEMPTS_MAX, PAGE_RESULTS_MAX, TRANSACTION_OPERATIONS_MAX,
};
use model::service_properties::RetentionDays;
use model::{
    AccountName, Condition, DateTime, EntityKey, EntityView, KeyRange, KeyText, MetricsTable, Mutation, MutationError,
    TableName, Transaction,
};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::Duration;

/// One day, in ticks of 100 ns.
const DAY_TICKS: i64 = 24 * 60 * 60 * 10_000_000;
const SCAN_TIME: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) enum WriteError {
    /// Nothing was written, so the write may be retried.
    NotYet(String),
    /// It is not known whether the totals were written, so the write must not be retried.
    Unknown(String),
}

impl WriteError {
    fn from_fault(fault: &Fault) -> Self {
        if fault.is_without_effect() { Self::NotYet(fault.to_string()) } else { Self::Unknown(fault.to_string()) }
    }
}

pub(super) fn table_key(account: &AccountName, table: MetricsTable) -> TableKey {
    TableKey { account: account.clone(), name: TableName::from_metrics_table(table) }
}

/// Either all entities are written, or none.
pub(super) async fn write(engine: &dyn Engine, key: &IntervalKey, totals: &IntervalTotals) -> Result<(), WriteError> {
    let (table, partition) = (table_key(&key.account, key.table), key.interval.partition());
    for _ in 0..ANALYTICS_WRITE_ATTEMPTS_MAX {
        let Some(stored) = stored_rows(engine, &table, &partition).await? else {
            create(engine, &table).await?;
            continue;
        };
        let mutations = mutations(totals, &partition, &stored);
        // An interval has fewer entities than the maximum number of operations in a transaction.
        let Ok(transaction) = Transaction::new(mutations) else { return Ok(()) };
        match engine.commit(&table, transaction).await {
            Ok(_) => return Ok(()),
            // Another server was faster, or a client deleted the entities.
            Err(CommitError::TableNotFound) => {}
            Err(CommitError::Refused(
                _,
                MutationError::AlreadyExists | MutationError::NotFound | MutationError::ConditionNotMet,
            )) => {}
            Err(CommitError::Refused(_, error)) => return Err(WriteError::Unknown(format!("{error:?}"))),
            Err(CommitError::Fault(fault)) => return Err(WriteError::from_fault(&fault)),
        }
    }
    Err(WriteError::NotYet("other servers kept changing the same entities".to_owned()))
}

fn mutations(
    totals: &IntervalTotals,
    partition: &str,
    stored: &HashMap<String, (DateTime, RequestTotals)>,
) -> Vec<Mutation> {
    let mutation = |(row, totals): (String, &RequestTotals)| {
        let key = EntityKey { partition: key_text(partition), row: key_text(&row) };
        match stored.get(&row) {
            None => Some(Mutation::Insert { key, properties: totals.to_properties() }),
            Some(_) if totals.is_empty() => None,
            Some((timestamp, stored)) => {
                let mut sum = stored.clone();
                sum.merge(totals);
                let condition = Condition::from_timestamp(*timestamp);
                Some(Mutation::Replace { key, properties: sum.to_properties(), condition })
            }
        }
    };
    totals.rows().filter_map(mutation).collect()
}

fn key_text(text: &str) -> KeyText {
    KeyText::new(text).expect("times and names of operations are valid keys")
}

async fn create(engine: &dyn Engine, table: &TableKey) -> Result<(), WriteError> {
    match engine.create_table(table).await {
        Ok(()) | Err(CatalogError::AlreadyExists) => Ok(()),
        // No metrics have been written yet.
        Err(CatalogError::Fault(fault)) => Err(WriteError::NotYet(fault.to_string())),
        Err(CatalogError::NotFound | CatalogError::BeingDeleted) => {
            Err(WriteError::NotYet("the table cannot be created".to_owned()))
        }
    }
}

#[derive(Default)]
struct StoredRows {
    rows: HashMap<String, (DateTime, RequestTotals)>,
    is_damaged: bool,
}

impl EntitySink for StoredRows {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        let Ok(totals) = RequestTotals::from_record(&entity.record) else {
            self.is_damaged = true;
            return SinkDecision::AcceptedLast;
        };
        self.rows.insert(entity.key.row.clone().into_owned(), (entity.record.timestamp(), totals));
        SinkDecision::Accepted
    }
}

fn scan_of(range: KeyRange) -> Scan {
    Scan { ranges: vec![range], limit: PAGE_RESULTS_MAX, ..Scan::all(clock::instant() + SCAN_TIME) }
}

/// Returns the stored totals of an interval by row key, or `None` if the table does not exist.
async fn stored_rows(
    engine: &dyn Engine,
    table: &TableKey,
    partition: &str,
) -> Result<Option<HashMap<String, (DateTime, RequestTotals)>>, WriteError> {
    let scan = scan_of(KeyRange::rows(partition, Bound::Unbounded, Bound::Unbounded));
    match engine.scan(table, scan, StoredRows::default()).await {
        Ok((rows, end)) if end.next.is_none() && !rows.is_damaged => Ok(Some(rows.rows)),
        Ok(_) => Err(WriteError::NotYet("the stored entities cannot be read".to_owned())),
        Err(ReadError::TableNotFound) => Ok(None),
        Err(error) => Err(WriteError::NotYet(error.to_string())),
    }
}

#[derive(Default)]
struct KeysByPartition(BTreeMap<String, Vec<EntityKey>>);

impl EntitySink for KeysByPartition {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        let (partition, row) = (entity.key.partition.as_ref(), entity.key.row.as_ref());
        if let (Ok(partition_key), Ok(row)) = (KeyText::new(partition), KeyText::new(row)) {
            let key = EntityKey { partition: partition_key, row };
            self.0.entry(partition.to_owned()).or_default().push(key);
        }
        SinkDecision::Accepted
    }
}

/// If there are very many old metrics, the next call deletes the rest.
pub(super) async fn delete_old(
    engine: &dyn Engine,
    account: &AccountName,
    table: MetricsTable,
    keep: RetentionDays,
    now: DateTime,
) -> Result<(), String> {
    let table = table_key(account, table);
    let oldest = now.ticks().saturating_sub(i64::from(keep.get()) * DAY_TICKS);
    let oldest = partition_of(DateTime::from_ticks(oldest).unwrap_or(DateTime::MIN));
    for _ in 0..ANALYTICS_SWEEP_STEPS_MAX {
        let scan = scan_of(KeyRange::partitions(Bound::Unbounded, Bound::Excluded(&oldest)));
        let (keys, end) = match engine.scan(&table, scan, KeysByPartition::default()).await {
            Ok(page) => page,
            Err(ReadError::TableNotFound) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        for keys in keys.0.into_values() {
            for some in keys.chunks(TRANSACTION_OPERATIONS_MAX) {
                delete(engine, &table, some).await?;
            }
        }
        if end.next.is_none() {
            return Ok(());
        }
    }
    Ok(())
}

async fn delete(engine: &dyn Engine, table: &TableKey, keys: &[EntityKey]) -> Result<(), String> {
    let delete = |key: &EntityKey| Mutation::Delete { key: key.clone(), condition: Condition::Any };
    let Ok(transaction) = Transaction::new(keys.iter().map(delete).collect()) else { return Ok(()) };
    match engine.commit(table, transaction).await {
        // Another server deletes the same entities; the next call finds the rest.
        Ok(_) | Err(CommitError::TableNotFound | CommitError::Refused(..)) => Ok(()),
        Err(CommitError::Fault(fault)) => Err(fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::accumulator::{Accumulator, Origin, Sample};
    use super::super::request_totals::{CallerKind, RequestFigures, ResultKind};
    use super::*;
    use crate::request::OperationKind;
    use engine::Memory;
    use model::clock::SystemClock;
    use model::service_properties::{Metrics, MetricsLevel};
    use model::{EdmValue, ServiceProperties};
    use std::sync::Arc;

    fn account() -> AccountName {
        AccountName::new("orchard").unwrap()
    }

    fn at(text: &str) -> DateTime {
        DateTime::parse(text).unwrap()
    }

    fn page(requests: usize, when: &str) -> (IntervalKey, IntervalTotals) {
        let hour_metrics = Metrics { level: MetricsLevel::ServiceAndApi, retention: None };
        let properties = ServiceProperties { hour_metrics, ..ServiceProperties::default() };
        let figures = RequestFigures {
            result: ResultKind::Success,
            caller: CallerKind::Authenticated,
            ingress_bytes: 3,
            egress_bytes: 5,
            end_to_end_milliseconds: 4.0,
            server_milliseconds: 1.0,
        };
        let (account, operation) = (account(), OperationKind::InsertEntity);
        let sample = Sample { account: &account, is_secondary: false, origin: Origin::User, operation, figures };
        let mut accumulator = Accumulator::default();
        (0..requests).for_each(|_| accumulator.record(&sample, &properties, at(when)));
        accumulator.take_all().pop().unwrap()
    }

    async fn value(engine: &dyn Engine, partition: &str, row: &str, name: &str) -> Option<i64> {
        let key = EntityKey { partition: key_text(partition), row: key_text(row) };
        let record = engine.get(&table_key(&account(), MetricsTable::HourPrimary), &key).await.unwrap()?;
        match record.view().unwrap().get(name).unwrap() {
            Some(EdmValue::Int64(value)) => Some(value),
            other => panic!("{name} is {other:?}"),
        }
    }

    #[tokio::test]
    async fn what_is_written_is_added_to_what_is_there() {
        let engine = Memory::new(SystemClock);
        for (requests, when) in [(2, "2031-03-14T08:15:00Z"), (5, "2031-03-14T08:59:00Z"), (1, "2031-03-14T09:00:00Z")]
        {
            let (key, page) = page(requests, when);
            write(&engine, &key, &page).await.unwrap();
        }
        for row in ["user;All", "user;InsertEntity"] {
            assert_eq!(value(&engine, "20310314T0800", row, "TotalRequests").await, Some(7));
            assert_eq!(value(&engine, "20310314T0800", row, "TotalIngress").await, Some(21));
            assert_eq!(value(&engine, "20310314T0900", row, "Success").await, Some(1));
        }
        assert_eq!(value(&engine, "20310314T0800", "system;All", "TotalRequests").await, Some(0));
        assert!(engine.list_tables(&account(), "", 10).await.unwrap().is_empty(), "the table is not listed");
    }

    #[tokio::test]
    async fn servers_that_write_at_the_same_time_lose_nothing() {
        const SERVERS: usize = 4;
        const WRITES: usize = 25;
        let engine = Arc::new(Memory::new(SystemClock));
        let servers = (0..SERVERS).map(|_| {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move {
                for _ in 0..WRITES {
                    let (key, page) = page(1, "2031-03-14T08:15:00Z");
                    while let Err(error) = write(&*engine, &key, &page).await {
                        assert!(matches!(error, WriteError::NotYet(_)), "{error:?}");
                    }
                }
            })
        });
        for server in servers.collect::<Vec<_>>() {
            server.await.unwrap();
        }
        let total = value(&*engine, "20310314T0800", "user;All", "TotalRequests").await;
        assert_eq!(total, Some(i64::try_from(SERVERS * WRITES).unwrap()));
    }

    #[tokio::test]
    async fn what_is_too_old_is_deleted() {
        let engine = Memory::new(SystemClock);
        for when in ["2031-03-01T08:15:00Z", "2031-03-07T10:59:00Z", "2031-03-07T11:00:00Z", "2031-03-14T08:00:00Z"] {
            let (key, page) = page(1, when);
            write(&engine, &key, &page).await.unwrap();
        }
        let (now, week) = (at("2031-03-14T11:30:00Z"), RetentionDays::new(7).unwrap());
        delete_old(&engine, &account(), MetricsTable::MinutePrimary, week, now).await.unwrap();
        delete_old(&engine, &account(), MetricsTable::HourPrimary, week, now).await.unwrap();
        for (partition, is_there) in
            [("20310301T0800", false), ("20310307T1000", false), ("20310307T1100", false), ("20310314T0800", true)]
        {
            let total = value(&engine, partition, "user;All", "TotalRequests").await;
            assert_eq!(total.is_some(), is_there, "{partition}");
        }
    }
}
