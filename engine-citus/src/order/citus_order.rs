//! Learns from the coordinator which nodes there are and where the partitions are, while the logs are decoded.

use crate::hash::hash;
use crate::order::choice::{Choice, Needs, is_of_log, received};
use crate::order::placements::{Moves, Placement, Placements};
use async_trait::async_trait;
use engine::KeptChanges;
use engine::parts::monotonic;
use engine_postgres::StoreError;
use engine_postgres::parts::{
    COORDINATOR, DecodeError, LogNode, LogToOrder, Merger, Order, Orders, POLL, PostgresState, Progress,
    ReceivedChange, Session, Settings, Streams, Unorderable, add_slot,
};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

/// The interval at which the nodes and the placements are read while a change waits for that.
const POLL_NEEDED: Duration = Duration::from_millis(50);
const POLL_TIME_MAX: Duration = Duration::from_secs(10);
/// The maximum time in which nodes are marked.
const MARK_TIME_MAX: Duration = Duration::from_secs(10);
/// The maximum time for which a change may wait until its node is known to have the partition.
const UNKNOWN_MAX: Duration = Duration::from_mins(1);

/// Returns the nodes of a Citus cluster.
const NODES: &str = "SELECT groupid, nodename, nodeport, isactive FROM pg_dist_node \
     WHERE noderole = 'primary' ORDER BY groupid";
/// Returns the placements of the entities, each with the highest number of any placement and the number of placements
/// whose number is higher than `$1`.
const PLACEMENTS: &str = "SELECT s.shardminvalue, s.shardmaxvalue, p.groupid, p.placementid, \
       (SELECT max(placementid) FROM pg_dist_placement), \
       (SELECT count(*) FROM pg_dist_placement WHERE placementid > $1) \
     FROM pg_dist_shard AS s JOIN pg_dist_placement AS p USING (shardid) \
     WHERE s.logicalrelid = 'rowhouse_entities'::regclass AND p.shardstate = 1";
/// Announces positions, because the statement that stores them runs on any node.
const NOTIFY: &str = "SELECT pg_notify('rowhouse_changes', $1)";
const SAVE_PLACEMENTS: &str = "UPDATE rowhouse_change_log SET placements = $2 WHERE name = $1 AND placements = $3";
const ADD_NODE: &str = "INSERT INTO rowhouse_change_nodes (node, decoded) \
     SELECT $2::integer, $3::bigint FROM rowhouse_change_log WHERE name = $1 AND is_ready \
     ON CONFLICT (node) DO UPDATE SET decoded = excluded.decoded";

pub(crate) struct CitusOrders;

#[async_trait]
impl Orders for CitusOrders {
    async fn nodes(&self, client: &Client, settings: &Settings) -> Result<Vec<LogNode>, Error> {
        client.query(NODES, &[]).await?.iter().map(|row| node_from_row(row, settings)).collect()
    }

    /// Returns the placements of the entities.
    async fn begin(&self, client: &Client, settings: &Settings) -> Result<String, StoreError> {
        let error = |error| StoreError::from_postgres(&settings.place, &error);
        let rows = client.query(PLACEMENTS, &[&0_i64]).await.map_err(error)?;
        match placements_from_rows(&rows).map_err(error)? {
            Some((placements, _)) if !placements.has(COORDINATOR) => Ok(placements.to_text()),
            Some(_) => Err(StoreError::new(format!(
                "--keep-log is not supported while the Citus coordinator of the database {} has shards; move them to \
                 workers (citus_drain_node), or omit --keep-log",
                settings.place
            ))),
            None => Err(StoreError::new(format!(
                "--keep-log is not supported on Citus if shards have several copies; the database is {}",
                settings.place
            ))),
        }
    }

    async fn order(&self, log: LogToOrder<'_>) -> Result<Option<Box<dyn Order>>, DecodeError> {
        let Some(placements) = Placements::parse(log.state) else { return Ok(None) };
        let is_removed = |group: &i32| !log.nodes.iter().any(|node| node.group == *group);
        if log.positions.keys().any(|group| is_removed(group) && placements.has(*group)) {
            return Err(Unorderable("a node was removed before its log was decoded").into());
        }
        let coordinator = match log.nodes.iter().find(|node| node.group == COORDINATOR) {
            Some(node) => Some(Coordinator::open(node).await?),
            None => None,
        };
        Ok(Some(Box::new(CitusOrder {
            shared: Arc::clone(log.shared),
            settings: log.settings.clone(),
            name: log.name.to_owned(),
            stored: log.state.to_owned(),
            choice: Choice::new(Moves::new(placements)),
            needs: Needs::default(),
            coordinator,
            polled_at: None,
            unknown_since: None,
        })))
    }

    fn hash(&self) -> fn(&[u8]) -> i32 {
        hash
    }
}

/// The connection to the Citus coordinator. Only the coordinator gives a placement another number when a shard moves.
struct Coordinator(Session);

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

struct CitusOrder {
    shared: Arc<PostgresState>,
    settings: Settings,
    /// The name of the log.
    name: String,
    /// The placements as stored; without those that are still to be settled.
    stored: String,
    choice: Choice,
    /// What the last choice needed.
    needs: Needs,
    coordinator: Option<Coordinator>,
    polled_at: Option<Instant>,
    /// Since when a change waits until its node is known to have the partition.
    unknown_since: Option<Instant>,
}

#[async_trait]
impl Order for CitusOrder {
    fn next(&mut self, merger: &Merger) -> Result<Option<i32>, Unorderable> {
        let (next, needs) = self.choice.next(merger)?;
        self.needs = needs;
        Ok(next)
    }

    fn is_of_log(&self, group: i32, change: &ReceivedChange) -> bool {
        is_of_log(group, change)
    }

    /// Announces what was stored, and stores the placements when the log has passed all moves.
    async fn note_stored(&mut self, stored: Option<KeptChanges>) -> Result<(), DecodeError> {
        if let (Some(coordinator), Some(kept)) = (&self.coordinator, stored) {
            coordinator.query(NOTIFY, &[&format!("{} {}", kept.first, kept.next)]).await?;
        }
        let Some(placements) = self.choice.moves.take_unsaved() else { return Ok(()) };
        let text = placements.to_text();
        let saved = self.shared.pool.write(SAVE_PLACEMENTS, &[&self.name, &text, &self.stored]).await?;
        if saved == 0 {
            return Err(DecodeError::Database("another server has changed the log".to_owned()));
        }
        self.stored = text;
        Ok(())
    }

    async fn advance(&mut self, merger: &Merger, streams: &Streams) -> Result<Progress, DecodeError> {
        if self.needs.marks {
            self.mark_workers(merger, streams).await?;
            return Ok(Progress::Again);
        }
        if !self.needs.placements {
            self.unknown_since = None;
        } else if self.unknown_since.get_or_insert_with(monotonic::now).elapsed() >= UNKNOWN_MAX {
            return Err(Unorderable("a node sends changes of a partition that it does not have").into());
        }
        let interval = if self.needs.placements { POLL_NEEDED } else { POLL };
        if self.polled_at.is_none_or(|at| at.elapsed() >= interval) {
            return Ok(if self.poll(streams).await? { Progress::Again } else { Progress::NodesChanged });
        }
        Ok(Progress::Wait(interval))
    }

    fn describe(&self, merger: &Merger) -> String {
        self.choice.describe(merger)
    }
}

impl CitusOrder {
    /// Marks the logs of all workers, so that a change of the catalog follows what was acknowledged before.
    async fn mark_workers(&mut self, merger: &Merger, streams: &Streams) -> Result<(), DecodeError> {
        let received = received(merger);
        let workers = streams.nodes().filter(|node| node.group != COORDINATOR);
        let marked = join_all(workers.map(|node| async { Ok((node.group, mark(node).await?)) })).await;
        self.choice.set_marks(received, marked.into_iter().collect::<Result<_, DecodeError>>()?);
        Ok(())
    }

    /// Reads the nodes and the placements. Returns false if the set of nodes has changed.
    async fn poll(&mut self, streams: &Streams) -> Result<bool, DecodeError> {
        self.polled_at = Some(monotonic::now());
        let moves = &mut self.choice.moves;
        let Some(coordinator) = self.coordinator.as_ref().filter(|_| !moves.are_pending()) else { return Ok(true) };
        let rows = coordinator.query(NODES, &[]).await?;
        let nodes = rows.iter().map(|row| node_from_row(row, &self.settings)).collect::<Result<Vec<_>, _>>()?;
        let (read, added) = coordinator.placements(moves.placements().last).await?;
        let left = moves.left(&read, added)?;
        let known: Vec<i32> = streams.nodes().map(|node| node.group).collect();
        if let Some(new) = nodes.iter().find(|node| node.is_active && !known.contains(&node.group)) {
            self.add_node(new).await?;
            return Ok(false);
        }
        if !read.are_on(|group| group != COORDINATOR && known.contains(&group)) {
            return Err(Unorderable("a node received partitions before its log was decoded").into());
        }
        let mut marks = BTreeMap::new();
        for group in left {
            let node = streams.nodes().find(|node| node.group == group);
            let node = node
                .ok_or_else(|| DecodeError::Database("a node whose log is not decoded cannot be marked".to_owned()))?;
            marks.insert(group, mark(node).await?);
        }
        if !marks.is_empty() && !coordinator.placements(read.last).await?.0.is_same(&read) {
            return Ok(true);
        }
        moves.take(read, |group| marks.get(&group).copied())?;
        let is_over = |group: i32| !nodes.iter().any(|node| node.group == group) && !moves.placements().has(group);
        if let Some(gone) = streams.nodes().find(|node| moves.are_settled() && is_over(node.group)) {
            // The node does not belong to the cluster any more.
            if let Err(error) = gone.drop_slot(&self.name).await {
                let (slot, node) = (&self.name, &gone.settings.place);
                tracing::warn!(slot, node, %error, "the replication slot of a removed node could not be removed");
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// Creates a slot on a new node, which must not have had partitions before.
    async fn add_node(&self, node: &LogNode) -> Result<(), DecodeError> {
        let Some(coordinator) = &self.coordinator else { return Ok(()) };
        let begin = add_slot(node, &self.name).await?;
        let moves = &self.choice.moves;
        let (read, added) = coordinator.placements(moves.placements().last).await?;
        moves.left(&read, added)?;
        if read.has(node.group) {
            return Err(Unorderable("a node received partitions before its log was decoded").into());
        }
        self.shared.pool.write(ADD_NODE, &[&self.name, &node.group, &begin.cast_signed()]).await?;
        tracing::info!(node = node.settings.place, "the log of a new node is decoded");
        Ok(())
    }
}

/// Marks the log of a node.
async fn mark(node: &LogNode) -> Result<u64, DecodeError> {
    let marked = timeout(MARK_TIME_MAX, node.mark()).await;
    Ok(marked.map_err(|_| DecodeError::Database("a node does not respond".to_owned()))??)
}

/// Reads a row of [`NODES`].
fn node_from_row(row: &Row, settings: &Settings) -> Result<LogNode, Error> {
    let (host, port): (&str, i32) = (row.try_get(1)?, row.try_get(2)?);
    let settings = settings.of_node(host, u16::try_from(port).unwrap_or_default());
    Ok(LogNode { group: row.try_get(0)?, is_active: row.try_get(3)?, settings })
}

/// Reads the rows of [`PLACEMENTS`]. Returns the placements and the number of new ones, or `None` if the entities are
/// not distributed by hash with one copy of each shard.
fn placements_from_rows(rows: &[Row]) -> Result<Option<(Placements, i64)>, Error> {
    let (mut all, mut last, mut added) = (Vec::new(), 0, 0);
    for row in rows {
        let bound = |index| Ok(row.try_get::<_, Option<&str>>(index)?.and_then(|text| text.parse().ok()));
        let (Some(first), Some(end)) = (bound(0)?, bound(1)?) else { return Ok(None) };
        all.push(Placement { first, last: end, group: row.try_get(2)?, number: row.try_get(3)? });
        (last, added) = (row.try_get(4)?, row.try_get(5)?);
    }
    Ok(Placements::new(all, last).map(|placements| (placements, added)))
}
