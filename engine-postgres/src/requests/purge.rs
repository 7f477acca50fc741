//! Removes the entities of deleted tables, in bounded steps. Accounts and tables take turns.
//!
//! Invariants:
//!
//! 1. Only one server purges at a time: the holder of a lease. If this server dies, another one takes the lease and
//!    continues. If both purge for a moment, no harm is done.
//! 2. A table's purge is completed only when no commit that found the table can still be running (`settling`).
//! 3. The entries of indexes are removed after their entities. Nothing can then add an entry (`function`).
//! 4. The row of the table is deleted after its last entity.

use crate::connections::attempt::AttemptError;
use crate::connections::rows::{column, read, write};
use crate::layout::{Bounds, DatabaseTableId};
use crate::requests::settling::{LISTING_INTERVAL, Pace, Settling};
use crate::slot::PURGE_LEASE;
use crate::state::PostgresState;
use crate::statements;
use engine::Fault;
use engine::parts::monotonic;
use engine::parts::turns::Turns;
use model::KeyRange;
use std::collections::BTreeMap;
use std::sync::Arc;

const STEP_ENTITIES_MAX: i64 = 1000;

pub(crate) async fn purge(shared: Arc<PostgresState>) {
    let (mut seen, mut pace) = (BTreeMap::new(), Pace::default());
    let mut turns = Turns::default();
    while pace.next(shared.check_deleted_tables(&mut seen, &mut turns).await, &shared.purges).await {}
}

/// The deleted tables whose entities can be removed, by account.
type PurgeTurns = Turns<Vec<u8>, i64, DeletedTable>;

struct DeletedTable {
    id: DatabaseTableId,
    account: Vec<u8>,
    has_entries: bool,
    /// Whether nothing can be written to the table any more.
    is_settled: bool,
}

impl PostgresState {
    /// Returns whether there was work, or what failed and why.
    async fn check_deleted_tables(
        &self,
        seen: &mut BTreeMap<i64, Settling>,
        turns: &mut PurgeTurns,
    ) -> Result<bool, (&'static str, Fault)> {
        loop {
            let deleted = self.persist(async || self.deleted_tables().await).await;
            let mut deleted = deleted.map_err(|error| ("the deleted tables could not be read", error))?;
            if deleted.is_empty() {
                seen.clear();
                return Ok(false);
            }
            let left = self.leave_logged(&mut deleted).await;
            left.map_err(|error| ("the change log could not be read", error))?;
            let purged = self.purge_tables(deleted, seen, turns).await;
            // What failed does not delay the other tables: it is tried again when they are listed.
            if turns.is_empty() {
                let failure = "the entities of a deleted table could not be removed";
                return purged.map(|()| true).map_err(|error| (failure, error));
            }
        }
    }

    async fn deleted_tables(&self) -> Result<Vec<DeletedTable>, AttemptError> {
        let rows = self.pool.read(statements::DELETED_TABLES, &[]).await?;
        self.pool.counts.note_purge_backlog(i64::try_from(rows.len()).unwrap_or(i64::MAX));
        let table = |row| {
            let id = DatabaseTableId(column(row, 0)?);
            Ok(DeletedTable { id, account: column(row, 2)?, has_entries: column(row, 1)?, is_settled: false })
        };
        rows.iter().map(table).collect::<Result<_, Fault>>().map_err(AttemptError::Fault)
    }

    /// Leaves tables for later whose deletion is not in the change log yet. On Citus, the log could otherwise show how
    /// their entities are removed, because that is sent by other nodes than the deletion.
    async fn leave_logged(&self, tables: &mut Vec<DeletedTable>) -> Result<(), Fault> {
        if self.is_logged && self.names.is_distributed {
            let ids: Vec<i64> = tables.iter().map(|table| table.id.0).collect();
            let logged = self.persist(async || self.pool.read(statements::LOGGED_TABLES, &[&ids]).await).await?;
            let logged = logged.iter().map(|row| column(row, 0)).collect::<Result<Vec<i64>, _>>()?;
            tables.retain(|table| !logged.contains(&table.id.0));
        }
        Ok(())
    }

    /// Removes the entities of deleted tables, and then those tables to which nothing can be written any more. `seen`
    /// contains the state of each table. Work that is left in `turns` continues after the tables were listed again.
    async fn purge_tables(
        &self,
        deleted: Vec<DeletedTable>,
        seen: &mut BTreeMap<i64, Settling>,
        turns: &mut PurgeTurns,
    ) -> Result<(), Fault> {
        let mut is_holder = self.persist(async || self.hold_lease(PURGE_LEASE).await).await?;
        let now = self.persist(async || self.transactions().await).await?;
        let listed = monotonic::now();
        seen.retain(|id, _| deleted.iter().any(|deleted| deleted.id.0 == *id));
        turns.update(deleted.into_iter().map(|table| {
            // `now` was read after the table was seen as deleted.
            let is_settled = seen.entry(table.id.0).or_insert_with(|| Settling::new(&now)).is_settled(&now);
            (table.account.clone(), table.id.0, DeletedTable { is_settled, ..table })
        }));
        let mut failed = Ok(());
        while is_holder
            && listed.elapsed() < LISTING_INTERVAL
            && let Some((account, id, table)) = turns.take()
        {
            match self.persist(async || self.remove_entities(&table).await).await {
                Ok(true) => turns.put_back(account, id, table),
                Ok(false) if table.is_settled => failed = self.end_purge(&table).await.and(failed),
                Ok(false) => {}
                Err(error) => failed = Err(error),
            }
            is_holder = self.persist(async || self.hold_lease(PURGE_LEASE).await).await?;
        }
        if !is_holder {
            turns.update([]);
        }
        failed
    }

    async fn end_purge(&self, table: &DeletedTable) -> Result<(), Fault> {
        let statements = [statements::DELETE_INDEXES, statements::END_PURGE];
        for statement in statements.into_iter().skip(usize::from(!table.has_entries)) {
            let end = async || {
                let ended = self.pool.write(statement, &[&table.id.0]).await;
                ended.map_err(AttemptError::repeatable)
            };
            self.persist(end).await?;
        }
        Ok(())
    }

    /// Returns whether there may be more entities.
    async fn remove_entities(&self, table: &DeletedTable) -> Result<bool, AttemptError> {
        let Bounds::Pairs { from, to } = Bounds::new(table.id, &KeyRange::all()) else { return Ok(false) };
        let began = monotonic::now();
        let lease = self.pool.take().await?;
        let rows = read(&lease, statements::ENTITY_AT, &[&from.0, &from.1, &to.0, &to.1, &STEP_ENTITIES_MAX]).await?;
        let end: (Vec<u8>, Vec<u8>) = match rows.first() {
            Some(row) => (column(row, 0).map_err(AttemptError::Fault)?, column(row, 1).map_err(AttemptError::Fault)?),
            None => to,
        };
        // The deletion may be repeated, so it does not matter whether it took effect.
        let removed = write(&lease, statements::DELETE_BETWEEN, &[&from.0, &from.1, &end.0, &end.1]).await;
        let removed = removed.map_err(AttemptError::repeatable)?;
        if table.has_entries {
            let removed = write(&lease, statements::DELETE_ENTRIES_BETWEEN, &[&from.0, &from.1, &end.0, &end.1]).await;
            removed.map_err(AttemptError::repeatable)?;
        }
        lease.return_to_pool();
        if removed > 0 {
            // Leave half of the time to requests that wait for the disk.
            tokio::time::sleep(began.elapsed()).await;
        }
        Ok(!rows.is_empty())
    }
}
