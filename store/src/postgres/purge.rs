//! Removes the entities of deleted tables, in bounded steps.
//!
//! Invariants:
//!
//! 1. One server purges at a time, the holder of a lease. If it dies, another takes the lease and continues; and if both work
//!    for a moment, no harm is done.
//! 2. A table is purged to the end only when no commit that found it can still run. A commit reads the catalog when it has a
//!    transaction id already (`function`). So one that found the table is among the transactions that ran on its node when the
//!    node showed that the table is deleted. Which it does, on every node, once all transactions have ended that ran when the first
//!    one did: the deletion is among those where it is not completed yet. So the purge waits twice.
//! 3. The row of the table is deleted after the last entity.

use super::attempt::{Trouble, jittered};
use super::catalog::{column, read, write};
use super::layout::{Bounds, DatabaseTableId};
use super::state::PostgresState;
use super::statements;
use crate::engine::Fault;
use crate::monotonic;
use model::{Clock, KeyRange};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Most entities that one step removes.
const STEP_ENTITIES_MAX: i64 = 1000;
/// How long a deleted table waits at most until a server looks for it.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long a server waits for transactions that ran when a table was deleted, before it looks again.
const BUSY_WAIT: Duration = Duration::from_millis(200);
/// How often it does so before it waits for the next look.
const BUSY_WAITS_MAX: u32 = 10;

/// The transactions of each node at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Transactions(BTreeMap<i64, Node>);

/// What is known of a deleted table.
#[derive(Debug)]
struct Seen {
    /// Whether every node shows that the table is deleted.
    is_everywhere: bool,
    /// The transactions that ran when it was first seen to be deleted, or when every node had shown it.
    then: Transactions,
}

/// The transactions of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    /// The first that still ran.
    first: u64,
    /// The first that had not begun.
    next: u64,
}

impl Transactions {
    /// Whether all that ran at the earlier instant have ended. A node that was added since had none of them.
    fn have_ended(&self, earlier: &Self) -> bool {
        earlier.0.iter().all(|(node, then)| self.0.get(node).is_none_or(|now| now.first >= then.next))
    }
}

/// Purges until the engine is closed.
pub(super) async fn purge<C: Clock>(shared: Arc<PostgresState<C>>) {
    let mut seen = BTreeMap::new();
    let mut busy_waits = 0;
    loop {
        match shared.persist(async || shared.deleted_tables().await).await {
            Ok(deleted) if deleted.is_empty() => {
                seen.clear();
                busy_waits = BUSY_WAITS_MAX;
            }
            Ok(deleted) => match shared.purge_tables(&deleted, &mut seen).await {
                Ok(()) => {}
                Err(Fault::Closed) => return,
                Err(error) => {
                    busy_waits = BUSY_WAITS_MAX;
                    tracing::warn!(%error, "the entities of a deleted table could not be removed; tried again later");
                }
            },
            Err(Fault::Closed) => return,
            Err(error) => {
                busy_waits = BUSY_WAITS_MAX;
                tracing::warn!(%error, "the deleted tables could not be read; tried again later");
            }
        }
        if busy_waits < BUSY_WAITS_MAX {
            busy_waits += 1;
            tokio::time::sleep(BUSY_WAIT).await;
        } else {
            let look = tokio::time::timeout(jittered(LOOK_INTERVAL), shared.purges.notified()).await;
            busy_waits = if look.is_ok() { 0 } else { BUSY_WAITS_MAX };
        }
    }
}

impl<C: Clock> PostgresState<C> {
    /// The deleted tables that are still to be purged, by any server.
    async fn deleted_tables(&self) -> Result<Vec<DatabaseTableId>, Trouble> {
        let lease = self.pool.take().await?;
        let rows = read(&lease, statements::DELETED_TABLES, &[]).await?;
        lease.give_back();
        self.pool.counts.note_purge_backlog(i64::try_from(rows.len()).unwrap_or(i64::MAX));
        let ids = rows.iter().map(|row| column(row, 0).map(DatabaseTableId).map_err(Trouble::Fault));
        ids.collect()
    }

    /// Removes the entities of deleted tables, and those tables to which nothing more can be written. `seen` has what is known of each.
    async fn purge_tables(&self, deleted: &[DatabaseTableId], seen: &mut BTreeMap<i64, Seen>) -> Result<(), Fault> {
        if !self.persist(async || self.may_purge().await).await? {
            return Ok(());
        }
        let now = self.persist(async || self.transactions().await).await?;
        seen.retain(|id, _| deleted.iter().any(|deleted| deleted.0 == *id));
        for id in deleted {
            // Read after the table was seen to be deleted.
            let known = seen.entry(id.0).or_insert_with(|| Seen { is_everywhere: false, then: now.clone() });
            let has_ended = now.have_ended(&known.then);
            let is_last = has_ended && known.is_everywhere;
            if has_ended {
                *known = Seen { is_everywhere: true, then: now.clone() };
            }
            while self.persist(async || self.remove_entities(*id).await).await? {
                if !self.persist(async || self.may_purge().await).await? {
                    return Ok(());
                }
            }
            if is_last {
                self.persist(async || self.execute(statements::END_PURGE, &[&id.0]).await).await?;
            }
        }
        Ok(())
    }

    /// Removes some entities of a table; returns whether there may be more.
    async fn remove_entities(&self, id: DatabaseTableId) -> Result<bool, Trouble> {
        let Bounds::Pairs { from, to } = Bounds::of(id, &KeyRange::all()) else { return Ok(false) };
        let began = monotonic::now();
        let lease = self.pool.take().await?;
        let rows = read(&lease, statements::ENTITY_AT, &[&from.0, &from.1, &to.0, &to.1, &STEP_ENTITIES_MAX]).await?;
        let end: (Vec<u8>, Vec<u8>) = match rows.first() {
            Some(row) => (column(row, 0).map_err(Trouble::Fault)?, column(row, 1).map_err(Trouble::Fault)?),
            None => to,
        };
        let removed = write(&lease, statements::DELETE_BETWEEN, &[&from.0, &from.1, &end.0, &end.1]).await;
        // It may be repeated, so it does not matter whether it happened.
        let removed = removed.map_err(Trouble::repeatable)?;
        lease.give_back();
        if removed > 0 {
            // Half of the time is left to requests that wait for the disk.
            tokio::time::sleep(began.elapsed()).await;
        }
        Ok(!rows.is_empty())
    }

    /// The transactions of each node at this instant.
    async fn transactions(&self) -> Result<Transactions, Trouble> {
        let lease = self.pool.take().await?;
        let rows = read(&lease, &self.names.transactions, &[]).await?;
        lease.give_back();
        let unreadable = || Trouble::Fault(Fault::Damaged("the transactions of a node cannot be read".to_owned()));
        let mut all = Transactions::default();
        for row in &rows {
            let node: i64 = column(row, 0).map_err(Trouble::Fault)?;
            let text: &str = column(row, 1).map_err(Trouble::Fault)?;
            if !column::<bool>(row, 2).map_err(Trouble::Fault)? {
                return Err(Trouble::Fault(Fault::Unavailable(format!("node {node}: {text}").into())));
            }
            let (first, next) = text.split_once(' ').ok_or_else(unreadable)?;
            let (Ok(first), Ok(next)) = (first.parse(), next.parse()) else { return Err(unreadable()) };
            all.0.insert(node, Node { first, next });
        }
        Ok(all)
    }

    /// Runs a statement that may be repeated.
    async fn execute(&self, sql: &str, values: &[&(dyn tokio_postgres::types::ToSql + Sync)]) -> Result<u64, Trouble> {
        let lease = self.pool.take().await?;
        let changed = write(&lease, sql, values).await.map_err(Trouble::repeatable)?;
        lease.give_back();
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nodes: &[(i64, u64, u64)]) -> Transactions {
        Transactions(nodes.iter().map(|(node, first, next)| (*node, Node { first: *first, next: *next })).collect())
    }

    #[test]
    fn transactions_have_ended_when_the_first_that_runs_began_later() {
        let then = at(&[(1, 5, 9), (2, 7, 7)]);
        assert!(!at(&[(1, 8, 20), (2, 7, 7)]).have_ended(&then), "number 8 may have run then");
        assert!(!at(&[(1, 9, 20), (2, 6, 9)]).have_ended(&then));
        assert!(at(&[(1, 9, 20), (2, 7, 7), (3, 1, 2)]).have_ended(&then));
        assert!(at(&[(1, 10, 20)]).have_ended(&then), "a node that is gone runs nothing");
    }
}
