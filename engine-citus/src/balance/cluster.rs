//! The load of a cluster: its nodes, its shards and its hottest partitions.

use crate::hash::hash;
use crate::heat::{BUCKET_WIDTH, Load, bucket_of, last_of};

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeLoad {
    /// The ID in `pg_dist_node`.
    pub(crate) id: i32,
    /// The group to which the shards belong.
    pub(crate) group: i32,
    /// The host and the port.
    pub(crate) name: String,
    /// Whether shards may be moved to the node.
    pub(crate) may_have_shards: bool,
}

/// A shard of the entities.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShardLoad {
    /// The ID of the shard.
    pub(crate) id: i64,
    /// The lowest hash.
    pub(crate) first: i32,
    /// The highest hash.
    pub(crate) last: i32,
    /// The group of the node that has the shard.
    pub(crate) group: i32,
    /// The load per second.
    pub(crate) load: Load,
}

/// The ID of a shard, its lowest and highest hash, and its group.
pub(crate) type Place = (i64, i32, i32, i32);

/// A partition with much load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HotPartition {
    /// The ID of the table and the encoded partition key, as stored.
    pub(crate) key: Vec<u8>,
    /// The estimated processor time per second.
    pub(crate) cost: f64,
}

/// The load of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClusterLoad {
    /// The nodes, including the coordinator.
    pub(crate) nodes: Vec<NodeLoad>,
    /// The shards in the order of their hashes.
    pub(crate) shards: Vec<ShardLoad>,
    /// The load of equal ranges of hashes.
    pub(crate) buckets: Vec<Load>,
    /// The same without the hottest partitions.
    others: Vec<Load>,
    /// The hashes and the loads of the hottest partitions.
    hottest: Vec<(i32, Load)>,
    /// The hottest partitions, the hottest one first.
    pub(crate) partitions: Vec<HotPartition>,
}

impl ShardLoad {
    /// Returns the place of the shard: its ID, its lowest and highest hash, and its group.
    pub(crate) fn place(&self) -> Place {
        (self.id, self.first, self.last, self.group)
    }

    /// Returns the estimated processor time per second.
    pub(crate) fn cost(&self) -> f64 {
        self.load.cost()
    }

    pub(crate) fn contains(&self, hash: i32) -> bool {
        (self.first..=self.last).contains(&hash)
    }
}

impl ClusterLoad {
    /// Distributes the load over the shards.
    pub(crate) fn new(
        nodes: Vec<NodeLoad>,
        shards: impl IntoIterator<Item = Place>,
        buckets: Vec<Load>,
        mut partitions: Vec<HotPartition>,
    ) -> Self {
        partitions.sort_by(|a, b| b.cost.total_cmp(&a.cost));
        let (mut others, mut hottest) = (buckets.clone(), Vec::new());
        for partition in &partitions {
            let hash = hash(&partition.key);
            let Some(others) = others.get_mut(bucket_of(hash)).filter(|others| others.cost() > 0.0) else { continue };
            let share = (partition.cost / others.cost()).min(1.0);
            hottest.push((hash, others.times(share)));
            *others = others.times(1.0 - share);
        }
        let mut cluster = Self { nodes, shards: Vec::new(), buckets, others, hottest, partitions };
        let load = |(id, first, last, group)| ShardLoad { id, first, last, group, load: cluster.load_in(first, last) };
        let mut shards: Vec<_> = shards.into_iter().map(load).collect();
        shards.sort_by_key(|shard| shard.first);
        cluster.shards = shards;
        cluster
    }

    /// Returns the load of a range of hashes. A part of a measured range has the load of its hottest partitions, and of
    /// the other load a share in proportion to its hashes.
    pub(crate) fn load_in(&self, first: i32, last: i32) -> Load {
        let mut load = Load::default();
        for (bucket, others) in self.others.iter().enumerate().take(bucket_of(last) + 1).skip(bucket_of(first)) {
            let end = f64::from(last_of(bucket)) + 1.0;
            let common = (f64::from(last) + 1.0).min(end) - f64::from(first).max(end - BUCKET_WIDTH);
            load.add(others.times(common / BUCKET_WIDTH));
        }
        let hottest = self.hottest.iter().filter(|(hash, _)| (first..=last).contains(hash));
        hottest.for_each(|(_, hottest)| load.add(*hottest));
        load
    }

    /// Returns the shards of a node.
    pub(crate) fn shards_of(&self, node: &NodeLoad) -> impl Iterator<Item = &ShardLoad> {
        let group = node.group;
        self.shards.iter().filter(move |shard| shard.group == group)
    }

    /// Returns the load of a node per second.
    pub(crate) fn load_of(&self, node: &NodeLoad) -> Load {
        let mut load = Load::default();
        self.shards_of(node).for_each(|shard| load.add(shard.load));
        load
    }

    /// Returns the estimated processor time of the hottest node that may have shards, per second.
    pub(crate) fn highest_cost(&self) -> f64 {
        let nodes = self.nodes.iter().filter(|node| node.may_have_shards);
        nodes.map(|node| self.cost_of(node)).fold(0.0, f64::max)
    }

    /// Returns the estimated processor time of a node per second.
    pub(crate) fn cost_of(&self, node: &NodeLoad) -> f64 {
        self.load_of(node).cost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat::BUCKETS;

    #[test]
    fn the_load_of_a_hot_partition_belongs_to_the_shard_that_contains_it() {
        let hot = hash(b"hot");
        let mut buckets = vec![Load::default(); BUCKETS];
        let reads = |reads| Load { reads, ..Load::default() };
        buckets[bucket_of(hot)] = reads(1000.0);
        let partitions = vec![HotPartition { key: b"hot".to_vec(), cost: reads(900.0).cost() }];
        let shards = [(1, i32::MIN, hot - 1, 1), (2, hot, hot, 1), (3, hot + 1, i32::MAX, 1)];
        let cluster = ClusterLoad::new(Vec::new(), shards, buckets, partitions);
        let loads: Vec<f64> = cluster.shards.iter().map(|shard| shard.load.reads).collect();
        assert!((899.9..900.1).contains(&loads[1]) && (loads.iter().sum::<f64>() - 1000.0).abs() < 0.001, "{loads:?}");
    }
}
