//! Connections to the nodes of the database.
//!
//! An address usually leads to one server that takes writes, which is one node here. With `load_balance_hosts=random` each of
//! its hosts is a node that takes any request, as those of Citus do, and a request that is about one partition goes to the
//! node that has it, as far as that is known and the node answers.
//!
//! Invariants beyond those of [`super::node`]:
//!
//! 1. No more connections are open than `--store-connections` allows, rounded up so that each node has as many as the others,
//!    and at least one.
//! 2. What other nodes are to forward to one that does not answer has a quarter of the connections at most: it may wait there until
//!    its time is over, and what they can do themselves must go on.
//! 3. Whoever takes connections of several nodes takes them in the order of the nodes, so no two wait for each other.

use super::attempt::{Trouble, jittered, random_below};
use super::catalog::{column, read};
use super::counts::{PostgresCounts, Retry};
use super::dialect::Dialect;
pub(super) use super::node::Lease;
use super::node::Node;
use super::settings::Settings;
use super::shard_map::{self, Shard, ShardMap};
use super::state::PostgresState;
use crate::engine::Fault;
use futures_util::future::join_all;
use model::Clock;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How often it is read where partitions are.
const SHARDS_REFRESH: Duration = Duration::from_secs(5);

pub(super) struct Pool {
    nodes: Vec<Arc<Node>>,
    /// Where partitions are, if the database distributes them and there is a choice of nodes.
    shards: RwLock<Option<Arc<ShardMap>>>,
    has_shards: bool,
    has_equal_nodes: bool,
    /// One for each connection that may wait for a node which does not answer.
    forwards: Arc<Semaphore>,
    pub(super) counts: Arc<PostgresCounts>,
}

impl Pool {
    /// A pool without connections; they are opened as they are needed.
    pub(super) fn new(settings: &Settings, dialect: Dialect, connections_max: usize) -> Self {
        let each = connections_max.div_ceil(settings.nodes.len().max(1)).max(1);
        let nodes = settings.nodes.iter().map(|node| Arc::new(Node::new(settings, node, dialect, each)));
        Self {
            nodes: nodes.collect(),
            shards: RwLock::default(),
            has_shards: dialect == Dialect::Citus && settings.has_equal_nodes,
            has_equal_nodes: settings.has_equal_nodes,
            forwards: Arc::new(Semaphore::new((connections_max / 4).max(1))),
            counts: Arc::new(PostgresCounts::new()),
        }
    }

    /// The nodes of the address.
    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// The nodes that must be watched: those that have others beside them.
    pub(super) fn nodes_to_watch(&self) -> impl Iterator<Item = Arc<Node>> {
        self.nodes.iter().filter(|_| self.has_equal_nodes).map(Arc::clone)
    }

    /// Finds out which nodes answer, and what each of them has.
    pub(super) async fn explore(&self) {
        if self.has_equal_nodes {
            for (node, checked) in self.nodes.iter().zip(join_all(self.nodes.iter().map(|node| node.check())).await) {
                if let Err(what) = checked {
                    tracing::warn!(
                        node = node.name(),
                        what,
                        "a node of the database does not answer; other nodes get its requests"
                    );
                }
            }
        }
        if let Err(trouble) = self.refresh_shards().await {
            tracing::debug!(?trouble, "the shards could not be read");
        }
    }

    /// Takes a connection to any node; waits for one if all of that node are taken.
    pub(super) async fn take(&self) -> Result<Lease, Trouble> {
        self.any_node()?.take().await
    }

    /// Takes a connection to the node that has a partition, or to any if that is not known or does not answer.
    pub(super) async fn take_for(&self, partition: &[u8]) -> Result<Lease, Trouble> {
        let Some(group) = self.shards().and_then(|shards| shards.group_of(partition)) else { return self.take().await };
        match self.node_of(group) {
            Some(node) => node.take().await,
            None => self.take_to_forward([group]).await,
        }
    }

    /// Takes a connection to any node, for statements about any partitions.
    pub(super) async fn take_for_all(&self) -> Result<Lease, Trouble> {
        match self.shards() {
            Some(shards) => self.take_to_forward(shards.groups()).await,
            None => self.take().await,
        }
    }

    /// Takes a connection to any node, for statements that it forwards to these groups.
    async fn take_to_forward(&self, groups: impl IntoIterator<Item = i32>) -> Result<Lease, Trouble> {
        // Nodes that the address does not name are none that do not answer.
        let is_silent = |group| self.nodes.iter().any(|node| node.is_of(group)) && self.node_of(group).is_none();
        if !groups.into_iter().any(is_silent) {
            return self.take().await;
        }
        let permit = Arc::clone(&self.forwards).try_acquire_owned();
        let permit = permit.map_err(|_| Trouble::again(Retry::Connection, "a node of the database does not answer"))?;
        Ok(self.take().await?.with_permit(permit))
    }

    /// Takes a connection to one node of each group that has shards, in the order of the nodes; beside it is the group. `None` if
    /// the address names no node of a group, or none that answers.
    pub(super) async fn take_for_shards(&self, shards: &ShardMap) -> Result<Option<Vec<(Lease, i32)>>, Trouble> {
        let mut chosen = Vec::new();
        for group in shards.groups() {
            let Some(at) = self.nodes.iter().position(|node| node.is_of(group) && node.is_up()) else {
                return Ok(None);
            };
            chosen.push((at, group));
        }
        chosen.sort_unstable();
        let leases = take_all(chosen.iter().filter_map(|(at, _)| self.nodes.get(*at))).await?;
        Ok(Some(leases.into_iter().zip(chosen).map(|(lease, (_, group))| (lease, group)).collect()))
    }

    /// A node that answers, of several at random.
    fn any_node(&self) -> Result<&Arc<Node>, Trouble> {
        let up: Vec<_> = match self.nodes.as_slice() {
            [_one] => Vec::new(),
            nodes => nodes.iter().filter(|node| node.is_up()).collect(),
        };
        // If none answers, a request finds out as early as a check whether one does again.
        let node = up.get(random_below(up.len())).copied().or_else(|| self.nodes.get(random_below(self.nodes.len())));
        node.ok_or_else(|| Trouble::Fault(Fault::Closed))
    }

    /// A node of a group that answers.
    fn node_of(&self, group: i32) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| node.is_of(group) && node.is_up())
    }

    /// Where partitions are, as far as it is known.
    pub(super) fn shards(&self) -> Option<Arc<ShardMap>> {
        self.shards.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads again where partitions are.
    pub(super) async fn refresh_shards(&self) -> Result<(), Trouble> {
        if !self.has_shards {
            return Ok(());
        }
        let lease = self.take().await?;
        let rows = read(&lease, shard_map::SHARDS, &[]).await?;
        lease.give_back();
        let shard = |row| {
            // Shards of a table that is not distributed by hash have no bounds.
            let bound = |index| column::<Option<&str>>(row, index).ok()??.parse().ok();
            Some(Shard { id: column(row, 0).ok()?, first: bound(1)?, last: bound(2)?, group: column(row, 3).ok()? })
        };
        let map = rows.iter().map(shard).collect::<Option<Vec<_>>>().and_then(ShardMap::new);
        let mut known = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() != map.as_ref() {
            tracing::debug!(?map, "the shards are elsewhere now");
            *known = map.map(Arc::new);
        }
        Ok(())
    }

    /// Closes the connections that are not in use, and the others when they are given back.
    pub(super) fn close(&self) {
        for node in &self.nodes {
            node.close();
        }
    }
}

/// Takes a connection to each of these nodes, in this order.
async fn take_all(nodes: impl Iterator<Item = &Arc<Node>>) -> Result<Vec<Lease>, Trouble> {
    let mut leases = Vec::new();
    for node in nodes {
        match node.take().await {
            Ok(lease) => leases.push(lease),
            Err(trouble) => {
                leases.into_iter().for_each(Lease::give_back);
                return Err(trouble);
            }
        }
    }
    Ok(leases)
}

/// Reads again and again where partitions are, until the engine is closed.
pub(super) async fn refresh_shards_at_intervals<C: Clock>(shared: Arc<PostgresState<C>>) {
    loop {
        tokio::time::sleep(jittered(SHARDS_REFRESH)).await;
        if let Err(trouble) = shared.pool.refresh_shards().await {
            // What was read before stays in use; it costs nothing but speed.
            tracing::debug!(?trouble, "the shards could not be read");
        }
    }
}
