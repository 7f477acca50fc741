//! Decodes the logs of the database's nodes into the change log, on one server at a time: the holder of a lease. It
//! reads a replication slot on each node (`streams`), and the transactions are merged (`merging`).
//!
//! A server that took over while the former one still stores what it decoded stores nothing twice: each step is stored
//! only if the log is as the server last saw it. Otherwise, the server starts again from what is stored.

use crate::changes::decode_error::DecodeError;
use crate::changes::merging::{COORDINATOR, Merger};
use crate::changes::nodes::{LogNode, NODES, PLACEMENTS, placements_from_rows};
use crate::changes::placements::{Moves, Placements, Unorderable};
use crate::changes::setup;
use crate::changes::streams::Streams;
use crate::changes::transactions::{Decoded, Scope, TableChange, Tables};
use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::rows::{column, read};
use crate::connections::settings::Settings;
use crate::log_state::LogState;
use crate::schema;
use crate::slot::CHANGES_LEASE;
use crate::state::PostgresState;
use crate::statements;
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
const LEASE_TIME_MAX: Duration = Duration::from_secs(2);
/// The interval at which the nodes and the placements are read, and the interval while a change waits for that.
const POLL: Duration = Duration::from_secs(1);
const POLL_NEEDED: Duration = Duration::from_millis(50);
const POLL_TIME_MAX: Duration = Duration::from_secs(10);
/// The maximum time in which nodes are marked.
const MARK_TIME_MAX: Duration = Duration::from_secs(10);
/// The maximum time for which a change may wait until its node is known to have the partition.
const UNKNOWN_MAX: Duration = Duration::from_mins(1);
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
/// Announces positions on Citus, where the statement that stores them runs on any node.
const NOTIFY: &str = "SELECT pg_notify('rowhouse_changes', $1)";
const SAVE_PLACEMENTS: &str = "UPDATE rowhouse_change_log SET placements = $2 WHERE name = $1 AND placements = $3";
const ADD_NODE: &str = "INSERT INTO rowhouse_change_nodes (node, decoded) \
     SELECT $2::integer, $3::bigint FROM rowhouse_change_log WHERE name = $1 AND is_ready \
     ON CONFLICT (node) DO UPDATE SET decoded = excluded.decoded";
const REMOVE_NODE: &str = "DELETE FROM rowhouse_change_nodes WHERE node = $1";
const END_LOG: &str = "UPDATE rowhouse_change_log SET is_ready = false WHERE name = $1";
/// Returns the end of the log of each node, and whether the node could be queried.
const ENDS: &str = "SELECT 0, (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint::text, true";
const ENDS_OF_NODES: &str = "SELECT n.groupid, r.result, r.success FROM run_command_on_all_nodes(\
     $$ SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint $$) AS r JOIN pg_dist_node AS n USING (nodeid)";

/// Decodes until the engine is closed, whenever no other server does.
pub(crate) async fn decode_changes(shared: Arc<PostgresState>, settings: Settings, log: Arc<LogState>) {
    let (mut reported, decoding) = (String::new(), Decoding { shared, settings, log });
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
    /// As stored; without those that are still to be settled.
    placements: String,
}

struct Decoding {
    shared: Arc<PostgresState>,
    settings: Settings,
    log: Arc<LogState>,
}

impl Decoding {
    fn is_distributed(&self) -> bool {
        self.shared.names.is_distributed
    }

    /// Returns without an error if another server decodes, or if the log must be read again.
    async fn decode_if_free(&self) -> Result<(), DecodeError> {
        let pool = &self.shared.pool;
        let lease: [&(dyn ToSql + Sync); 2] = [&CHANGES_LEASE, &self.shared.holder];
        let is_taken = !pool.read(statements::HOLD_SHORT_LEASE, &lease).await?.is_empty();
        if !is_taken && !pool.read(LEASE, &[&CHANGES_LEASE]).await?.is_empty() {
            return Ok(());
        }
        let rows = match pool.read(LOG, &[]).await {
            Err(AttemptError::Fault(Fault::Closed)) => return Err(DecodeError::Closed),
            // The log may have been removed.
            rows => rows.unwrap_or_default(),
        };
        let Some(row) = rows.first() else { return self.prepare().await };
        let time = DateTime::from_ticks(column(row, 2)?).unwrap_or(DateTime::MIN);
        let stored = Stored { name: column(row, 0)?, next: column(row, 1)?, time, placements: column(row, 4)? };
        let ended = tokio::select! {
            ended = Box::pin(self.decode_log(stored, column(row, 3)?)) => ended,
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
        Ok(Box::pin(setup::prepare(&self.settings, self.is_distributed())).await?)
    }

    /// Returns when another server has the lease.
    async fn keep_lease(&self) {
        let lease: [&(dyn ToSql + Sync); 2] = [&CHANGES_LEASE, &self.shared.holder];
        loop {
            sleep(RENEWAL).await;
            match timeout(LEASE_TIME_MAX, self.shared.pool.read(statements::HOLD_SHORT_LEASE, &lease)).await {
                Ok(Ok(rows)) if rows.is_empty() => {
                    tracing::info!("another server decodes the change log now");
                    return;
                }
                // The node that has the lease may be down, which does not prevent decoding.
                _ => {}
            }
        }
    }

    /// Measures how much of the nodes' logs has not been decoded.
    async fn measure(&self) {
        let ends = if self.is_distributed() { ENDS_OF_NODES } else { ENDS };
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
        if !self.is_distributed() {
            return Ok(vec![LogNode::only(&self.settings)]);
        }
        let rows = self.shared.pool.read(NODES, &[]).await?;
        Ok(rows.iter().map(|row| LogNode::from_row(row, &self.settings)).collect::<Result<_, _>>()?)
    }

    async fn decode_log(&self, stored: Stored, last_table: i64) -> Result<(), DecodeError> {
        let pool = &self.shared.pool;
        let moves = Placements::parse(&stored.placements).map(Moves::new);
        if moves.is_some() != self.is_distributed() {
            return self.prepare().await;
        }
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
        for group in positions.keys().copied().collect::<Vec<_>>() {
            if nodes.iter().any(|node| node.group == group) {
                continue;
            }
            if moves.as_ref().is_some_and(|moves| moves.placements().has(group)) {
                return Err(Unorderable("a node was removed before its log was decoded").into());
            }
            pool.write(REMOVE_NODE, &[&group]).await?;
            positions.remove(&group);
            tracing::info!(group, "the log of a node that was removed is not decoded any more");
        }
        nodes.retain(|node| positions.contains_key(&node.group));
        for has_slot in join_all(nodes.iter().map(|node| node.has_slot(&stored.name, true))).await {
            if !has_slot? {
                return self.prepare().await;
            }
        }
        let coordinator = match nodes.iter().find(|node| node.group == COORDINATOR) {
            Some(node) if self.is_distributed() => Some(Coordinator::open(node).await?),
            _ => None,
        };
        let merger = Merger::new(&positions, Tables::new(tables, last_table), moves);
        let streams = Streams::open(&nodes, &stored.name, &positions).await?;
        self.log.note_decoded(positions);
        self.log.set_decoding(true);
        tracing::debug!(slot = stored.name, nodes = nodes.len(), "this server decodes the change log");
        let (polled_at, unknown_since, stall) = (None, None, (monotonic::now(), Vec::new(), false));
        let mut session =
            Session { decoding: self, stored, merger, streams, coordinator, polled_at, unknown_since, stall };
        session.run().await
    }
}

/// The connection to the Citus coordinator. Only the coordinator gives a placement another number when a shard moves.
struct Coordinator(schema::opening::Session);

impl Coordinator {
    async fn open(node: &LogNode) -> Result<Self, DecodeError> {
        Ok(Self(node.session().await?))
    }

    async fn query(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DecodeError> {
        let rows = timeout(POLL_TIME_MAX, self.0.client.query(sql, values)).await;
        Ok(rows.map_err(|_| DecodeError::Database("the coordinator does not respond".to_owned()))??)
    }

    /// Returns the placements, and the number of those that are later than the last known one.
    async fn placements(&self, last: i64) -> Result<(Placements, i64), DecodeError> {
        placements_from_rows(&self.query(PLACEMENTS, &[&last]).await?)?
            .ok_or_else(|| DecodeError::Database("some shards of the entities have several copies".to_owned()))
    }
}

/// The work of a server from the time at which it begins to decode.
struct Session<'a> {
    decoding: &'a Decoding,
    stored: Stored,
    merger: Merger,
    streams: Streams,
    /// Missing if the database is not distributed.
    coordinator: Option<Coordinator>,
    polled_at: Option<Instant>,
    /// Since when a change waits until its node is known to have the partition.
    unknown_since: Option<Instant>,
    /// Since when the log has been at these positions although transactions wait, and whether that was logged.
    stall: (Instant, Vec<(i32, u64)>, bool),
}

impl Session<'_> {
    async fn run(&mut self) -> Result<(), DecodeError> {
        loop {
            let is_behind = self.streams.receive(&mut self.merger)?;
            let (needs, is_full) = self.merger.merge()?;
            let decoded = self.merger.take();
            if !decoded.transactions.is_empty() && !self.store(decoded).await? {
                // Another server has stored something.
                return Ok(());
            }
            self.save_placements().await?;
            self.streams.confirm(&self.merger).await?;
            if needs.marks {
                self.mark_all().await?;
                continue;
            }
            if !needs.placements {
                self.unknown_since = None;
            } else if self.unknown_since.get_or_insert_with(monotonic::now).elapsed() >= UNKNOWN_MAX {
                return Err(Unorderable("a node sends changes of a partition that it does not have").into());
            }
            let interval = if needs.placements { POLL_NEEDED } else { POLL };
            if self.polled_at.is_none_or(|at| at.elapsed() >= interval) {
                if !self.poll().await? {
                    return Ok(());
                }
                self.decoding.log.note_decoded(self.merger.positions().collect());
                continue;
            }
            self.decoding.log.note_decoded(self.merger.positions().collect());
            if !is_full && !is_behind {
                self.report_stall();
                self.streams.wait(&self.merger, interval).await?;
            }
        }
    }

    /// Logs for which nodes the log has been waiting for a while.
    fn report_stall(&mut self) {
        let positions: Vec<_> = self.merger.positions().collect();
        if self.merger.is_idle() || self.stall.1 != positions {
            self.stall = (monotonic::now(), positions, false);
        } else if self.stall.0.elapsed() >= STALL && !std::mem::replace(&mut self.stall.2, true) {
            let waits = self.merger.describe();
            tracing::warn!(waits, "the change log waits for some nodes");
        }
    }

    /// Marks the logs of all workers, so that a change of the catalog follows what was acknowledged before.
    async fn mark_all(&mut self) -> Result<(), DecodeError> {
        let received = self.merger.received();
        let marks = timeout(MARK_TIME_MAX, self.streams.mark_workers()).await;
        let marks = marks.map_err(|_| DecodeError::Database("a node does not respond".to_owned()))??;
        self.merger.set_marks(received, marks);
        Ok(())
    }

    /// Reads the nodes and the placements. Returns false if the set of nodes has changed.
    async fn poll(&mut self) -> Result<bool, DecodeError> {
        self.polled_at = Some(monotonic::now());
        let (Some(coordinator), Some(moves)) = (&self.coordinator, self.merger.moves()) else { return Ok(true) };
        if moves.are_pending() {
            return Ok(true);
        }
        let rows = coordinator.query(NODES, &[]).await?;
        let nodes = rows.iter().map(|row| LogNode::from_row(row, &self.decoding.settings));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let (read, added) = coordinator.placements(moves.placements().last).await?;
        let left = moves.left(&read, added)?;
        let known: Vec<i32> = self.streams.groups().collect();
        if let Some(new) = nodes.iter().find(|node| node.is_active && !known.contains(&node.group)) {
            self.add_node(new).await?;
            return Ok(false);
        }
        if !read.are_on(|group| group != COORDINATOR && known.contains(&group)) {
            return Err(Unorderable("a node received partitions before its log was decoded").into());
        }
        let mut marks = BTreeMap::new();
        for group in left {
            let marked = timeout(MARK_TIME_MAX, self.streams.mark(group)).await;
            let mark = marked.map_err(|_| DecodeError::Database("a node does not respond".to_owned()))??;
            marks.insert(group, mark);
        }
        if !marks.is_empty() && !coordinator.placements(read.last).await?.0.is_same(&read) {
            return Ok(true);
        }
        moves.take(read, |group| marks.get(&group).copied())?;
        let is_over = |group: i32| !nodes.iter().any(|node| node.group == group) && !moves.placements().has(group);
        if let Some(group) = known.into_iter().find(|group| moves.are_settled() && is_over(*group)) {
            self.streams.remove_slot(group, &self.stored.name).await;
            return Ok(false);
        }
        Ok(true)
    }

    /// Creates a slot on a new node, which must not have had partitions before.
    async fn add_node(&mut self, node: &LogNode) -> Result<(), DecodeError> {
        let (Some(coordinator), Some(moves)) = (&self.coordinator, self.merger.moves()) else { return Ok(()) };
        let name = &self.stored.name;
        node.drop_slot(name).await?;
        setup::check_requirements(node, true).await?;
        let mut stream = node.replication().await?;
        let (begin, _) = setup::create_slot(node, &mut stream, name).await?;
        let (read, added) = coordinator.placements(moves.placements().last).await?;
        moves.left(&read, added)?;
        if read.has(node.group) {
            return Err(Unorderable("a node received partitions before its log was decoded").into());
        }
        self.decoding.shared.pool.write(ADD_NODE, &[&name, &node.group, &begin.cast_signed()]).await?;
        tracing::info!(node = node.settings.place, "the log of a new node is decoded");
        Ok(())
    }

    /// Stores the placements when the log has passed all moves.
    async fn save_placements(&mut self) -> Result<(), DecodeError> {
        let Some(placements) = self.merger.moves().and_then(Moves::take_unsaved) else { return Ok(()) };
        let (text, before) = (placements.to_text(), &self.stored.placements);
        let saved = self.decoding.shared.pool.write(SAVE_PLACEMENTS, &[&self.stored.name, &text, before]).await?;
        if saved == 0 {
            return Err(DecodeError::Database("another server has changed the log".to_owned()));
        }
        self.stored.placements = text;
        Ok(())
    }

    /// Returns false if the log is not as this server last saw it. Nothing is stored then.
    async fn store(&mut self, decoded: Decoded) -> Result<bool, DecodeError> {
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
        let (next, time, last_table) = (stored.next, stored.time.ticks(), self.merger.last_table());
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
        let Some(row) = rows.first() else { return Ok(false) };
        let kept = KeptChanges {
            first: column::<i64>(row, 0)?.try_into().unwrap_or(0),
            next: column::<i64>(row, 1)?.try_into().unwrap_or(0),
        };
        self.decoding.log.note(kept);
        if let Some(coordinator) = &self.coordinator {
            coordinator.query(NOTIFY, &[&format!("{} {}", kept.first, kept.next)]).await?;
        }
        stored.next = column(row, 1)?;
        Ok(true)
    }
}
