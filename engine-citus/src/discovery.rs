//! Connects to nodes that store shards but are not in the URL: workers that were added to the cluster, and standbys
//! that replaced a worker.
//!
//! Invariants:
//!
//! 1. A node gets requests only after it has shown that it belongs to this cluster: it must find this server's lease.
//!    The address by which Citus knows a node, such as `localhost`, may lead this server to another database.
//! 2. A group has an added node only while none of its nodes in the URL responds.

use engine::Fault;
use engine_postgres::parts::{AttemptError, Node, PostgresState, column, jittered, no_response, read};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_postgres::Row;

const INTERVAL: Duration = Duration::from_secs(5);
const PROOF_TIME_MAX: Duration = Duration::from_secs(2);

const NODES: &str = "SELECT groupid, nodename, nodeport FROM pg_dist_node \
     WHERE noderole = 'primary' AND isactive AND hasmetadata AND metadatasynced";
/// Returns a row if the server `$2` holds the lease `$1`.
const LEASE: &str = "SELECT 1 FROM rowhouse_leases WHERE number = $1 AND holder = $2";

/// The reason why a node that responds is not used.
pub(crate) const NOT_OF_THIS_CLUSTER: &str = "its address leads to a database that does not belong to this cluster";

/// A node of the cluster, at the address by which Citus knows it.
pub(crate) struct Address {
    pub(crate) group: i32,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Reads a row of [`NODES`].
    fn from_row(row: &Row) -> Result<Self, Fault> {
        let port = u16::try_from(column::<i32>(row, 2)?).unwrap_or_default();
        Ok(Self { group: column(row, 0)?, host: column(row, 1)?, port })
    }

    fn is_of(&self, node: &Node) -> bool {
        node.is_of(self.group) && node.name() == self.name()
    }

    fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

struct AddedNode {
    node: Arc<Node>,
    watcher: AbortHandle,
}

#[derive(Default)]
struct AddedNodes {
    nodes: Vec<AddedNode>,
    watchers: JoinSet<()>,
    /// The names of the nodes that were reported as unusable.
    reported: BTreeSet<String>,
}

/// Adds nodes, and removes those that are no longer needed, until the engine is closed.
pub(crate) async fn add_nodes_at_intervals(shared: Arc<PostgresState>) {
    let mut added = AddedNodes::default();
    loop {
        tokio::time::sleep(jittered(INTERVAL)).await;
        if let Err(trouble) = added.update(&shared).await {
            tracing::debug!(?trouble, "the nodes of the cluster could not be read");
        }
    }
}

impl AddedNodes {
    async fn update(&mut self, shared: &PostgresState) -> Result<(), AttemptError> {
        let missing = missing_nodes(shared).await?;
        self.nodes.retain(|added| {
            let is_needed = missing.iter().any(|address| address.is_of(&added.node));
            if !is_needed {
                tracing::info!(node = added.node.name(), "a database node that is not in the URL is no longer used");
                added.watcher.abort();
            }
            is_needed
        });
        let new = missing.iter().filter(|address| !self.nodes.iter().any(|added| address.is_of(&added.node)));
        let connected = new.map(async |address| (address, connect(shared, shared.slot_number(), address).await));
        for (address, connected) in join_all(connected).await {
            match connected {
                Ok(node) => {
                    tracing::info!(node = node.name(), "a database node that is not in the URL is used from now on");
                    self.reported.remove(node.name());
                    let watcher = self.watchers.spawn(Arc::clone(&node).watch());
                    self.nodes.push(AddedNode { node, watcher });
                }
                Err(what) => {
                    if self.reported.insert(address.name()) {
                        tracing::warn!(
                            node = address.name(),
                            what,
                            "a database node with shards is not in the URL and cannot be used; its requests go to other \
                             nodes"
                        );
                    }
                }
            }
        }
        shared.pool.set_added(self.nodes.iter().map(|added| Arc::clone(&added.node)));
        Ok(())
    }
}

/// Returns the nodes with shards whose groups have no node in the URL that responds.
async fn missing_nodes(shared: &PostgresState) -> Result<Vec<Address>, AttemptError> {
    let url_nodes = shared.pool.url_nodes();
    let is_served = |group: &i32| url_nodes.iter().any(|node| node.is_of(*group) && node.is_up());
    let groups = shared.pool.shards().map(|shards| shards.keys().copied().collect::<BTreeSet<_>>());
    let mut groups = groups.unwrap_or_default();
    groups.retain(|group| !is_served(group));
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let rows = shared.pool.read(NODES, &[]).await?;
    let mut missing = rows.iter().map(Address::from_row).collect::<Result<Vec<_>, _>>().map_err(AttemptError::Fault)?;
    missing.retain(|address| {
        groups.contains(&address.group) && url_nodes.iter().all(|node| node.name() != address.name())
    });
    Ok(missing)
}

/// Returns the node at an address if it responds and belongs to this cluster. `number` is the slot of this server.
pub(crate) async fn connect(
    shared: &PostgresState,
    number: Option<i16>,
    address: &Address,
) -> Result<Arc<Node>, String> {
    let node = shared.pool.node_at(&address.host, address.port);
    node.check().await?;
    let number = number.ok_or("this server has no lease yet")?;
    let proof = async {
        let lease = node.take().await?;
        let rows = read(&lease, LEASE, &[&number, &shared.holder]).await?;
        lease.return_to_pool();
        Ok(rows)
    };
    match timeout(PROOF_TIME_MAX, proof).await.unwrap_or_else(|_| Err(no_response())) {
        Ok(rows) if node.is_of(address.group) && !rows.is_empty() => Ok(node),
        Ok(_) => Err(NOT_OF_THIS_CLUSTER.to_owned()),
        Err(trouble) => Err(format!("{trouble:?}")),
    }
}
