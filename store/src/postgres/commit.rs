//! Transactions: one call to a function in the database (`function`), whatever the number of mutations.
//!
//! Only `Mutation::apply` determines the effect of a mutation. Most mutations do not depend on the contents of an
//! entity: they are applied to the expected state, and the function checks the expectation. A merge does depend on the
//! contents, so the entities are read first and are expected to be unchanged. If an expectation does not hold, the
//! function returns the actual entity instead. The mutation is then refused, or applied to that entity in another
//! attempt. After several attempts, the entities are locked.

use super::attempt::{ATTEMPT_TIME_MAX, Attempts, Trouble};
use super::catalog::{column, control, end, no_answer, read};
use super::counts::Retry;
use super::function::{Expectation, TABLE_GONE};
use super::layout::{DatabaseTableId, columns, key_bytes};
use super::pool::Lease;
use super::state::PostgresState;
use super::statements;
use crate::engine::{CommitError, Fault, TableKey};
use crate::monotonic;
use crate::page::damaged;
use model::mutation::Effect;
use model::{
    Clock, Condition, DateTime, Mutation, MutationError, MutationResult, RecordBuilder, RecordView, Transaction,
};
use std::collections::HashMap;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

/// The number of attempts without locks for a transaction whose entities other transactions keep changing.
const ATTEMPTS_WITHOUT_LOCKS: u32 = 4;

enum Ended {
    Committed(Vec<MutationResult>),
    Refused(usize, MutationError),
    TableGone,
    /// An entity was not as expected, but the transaction is still possible.
    Changed,
}

/// The rows of a transaction's entities.
struct Named {
    table: DatabaseTableId,
    partition: Vec<u8>,
    /// The row keys, in the order of the mutations.
    rows: Vec<Vec<u8>>,
    /// The index of the mutation with the longest row key.
    longest: usize,
}

impl Named {
    fn new(table: DatabaseTableId, transaction: &Transaction) -> Self {
        let mut named = Self { table, partition: Vec::new(), rows: Vec::new(), longest: 0 };
        let mut longest_bytes = 0;
        for (index, mutation) in transaction.mutations().iter().enumerate() {
            let (partition, row) = columns(table, mutation.key());
            if row.len() > longest_bytes {
                (named.longest, longest_bytes) = (index, row.len());
            }
            named.partition = partition;
            named.rows.push(row);
        }
        named
    }

    fn view<'r>(&self, index: usize, record: &'r [u8]) -> Result<RecordView<'r>, Fault> {
        RecordView::new(record).map_err(|_| self.damaged(index))
    }

    fn damaged(&self, index: usize) -> Fault {
        let mut key = Vec::new();
        key_bytes(&self.partition, self.rows.get(index).map_or(&[], Vec::as_slice), &mut key);
        damaged(&key)
    }
}

/// The known state of a transaction's entities.
#[derive(Default)]
struct Known {
    /// The record of each existing entity, in the order of the mutations. All were read at one instant, or returned by
    /// later calls.
    records: Option<Vec<Option<Vec<u8>>>>,
    /// The latest Timestamp that was found.
    latest: Option<DateTime>,
}

impl Known {
    fn read(&mut self, named: &Named, rows: &[Row]) -> Result<(), Fault> {
        let mut found: HashMap<&[u8], &[u8]> = HashMap::with_capacity(rows.len());
        for row in rows {
            found.insert(column(row, 0)?, column(row, 1)?);
        }
        let records = named.rows.iter().map(|row| found.get(row.as_slice()).map(|record| record.to_vec()));
        let records: Vec<_> = records.collect();
        for (index, record) in records.iter().enumerate() {
            if let Some(record) = record {
                self.latest = self.latest.max(Some(named.view(index, record)?.timestamp()));
            }
        }
        self.records = Some(records);
        Ok(())
    }

    /// Records the actual state of an entity, as returned by the function.
    fn note(&mut self, index: usize, record: Option<&[u8]>, timestamp: Option<DateTime>) {
        self.latest = self.latest.max(timestamp);
        if let Some(known) = self.records.as_mut().and_then(|records| records.get_mut(index)) {
            *known = record.map(<[u8]>::to_vec);
        }
    }
}

/// The changes of a transaction, and the conditions for them.
struct Changes {
    expectations: Vec<Expectation>,
    effects: Vec<Effect>,
    /// The effects reported to the caller.
    written: Vec<MutationResult>,
}

impl Changes {
    /// Returns whether all stored entities have this stamp. An entity with a later expected Timestamp would instead get
    /// the instant after it.
    fn have_stamp(&self, stamp: DateTime) -> bool {
        self.written.iter().all(|written| match written {
            MutationResult::Stored(stored) => *stored == stamp,
            MutationResult::Deleted => true,
        })
    }
}

/// Returns whether a mutation can be applied only to the actual entity.
fn needs_record(mutation: &Mutation) -> bool {
    match mutation {
        Mutation::Merge { .. } | Mutation::InsertOrMerge { .. } => true,
        Mutation::Replace { condition, .. } | Mutation::Delete { condition, .. } => {
            *condition != Condition::Any && condition.timestamp().is_none()
        }
        Mutation::Insert { .. } | Mutation::InsertOrReplace { .. } => false,
    }
}

/// Returns what a mutation expects of its entity, and the record to which the mutation is applied.
fn expect(mutation: &Mutation, known: Option<&Option<Vec<u8>>>) -> (Expectation, Option<Vec<u8>>) {
    let has = |timestamp: DateTime| Expectation::Has(timestamp.ticks().to_be_bytes());
    let record = known.cloned().flatten();
    match mutation {
        Mutation::Insert { .. } => (Expectation::Absent, record),
        Mutation::InsertOrReplace { .. } => (Expectation::Anything, None),
        Mutation::Merge { .. } | Mutation::InsertOrMerge { .. } => {
            // A damaged record is refused when the mutation is applied to it.
            let found = record.as_deref().and_then(|record| RecordView::new(record).ok());
            (found.map_or(Expectation::Absent, |found| has(found.timestamp())), record)
        }
        Mutation::Replace { condition, .. } | Mutation::Delete { condition, .. } => {
            let timestamp = condition.timestamp();
            let assumed = || RecordBuilder::default().finish(timestamp.unwrap_or(DateTime::MIN)).as_bytes().to_vec();
            (timestamp.map_or(Expectation::Exists, has), if known.is_some() { record } else { Some(assumed()) })
        }
    }
}

#[allow(clippy::type_complexity, reason = "a refusal is no fault, and both end the attempt")]
fn apply(
    named: &Named,
    transaction: &Transaction,
    known: &Known,
    stamp: DateTime,
) -> Result<Changes, Result<(usize, MutationError), Fault>> {
    let mutations = transaction.mutations();
    let mut expectations = Vec::with_capacity(mutations.len());
    let mut existing = Vec::with_capacity(mutations.len());
    for (index, mutation) in mutations.iter().enumerate() {
        let known = known.records.as_ref().and_then(|records| records.get(index));
        let (expectation, record) = expect(mutation, known);
        expectations.push(expectation);
        existing.push(record);
    }
    match transaction.apply(stamp, existing) {
        Ok(effects) => {
            let written = effects.iter().map(Effect::written).collect();
            Ok(Changes { expectations, effects, written })
        }
        Err((index, MutationError::DamagedRecord)) => Err(Err(named.damaged(index))),
        Err(refused) => Err(Ok(refused)),
    }
}

impl<C: Clock> PostgresState<C> {
    pub(super) async fn commit(
        &self,
        table: &TableKey,
        transaction: Transaction,
    ) -> Result<Vec<MutationResult>, CommitError> {
        let mut attempts = Attempts::new(&self.pool.counts);
        let (mut known, mut changed) = (Known::default(), 0);
        loop {
            self.check_open().map_err(CommitError::Fault)?;
            let id = self.id(table).await.map_err(CommitError::Fault)?.ok_or(CommitError::TableNotFound)?;
            let named = Named::new(id, &transaction);
            let ended = if changed < ATTEMPTS_WITHOUT_LOCKS {
                self.try_commit(&named, &transaction, &mut known).await
            } else {
                self.try_commit_locked(&named, &transaction).await
            };
            let trouble = match ended {
                Ok(Ended::Committed(written)) => return Ok(written),
                Ok(Ended::Refused(index, error)) => return Err(CommitError::Refused(index, error)),
                Ok(Ended::Changed) if changed < ATTEMPTS_WITHOUT_LOCKS => {
                    changed += 1;
                    self.pool.counts.retry(Retry::Conflict);
                    continue;
                }
                Ok(Ended::Changed) => Trouble::again(Retry::Conflict, "the entities change too often"),
                Ok(Ended::TableGone) => {
                    // The table was deleted, and perhaps created again under another id.
                    self.forget(table);
                    known = Known::default();
                    Trouble::table_deleted()
                }
                Err(trouble) => trouble,
            };
            attempts.next(trouble).await.map_err(CommitError::Fault)?;
        }
    }

    async fn try_commit(&self, named: &Named, transaction: &Transaction, known: &mut Known) -> Result<Ended, Trouble> {
        let mut is_read = known.records.is_some() || transaction.mutations().iter().any(needs_record);
        if is_read && known.records.is_none() && !self.read_named(named, known).await? {
            return Ok(Ended::TableGone);
        }
        let changes = loop {
            let stamp = self.stamp(known.latest.unwrap_or(DateTime::MIN)).await?;
            match apply(named, transaction, known, stamp) {
                // A client may specify any Timestamp in a condition, but only one that an entity has may advance the
                // stamps of this server.
                Ok(changes) if is_read || changes.have_stamp(stamp) => break changes,
                Err(Ok((index, error))) if is_read => return Ok(Ended::Refused(index, error)),
                Err(Err(fault)) => return Err(Trouble::Fault(fault)),
                // Whether an entity has that Timestamp, or an earlier mutation would be refused, depends on the actual
                // entities.
                Ok(_) | Err(Ok(_)) => {
                    is_read = true;
                    if !self.read_named(named, known).await? {
                        return Ok(Ended::TableGone);
                    }
                }
            }
        };
        let lease = self.pool.take_for(&named.partition).await?;
        let ended = call(&lease, named, transaction, changes, known).await?;
        lease.give_back();
        Ok(ended)
    }

    /// Makes one attempt that locks the existing entities before examining them.
    async fn try_commit_locked(&self, named: &Named, transaction: &Transaction) -> Result<Ended, Trouble> {
        let lease = self.pool.take_for(&named.partition).await?;
        control(&lease, "BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let mut known = Known::default();
        let rows = read(&lease, statements::LOCK_RECORDS, &[&named.partition, &named.rows]).await?;
        known.read(named, &rows).map_err(Trouble::Fault)?;
        let above = known.latest.unwrap_or(DateTime::MIN);
        // Do not reserve stamps while holding a connection and locks, because reserving needs another connection.
        let Some(stamp) = self.reserved_stamp(above) else {
            control(&lease, "ROLLBACK").await?;
            lease.give_back();
            self.stamp(above).await?;
            return Ok(Ended::Changed);
        };
        let ended = match apply(named, transaction, &known, stamp) {
            Ok(changes) => call(&lease, named, transaction, changes, &mut known).await?,
            Err(Ok((index, error))) => Ended::Refused(index, error),
            Err(Err(fault)) => return Err(Trouble::Fault(fault)),
        };
        if matches!(ended, Ended::Committed(_)) {
            end(&lease).await?;
        } else {
            control(&lease, "ROLLBACK").await?;
        }
        lease.give_back();
        Ok(ended)
    }

    /// Reads the entities of a transaction. Returns whether the table exists.
    async fn read_named(&self, named: &Named, known: &mut Known) -> Result<bool, Trouble> {
        let lease = self.pool.take_for(&named.partition).await?;
        let values: &[&(dyn ToSql + Sync)] = &[&named.partition, &named.rows];
        let (lives, rows) = self.read_of_table(&lease, named.table, statements::RECORDS, values).await?;
        lease.give_back();
        known.read(named, &rows).map_err(Trouble::Fault)?;
        Ok(lives)
    }
}

/// Calls the function and records the state of the entities that it returns.
async fn call(
    lease: &Lease,
    named: &Named,
    transaction: &Transaction,
    changes: Changes,
    known: &mut Known,
) -> Result<Ended, Trouble> {
    let statement =
        timeout(ATTEMPT_TIME_MAX, lease.prepare_cached(statements::COMMIT)).await.map_err(|_| no_answer())?;
    let statement = statement.map_err(|error| Trouble::before_commit(&error))?;
    let expected: Vec<_> = changes.expectations.iter().map(Expectation::parameter).collect();
    let records = changes.effects.iter().map(|effect| match effect {
        Effect::Put(record) => Some(record.as_bytes()),
        Effect::Delete => None,
    });
    let records: Vec<Option<&[u8]>> = records.collect();
    let values: [&(dyn ToSql + Sync); 5] = [&named.partition, &named.table.0, &named.rows, &expected, &records];
    let began = monotonic::now();
    let answer = timeout(ATTEMPT_TIME_MAX, lease.query_one(&statement, &values)).await;
    lease.note_step(began);
    let answer = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            return match error.code() {
                Some(code) if code.code() == TABLE_GONE => Ok(Ended::TableGone),
                // The keys are longer than the database's index allows.
                Some(&SqlState::PROGRAM_LIMIT_EXCEEDED) => {
                    Ok(Ended::Refused(named.longest, MutationError::EntityTooLarge))
                }
                _ => Err(Trouble::at_call(&error)),
            };
        }
        Err(_) => return Err(Trouble::no_answer_to("a commit")),
    };
    let Some(found) = column::<Option<&[u8]>>(&answer, 0).map_err(Trouble::Fault)? else {
        return Ok(Ended::Committed(changes.written));
    };
    let damaged_answer = || Trouble::Fault(Fault::Damaged("the response to a commit cannot be read".to_owned()));
    let (index, record) = found.split_first_chunk().ok_or_else(damaged_answer)?;
    let index = usize::try_from(u32::from_be_bytes(*index)).map_err(|_| damaged_answer())?;
    let mutation = transaction.mutations().get(index).ok_or_else(damaged_answer)?;
    let record = (!record.is_empty()).then_some(record);
    let existing = record.map(|record| named.view(index, record)).transpose().map_err(Trouble::Fault)?;
    known.note(index, record, existing.as_ref().map(RecordView::timestamp));
    Ok(match mutation.apply(existing, DateTime::MIN) {
        Ok(_) => Ended::Changed,
        Err(error) => Ended::Refused(index, error),
    })
}
