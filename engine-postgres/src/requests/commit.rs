//! Transactions: one call to a function in the database (`function`), whatever the number of mutations.
//!
//! Only `Mutation::apply` determines the effect of a mutation. Most mutations do not depend on the contents of an
//! entity: they are applied to the expected state, and the function checks the expectation. A merge does depend on the
//! contents, so the entities are read first and are expected to be unchanged. If an expectation does not hold, the
//! function returns the actual entity instead. The mutation is then refused, or applied to that entity in another
//! attempt. After several attempts, the entities are locked.
//!
//! In a table with a retention, whether an entity exists depends on its contents and on the time. A mutation of an
//! existing entity therefore reads it first, and so does one that finds an expired entity in its way. The function
//! receives the generation of the settings that were taken into account, and does nothing if the table has another one.
//! The settings include the indexes, whose entries the function writes.

use crate::connections::attempt::{ATTEMPT_TIME_MAX, AttemptError, Attempts};
use crate::connections::counts::RetryReason;
use crate::connections::pool::Lease;
use crate::connections::rows::{column, control, end, no_response, read};
use crate::layout::{columns, key_bytes};
use crate::schema::function::{Expectation, TABLE_CHANGED};
use crate::state::{KnownTable, PostgresState};
use crate::statements;
use engine::parts::index;
use engine::parts::monotonic;
use engine::parts::page::damaged;
use engine::{CommitError, Fault, TableKey};
use model::mutation::{Effect, ExpectedState};
use model::{
    Condition, DateTime, Expiry, Mutation, MutationError, MutationResult, RecordBuilder, RecordView, Retention,
    Transaction, Visibility,
};
use std::collections::HashMap;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

/// The number of attempts without locks for a transaction whose entities other transactions keep changing.
const ATTEMPTS_WITHOUT_LOCKS: u32 = 4;

enum AttemptOutcome {
    Committed(Vec<MutationResult>),
    Refused(usize, MutationError),
    /// The table was deleted or has changed.
    TableChanged,
    /// An entity was not as expected, but the transaction is still possible.
    Changed,
    /// The transaction is refused if its entities, which were not all examined at one instant, are read again at one.
    Doubtful,
}

struct TransactionRows {
    table: KnownTable,
    visible: Visibility,
    /// The statement that calls the function.
    statement: &'static str,
    partition: Vec<u8>,
    /// The row keys, in the order of the mutations.
    rows: Vec<Vec<u8>>,
    longest: usize,
}

impl TransactionRows {
    fn new(table: KnownTable, transaction: &Transaction, is_logged: bool) -> Self {
        let (id, visible) = (table.id, transaction.visible());
        let is_marked = is_logged && visible == Visibility::Expired;
        let statement = if is_marked { statements::COMMIT_EXPIRED } else { statements::COMMIT };
        let (partition, rows) = (Vec::new(), Vec::new());
        let mut transaction_rows = Self { table, visible, statement, partition, rows, longest: 0 };
        let mut longest_bytes = 0;
        for (index, mutation) in transaction.mutations().iter().enumerate() {
            let (partition, row) = columns(id, mutation.key());
            if row.len() > longest_bytes {
                (transaction_rows.longest, longest_bytes) = (index, row.len());
            }
            transaction_rows.partition = partition;
            transaction_rows.rows.push(row);
        }
        transaction_rows
    }

    /// Returns whether the entities must be read before the transaction can be applied. An entity that an insert found
    /// may have expired.
    fn need_records(&self, transaction: &Transaction, known: &KnownEntities) -> bool {
        let retention = self.table.retention.as_ref();
        (retention.is_some() && known.latest.is_some())
            || transaction.mutations().iter().any(|mutation| needs_record(mutation, retention))
    }

    /// Returns which entities the transaction sees at the given time.
    fn expiry(&self, now: DateTime) -> Expiry {
        Expiry::new(self.table.retention.as_ref(), self.visible, now)
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

#[derive(Default)]
struct KnownEntities {
    /// The record of each existing entity, in the order of the mutations. All were read at one instant, or returned by
    /// later calls.
    records: Option<Vec<Option<Vec<u8>>>>,
    latest: Option<DateTime>,
    /// The stamp of an attempt that stored nothing.
    unused_stamp: Option<DateTime>,
}

impl KnownEntities {
    fn read(&mut self, transaction_rows: &TransactionRows, rows: &[Row]) -> Result<(), Fault> {
        let mut found: HashMap<&[u8], &[u8]> = HashMap::with_capacity(rows.len());
        for row in rows {
            found.insert(column(row, 0)?, column(row, 1)?);
        }
        let records = transaction_rows.rows.iter().map(|row| found.get(row.as_slice()).map(|record| record.to_vec()));
        let records: Vec<_> = records.collect();
        for (index, record) in records.iter().enumerate() {
            if let Some(record) = record {
                self.latest = self.latest.max(Some(transaction_rows.view(index, record)?.timestamp()));
            }
        }
        self.records = Some(records);
        Ok(())
    }

    fn record(&mut self, index: usize, record: Option<&[u8]>, timestamp: Option<DateTime>) {
        self.latest = self.latest.max(timestamp);
        if let Some(known) = self.records.as_mut().and_then(|records| records.get_mut(index)) {
            *known = record.map(<[u8]>::to_vec);
        }
    }
}

struct Changes {
    expectations: Vec<Expectation>,
    effects: Vec<Effect>,
    written: Vec<MutationResult>,
}

impl Changes {
    /// Returns whether all stored entities have this stamp. An entity with a later expected Timestamp would instead get
    /// the instant after it.
    fn have_stamp(&self, stamp: DateTime) -> bool {
        self.written.iter().filter_map(MutationResult::timestamp).all(|stored| stored == stamp)
    }
}

/// The entries that the changed entities have in the indexes of their table.
#[derive(Default)]
struct Entries<'r> {
    rows: Vec<&'r [u8]>,
    indexes: Vec<i64>,
    values: Vec<Vec<u8>>,
}

impl<'r> Entries<'r> {
    /// Returns `None` if the table has no indexes.
    fn new(transaction_rows: &'r TransactionRows, records: &[Option<&[u8]>]) -> Option<Self> {
        let indexes = &transaction_rows.table.indexes;
        if indexes.is_empty() {
            return None;
        }
        let mut entries = Self::default();
        for (row, record) in transaction_rows.rows.iter().zip(records) {
            let Some(record) = record else { continue };
            for table_index in indexes.iter() {
                // Without a key, the entry is the encoded value.
                if let Some(value) = index::entry_of(&table_index.property, &[], record) {
                    entries.rows.push(row);
                    entries.indexes.push(table_index.id);
                    entries.values.push(value);
                }
            }
        }
        Some(entries)
    }
}

fn needs_record(mutation: &Mutation, retention: Option<&Retention>) -> bool {
    let expected = mutation.expectation();
    let may_have_expired = retention.is_some() && matches!(expected.state, ExpectedState::Present(_));
    let has_foreign_condition = || match expected.state {
        ExpectedState::Present(condition) => *condition != Condition::Any && condition.timestamp().is_none(),
        ExpectedState::Any | ExpectedState::Absent => false,
    };
    expected.merges || may_have_expired || has_foreign_condition()
}

/// Returns the state that the function requires of a mutation's entity, and the record to which the mutation is
/// applied.
fn expect(mutation: &Mutation, known: Option<&Option<Vec<u8>>>, expiry: &Expiry) -> (Expectation, Option<Vec<u8>>) {
    let has = |timestamp: DateTime| Expectation::Has(timestamp.ticks().to_be_bytes());
    let record = known.cloned().flatten();
    let expected = mutation.expectation();
    // A damaged record is refused when the mutation is applied to it.
    let found = record.as_deref().and_then(|record| RecordView::new(record).ok());
    // Another version of the entity may be less visible.
    if expected.merges || (expiry.may_hide() && expected.state != ExpectedState::Any) {
        return (found.map_or(Expectation::Absent, |found| has(found.timestamp())), record);
    }
    match expected.state {
        ExpectedState::Absent => (Expectation::Absent, record),
        ExpectedState::Any => (Expectation::Anything, None),
        ExpectedState::Present(condition) => {
            let timestamp = condition.timestamp();
            let assumed = || RecordBuilder::default().finish(timestamp.unwrap_or(DateTime::MIN)).as_bytes().to_vec();
            (timestamp.map_or(Expectation::Exists, has), if known.is_some() { record } else { Some(assumed()) })
        }
    }
}

#[allow(clippy::type_complexity, reason = "a refusal is no fault, and both end the attempt")]
fn apply(
    transaction_rows: &TransactionRows,
    transaction: &Transaction,
    known: &KnownEntities,
    stamp: DateTime,
    expiry: &Expiry,
) -> Result<Changes, Result<(usize, MutationError), Fault>> {
    let mutations = transaction.mutations();
    let mut expectations = Vec::with_capacity(mutations.len());
    let mut existing = Vec::with_capacity(mutations.len());
    for (index, mutation) in mutations.iter().enumerate() {
        let known = known.records.as_ref().and_then(|records| records.get(index));
        let (expectation, record) = expect(mutation, known, expiry);
        expectations.push(expectation);
        existing.push(record);
    }
    match transaction.apply(stamp, expiry, existing) {
        Ok(effects) => {
            let written = transaction.results(&effects);
            Ok(Changes { expectations, effects, written })
        }
        Err((index, MutationError::DamagedRecord)) => Err(Err(transaction_rows.damaged(index))),
        Err(refused) => Err(Ok(refused)),
    }
}

impl PostgresState {
    pub(crate) async fn commit(
        &self,
        table: &TableKey,
        transaction: Transaction,
    ) -> Result<Vec<MutationResult>, CommitError> {
        let mut attempts = Attempts::new(&self.pool.counts);
        let (mut known, mut changed) = (KnownEntities::default(), 0);
        loop {
            self.check_open().map_err(CommitError::Fault)?;
            let known_table = self.known_table(table).await.map_err(CommitError::Fault)?;
            let known_table = known_table.ok_or(CommitError::TableNotFound)?;
            let transaction_rows = TransactionRows::new(known_table, &transaction, self.is_logged);
            let ended = if changed < ATTEMPTS_WITHOUT_LOCKS {
                self.try_commit(&transaction_rows, &transaction, &mut known).await
            } else {
                self.try_commit_locked(&transaction_rows, &transaction).await
            };
            let ended = match ended {
                Ok(AttemptOutcome::Doubtful) => self.try_refuse(&transaction_rows, &transaction, &mut known).await,
                other => other,
            };
            let trouble = match ended {
                Ok(AttemptOutcome::Committed(written)) => return Ok(written),
                Ok(AttemptOutcome::Refused(index, error)) => return Err(CommitError::Refused(index, error)),
                Ok(AttemptOutcome::Changed) if changed < ATTEMPTS_WITHOUT_LOCKS => {
                    changed += 1;
                    self.pool.counts.retry(RetryReason::Conflict);
                    continue;
                }
                Ok(AttemptOutcome::Changed | AttemptOutcome::Doubtful) => {
                    AttemptError::retry(RetryReason::Conflict, "the entities change too often")
                }
                Ok(AttemptOutcome::TableChanged) => {
                    self.uncache(table);
                    known = KnownEntities::default();
                    AttemptError::table_changed()
                }
                Err(trouble) => trouble,
            };
            attempts.next(trouble).await.map_err(CommitError::Fault)?;
        }
    }

    async fn try_commit(
        &self,
        transaction_rows: &TransactionRows,
        transaction: &Transaction,
        known: &mut KnownEntities,
    ) -> Result<AttemptOutcome, AttemptError> {
        let mut is_read = known.records.is_some() || transaction_rows.need_records(transaction, known);
        if is_read && known.records.is_none() && !self.read_rows(transaction_rows, known).await? {
            return Ok(AttemptOutcome::TableChanged);
        }
        let expiry = transaction_rows.expiry(self.now());
        let (stamp, changes) = loop {
            let stamp = match known.unused_stamp.take().filter(|stamp| Some(*stamp) > known.latest) {
                Some(stamp) => stamp,
                None => self.stamp(known.latest.unwrap_or(DateTime::MIN)).await?,
            };
            match apply(transaction_rows, transaction, known, stamp, &expiry) {
                // A client may specify any Timestamp in a condition, but only one that an entity has may advance the
                // stamps of this server.
                Ok(changes) if is_read || changes.have_stamp(stamp) => break (stamp, changes),
                Err(Ok((index, error))) if is_read => return Ok(AttemptOutcome::Refused(index, error)),
                Err(Err(fault)) => return Err(AttemptError::Fault(fault)),
                // Whether an entity has that Timestamp, or an earlier mutation would be refused, depends on the actual
                // entities.
                Ok(_) | Err(Ok(_)) => {
                    is_read = true;
                    if !self.read_rows(transaction_rows, known).await? {
                        return Ok(AttemptOutcome::TableChanged);
                    }
                }
            }
        };
        let lease = self.pool.take_for(&transaction_rows.partition).await?;
        let ended = call(&lease, transaction_rows, transaction, &expiry, changes, known).await?;
        lease.return_to_pool();
        if matches!(ended, AttemptOutcome::Changed) {
            known.unused_stamp = Some(stamp);
        }
        Ok(ended)
    }

    /// Locks the existing entities before examining them.
    async fn try_commit_locked(
        &self,
        transaction_rows: &TransactionRows,
        transaction: &Transaction,
    ) -> Result<AttemptOutcome, AttemptError> {
        let lease = self.pool.take_for(&transaction_rows.partition).await?;
        control(&lease, "BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let mut known = KnownEntities::default();
        let rows =
            read(&lease, statements::LOCK_RECORDS, &[&transaction_rows.partition, &transaction_rows.rows]).await?;
        known.read(transaction_rows, &rows).map_err(AttemptError::Fault)?;
        let above = known.latest.unwrap_or(DateTime::MIN);
        // Do not reserve stamps while holding a connection and locks, because reserving needs another connection.
        let Some(stamp) = self.reserved_stamp(above) else {
            control(&lease, "ROLLBACK").await?;
            lease.return_to_pool();
            self.stamp(above).await?;
            return Ok(AttemptOutcome::Changed);
        };
        let expiry = transaction_rows.expiry(self.now());
        let ended = match apply(transaction_rows, transaction, &known, stamp, &expiry) {
            Ok(changes) => call(&lease, transaction_rows, transaction, &expiry, changes, &mut known).await?,
            Err(Ok((index, error))) => refused(transaction, index, error),
            Err(Err(fault)) => return Err(AttemptError::Fault(fault)),
        };
        if matches!(ended, AttemptOutcome::Committed(_)) {
            end(&lease).await?;
        } else {
            control(&lease, "ROLLBACK").await?;
        }
        lease.return_to_pool();
        Ok(ended)
    }

    /// Refuses the transaction if its entities, read at one instant, require that.
    async fn try_refuse(
        &self,
        transaction_rows: &TransactionRows,
        transaction: &Transaction,
        known: &mut KnownEntities,
    ) -> Result<AttemptOutcome, AttemptError> {
        if !self.read_rows(transaction_rows, known).await? {
            return Ok(AttemptOutcome::TableChanged);
        }
        let expiry = transaction_rows.expiry(self.now());
        match apply(transaction_rows, transaction, known, DateTime::MIN, &expiry) {
            Ok(_) => Ok(AttemptOutcome::Changed),
            Err(Ok((index, error))) => Ok(AttemptOutcome::Refused(index, error)),
            Err(Err(fault)) => Err(AttemptError::Fault(fault)),
        }
    }

    /// Returns whether the table still exists and has not changed.
    async fn read_rows(
        &self,
        transaction_rows: &TransactionRows,
        known: &mut KnownEntities,
    ) -> Result<bool, AttemptError> {
        let lease = self.pool.take_for(&transaction_rows.partition).await?;
        let values: &[&(dyn ToSql + Sync)] = &[&transaction_rows.partition, &transaction_rows.rows];
        let (is_current, rows) =
            self.read_of_table(&lease, &transaction_rows.table, statements::RECORDS, values).await?;
        lease.return_to_pool();
        known.read(transaction_rows, &rows).map_err(AttemptError::Fault)?;
        Ok(is_current)
    }
}

/// Records the state of the entities that the call returns.
async fn call(
    lease: &Lease,
    transaction_rows: &TransactionRows,
    transaction: &Transaction,
    expiry: &Expiry,
    changes: Changes,
    known: &mut KnownEntities,
) -> Result<AttemptOutcome, AttemptError> {
    let statement =
        timeout(ATTEMPT_TIME_MAX, lease.prepare_cached(transaction_rows.statement)).await.map_err(|_| no_response())?;
    let statement = statement.map_err(|error| AttemptError::before_commit(&error))?;
    let expected: Vec<_> = changes.expectations.iter().map(Expectation::parameter).collect();
    let records = changes.effects.iter().map(|effect| match effect {
        Effect::Put(record) => Some(record.as_bytes()),
        Effect::Delete => None,
    });
    let records: Vec<Option<&[u8]>> = records.collect();
    let entries = Entries::new(transaction_rows, &records);
    let (entry_rows, entry_indexes, entry_values) = match &entries {
        Some(entries) => (Some(&entries.rows), Some(&entries.indexes), Some(&entries.values)),
        None => (None, None, None),
    };
    let TransactionRows { partition, table: KnownTable { id, generation, .. }, rows, .. } = transaction_rows;
    let values: [&(dyn ToSql + Sync); 9] =
        [partition, &id.0, generation, rows, &expected, &records, &entry_rows, &entry_indexes, &entry_values];
    let began = monotonic::now();
    let answer = timeout(ATTEMPT_TIME_MAX, lease.query_one(&statement, &values)).await;
    lease.record_step(began);
    lease.record_write(rows.len());
    let answer = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            return match error.code() {
                Some(code) if code.code() == TABLE_CHANGED => Ok(AttemptOutcome::TableChanged),
                // The keys, perhaps with an indexed value, are longer than the database's index allows.
                Some(&SqlState::PROGRAM_LIMIT_EXCEEDED) => {
                    Ok(AttemptOutcome::Refused(transaction_rows.longest, MutationError::EntityTooLarge))
                }
                _ => Err(AttemptError::at_call(&error)),
            };
        }
        Err(_) => return Err(AttemptError::no_response_to("a commit")),
    };
    let Some(found) = column::<Option<&[u8]>>(&answer, 0).map_err(AttemptError::Fault)? else {
        return Ok(AttemptOutcome::Committed(changes.written));
    };
    let damaged_answer = || AttemptError::Fault(Fault::Damaged("the response to a commit cannot be read".to_owned()));
    let (index, record) = found.split_first_chunk().ok_or_else(damaged_answer)?;
    let index = usize::try_from(u32::from_be_bytes(*index)).map_err(|_| damaged_answer())?;
    let mutation = transaction.mutations().get(index).ok_or_else(damaged_answer)?;
    let record = (!record.is_empty()).then_some(record);
    let existing =
        record.map(|record| transaction_rows.view(index, record)).transpose().map_err(AttemptError::Fault)?;
    known.record(index, record, existing.as_ref().map(RecordView::timestamp));
    Ok(match mutation.apply_at(existing, expiry, DateTime::MIN) {
        Ok(_) => AttemptOutcome::Changed,
        Err(error) => refused(transaction, index, error),
    })
}

/// Returns the outcome of an attempt that locked the entities and found one that does not permit the transaction. While
/// the attempt waited for a lock, another transaction may have changed that entity and inserted one that the attempt
/// took for missing. No other entity is examined for a single mutation.
fn refused(transaction: &Transaction, index: usize, error: MutationError) -> AttemptOutcome {
    if transaction.mutations().len() > 1 { AttemptOutcome::Doubtful } else { AttemptOutcome::Refused(index, error) }
}
