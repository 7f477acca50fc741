//! Maps partitions to the nodes of a Citus cluster.
//!
//! Citus distributes the partitions over shards by a hash of the column `partition`. Each shard has a range of hashes
//! and is stored by a group of nodes. Every node of the cluster has this map. This module caches the map in memory, and
//! the map is reloaded at intervals. An outdated map does little harm, because any node forwards a statement to the
//! node that has the shard. Therefore, only speed may depend on the map. A scan that reads shards directly checks their
//! locations again; see `scan`.
//!
//! This module must not depend on connections.

use crate::hash::{HashRange, HashRanges};
use std::collections::BTreeSet;

/// Returns the shards of the entities table: the ID, the lowest and highest hash and the group of each shard.
pub(crate) const SHARDS: &str = "SELECT s.shardid, s.shardminvalue, s.shardmaxvalue, p.groupid \
     FROM pg_dist_shard s JOIN pg_dist_placement p ON p.shardid = s.shardid \
     WHERE s.logicalrelid = 'rowhouse_entities'::regclass AND p.shardstate = 1";
pub(crate) const OWN_SHARDS: &str = "SELECT array_agg(s.shardid ORDER BY s.shardid) \
     FROM pg_dist_shard s JOIN pg_dist_placement p ON p.shardid = s.shardid \
     WHERE s.logicalrelid = 'rowhouse_entities'::regclass AND p.shardstate = 1 \
     AND p.groupid = (SELECT groupid FROM pg_dist_local_group)";
/// Returns no row if the node was never part of a cluster.
pub(crate) const OWN_GROUP: &str = "SELECT groupid FROM pg_dist_local_group \
     WHERE EXISTS (SELECT FROM pg_dist_node WHERE pg_dist_node.groupid = pg_dist_local_group.groupid)";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) first: i32,
    pub(crate) last: i32,
    pub(crate) id: i64,
    /// The group of nodes that stores the shard: a worker, and perhaps its standby.
    pub(crate) group: i32,
}

impl HashRange for Shard {
    fn first(&self) -> i32 {
        self.first
    }

    fn last(&self) -> i32 {
        self.last
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShardMap {
    shards: HashRanges<Shard>,
}

impl ShardMap {
    /// Creates a map. Returns `None` unless every hash belongs to exactly one of the shards: the table may not be
    /// distributed by hash, or a shard may have several copies.
    pub(crate) fn new(shards: Vec<Shard>) -> Option<Self> {
        Some(Self { shards: HashRanges::new(shards)? })
    }

    /// Returns the group that stores the partitions with a hash.
    pub(crate) fn group_of(&self, hash: i32) -> Option<i32> {
        self.shards.at(hash).map(|shard| shard.group)
    }

    pub(crate) fn groups(&self) -> BTreeSet<i32> {
        self.shards.iter().map(|shard| shard.group).collect()
    }

    /// Returns the IDs of the shards of a group, in ascending order.
    pub(crate) fn shards_of(&self, group: i32) -> Vec<i64> {
        let mut ids: Vec<i64> = self.shards.iter().filter(|shard| shard.group == group).map(|shard| shard.id).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;

    fn shard(id: i64, first: i32, last: i32, group: i32) -> Shard {
        Shard { first, last, id, group }
    }

    #[test]
    fn every_hash_belongs_to_one_shard() {
        let shards = vec![shard(7, 0, 9, 1), shard(9, 10, i32::MAX, 1), shard(8, i32::MIN, -1, 2)];
        let map = ShardMap::new(shards.clone()).unwrap();
        assert_eq!(map.groups(), BTreeSet::from([1, 2]));
        assert_eq!((map.shards_of(1), map.shards_of(2), map.shards_of(3)), (vec![7, 9], vec![8], vec![]));
        // The hash of an empty string is negative, and the hash of the byte 3 is positive.
        assert_eq!((map.group_of(hash(b"")), map.group_of(hash(b"\x03"))), (Some(2), Some(1)));
        for missing in 0..shards.len() {
            let mut less = shards.clone();
            less.remove(missing);
            assert_eq!(ShardMap::new(less), None);
            let mut twice = shards.clone();
            twice.push(Shard { group: 3, ..shards[missing] });
            assert_eq!(ShardMap::new(twice), None, "a shard with two copies");
        }
        assert_eq!(ShardMap::new(Vec::new()), None);
    }
}
