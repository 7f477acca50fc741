//! Builds new indexes, and removes the entries of old ones, in bounded steps.
//!
//! Invariants:
//!
//! 1. Only one server does this at a time: the holder of a lease. If this server dies, another one takes the lease
//!    after three seconds, and continues. If both do it for a moment, no harm is done.
//! 2. The entities are read when no commit that did not know the index can still be running (`settling`). An entity
//!    that is changed later gets its entries with the change. All others get them here, in a call that locks the entity
//!    and adds nothing if the entity has changed.
//! 3. The entries of a removed index are removed when no commit that knew it can still be running. The row of the index
//!    is deleted last.

use crate::connections::attempt::{ATTEMPT_TIME_MAX, AttemptError};
use crate::connections::pool::Lease;
use crate::connections::rows::{column, no_response, read, write};
use crate::layout::{Bounds, DatabaseTableId, key_bytes};
use crate::requests::catalog::indexed_property;
use crate::requests::leases::SHORT_RENEWAL;
use crate::requests::settling::{Pace, Settling};
use crate::schema::function::TABLE_CHANGED;
use crate::slot::INDEX_LEASE;
use crate::state::{PostgresState, TableIndex};
use crate::statements;
use engine::Fault;
use engine::parts::{index, monotonic};
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use model::key::KEY_SEPARATOR;
use model::{KeyRange, RecordView};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const STEP_ENTITIES_MAX: i64 = 256;
const STEP_ENTRIES_MAX: i64 = 1000;
/// The number of steps after which the progress is stored.
const STEPS_BETWEEN_SAVES: u32 = 16;

/// The indexes of a table that must be built or removed.
#[derive(Debug)]
struct Unfinished {
    table: DatabaseTableId,
    generation: i64,
    building: Vec<TableIndex>,
    /// The key bytes before which all entities have the entries of the indexes that are being built.
    built_before: Vec<u8>,
    removed: Vec<i64>,
}

/// The entities of a partition that need entries.
#[derive(Default)]
struct PartitionEntries {
    rows: Vec<Vec<u8>>,
    stamps: Vec<Vec<u8>>,
    entry_rows: Vec<Vec<u8>>,
    entry_indexes: Vec<i64>,
    entry_values: Vec<Vec<u8>>,
}

enum Step {
    /// Contains the start of the next step.
    Next(Vec<u8>),
    Last,
    /// The table was deleted or has changed.
    Changed,
}

pub(crate) async fn maintain_indexes(shared: Arc<PostgresState>) {
    let (mut seen, mut pace) = (BTreeMap::new(), Pace::default());
    while pace.next(shared.check_indexes(&mut seen).await, &shared.indexing).await {}
}

impl PostgresState {
    /// Returns whether there was work, or what failed and why.
    async fn check_indexes(&self, seen: &mut BTreeMap<(i64, i64), Settling>) -> Result<bool, (&'static str, Fault)> {
        let unfinished = self.persist(async || self.unfinished_indexes().await).await;
        let unfinished = unfinished.map_err(|error| ("the list of indexes could not be read", error))?;
        if unfinished.is_empty() {
            seen.clear();
            return Ok(false);
        }
        let finished = self.while_renewing(INDEX_LEASE, self.finish_indexes(&unfinished, seen)).await;
        finished.map_err(|error| ("an index could not be built or removed", error))?;
        Ok(true)
    }

    async fn unfinished_indexes(&self) -> Result<Vec<Unfinished>, AttemptError> {
        let rows = self.pool.read(statements::UNFINISHED_INDEXES, &[]).await?;
        let mut tables: Vec<Unfinished> = Vec::new();
        for row in &rows {
            add_unfinished(&mut tables, row).map_err(AttemptError::Fault)?;
        }
        Ok(tables)
    }

    /// Builds and removes indexes that all commits know. `seen` contains the state of each table and generation.
    async fn finish_indexes(
        &self,
        unfinished: &[Unfinished],
        seen: &mut BTreeMap<(i64, i64), Settling>,
    ) -> Result<(), Fault> {
        let now = self.persist(async || self.transactions().await).await?;
        seen.retain(|known, _| unfinished.iter().any(|table| (table.table.0, table.generation) == *known));
        // Servers without the lease wait for these transactions as well, so that they can take over without a delay.
        let mut is_settled = |table: &&Unfinished| {
            // `now` was read after the indexes were seen.
            let settling = seen.entry((table.table.0, table.generation)).or_insert_with(|| Settling::new(&now));
            settling.is_settled(&now)
        };
        let settled: Vec<_> = unfinished.iter().filter(|table| is_settled(table)).collect();
        if settled.is_empty() {
            return Ok(());
        }
        if !self.persist(async || self.hold_short_lease(INDEX_LEASE).await).await? {
            // The holder may have died.
            sleep(SHORT_RENEWAL).await;
            self.indexing.notify_one();
            return Ok(());
        }
        let mut failed = Ok(());
        for table in settled {
            match self.finish(table).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // The next table may not be affected.
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    /// Returns `false` if another server took the lease.
    async fn finish(&self, table: &Unfinished) -> Result<bool, Fault> {
        for index in &table.removed {
            if !self.remove_index(*index).await? {
                return Ok(false);
            }
        }
        Ok(table.building.is_empty() || self.build(table).await?)
    }

    /// Returns `false` if another server took the lease.
    async fn remove_index(&self, index: i64) -> Result<bool, Fault> {
        while self.persist(async || self.remove_entries(index).await).await? {
            if !self.persist(async || self.hold_short_lease(INDEX_LEASE).await).await? {
                return Ok(false);
            }
        }
        self.persist(async || {
            self.pool.write(statements::END_REMOVAL, &[&index]).await.map_err(AttemptError::repeatable)
        })
        .await?;
        Ok(true)
    }

    /// Returns whether there may be more entries.
    async fn remove_entries(&self, index: i64) -> Result<bool, AttemptError> {
        let began = monotonic::now();
        let lease = self.pool.take().await?;
        let rows = read(&lease, statements::ENTRY_AT, &[&index, &STEP_ENTRIES_MAX]).await?;
        let part = |at| rows.first().map(|row| column::<&[u8]>(row, at)).transpose().map_err(AttemptError::Fault);
        let (value, partition, row) = (part(0)?, part(1)?.unwrap_or_default(), part(2)?.unwrap_or_default());
        // No value begins with this byte.
        let value = value.unwrap_or(&[u8::MAX]);
        let values: [&(dyn ToSql + Sync); 4] = [&index, &value, &partition, &row];
        // The deletion may be repeated, so it does not matter whether it took effect.
        let removed = write(&lease, statements::DELETE_ENTRIES_BEFORE, &values).await;
        removed.map_err(AttemptError::repeatable)?;
        let has_more = !rows.is_empty();
        lease.return_to_pool();
        if has_more {
            // Leave half of the time to requests that wait for the disk.
            sleep(began.elapsed()).await;
        }
        Ok(has_more)
    }

    /// Returns `false` if another server took the lease.
    async fn build(&self, table: &Unfinished) -> Result<bool, Fault> {
        let ids: Vec<i64> = table.building.iter().map(|index| index.id).collect();
        let mut from = table.built_before.clone();
        for step in 1_u32.. {
            let began = monotonic::now();
            match self.persist(async || self.build_step(table, &from).await).await? {
                Step::Next(next) => from = next,
                Step::Last => break,
                Step::Changed => return Ok(true),
            }
            if step.is_multiple_of(STEPS_BETWEEN_SAVES) {
                self.set_indexes(statements::SET_BUILT, &[&ids, &from]).await?;
            }
            if !self.persist(async || self.hold_short_lease(INDEX_LEASE).await).await? {
                self.set_indexes(statements::SET_BUILT, &[&ids, &from]).await?;
                return Ok(false);
            }
            sleep(began.elapsed()).await;
        }
        self.set_indexes(statements::SET_READY, &[&ids]).await?;
        Ok(true)
    }

    async fn set_indexes(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), Fault> {
        self.persist(async || self.pool.write(sql, values).await.map_err(AttemptError::repeatable)).await.map(drop)
    }

    /// Adds the entries of some entities, from the given key bytes on.
    async fn build_step(&self, table: &Unfinished, from: &[u8]) -> Result<Step, AttemptError> {
        let range = KeyRange { start: from.to_vec(), end: None };
        let Bounds::Pairs { from, to } = Bounds::new(table.table, &range) else { return Ok(Step::Last) };
        let lease = self.pool.take().await?;
        let values: [&(dyn ToSql + Sync); 5] = [&from.0, &from.1, &to.0, &to.1, &STEP_ENTITIES_MAX];
        let found = timeout(ATTEMPT_TIME_MAX, read_entries(&lease, table, &values)).await.map_err(|_| no_response())?;
        let (partitions, next) = found?;
        let calls = partitions.iter().map(|(partition, entries)| add_entries(&lease, table, partition, entries));
        let is_current = try_join_all(calls).await?.into_iter().all(|is_current| is_current);
        lease.return_to_pool();
        Ok(match next {
            _ if !is_current => Step::Changed,
            Some(next) => Step::Next(next),
            None => Step::Last,
        })
    }
}

/// Adds a row of [`statements::UNFINISHED_INDEXES`] to its table.
fn add_unfinished(tables: &mut Vec<Unfinished>, row: &Row) -> Result<(), Fault> {
    let (id, table, generation) = (column(row, 0)?, DatabaseTableId(column(row, 1)?), column(row, 2)?);
    let mut unfinished = match tables.pop_if(|last| last.table == table) {
        Some(unfinished) => unfinished,
        None => Unfinished { table, generation, building: Vec::new(), built_before: Vec::new(), removed: Vec::new() },
    };
    if column(row, 5)? {
        unfinished.removed.push(id);
    } else {
        let built_before: Vec<u8> = column(row, 4)?;
        if unfinished.building.is_empty() || built_before < unfinished.built_before {
            unfinished.built_before = built_before;
        }
        let property = indexed_property(column(row, 3)?)?;
        unfinished.building.push(TableIndex { id, property, is_ready: false });
    }
    tables.push(unfinished);
    Ok(())
}

/// Reads some entities, one by one because their records may be large. Returns the entries by partition, and the key
/// bytes after the last entity if there may be more entities.
async fn read_entries(
    lease: &Lease,
    table: &Unfinished,
    values: &[&(dyn ToSql + Sync)],
) -> Result<(BTreeMap<Vec<u8>, PartitionEntries>, Option<Vec<u8>>), AttemptError> {
    let failed = |error: tokio_postgres::Error| AttemptError::before_commit(&error);
    let statement = lease.prepare_cached(statements::PAIRS_BETWEEN).await.map_err(failed)?;
    let rows = lease.query_raw(&statement, values.iter().copied()).await.map_err(failed)?;
    let mut rows = Box::pin(rows);
    let (mut partitions, mut count, mut last) = (BTreeMap::<Vec<u8>, PartitionEntries>::new(), 0, Vec::new());
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        let part = |at| column::<&[u8]>(&row, at).map_err(AttemptError::Fault);
        let (partition, row_key, record) = (part(0)?, part(1)?, part(2)?);
        key_bytes(partition, row_key, &mut last);
        count += 1;
        // Without a key, the entry is the encoded value.
        let entry = |index: &TableIndex| Some((index.id, index::entry_of(&index.property, &[], record)?));
        let entries: Vec<_> = table.building.iter().filter_map(entry).collect();
        let Some(stamp) = RecordView::new(record).ok().filter(|_| !entries.is_empty()) else { continue };
        let found = partitions.entry(partition.to_vec()).or_default();
        found.rows.push(row_key.to_vec());
        found.stamps.push(stamp.timestamp().ticks().to_be_bytes().to_vec());
        for (index, value) in entries {
            found.entry_rows.push(row_key.to_vec());
            found.entry_indexes.push(index);
            found.entry_values.push(value);
        }
    }
    // No row key contains the separator, so a row key with it appended is the next possible row key.
    last.push(KEY_SEPARATOR);
    Ok((partitions, (count == STEP_ENTITIES_MAX).then_some(last)))
}

/// Returns `false` if the table was deleted or has changed.
async fn add_entries(
    lease: &Lease,
    table: &Unfinished,
    partition: &[u8],
    entries: &PartitionEntries,
) -> Result<bool, AttemptError> {
    let PartitionEntries { rows, stamps, entry_rows, entry_indexes, entry_values } = entries;
    let (table, generation) = (&table.table.0, &table.generation);
    let values: [&(dyn ToSql + Sync); 8] =
        [&partition, table, generation, rows, stamps, entry_rows, entry_indexes, entry_values];
    let added = timeout(ATTEMPT_TIME_MAX, async {
        let statement = lease.prepare_cached(statements::ADD_ENTRIES).await?;
        lease.query_one(&statement, &values).await
    });
    match added.await {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(error)) => match error.code() {
            Some(code) if code.code() == TABLE_CHANGED => Ok(false),
            // The call may be repeated, so it does not matter whether it took effect.
            _ => Err(AttemptError::at_call(&error).repeatable()),
        },
        Err(_) => Err(no_response()),
    }
}
