//! The routes of a Citus cluster: the node that stores a partition, and the load that a request to it causes.

use crate::hash::{HashRange, HashRanges, hash};
use crate::heat::Meter;
use engine_postgres::parts::{PostgresState, RequestMeter, Routes, Shards, column, jittered};
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Row;

/// The interval between two refreshes of the partitions' locations.
const REFRESH: Duration = Duration::from_secs(5);

pub(crate) struct CitusRoutes {
    /// The locations of partitions, if the database distributes them and there is a choice of nodes.
    shards: RwLock<Option<Arc<ShardMap>>>,
    has_choice: bool,
    /// Measures the load of the partitions, if it is to be balanced.
    meter: Option<Arc<Meter>>,
}

impl CitusRoutes {
    pub(crate) fn new(has_choice: bool, meter: Option<Arc<Meter>>) -> Self {
        Self { shards: RwLock::default(), has_choice, meter }
    }

    pub(crate) fn shard_map(&self) -> Option<Arc<ShardMap>> {
        self.shards.read().clone()
    }
}

impl Routes for CitusRoutes {
    fn group_of(&self, partition: &[u8]) -> Option<i32> {
        self.shard_map()?.group_of(hash(partition))
    }

    fn measure(&self, partition: &[u8]) -> Option<Box<dyn RequestMeter>> {
        Some(Box::new(self.meter.as_ref()?.begin(hash(partition), partition)))
    }

    fn shards(&self) -> Option<Arc<Shards>> {
        Some(self.shard_map()?.by_group())
    }

    fn query(&self) -> Option<&'static str> {
        self.has_choice.then_some(SHARDS)
    }

    fn learn(&self, rows: &[Row]) {
        let shard = |row| {
            // Shards of a table that is not distributed by hash have no bounds.
            let bound = |index| column::<Option<&str>>(row, index).ok()??.parse().ok();
            Some(Shard { id: column(row, 0).ok()?, first: bound(1)?, last: bound(2)?, group: column(row, 3).ok()? })
        };
        let map = rows.iter().map(shard).collect::<Option<Vec<_>>>().and_then(ShardMap::new);
        let mut known = self.shards.write();
        if known.as_deref() != map.as_ref() {
            tracing::debug!(?map, "the locations of the shards changed");
            *known = map.map(Arc::new);
        }
    }
}

/// Refreshes the locations of partitions at intervals until the engine is closed.
pub(crate) async fn refresh_at_intervals(shared: Arc<PostgresState>) {
    loop {
        tokio::time::sleep(jittered(REFRESH)).await;
        if let Err(trouble) = shared.pool.refresh_routes().await {
            // The previous locations stay in use; outdated ones affect only speed.
            tracing::debug!(?trouble, "the shards could not be read");
        }
    }
}

/// Returns the shards of the entities table: the ID, the lowest and highest hash and the group of each shard.
pub(crate) const SHARDS: &str = "SELECT s.shardid, s.shardminvalue, s.shardmaxvalue, p.groupid \
     FROM pg_dist_shard s JOIN pg_dist_placement p ON p.shardid = s.shardid \
     WHERE s.logicalrelid = 'rowhouse_entities'::regclass AND p.shardstate = 1";

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

/// Maps partitions to the nodes of a Citus cluster.
///
/// Citus distributes the partitions over shards by a hash of the column `partition`. Each shard has a range of hashes
/// and is stored by a group of nodes. Every node of the cluster has this map. It is cached here, and reloaded at
/// intervals. An outdated map does little harm, because any node forwards a statement to the node that has the shard.
/// Therefore, only speed may depend on the map. A scan that reads shards directly checks their locations again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShardMap {
    shards: HashRanges<Shard>,
    by_group: Arc<Shards>,
}

impl ShardMap {
    /// Creates a map. Returns `None` unless every hash belongs to exactly one of the shards: the table may not be
    /// distributed by hash, or a shard may have several copies.
    pub(crate) fn new(shards: Vec<Shard>) -> Option<Self> {
        let shards = HashRanges::new(shards)?;
        let mut by_group = Shards::new();
        for Shard { id, group, .. } in shards.iter() {
            by_group.entry(*group).or_default().push(*id);
        }
        for ids in by_group.values_mut() {
            ids.sort_unstable();
        }
        Some(Self { shards, by_group: Arc::new(by_group) })
    }

    /// Returns the group that stores the partitions with a hash.
    pub(crate) fn group_of(&self, hash: i32) -> Option<i32> {
        self.shards.at(hash).map(|shard| shard.group)
    }

    /// Returns the shards of each group.
    pub(crate) fn by_group(&self) -> Arc<Shards> {
        Arc::clone(&self.by_group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Engine;
    use engine_postgres::{Cluster, Postgres, PostgresOptions};
    use model::clock::SystemClock;

    fn shard(id: i64, first: i32, last: i32, group: i32) -> Shard {
        Shard { first, last, id, group }
    }

    #[test]
    fn every_hash_belongs_to_one_shard() {
        let shards = vec![shard(7, 0, 9, 1), shard(9, 10, i32::MAX, 1), shard(8, i32::MIN, -1, 2)];
        let map = ShardMap::new(shards.clone()).unwrap();
        assert_eq!(*map.by_group(), Shards::from([(1, vec![7, 9]), (2, vec![8])]));
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

    #[tokio::test(flavor = "multi_thread")]
    async fn a_request_that_gets_no_connection_is_not_measured() {
        let Some(database) = test_support::cluster::Cluster::shared() else { return };
        let options = PostgresOptions::new(database.database(), 2);
        let meter = Arc::new(Meter::new());
        let routes = Arc::new(CitusRoutes::new(false, Some(Arc::clone(&meter))));
        let mut cluster = |_| Cluster { routes: Arc::clone(&routes) as _, ..Cluster::one_node() };
        let engine = Postgres::open(&options, Arc::new(SystemClock), &mut cluster).await.unwrap();
        let measured = || meter.measure(Duration::ZERO).hottest.len();
        engine.state().pool.take_for(b"used").await.unwrap().return_to_pool();
        assert_eq!(measured(), 1);
        engine.close().await.unwrap();
        assert!(engine.state().pool.take_for(b"refused").await.is_err());
        assert_eq!(measured(), 1);
    }
}
