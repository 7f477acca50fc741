//! Decodes the logs of the database's nodes into the change log, on one server at a time: the holder of a lease. It
//! reads a replication slot on each node (`streams`), and the transactions are merged (`merging`).
//!
//! A server that took over while the former one still stores what it decoded stores nothing twice: each step is stored
//! only if the log is as the server last saw it. Otherwise, the server starts again from what is stored.

use crate::changes::decode_error::{DecodeError, Unorderable};
use crate::changes::merging::Merger;
use crate::changes::nodes::LogNode;
use crate::changes::order::{LogToOrder, Order, Orders, Progress, merge};
use crate::changes::setup;
use crate::changes::streams::Streams;
use crate::changes::transactions::{Decoded, Scope, TableChange, Tables};
use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::rows::{column, read};
use crate::connections::settings::Settings;
use crate::log_state::LogState;
use crate::slot::CHANGES_LEASE;
use crate::state::PostgresState;
use engine::parts::monotonic;
use engine::{Fault, KeptChanges};
use futures_util::future::join_all;
use model::DateTime;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The pause before a server checks again whether the log is being decoded.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which the lease is renewed. Another server takes it after three seconds without a renewal.
const RENEWAL: Duration = Duration::from_secs(1);
/// The maximum time in which the nodes are read.
const NODES_TIME_MAX: Duration = Duration::from_secs(10);
/// The time after which it is logged that transactions wait for those of other nodes.
const STALL: Duration = Duration::from_secs(10);
/// The interval at which it is measured how much has not been decoded yet.
const MEASUREMENT: Duration = Duration::from_secs(3);
/// The approximate size of a row without its changes.
pub(crate) const ROW_BYTES: i64 = 64;

const LEASE: &str = "SELECT 1 FROM rowhouse_leases WHERE number = $1";
const LOG: &str = "SELECT name, next, time, last_table, placements FROM rowhouse_change_log WHERE is_ready";
const DECODED: &str = "SELECT node, decoded FROM rowhouse_change_nodes";
const TABLES: &str = "SELECT id, account, name FROM rowhouse_change_tables";
/// Stores transactions if the log `$1` ends before the position `$2`, and announces them. `$7` is the time of the last
/// transaction, `$8` the last table, and `$9` the size of the transactions. `$10` to `$12` are the created tables, and
/// `$13` the deleted ones. The logs of the nodes `$14` have been decoded up to `$15`.
pub(crate) const STORE: &str = "WITH log AS (UPDATE rowhouse_change_log SET next = next + cardinality($3::bigint[]), \
       time = $7, last_table = $8, bytes = bytes + $9 WHERE name = $1 AND next = $2 AND is_ready \
       RETURNING first, next), \
     added AS (INSERT INTO rowhouse_changes (position, time, account, name, changes) \
       SELECT $2 + n.at - 1, n.time, n.account, n.name, n.changes FROM log, \
       unnest($3::bigint[], $4::text[], $5::text[], $6::bytea[]) WITH ORDINALITY AS n (time, account, name, changes, at)), \
     created AS (INSERT INTO rowhouse_change_tables (id, account, name) SELECT n.id, n.account, n.name FROM log, \
       unnest($10::bigint[], $11::text[], $12::text[]) AS n (id, account, name)), \
     deleted AS (DELETE FROM rowhouse_change_tables WHERE id = ANY($13::bigint[]) AND EXISTS (SELECT FROM log)), \
     nodes AS (UPDATE rowhouse_change_nodes AS d SET decoded = n.decoded FROM log, \
       unnest($14::integer[], $15::bigint[]) AS n (node, decoded) WHERE d.node = n.node) \
     SELECT first, next, pg_notify('rowhouse_changes', first || ' ' || next) FROM log";
const REMOVE_NODE: &str = "DELETE FROM rowhouse_change_nodes WHERE node = $1";
const END_LOG: &str = "UPDATE rowhouse_change_log SET is_ready = false WHERE name = $1";
/// Returns the end of the log of each node, and whether the node could be queried.
const ENDS: &str = "SELECT 0, (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint::text, true";
const ENDS_OF_NODES: &str = "SELECT n.groupid, r.result, r.success FROM run_command_on_all_nodes(\
     $$ SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint $$) AS r JOIN pg_dist_node AS n USING (nodeid)";

/// Decodes until the engine is closed, whenever no other server does.
pub(crate) async fn decode_changes(
    shared: Arc<PostgresState>,
    settings: Settings,
    orders: Arc<dyn Orders>,
    log: Arc<LogState>,
) {
    let mut reported = String::new();
    let decoding = Decoding { shared, settings, orders, log };
    loop {
        let ended = decoding.decode_if_free().await;
        decoding.log.set_decoding(false);
        match ended {
            Ok(()) => reported.clear(),
            Err(DecodeError::Closed) => return,
            Err(DecodeError::Database(error)) => {
                if error != reported {
                    tracing::warn!(error, "the change log cannot be decoded at the moment; this will be retried");
                }
                reported = error;
            }
            Err(DecodeError::Unorderable(Unorderable(reason))) => {
                tracing::warn!(reason, "the changes of several nodes cannot be put into order");
            }
        }
        sleep(jittered(CHECK_INTERVAL)).await;
    }
}

/// The log as this server last saw it.
struct Stored {
    name: String,
    next: i64,
    time: DateTime,
}

struct Decoding {
    shared: Arc<PostgresState>,
    settings: Settings,
    orders: Arc<dyn Orders>,
    log: Arc<LogState>,
}

impl Decoding {
    /// Returns without an error if another server decodes, or if the log must be read again.
    async fn decode_if_free(&self) -> Result<(), DecodeError> {
        let pool = &self.shared.pool;
        if !self.shared.hold_short_lease(CHANGES_LEASE).await? && !pool.read(LEASE, &[&CHANGES_LEASE]).await?.is_empty()
        {
            return Ok(());
        }
        let rows = match pool.read(LOG, &[]).await {
            Err(AttemptError::Fault(Fault::Closed)) => return Err(DecodeError::Closed),
            // The log may have been removed.
            rows => rows.unwrap_or_default(),
        };
        let Some(row) = rows.first() else { return self.prepare().await };
        let time = DateTime::from_ticks(column(row, 2)?).unwrap_or(DateTime::MIN);
        let stored = Stored { name: column(row, 0)?, next: column(row, 1)?, time };
        let ended = tokio::select! {
            ended = Box::pin(self.decode_log(stored, column(row, 3)?, column(row, 4)?)) => ended,
            () = self.keep_lease() => Ok(()),
            () = self.measure() => Ok(()),
        };
        if let Err(DecodeError::Unorderable(_)) = ended {
            let lease = pool.take().await?;
            read(&lease, END_LOG, &[&column::<String>(row, 0)?]).await?;
            lease.return_to_pool();
            self.prepare().await?;
        }
        ended
    }

    async fn prepare(&self) -> Result<(), DecodeError> {
        Ok(Box::pin(setup::prepare(&self.settings, &*self.orders, self.shared.names.is_distributed)).await?)
    }

    /// Returns when another server has the lease.
    async fn keep_lease(&self) {
        loop {
            sleep(RENEWAL).await;
            // The node that has the lease may be down, which does not prevent decoding.
            if let Ok(false) = self.shared.hold_short_lease(CHANGES_LEASE).await {
                tracing::info!("another server decodes the change log now");
                return;
            }
        }
    }

    /// Measures how much of the nodes' logs has not been decoded.
    async fn measure(&self) {
        let ends = if self.shared.names.is_distributed { ENDS_OF_NODES } else { ENDS };
        loop {
            sleep(MEASUREMENT).await;
            let Ok(rows) = self.shared.pool.read(ends, &[]).await else { continue };
            let end = |row: &Row| {
                let is_known = column::<bool>(row, 2).ok()?;
                let end = column::<&str>(row, 1).ok().filter(|_| is_known)?.parse().ok()?;
                Some((column(row, 0).ok()?, end))
            };
            self.log.note_ends(&rows.iter().filter_map(end).collect());
        }
    }

    async fn nodes(&self) -> Result<Vec<LogNode>, DecodeError> {
        let lease = self.shared.pool.take().await?;
        let nodes = timeout(NODES_TIME_MAX, self.orders.nodes(&lease, &self.settings)).await;
        let nodes = nodes.map_err(|_| DecodeError::Database("the database does not respond".to_owned()))??;
        lease.return_to_pool();
        Ok(nodes)
    }

    async fn decode_log(&self, stored: Stored, last_table: i64, state: &str) -> Result<(), DecodeError> {
        let pool = &self.shared.pool;
        let mut positions = BTreeMap::new();
        for row in pool.read(DECODED, &[]).await? {
            positions.insert(column::<i32>(&row, 0)?, column::<i64>(&row, 1)?.cast_unsigned());
        }
        let mut tables = HashMap::new();
        for row in pool.read(TABLES, &[]).await? {
            let scope = Scope { account: column(&row, 1)?, table: Some(column(&row, 2)?) };
            tables.insert(column::<i64>(&row, 0)?, Arc::new(scope));
        }
        let mut nodes = self.nodes().await?;
        nodes.retain(|node| positions.contains_key(&node.group));
        let (shared, settings, name) = (&self.shared, &self.settings, stored.name.as_str());
        let log = LogToOrder { shared, settings, name, state, nodes: &nodes, positions: &positions };
        let Some(order) = self.orders.order(log).await? else { return self.prepare().await };
        for group in positions.keys().copied().collect::<Vec<_>>() {
            if nodes.iter().any(|node| node.group == group) {
                continue;
            }
            pool.write(REMOVE_NODE, &[&group]).await?;
            positions.remove(&group);
            tracing::info!(group, "the log of a node that was removed is not decoded any more");
        }
        for has_slot in join_all(nodes.iter().map(|node| node.has_slot(&stored.name, true))).await {
            if !has_slot? {
                return self.prepare().await;
            }
        }
        let merger = Merger::new(&positions, Tables::new(tables, last_table));
        let streams = Streams::open(&nodes, &stored.name, &positions, self.orders.hash()).await?;
        self.log.note_decoded(positions);
        self.log.set_decoding(true);
        tracing::debug!(slot = stored.name, nodes = nodes.len(), "this server decodes the change log");
        let stall = (monotonic::now(), Vec::new(), false);
        Session { decoding: self, stored, merger, streams, order, stall }.run().await
    }
}

/// The work of a server from the time at which it begins to decode.
struct Session<'a> {
    decoding: &'a Decoding,
    stored: Stored,
    merger: Merger,
    streams: Streams,
    order: Box<dyn Order>,
    /// Since when the log has been at these positions although transactions wait, and whether that was logged.
    stall: (Instant, Vec<(i32, u64)>, bool),
}

impl Session<'_> {
    async fn run(&mut self) -> Result<(), DecodeError> {
        loop {
            let is_behind = self.streams.receive(&mut self.merger)?;
            let is_full = merge(&mut self.merger, &mut *self.order)?;
            let decoded = self.merger.take();
            let mut kept = None;
            if !decoded.transactions.is_empty() {
                kept = self.store(decoded).await?;
                if kept.is_none() {
                    // Another server has stored something.
                    return Ok(());
                }
            }
            self.order.note_stored(kept).await?;
            self.streams.confirm(&self.merger).await?;
            let progress = self.order.advance(&self.merger, &self.streams).await?;
            self.decoding.log.note_decoded(self.merger.positions().collect());
            match progress {
                Progress::NodesChanged => return Ok(()),
                Progress::Wait(limit) if !is_full && !is_behind => {
                    self.report_stall();
                    self.streams.wait(&self.merger, limit).await?;
                }
                Progress::Wait(_) | Progress::Again => {}
            }
        }
    }

    /// Logs for which nodes the log has been waiting for a while.
    fn report_stall(&mut self) {
        let positions: Vec<_> = self.merger.positions().collect();
        if self.merger.is_idle() || self.stall.1 != positions {
            self.stall = (monotonic::now(), positions, false);
        } else if self.stall.0.elapsed() >= STALL && !std::mem::replace(&mut self.stall.2, true) {
            let waits = self.order.describe(&self.merger);
            tracing::warn!(waits, "the change log waits for some nodes");
        }
    }

    /// Returns the positions of the log, or `None` if it is not as this server last saw it. Nothing is stored then.
    async fn store(&mut self, decoded: Decoded) -> Result<Option<KeptChanges>, DecodeError> {
        let stored = &mut self.stored;
        let (mut times, mut accounts, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let (mut changes, mut bytes): (Vec<&[u8]>, i64) = (Vec::new(), 0);
        for transaction in &decoded.transactions {
            // The clocks of servers differ, but the log is ordered by time.
            stored.time = stored.time.max(transaction.time);
            times.push(stored.time.ticks());
            accounts.push(transaction.scope.account.as_str());
            names.push(transaction.scope.table.as_deref());
            changes.push(&transaction.changes);
            bytes += ROW_BYTES + i64::try_from(transaction.changes.len()).unwrap_or(i64::MAX / 2);
        }
        let (mut created, mut created_accounts, mut created_names) = (Vec::new(), Vec::new(), Vec::new());
        let mut deleted = Vec::new();
        for (id, change) in &decoded.tables {
            match change {
                TableChange::Created(scope) => {
                    created.push(*id);
                    created_accounts.push(scope.account.as_str());
                    created_names.push(scope.table.as_deref());
                }
                TableChange::Deleted => deleted.push(*id),
            }
        }
        let (groups, positions): (Vec<i32>, Vec<i64>) =
            self.merger.positions().map(|(group, position)| (group, position.cast_signed())).unzip();
        let (next, time, last_table) = (stored.next, stored.time.ticks(), self.merger.tables().last);
        let values: [&(dyn ToSql + Sync); 15] = [
            &stored.name,
            &next,
            &times,
            &accounts,
            &names,
            &changes,
            &time,
            &last_table,
            &bytes,
            &created,
            &created_accounts,
            &created_names,
            &deleted,
            &groups,
            &positions,
        ];
        let lease = self.decoding.shared.pool.take().await?;
        let rows = read(&lease, STORE, &values).await?;
        lease.return_to_pool();
        let Some(row) = rows.first() else { return Ok(None) };
        let kept = KeptChanges {
            first: column::<i64>(row, 0)?.try_into().unwrap_or(0),
            next: column::<i64>(row, 1)?.try_into().unwrap_or(0),
        };
        self.decoding.log.note(kept);
        stored.next = column(row, 1)?;
        Ok(Some(kept))
    }
}
