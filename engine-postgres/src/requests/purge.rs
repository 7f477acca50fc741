//! Removes the entities of deleted tables, in bounded steps.
//!
//! Invariants:
//!
//! 1. Only one server purges at a time: the holder of a lease. If this server dies, another one takes the lease and
//!    continues. If both purge for a moment, no harm is done.
//! 2. A table's purge is completed only when no commit that found the table can still be running. A commit already has
//!    a transaction ID when it reads the catalog (`function`). A commit that found the table is therefore among the
//!    transactions that were running on its node when the node first showed the table as deleted. Once all transactions
//!    that were running when the first node showed the deletion have ended, every node shows it: wherever the deletion
//!    is not yet complete, it is one of those transactions. The purge therefore waits twice.
//! 3. The row of the table is deleted after its last entity.

use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::rows::{column, read, write};
use crate::layout::{Bounds, DatabaseTableId};
use crate::state::PostgresState;
use crate::statements;
use engine::Fault;
use engine::parts::monotonic;
use model::{Clock, KeyRange};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const STEP_ENTITIES_MAX: i64 = 1000;
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The pause before checking again whether the transactions that were running when a table was deleted have ended.
const BUSY_WAIT: Duration = Duration::from_millis(200);
/// The maximum number of these pauses before the server waits for the next regular check.
const BUSY_WAITS_MAX: u32 = 10;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Transactions(BTreeMap<i64, Node>);

#[derive(Debug)]
struct DeletedTable {
    /// Whether every node shows that the table is deleted.
    is_everywhere: bool,
    /// The transactions that were running when the table was first seen as deleted, or when every node had shown the
    /// deletion.
    transactions: Transactions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    /// The first transaction that was still running.
    first: u64,
    /// The first transaction that had not started yet.
    next: u64,
}

impl Transactions {
    /// Returns whether all transactions that were running at the earlier instant have ended. A node that was added
    /// since then ran none of them.
    fn have_ended(&self, earlier: &Self) -> bool {
        earlier.0.iter().all(|(node, then)| self.0.get(node).is_none_or(|now| now.first >= then.next))
    }
}

pub(crate) async fn purge<C: Clock>(shared: Arc<PostgresState<C>>) {
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
                    tracing::warn!(%error, "the entities of a deleted table could not be removed; the purge will be retried");
                }
            },
            Err(Fault::Closed) => return,
            Err(error) => {
                busy_waits = BUSY_WAITS_MAX;
                tracing::warn!(%error, "the deleted tables could not be read; the purge will be retried");
            }
        }
        if busy_waits < BUSY_WAITS_MAX {
            busy_waits += 1;
            tokio::time::sleep(BUSY_WAIT).await;
        } else {
            let look = tokio::time::timeout(jittered(CHECK_INTERVAL), shared.purges.notified()).await;
            busy_waits = if look.is_ok() { 0 } else { BUSY_WAITS_MAX };
        }
    }
}

impl<C: Clock> PostgresState<C> {
    async fn deleted_tables(&self) -> Result<Vec<DatabaseTableId>, AttemptError> {
        let rows = self.pool.read(statements::DELETED_TABLES, &[]).await?;
        self.pool.counts.note_purge_backlog(i64::try_from(rows.len()).unwrap_or(i64::MAX));
        let ids = rows.iter().map(|row| column(row, 0).map(DatabaseTableId).map_err(AttemptError::Fault));
        ids.collect()
    }

    /// Removes the entities of deleted tables, and then those tables to which nothing can be written any more. `seen`
    /// contains the state of each table.
    async fn purge_tables(
        &self,
        deleted: &[DatabaseTableId],
        seen: &mut BTreeMap<i64, DeletedTable>,
    ) -> Result<(), Fault> {
        if !self.persist(async || self.hold_purge_lease().await).await? {
            return Ok(());
        }
        let now = self.persist(async || self.transactions().await).await?;
        seen.retain(|id, _| deleted.iter().any(|deleted| deleted.0 == *id));
        for id in deleted {
            // `now` was read after the table was seen as deleted.
            let known =
                seen.entry(id.0).or_insert_with(|| DeletedTable { is_everywhere: false, transactions: now.clone() });
            let has_ended = now.have_ended(&known.transactions);
            let is_last = has_ended && known.is_everywhere;
            if has_ended {
                *known = DeletedTable { is_everywhere: true, transactions: now.clone() };
            }
            while self.persist(async || self.remove_entities(*id).await).await? {
                if !self.persist(async || self.hold_purge_lease().await).await? {
                    return Ok(());
                }
            }
            if is_last {
                let end = async || {
                    let ended = self.pool.write(statements::END_PURGE, &[&id.0]).await;
                    ended.map_err(AttemptError::repeatable)
                };
                self.persist(end).await?;
            }
        }
        Ok(())
    }

    /// Returns whether there may be more entities.
    async fn remove_entities(&self, id: DatabaseTableId) -> Result<bool, AttemptError> {
        let Bounds::Pairs { from, to } = Bounds::new(id, &KeyRange::all()) else { return Ok(false) };
        let began = monotonic::now();
        let lease = self.pool.take().await?;
        let rows = read(&lease, statements::ENTITY_AT, &[&from.0, &from.1, &to.0, &to.1, &STEP_ENTITIES_MAX]).await?;
        let end: (Vec<u8>, Vec<u8>) = match rows.first() {
            Some(row) => (column(row, 0).map_err(AttemptError::Fault)?, column(row, 1).map_err(AttemptError::Fault)?),
            None => to,
        };
        let removed = write(&lease, statements::DELETE_BETWEEN, &[&from.0, &from.1, &end.0, &end.1]).await;
        // The deletion may be repeated, so it does not matter whether it took effect.
        let removed = removed.map_err(AttemptError::repeatable)?;
        lease.return_to_pool();
        if removed > 0 {
            // Leave half of the time to requests that wait for the disk.
            tokio::time::sleep(began.elapsed()).await;
        }
        Ok(!rows.is_empty())
    }

    async fn transactions(&self) -> Result<Transactions, AttemptError> {
        let rows = self.pool.read(&self.names.transactions, &[]).await?;
        let unreadable = || AttemptError::Fault(Fault::Damaged("the transactions of a node cannot be read".to_owned()));
        let mut all = Transactions::default();
        for row in &rows {
            let node: i64 = column(row, 0).map_err(AttemptError::Fault)?;
            let text: &str = column(row, 1).map_err(AttemptError::Fault)?;
            if !column::<bool>(row, 2).map_err(AttemptError::Fault)? {
                return Err(AttemptError::Fault(Fault::Unavailable(format!("node {node}: {text}").into())));
            }
            let (first, next) = text.split_once(' ').ok_or_else(unreadable)?;
            let (Ok(first), Ok(next)) = (first.parse(), next.parse()) else { return Err(unreadable()) };
            all.0.insert(node, Node { first, next });
        }
        Ok(all)
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
        assert!(!at(&[(1, 8, 20), (2, 7, 7)]).have_ended(&then), "number 8 may have been running then");
        assert!(!at(&[(1, 9, 20), (2, 6, 9)]).have_ended(&then));
        assert!(at(&[(1, 9, 20), (2, 7, 7), (3, 1, 2)]).have_ended(&then));
        assert!(at(&[(1, 10, 20)]).have_ended(&then), "a removed node runs no transactions");
    }
}
