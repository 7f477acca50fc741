//! The load of a cluster: its nodes, its shards and its hottest partitions.

use crate::heat::load::Load;
use crate::heat::meter::{BUCKET_WIDTH, bucket_of, last_of};

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLoad {
    /// The ID in `pg_dist_node`.
    pub id: i32,
    /// The group to which the shards belong.
    pub group: i32,
    /// The host and the port.
    pub name: String,
    /// Whether shards may be moved to the node.
    pub may_have_shards: bool,
}

/// A shard of the entities.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardLoad {
    /// The ID of the shard.
    pub id: i64,
    /// The lowest hash.
    pub first: i32,
    /// The highest hash.
    pub last: i32,
    /// The group of the node that has the shard.
    pub group: i32,
    /// The load per second.
    pub load: Load,
}

/// A partition with much load.
#[derive(Debug, Clone, PartialEq)]
pub struct HotPartition {
    /// The ID of the table and the encoded partition key, as stored.
    pub(crate) key: Vec<u8>,
    /// The estimated processor time per second.
    pub cost: f64,
}

/// The load of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterLoad {
    /// The nodes, including the coordinator.
    pub nodes: Vec<NodeLoad>,
    /// The shards in the order of their hashes.
    pub shards: Vec<ShardLoad>,
    /// The load of equal ranges of hashes.
    pub(crate) buckets: Vec<Load>,
    /// The hottest partitions, the hottest one first.
    pub partitions: Vec<HotPartition>,
}

impl ShardLoad {
    /// Returns the estimated processor time per second.
    pub fn cost(&self) -> f64 {
        self.load.cost()
    }

    pub(crate) fn contains(&self, hash: i32) -> bool {
        (self.first..=self.last).contains(&hash)
    }
}

impl ClusterLoad {
    /// Distributes the load over the shards: the ID, the lowest and highest hash and the group of each. A measured
    /// range that belongs to several shards is divided in proportion to their hashes.
    pub(crate) fn new(
        nodes: Vec<NodeLoad>,
        shards: impl IntoIterator<Item = (i64, i32, i32, i32)>,
        buckets: Vec<Load>,
        mut partitions: Vec<HotPartition>,
    ) -> Self {
        let mut shards: Vec<_> = shards
            .into_iter()
            .map(|(id, first, last, group)| {
                let mut load = Load::default();
                for (bucket, of_bucket) in buckets.iter().enumerate().take(bucket_of(last) + 1).skip(bucket_of(first)) {
                    let end = f64::from(last_of(bucket)) + 1.0;
                    let common = (f64::from(last) + 1.0).min(end) - f64::from(first).max(end - BUCKET_WIDTH);
                    load.add(of_bucket.times(common / BUCKET_WIDTH));
                }
                ShardLoad { id, first, last, group, load }
            })
            .collect();
        shards.sort_by_key(|shard| shard.first);
        partitions.sort_by(|a, b| b.cost.total_cmp(&a.cost));
        Self { nodes, shards, buckets, partitions }
    }

    /// Returns the shards of a node.
    pub fn shards_of(&self, node: &NodeLoad) -> impl Iterator<Item = &ShardLoad> {
        let group = node.group;
        self.shards.iter().filter(move |shard| shard.group == group)
    }

    /// Returns the load of a node per second.
    pub fn load_of(&self, node: &NodeLoad) -> Load {
        let mut load = Load::default();
        self.shards_of(node).for_each(|shard| load.add(shard.load));
        load
    }

    /// Returns the estimated processor time of a node per second.
    pub(crate) fn cost_of(&self, node: &NodeLoad) -> f64 {
        self.load_of(node).cost()
    }
}
