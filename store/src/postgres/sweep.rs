//! Forgets the Timestamps of entities and tables that were deleted long ago: no clock is so far behind that it could give
//! one of them out again.
//!
//! One server does it in each interval, the one that is first to say so. If it dies half-way, the next interval finds
//! what is left.

use super::attempt::{Trouble, jittered};
use super::catalog::{column, read};
use super::state::PostgresState;
use super::statements;
use crate::engine::Fault;
use model::Clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::types::ToSql;

/// How long the Timestamps of deleted entities are kept, by the clock of the server that forgets them. The clocks of
/// servers on one database must differ by less.
pub const GRAVES_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often the graves are looked through.
const SWEEP_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// How often a server asks whether it is time.
const LOOK_INTERVAL: Duration = Duration::from_secs(3600);
/// Most graves that are looked at in one step, and the wait between two steps.
const STEP_GRAVES_MAX: i64 = 1000;
const STEP_WAIT: Duration = Duration::from_millis(50);
/// Ticks of a second: a tick is 100 ns.
const SECOND_TICKS: u64 = 10_000_000;

/// Sweeps at intervals until the engine is closed.
pub(super) async fn sweep_at_intervals<C: Clock>(shared: Arc<PostgresState<C>>) {
    loop {
        tokio::time::sleep(jittered(LOOK_INTERVAL)).await;
        match shared.sweep().await {
            Ok(None | Some(0)) => {}
            Ok(Some(count)) => tracing::debug!(count, "old Timestamps of deleted entities were forgotten"),
            Err(Fault::Closed) => return,
            Err(error) => tracing::warn!(%error, "old Timestamps of deleted entities could not be forgotten"),
        }
    }
}

fn ticks(time: Duration) -> i64 {
    i64::try_from(time.as_secs() * SECOND_TICKS).expect("a few days")
}

impl<C: Clock> PostgresState<C> {
    /// Forgets old graves, if it is time; answers how many.
    pub(super) async fn sweep(&self) -> Result<Option<u64>, Fault> {
        let now = self.stamps().now().ticks();
        let last = now.saturating_sub(ticks(SWEEP_INTERVAL));
        let taken = self.persist(async || self.execute(statements::TAKE_SWEEP, &[&now, &last]).await).await?;
        if taken == 0 {
            return Ok(None);
        }
        let before = now.saturating_sub(ticks(GRAVES_KEPT));
        while self
            .persist(async || self.execute(statements::DELETE_OLD_FLOORS, &[&before, &STEP_GRAVES_MAX]).await)
            .await?
            > 0
        {
            tokio::time::sleep(STEP_WAIT).await;
        }
        let (mut from, mut count): ((Vec<u8>, i16), u64) = ((Vec::new(), 0), 0);
        loop {
            let (next, removed) = self.persist(async || self.sweep_step(&from, before).await).await?;
            count += removed;
            let Some(next) = next else { return Ok(Some(count)) };
            from = next;
            tokio::time::sleep(STEP_WAIT).await;
        }
    }

    /// Looks at some graves behind a position; answers the last of them, if there may be more, and how many went.
    async fn sweep_step(&self, from: &(Vec<u8>, i16), before: i64) -> Result<(Option<(Vec<u8>, i16)>, u64), Trouble> {
        let lease = self.pool.take().await?;
        let rows = read(&lease, statements::GRAVES_BEHIND, &[&from.0, &from.1, &STEP_GRAVES_MAX]).await?;
        lease.give_back();
        let mut old: BTreeMap<Vec<u8>, Vec<i16>> = BTreeMap::new();
        let mut last = None;
        for row in &rows {
            let grave: (Vec<u8>, i16) =
                (column(row, 0).map_err(Trouble::Fault)?, column(row, 1).map_err(Trouble::Fault)?);
            if column::<i64>(row, 2).map_err(Trouble::Fault)? < before {
                old.entry(grave.0.clone()).or_default().push(grave.1);
            }
            last = Some(grave);
        }
        let mut removed = 0;
        for (partition, buckets) in &old {
            // A grave into which somebody was buried meanwhile stays.
            removed += self.execute(statements::DELETE_OLD_GRAVES, &[partition, buckets, &before]).await?;
        }
        let may_be_more = i64::try_from(rows.len()).is_ok_and(|count| count == STEP_GRAVES_MAX);
        Ok((last.filter(|_| may_be_more), removed))
    }

    async fn execute(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, Trouble> {
        let lease = self.pool.take().await?;
        let changed = super::catalog::write(&lease, sql, values).await?;
        lease.give_back();
        Ok(changed)
    }
}
