//! Connections to the nodes of the database.
//!
//! A URL usually leads to a single server that accepts writes, which this module treats as one node. With
//! `load_balance_hosts=random`, each of its hosts is a node that accepts any request, as Citus nodes do. A request for
//! one partition then goes to the node that stores the partition, provided that the node is known and responds. Nodes
//! with shards that the URL omits are added by the crate that knows the routes.
//!
//! Invariants beyond those of [`crate::connections::node`]:
//!
//! 1. The number of open connections to the nodes of the URL is at most the value of `--store-connections`, rounded up
//!    so that every node has the same number and at least one. An added node has the same number.
//! 2. Requests that must be forwarded to an unresponsive node use at most a quarter of the connections. These requests
//!    may wait until they time out, while requests that other nodes can serve themselves must continue.
//! 3. Connections to several nodes are always taken in the order of the nodes, so no two requests wait for each other.

use crate::connections::attempt::AttemptError;
use crate::connections::counts::{PostgresCounts, RetryReason};
use crate::connections::dialect::Dialect;
pub(crate) use crate::connections::node::Lease;
use crate::connections::node::Node;
use crate::connections::routes::{Routes, Shards};
use crate::connections::rows::{read, write};
use crate::connections::settings::Settings;
use engine::Fault;
use futures_util::future::join_all;
use parking_lot::RwLock;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The connections to all nodes.
pub struct Pool {
    settings: Settings,
    dialect: Dialect,
    /// The maximum number of connections to each node.
    connections_of_each: usize,
    /// The nodes of the URL, followed by those that were added.
    nodes: RwLock<Arc<[Arc<Node>]>>,
    routes: Arc<dyn Routes>,
    has_equal_nodes: bool,
    /// One permit for each connection that may wait for an unresponsive node.
    forward_permits: Arc<Semaphore>,
    pub(crate) counts: Arc<PostgresCounts>,
}

impl Pool {
    /// Connections are opened as needed.
    pub(crate) fn new(settings: &Settings, dialect: Dialect, connections_max: usize, routes: Arc<dyn Routes>) -> Self {
        let each = connections_max.div_ceil(settings.nodes.len().max(1)).max(1);
        let nodes = settings.nodes.iter().map(|node| Arc::new(Node::new(settings, node, dialect, each)));
        Self {
            settings: settings.clone(),
            dialect,
            connections_of_each: each,
            nodes: RwLock::new(nodes.collect()),
            routes,
            has_equal_nodes: settings.has_equal_nodes,
            forward_permits: Arc::new(Semaphore::new((connections_max / 4).max(1))),
            counts: Arc::new(PostgresCounts::new()),
        }
    }

    /// Returns the nodes of the URL, followed by those that were added.
    pub fn nodes(&self) -> Arc<[Arc<Node>]> {
        Arc::clone(&self.nodes.read())
    }

    /// Returns the nodes of the URL.
    pub fn url_nodes(&self) -> Vec<Arc<Node>> {
        self.nodes().iter().take(self.settings.nodes.len()).cloned().collect()
    }

    /// If there is only one node, it is not checked regularly.
    pub(crate) fn nodes_to_watch(&self) -> impl Iterator<Item = Arc<Node>> {
        self.url_nodes().into_iter().filter(|_| self.has_equal_nodes)
    }

    /// Creates a node that the URL omits. It gets no requests until [`Pool::set_added`] is called.
    pub fn node_at(&self, host: &str, port: u16) -> Arc<Node> {
        let node = self.settings.node_at(host, port);
        Arc::new(Node::new(&self.settings, &node, self.dialect, self.connections_of_each))
    }

    /// Replaces the nodes that are not in the URL.
    pub fn set_added(&self, added: impl IntoIterator<Item = Arc<Node>>) {
        let nodes = self.url_nodes().into_iter().chain(added).collect();
        *self.nodes.write() = nodes;
    }

    pub(crate) async fn explore(&self) {
        if self.has_equal_nodes {
            let nodes = self.nodes();
            for (node, checked) in nodes.iter().zip(join_all(nodes.iter().map(|node| node.check())).await) {
                if let Err(what) = checked {
                    tracing::warn!(
                        node = node.name(),
                        what,
                        "a database node does not respond; its requests go to other nodes"
                    );
                }
            }
        }
        if let Err(trouble) = self.refresh_routes().await {
            tracing::debug!(?trouble, "the shards could not be read");
        }
    }

    /// If all connections to the node are in use, waits for one.
    pub async fn take(&self) -> Result<Lease, AttemptError> {
        self.any_node()?.take().await
    }

    /// Runs a read-only statement on a connection to any node.
    pub async fn read(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, AttemptError> {
        let lease = self.take().await?;
        let rows = read(&lease, sql, values).await?;
        lease.return_to_pool();
        Ok(rows)
    }

    /// Runs a write statement that is a transaction by itself on a connection to any node. Returns the number of
    /// changed rows.
    pub async fn write(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, AttemptError> {
        let lease = self.take().await?;
        let changed = write(&lease, sql, values).await?;
        lease.return_to_pool();
        Ok(changed)
    }

    /// Takes a connection to the node that stores the partition, or to any node if that node is unknown or does not
    /// respond.
    pub async fn take_for(&self, partition: &[u8]) -> Result<Lease, AttemptError> {
        let lease = match self.routes.group_of(partition) {
            None => self.take().await?,
            Some(group) => match self.node_of(group) {
                Some(node) => node.take().await?,
                None => self.take_to_forward([group]).await?,
            },
        };
        Ok(lease.with_meter(self.routes.measure(partition)))
    }

    /// Takes a connection to any node, for statements that span partitions.
    pub(crate) async fn take_for_all(&self) -> Result<Lease, AttemptError> {
        match self.routes.shards() {
            Some(shards) => self.take_to_forward(shards.keys().copied()).await,
            None => self.take().await,
        }
    }

    /// The node forwards the statements to the given groups.
    async fn take_to_forward(&self, groups: impl IntoIterator<Item = i32>) -> Result<Lease, AttemptError> {
        let nodes = self.nodes();
        // A node to which this server never had a connection does not count as unreachable.
        let is_silent = |group| nodes.iter().any(|node| node.is_of(group)) && self.node_of(group).is_none();
        if !groups.into_iter().any(is_silent) {
            return self.take().await;
        }
        let permit = Arc::clone(&self.forward_permits).try_acquire_owned();
        let permit =
            permit.map_err(|_| AttemptError::retry(RetryReason::Connection, "a database node does not respond"))?;
        Ok(self.take().await?.with_permit(permit))
    }

    /// Takes a connection to one node of each group that has shards, in the order of the nodes, and returns each with
    /// its group. Returns `None` if, for some group, no node is known or none responds.
    pub async fn take_for_shards(&self, shards: &Shards) -> Result<Option<Vec<(Lease, i32)>>, AttemptError> {
        let nodes = self.nodes();
        let mut chosen = Vec::new();
        for group in shards.keys().copied() {
            let Some(at) = nodes.iter().position(|node| node.is_of(group) && node.is_up()) else {
                return Ok(None);
            };
            chosen.push((at, group));
        }
        chosen.sort_unstable();
        let leases = take_all(chosen.iter().filter_map(|(at, _)| nodes.get(*at))).await?;
        Ok(Some(leases.into_iter().zip(chosen).map(|(lease, (_, group))| (lease, group)).collect()))
    }

    /// Prefers the nodes of the URL, because an added one may soon leave the cluster. If no node is known to respond,
    /// tries one of the URL: the request then detects as soon as a check would that the node responds again.
    fn any_node(&self) -> Result<Arc<Node>, AttemptError> {
        let nodes = self.nodes();
        let (of_url, added) = nodes.split_at(self.settings.nodes.len().min(nodes.len()));
        let is_up = |node: &&Arc<Node>| node.is_up();
        random(of_url.iter().filter(is_up))
            .or_else(|| random(added.iter().filter(is_up)))
            .or_else(|| random(of_url.iter()))
            .ok_or_else(|| AttemptError::Fault(Fault::Closed))
    }

    fn node_of(&self, group: i32) -> Option<Arc<Node>> {
        self.nodes().iter().find(|node| node.is_of(group) && node.is_up()).cloned()
    }

    /// Returns the shards of each group of nodes, if the database is distributed and there is a choice of nodes.
    pub fn shards(&self) -> Option<Arc<Shards>> {
        self.routes.shards()
    }

    /// Reads the places of the partitions again.
    pub async fn refresh_routes(&self) -> Result<(), AttemptError> {
        if let Some(query) = self.routes.query() {
            self.routes.learn(&self.read(query, &[]).await?);
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        for node in &*self.nodes() {
            node.close();
        }
    }
}

fn random<'n>(nodes: impl Iterator<Item = &'n Arc<Node>> + Clone) -> Option<Arc<Node>> {
    let count = nodes.clone().count();
    nodes.map(Arc::clone).nth(fastrand::usize(..count.max(1)))
}

/// The connections are taken in the given order.
async fn take_all(nodes: impl Iterator<Item = &Arc<Node>>) -> Result<Vec<Lease>, AttemptError> {
    let mut leases = Vec::new();
    for node in nodes {
        match node.take().await {
            Ok(lease) => leases.push(lease),
            Err(trouble) => {
                leases.into_iter().for_each(Lease::return_to_pool);
                return Err(trouble);
            }
        }
    }
    Ok(leases)
}
