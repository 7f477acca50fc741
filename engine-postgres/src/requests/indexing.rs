//! Builds new indexes, and removes the entries of old ones, in bounded steps. Accounts and tables take turns.
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
use crate::requests::settling::{LISTING_INTERVAL, Pace, Settling};
use crate::schema::function::TABLE_CHANGED;
use crate::slot::INDEX_LEASE;
use crate::state::{PostgresState, TableIndex};
use crate::statements;
use engine::Fault;
use engine::parts::turns::Turns;
use engine::parts::{index, monotonic};
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use model::key::KEY_SEPARATOR;
use model::{KeyRange, RecordView};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const STEP_ENTITIES_MAX: i64 = 256;
const STEP_ENTRIES_MAX: i64 = 1000;
/// The number of steps after which the progress is stored.
const STEPS_BETWEEN_SAVES: u32 = 16;

/// The work whose turns come by account, and by table, generation and the index that is removed, if one is.
type IndexTurns = Turns<Vec<u8>, (i64, i64, Option<i64>), Work>;

/// What remains to be done for one index that is removed, or for all new indexes of a table.
#[derive(Debug)]
enum Work {
    Remove(i64),
    Build(Build),
}

#[derive(Debug)]
struct Build {
    table: DatabaseTableId,
    generation: i64,
    indexes: Vec<TableIndex>,
    /// The key bytes before which all entities have the entries of these indexes.
    built_before: Vec<u8>,
    /// The number of steps since the progress was stored.
    unsaved_steps: u32,
}

/// Work that was listed, and the account that it belongs to.
#[derive(Debug)]
struct Unfinished {
    account: Vec<u8>,
    table: i64,
    generation: i64,
    work: Work,
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
    let mut turns = Turns::default();
    while pace.next(shared.check_indexes(&mut seen, &mut turns).await, &shared.indexing).await {}
}

impl PostgresState {
    /// Returns whether there was work, or what failed and why.
    async fn check_indexes(
        &self,
        seen: &mut BTreeMap<(i64, i64), Settling>,
        turns: &mut IndexTurns,
    ) -> Result<bool, (&'static str, Fault)> {
        loop {
            let unfinished = self.persist(async || self.unfinished_indexes().await).await;
            let unfinished = unfinished.map_err(|error| ("the list of indexes could not be read", error))?;
            if unfinished.is_empty() {
                seen.clear();
                return Ok(false);
            }
            let finished = self.while_renewing(INDEX_LEASE, self.finish_indexes(unfinished, seen, turns)).await;
            // What failed does not delay the other tables: it is tried again when they are listed.
            if turns.is_empty() {
                return finished.map(|()| true).map_err(|error| ("an index could not be built or removed", error));
            }
        }
    }

    async fn unfinished_indexes(&self) -> Result<Vec<Unfinished>, AttemptError> {
        let rows = self.pool.read(statements::UNFINISHED_INDEXES, &[]).await?;
        let mut unfinished = Vec::new();
        for row in &rows {
            add_unfinished(&mut unfinished, row).map_err(AttemptError::Fault)?;
        }
        Ok(unfinished)
    }

    /// Builds and removes indexes that all commits know. `seen` contains the state of each table and generation. Work
    /// that is left in `turns` continues after the indexes were listed again.
    async fn finish_indexes(
        &self,
        mut unfinished: Vec<Unfinished>,
        seen: &mut BTreeMap<(i64, i64), Settling>,
        turns: &mut IndexTurns,
    ) -> Result<(), Fault> {
        let now = self.persist(async || self.transactions().await).await?;
        let listed = monotonic::now();
        let tables: BTreeSet<_> = unfinished.iter().map(|listed| (listed.table, listed.generation)).collect();
        seen.retain(|known, _| tables.contains(known));
        // `now` was read after the indexes were seen.
        let settled = tables
            .into_iter()
            .filter(|table| seen.entry(*table).or_insert_with(|| Settling::new(&now)).is_settled(&now));
        let settled: BTreeSet<_> = settled.collect();
        unfinished.retain(|listed| settled.contains(&(listed.table, listed.generation)));
        turns.update(unfinished.into_iter().map(|Unfinished { account, table, generation, work }| {
            let removed = if let Work::Remove(index) = work { Some(index) } else { None };
            (account, (table, generation, removed), work)
        }));
        if turns.is_empty() {
            return Ok(());
        }
        // Servers without the lease have waited for earlier transactions as well, so they take over without a delay.
        let mut is_holder = self.persist(async || self.hold_short_lease(INDEX_LEASE).await).await?;
        if !is_holder {
            // The holder may have died.
            sleep(SHORT_RENEWAL).await;
            self.indexing.notify_one();
        }
        let mut failed = Ok(());
        while is_holder
            && listed.elapsed() < LISTING_INTERVAL
            && let Some((account, table, work)) = turns.take()
        {
            match self.make_step(work).await {
                Ok(Some(work)) => turns.put_back(account, table, work),
                Ok(None) => {}
                // The next table may not be affected.
                Err(error) => failed = Err(error),
            }
            is_holder = self.persist(async || self.hold_short_lease(INDEX_LEASE).await).await?;
        }
        while !is_holder && let Some((_, _, work)) = turns.take() {
            if let Work::Build(build) = work
                && build.unsaved_steps > 0
            {
                self.save_progress(&build).await?;
            }
        }
        failed
    }

    /// Returns the work that is left.
    async fn make_step(&self, work: Work) -> Result<Option<Work>, Fault> {
        match work {
            Work::Remove(index) => {
                if self.persist(async || self.remove_entries(index).await).await? {
                    return Ok(Some(work));
                }
                let end = async || {
                    self.pool.write(statements::END_REMOVAL, &[&index]).await.map_err(AttemptError::repeatable)
                };
                self.persist(end).await?;
                Ok(None)
            }
            Work::Build(build) => Ok(self.build(build).await?.map(Work::Build)),
        }
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

    /// Adds the entries of some entities. Returns `None` if the indexes are ready, or if the table has changed.
    async fn build(&self, mut build: Build) -> Result<Option<Build>, Fault> {
        let began = monotonic::now();
        match self.persist(async || self.build_step(&build).await).await? {
            Step::Next(next) => build.built_before = next,
            Step::Last => {
                let ids: Vec<i64> = build.indexes.iter().map(|index| index.id).collect();
                self.set_indexes(statements::SET_READY, &[&ids]).await?;
                return Ok(None);
            }
            Step::Changed => return Ok(None),
        }
        build.unsaved_steps += 1;
        if build.unsaved_steps == STEPS_BETWEEN_SAVES {
            self.save_progress(&build).await?;
            build.unsaved_steps = 0;
        }
        sleep(began.elapsed()).await;
        Ok(Some(build))
    }

    async fn save_progress(&self, build: &Build) -> Result<(), Fault> {
        let ids: Vec<i64> = build.indexes.iter().map(|index| index.id).collect();
        self.set_indexes(statements::SET_BUILT, &[&ids, &build.built_before]).await
    }

    async fn set_indexes(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), Fault> {
        self.persist(async || self.pool.write(sql, values).await.map_err(AttemptError::repeatable)).await.map(drop)
    }

    async fn build_step(&self, build: &Build) -> Result<Step, AttemptError> {
        let range = KeyRange { start: build.built_before.clone(), end: None };
        let Bounds::Pairs { from, to } = Bounds::new(build.table, &range) else { return Ok(Step::Last) };
        let lease = self.pool.take().await?;
        let values: [&(dyn ToSql + Sync); 5] = [&from.0, &from.1, &to.0, &to.1, &STEP_ENTITIES_MAX];
        let found = timeout(ATTEMPT_TIME_MAX, read_entries(&lease, build, &values)).await.map_err(|_| no_response())?;
        let (partitions, next) = found?;
        let calls = partitions.iter().map(|(partition, entries)| add_entries(&lease, build, partition, entries));
        let is_current = try_join_all(calls).await?.into_iter().all(|is_current| is_current);
        lease.return_to_pool();
        Ok(match next {
            _ if !is_current => Step::Changed,
            Some(next) => Step::Next(next),
            None => Step::Last,
        })
    }
}

/// Adds a row of [`statements::UNFINISHED_INDEXES`]. The new indexes of a table are built together.
fn add_unfinished(unfinished: &mut Vec<Unfinished>, row: &Row) -> Result<(), Fault> {
    let (id, table, generation) = (column(row, 0)?, column(row, 1)?, column(row, 2)?);
    let account: Vec<u8> = column(row, 6)?;
    if column(row, 5)? {
        unfinished.push(Unfinished { account, table, generation, work: Work::Remove(id) });
        return Ok(());
    }
    let index = TableIndex { id, property: indexed_property(column(row, 3)?)?, is_ready: false };
    let built_before: Vec<u8> = column(row, 4)?;
    // The rows are ordered by table.
    let builds = unfinished.iter_mut().rev().take_while(|listed| listed.table == table);
    let build = builds.filter_map(|listed| if let Work::Build(build) = &mut listed.work { Some(build) } else { None });
    if let Some(build) = build.last() {
        build.built_before = built_before.min(std::mem::take(&mut build.built_before));
        build.indexes.push(index);
    } else {
        let (table_id, indexes) = (DatabaseTableId(table), vec![index]);
        let build = Build { table: table_id, generation, indexes, built_before, unsaved_steps: 0 };
        unfinished.push(Unfinished { account, table, generation, work: Work::Build(build) });
    }
    Ok(())
}

/// Reads some entities, one by one because their records may be large. Returns the entries by partition, and the key
/// bytes after the last entity if there may be more entities.
async fn read_entries(
    lease: &Lease,
    build: &Build,
    values: &[&(dyn ToSql + Sync)],
) -> Result<(BTreeMap<Vec<u8>, PartitionEntries>, Option<Vec<u8>>), AttemptError> {
    let failed = |error: tokio_postgres::Error| AttemptError::before_commit(&error);
    let statement = lease.prepare_cached(statements::PAIRS_BETWEEN.text(false)).await.map_err(failed)?;
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
        let entries: Vec<_> = build.indexes.iter().filter_map(entry).collect();
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
    build: &Build,
    partition: &[u8],
    entries: &PartitionEntries,
) -> Result<bool, AttemptError> {
    let PartitionEntries { rows, stamps, entry_rows, entry_indexes, entry_values } = entries;
    let (table, generation) = (&build.table.0, &build.generation);
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
