//! Removes the entities of deleted tables, in bounded steps that all servers share.
//!
//! Invariants:
//!
//! 1. A step is one transaction that has the row of the table locked: no two servers are at one table, and when one
//!    dies, another finds the row free and goes on.
//! 2. A table is taken only when no commit has its row locked, so nothing is written behind the purge.
//! 3. The row goes only after the last entity.

use super::attempt::{Trouble, jittered};
use super::catalog::{column, control, end, read};
use super::layout::{Bounds, DatabaseTableId};
use super::pool::Lease;
use super::state::PostgresState;
use super::statements;
use crate::engine::Fault;
use model::{Clock, KeyRange};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::types::ToSql;

/// Most entities that one step removes.
const STEP_ENTITIES_MAX: i64 = 1000;
/// How long at most a deleted table waits until some server looks for it.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long a server waits with a table into which somebody is still writing.
const BUSY_WAIT: Duration = Duration::from_millis(200);
/// How often it does so before it waits for the next look.
const BUSY_WAITS_MAX: u32 = 10;

/// What a step found to do.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// There is no table to purge, or somebody else is at it.
    Nothing,
    /// Some entities are gone, or with the last of them the table.
    Some,
}

/// Purges until the engine is closed.
pub(super) async fn purge<C: Clock>(shared: Arc<PostgresState<C>>) {
    let mut busy_waits = BUSY_WAITS_MAX;
    let mut counted: Option<Instant> = None;
    loop {
        if counted.is_none_or(|at| at.elapsed() >= LOOK_INTERVAL) {
            // Whatever goes wrong here goes wrong below, too, and is said there.
            let _not_counted = shared.count_purges().await;
            counted = Some(Instant::now());
        }
        let began = Instant::now();
        match shared.persist(async || shared.purge_step().await).await {
            Ok(Step::Some) => {
                busy_waits = 0;
                // Half of the time belongs to those who wait for the disk.
                tokio::time::sleep(began.elapsed()).await;
            }
            // The table that was just deleted may still be written to, by commits that began before.
            Ok(Step::Nothing) if busy_waits < BUSY_WAITS_MAX => {
                busy_waits += 1;
                tokio::time::sleep(BUSY_WAIT).await;
            }
            outcome => {
                match outcome {
                    Err(Fault::Closed) => return,
                    Err(error) => {
                        tracing::warn!(%error, "the entities of a deleted table could not be removed; tried again later");
                    }
                    Ok(_) => {}
                }
                let look = tokio::time::timeout(jittered(LOOK_INTERVAL), shared.purges.notified()).await;
                busy_waits = if look.is_ok() { 0 } else { BUSY_WAITS_MAX };
                counted = None;
            }
        }
    }
}

impl<C: Clock> PostgresState<C> {
    /// Counts the deleted tables that are still to be purged, by whichever server.
    async fn count_purges(&self) -> Result<(), Trouble> {
        let lease = self.pool.take().await?;
        let rows = read(&lease, statements::COUNT_PURGES, &[]).await?;
        lease.give_back();
        if let Some(row) = rows.first() {
            self.pool.counts.note_purge_backlog(column(row, 0).map_err(Trouble::Fault)?);
        }
        Ok(())
    }

    /// Removes some entities of one deleted table.
    async fn purge_step(&self) -> Result<Step, Trouble> {
        let lease = self.pool.take().await?;
        control(&lease, "BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let taken = read(&lease, statements::TAKE_PURGE, &[]).await?;
        let step = match taken.first() {
            None => Step::Nothing,
            Some(row) => {
                let id = DatabaseTableId(column(row, 0).map_err(Trouble::Fault)?);
                if !remove_entities(&lease, id).await? && !remove_graves(&lease, id).await? {
                    read(&lease, statements::END_PURGE, &[&id.0]).await?;
                }
                Step::Some
            }
        };
        end(&lease).await?;
        lease.give_back();
        Ok(step)
    }
}

/// Removes some entities of a table; answers whether there were any.
async fn remove_entities(lease: &Lease, id: DatabaseTableId) -> Result<bool, Trouble> {
    let Bounds::Pairs { from, to } = Bounds::of(id, &KeyRange::all()) else { return Ok(false) };
    let values: &[&(dyn ToSql + Sync)] = &[&from.0, &from.1, &to.0, &to.1, &STEP_ENTITIES_MAX];
    let rows = read(lease, statements::SOME_ENTITIES, values).await?;
    let mut partitions: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for row in &rows {
        let partition = partitions.entry(column(row, 0).map_err(Trouble::Fault)?).or_default();
        partition.push(column(row, 1).map_err(Trouble::Fault)?);
    }
    // One statement for each partition, so that a database which spreads partitions asks one node for each.
    for (partition, rows) in &partitions {
        read(lease, statements::DELETE, &[partition, rows]).await?;
    }
    Ok(!rows.is_empty())
}

/// Removes some graves of a table; answers whether there were any.
async fn remove_graves(lease: &Lease, id: DatabaseTableId) -> Result<bool, Trouble> {
    let Bounds::Pairs { from, to } = Bounds::of(id, &KeyRange::all()) else { return Ok(false) };
    let rows = read(lease, statements::SOME_GRAVES, &[&from.0, &to.0, &STEP_ENTITIES_MAX]).await?;
    let mut partitions: BTreeMap<&[u8], Vec<i16>> = BTreeMap::new();
    for row in &rows {
        let partition = partitions.entry(column(row, 0).map_err(Trouble::Fault)?).or_default();
        partition.push(column(row, 1).map_err(Trouble::Fault)?);
    }
    for (partition, buckets) in &partitions {
        read(lease, statements::DELETE_GRAVES, &[partition, buckets]).await?;
    }
    Ok(!rows.is_empty())
}
