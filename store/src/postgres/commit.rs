//! Transactions: lock and read, apply, write and commit. Two round trips, whatever the number of mutations.

use super::attempt::{ATTEMPT_TIME_MAX, Attempts, Trouble};
use super::catalog::{column, control, no_answer};
use super::layout::{DatabaseTableId, columns};
use super::pool::Lease;
use super::state::PostgresState;
use super::statements;
use crate::engine::{CommitError, Fault, TableKey};
use crate::monotonic;
use crate::page::damaged;
use model::mutation::Effect;
use model::record::HEADER_BYTES;
use model::{Clock, DateTime, Mutation, MutationError, RecordView, Transaction, Written};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use xxhash_rust::xxh3::xxh3_64;

/// How far above its stamps the upper bound of a table is set at most, in ticks of 100 ns. A larger step raises it less often,
/// and a table that is created again at once begins further ahead of the clock.
const UPPER_BOUND_STEP_TICKS_MAX: u64 = 10_000_000;
/// The share of the age of a table that its upper bound is set above its stamps, so that tables that are created again and
/// again do not run away from the clock.
const UPPER_BOUND_STEP_AGE_SHARE: u64 = 4;

/// How many tombstones a partition has at most. Deletions of one partition meet only in a tombstone.
const TOMBSTONES_OF_PARTITION: u64 = 16;

/// The tombstone of a row.
pub(super) fn bucket(row: &[u8]) -> i16 {
    i16::try_from(xxh3_64(row) % TOMBSTONES_OF_PARTITION).expect("there are few buckets")
}

/// How a transaction ended, if it did.
enum Ended {
    Committed(Vec<Written>),
    Refused(usize, MutationError),
    TableGone,
}

/// The rows that a transaction names.
struct Named {
    partition: Vec<u8>,
    /// Ascending.
    rows: Vec<Vec<u8>>,
    /// The tombstones of the rows that the transaction may insert.
    buckets: Vec<i16>,
    /// Whether more of a record is needed than its Timestamp.
    needs_records: bool,
    /// The mutation with the longest row key.
    longest: usize,
}

impl Named {
    fn of(table: DatabaseTableId, transaction: &Transaction) -> Self {
        let mut named =
            Self { partition: Vec::new(), rows: Vec::new(), buckets: Vec::new(), needs_records: false, longest: 0 };
        let (mut buckets, mut longest_bytes) = (BTreeSet::new(), 0);
        for (index, mutation) in transaction.mutations().iter().enumerate() {
            let (partition, row) = columns(table, mutation.key());
            if !matches!(mutation, Mutation::Replace { .. } | Mutation::Merge { .. } | Mutation::Delete { .. }) {
                buckets.insert(bucket(&row));
            }
            named.needs_records |= matches!(mutation, Mutation::Merge { .. } | Mutation::InsertOrMerge { .. });
            if row.len() > longest_bytes {
                (named.longest, longest_bytes) = (index, row.len());
            }
            named.partition = partition;
            named.rows.push(row);
        }
        named.rows.sort_unstable();
        named.buckets = buckets.into_iter().collect();
        named
    }
}

/// The bounds of the stamps of a table, from the catalog.
#[derive(Clone, Copy)]
struct TableStamps {
    created: i64,
    /// No stamp is before this one.
    lower_bound: i64,
    /// Every stamp is before this one.
    upper_bound: i64,
}

impl TableStamps {
    fn of(row: &Row) -> Result<Self, Fault> {
        Ok(Self { created: column(row, 0)?, lower_bound: column(row, 1)?, upper_bound: column(row, 2)? })
    }

    /// The new upper bound, if the stamps of these writes do not stay below the old one.
    fn raised(&self, written: &[Written], now: DateTime) -> Option<i64> {
        let stamps = written.iter().filter_map(|written| match written {
            Written::Stored(stamp) => Some(stamp.ticks()),
            Written::Deleted => None,
        });
        let highest = stamps.max().filter(|stamp| *stamp >= self.upper_bound)?;
        // The clock of the server that created the table may differ from this one.
        let age = now.ticks().abs_diff(self.created);
        let step = (age / UPPER_BOUND_STEP_AGE_SHARE).clamp(1, UPPER_BOUND_STEP_TICKS_MAX);
        Some(highest.saturating_add_unsigned(step))
    }
}

/// What was found and locked.
struct Found {
    /// `None`: the table is gone.
    table: Option<TableStamps>,
    /// The records of the rows that exist, or the beginnings of them.
    records: HashMap<Vec<u8>, Vec<u8>>,
    /// The latest Timestamp in the tombstones.
    deleted_at: Option<DateTime>,
}

/// The changes to the database.
#[derive(Default)]
struct Writes {
    replaced: BTreeMap<Vec<u8>, Vec<u8>>,
    inserted: BTreeMap<Vec<u8>, Vec<u8>>,
    deleted: Vec<Vec<u8>>,
    tombstones: BTreeMap<i16, i64>,
    /// The new upper bound of the table.
    upper_bound: Option<(DatabaseTableId, i64)>,
}

impl<C: Clock> PostgresState<C> {
    pub(super) async fn commit(&self, table: &TableKey, transaction: Transaction) -> Result<Vec<Written>, CommitError> {
        let mut attempts = Attempts::new(&self.pool.counts);
        loop {
            self.check_open().map_err(CommitError::Fault)?;
            let id = self.id(table).await.map_err(CommitError::Fault)?.ok_or(CommitError::TableNotFound)?;
            match self.try_commit(id, &transaction).await {
                Ok(Ended::Committed(written)) => return Ok(written),
                Ok(Ended::Refused(index, error)) => return Err(CommitError::Refused(index, error)),
                // Deleted, and perhaps created again under another id.
                Ok(Ended::TableGone) => self.forget(table),
                Err(trouble) => attempts.next(trouble).await.map_err(CommitError::Fault)?,
            }
        }
    }

    async fn try_commit(&self, id: DatabaseTableId, transaction: &Transaction) -> Result<Ended, Trouble> {
        let named = Named::of(id, transaction);
        let lease = self.pool.take().await?;
        let began = monotonic::now();
        let locked = timeout(ATTEMPT_TIME_MAX, lock(&lease, id, &named)).await.map_err(|_| no_answer())?;
        lease.note_step(began);
        let found = match locked {
            Ok(found) => found,
            Err(trouble) => return Err(reuse(lease, trouble).await),
        };
        let Some(table) = found.table else {
            return take_back(lease, Ended::TableGone).await;
        };
        let (stamp, before, now) = {
            let mut stamps = self.stamps();
            let (before, now) = (stamps.last(), stamps.now());
            let lower_bound = DateTime::from_ticks(table.lower_bound).unwrap_or(DateTime::MIN);
            let stamp = stamps.propose().max(lower_bound).max(found.deleted_at.map_or(DateTime::MIN, DateTime::next));
            stamps.give_out(stamp);
            (stamp, before, now)
        };
        let changes = match apply(id, transaction, stamp, &found) {
            Ok(changes) => changes,
            Err(refused) => {
                self.stamps().take_back(stamp, before);
                return match refused {
                    Ok((index, error)) => take_back(lease, Ended::Refused(index, error)).await,
                    Err(fault) => Err(Trouble::Fault(fault)),
                };
            }
        };
        let written: Vec<_> = changes.iter().map(|(_, effect)| effect.written()).collect();
        let mut writes = Writes::of(changes, &found)?;
        writes.upper_bound = table.raised(&written, now).map(|upper_bound| (id, upper_bound));
        let began = monotonic::now();
        let ended = timeout(ATTEMPT_TIME_MAX, write(&lease, &named, &writes, stamp)).await;
        lease.note_step(began);
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(WriteError::KeyTooLong)) => {
                return take_back(lease, Ended::Refused(named.longest, MutationError::EntityTooLarge)).await;
            }
            Ok(Err(WriteError::Trouble(trouble))) => return Err(reuse(lease, trouble).await),
            Err(_) => return Err(Trouble::no_answer_to("a commit")),
        }
        lease.give_back();
        Ok(Ended::Committed(written))
    }
}

/// Rolls back a transaction that changes nothing.
async fn take_back(lease: Lease, ended: Ended) -> Result<Ended, Trouble> {
    control(&lease, "ROLLBACK").await?;
    lease.give_back();
    Ok(ended)
}

/// Gives a connection back whose transaction did not end, if it can still be used.
async fn reuse(lease: Lease, trouble: Trouble) -> Trouble {
    if matches!(trouble, Trouble::Again(_)) && control(&lease, "ROLLBACK").await.is_ok() {
        lease.give_back();
    }
    trouble
}

/// Begins the database transaction, makes sure of the table, and locks and reads what the transaction names.
async fn lock(lease: &Lease, id: DatabaseTableId, named: &Named) -> Result<Found, Trouble> {
    let header_bytes = i32::try_from(HEADER_BYTES).expect("the header is short");
    let answers: Result<_, Error> = async {
        let lives = lease.prepare_cached(statements::TABLE_LIVES_LOCKED).await?;
        let (records, header) = if named.needs_records {
            (lease.prepare_cached(statements::LOCK_RECORDS).await?, None)
        } else {
            (lease.prepare_cached(statements::LOCK_HEADERS).await?, Some(header_bytes))
        };
        let tombstones = lease.prepare_cached(statements::TOMBSTONES).await?;
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&named.partition, &named.rows];
        if let Some(bytes) = &header {
            values.push(bytes);
        }
        // Sent at once and answered in this order. The tombstones are read by a later statement than the rows, so if a row
        // was not found because it was deleted, its tombstone is already there.
        let (begun, lives, records, tombstones) = tokio::join!(
            biased;
            lease.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
            async { lease.query_opt(&lives, &[&id.0]).await },
            lease.query(&records, &values),
            async {
                if named.buckets.is_empty() { return Ok(None) }
                lease.query_opt(&tombstones, &[&named.partition, &named.buckets]).await
            },
        );
        begun?;
        Ok((lives?, records?, tombstones?))
    }
    .await;
    let (lives, rows, tombstones) = answers.map_err(|error| Trouble::before_commit(&error))?;
    let table = lives.as_ref().map(TableStamps::of).transpose().map_err(Trouble::Fault)?;
    let mut records = HashMap::with_capacity(rows.len());
    for row in &rows {
        records.insert(column(row, 0).map_err(Trouble::Fault)?, column(row, 1).map_err(Trouble::Fault)?);
    }
    let deleted_at: Option<i64> = match &tombstones {
        Some(row) => column(row, 0).map_err(Trouble::Fault)?,
        None => None,
    };
    Ok(Found { table, records, deleted_at: deleted_at.and_then(DateTime::from_ticks) })
}

/// The effect on each row that the transaction names, in the order of its mutations.
#[allow(clippy::type_complexity, reason = "a refusal is no fault, and both end the transaction")]
fn apply(
    table: DatabaseTableId,
    transaction: &Transaction,
    stamp: DateTime,
    found: &Found,
) -> Result<Vec<(Vec<u8>, Effect)>, Result<(usize, MutationError), Fault>> {
    let mutations = transaction.mutations();
    let rows: Vec<_> = mutations.iter().map(|mutation| columns(table, mutation.key()).1).collect();
    let existing = rows.iter().map(|row| found.records.get(row));
    let effects = transaction.apply(stamp, existing).map_err(|(index, error)| match error {
        MutationError::DamagedRecord => {
            Err(damaged(&mutations.get(index).map_or_else(Vec::new, |mutation| mutation.key().encode())))
        }
        error => Ok((index, error)),
    });
    effects.map(|effects| rows.into_iter().zip(effects).collect())
}

impl Writes {
    fn of(changes: Vec<(Vec<u8>, Effect)>, found: &Found) -> Result<Self, Trouble> {
        let mut writes = Self::default();
        for (row, effect) in changes {
            match (effect, found.records.get(&row)) {
                (Effect::Put(record), existing) => {
                    let rows = if existing.is_some() { &mut writes.replaced } else { &mut writes.inserted };
                    rows.insert(row, record.as_bytes().to_vec());
                }
                (Effect::Delete, Some(existing)) => {
                    let deleted = RecordView::new(existing).map_err(|_| Trouble::Fault(damaged(&row)))?;
                    let deleted = deleted.timestamp().ticks();
                    let tombstone = writes.tombstones.entry(bucket(&row)).or_insert(deleted);
                    *tombstone = deleted.max(*tombstone);
                    writes.deleted.push(row);
                }
                (Effect::Delete, None) => {}
            }
        }
        Ok(writes)
    }
}

/// Why the changes were not written.
enum WriteError {
    /// The keys of an entity are longer than the database can find again. Nothing happened.
    KeyTooLong,
    Trouble(Trouble),
}

/// Writes the changes and commits, in one round trip. A statement that fails voids the transaction, so the commit after it
/// does nothing.
async fn write(lease: &Lease, named: &Named, writes: &Writes, stamp: DateTime) -> Result<(), WriteError> {
    let before = |error: Error| WriteError::Trouble(Trouble::before_commit(&error));
    let replace = prepared(lease, statements::REPLACE, !writes.replaced.is_empty()).await.map_err(before)?;
    let insert = prepared(lease, statements::INSERT, !writes.inserted.is_empty()).await.map_err(before)?;
    let guard = prepared(lease, statements::GUARD, !writes.inserted.is_empty()).await.map_err(before)?;
    let delete = prepared(lease, statements::DELETE, !writes.deleted.is_empty()).await.map_err(before)?;
    let keep_tombstones =
        prepared(lease, statements::KEEP_TOMBSTONES, !writes.tombstones.is_empty()).await.map_err(before)?;
    let raise = prepared(lease, statements::RAISE_UPPER_BOUND, writes.upper_bound.is_some()).await.map_err(before)?;

    let (replaced_rows, replaced_records): (Vec<_>, Vec<_>) = writes.replaced.iter().unzip();
    let (inserted_rows, inserted_records): (Vec<_>, Vec<_>) = writes.inserted.iter().unzip();
    let inserted_buckets: Vec<i16> = inserted_rows.iter().map(|row| bucket(row)).collect();
    let (buckets, stamps): (Vec<i16>, Vec<i64>) = writes.tombstones.iter().unzip();
    let (partition, ticks) = (&named.partition, stamp.ticks());
    let (id, upper_bound) = writes.upper_bound.map_or((0, 0), |(id, upper_bound)| (id.0, upper_bound));
    let (replaced, inserted, guarded, deleted, kept, raised, committed) = tokio::join!(
        biased;
        run(lease, replace.as_ref(), vec![partition, &replaced_rows, &replaced_records]),
        run(lease, insert.as_ref(), vec![partition, &inserted_rows, &inserted_records]),
        // Before this transaction writes tombstones itself.
        run(lease, guard.as_ref(), vec![partition, &inserted_buckets, &ticks]),
        run(lease, delete.as_ref(), vec![partition, &writes.deleted]),
        run(lease, keep_tombstones.as_ref(), vec![partition, &buckets, &stamps]),
        // Last, so that a transaction which waits here for another one waits for its commit only.
        run(lease, raise.as_ref(), vec![&id, &upper_bound]),
        lease.batch_execute("COMMIT"),
    );
    for result in [replaced, inserted, guarded, deleted, kept, raised] {
        let Err(error) = result else { continue };
        return Err(match error.code() {
            Some(&SqlState::PROGRAM_LIMIT_EXCEEDED) => WriteError::KeyTooLong,
            // The database refused the statement, so the transaction was not committed.
            Some(_) => WriteError::Trouble(Trouble::before_commit(&error)),
            None => WriteError::Trouble(Trouble::at_commit(&error)),
        });
    }
    committed.map_err(|error| WriteError::Trouble(Trouble::at_commit(&error)))
}

async fn prepared(lease: &Lease, sql: &str, is_needed: bool) -> Result<Option<tokio_postgres::Statement>, Error> {
    if is_needed { lease.prepare_cached(sql).await.map(Some) } else { Ok(None) }
}

async fn run(
    lease: &Lease,
    statement: Option<&tokio_postgres::Statement>,
    values: Vec<&(dyn ToSql + Sync)>,
) -> Result<(), Error> {
    match statement {
        Some(statement) => lease.execute(statement, &values).await.map(drop),
        None => Ok(()),
    }
}
