//! The routes of a Citus cluster: the node that stores a partition, and the load that a request to it causes.

use crate::hash::hash;
use crate::heat::meter::Meter;
use crate::shard_map::{SHARDS, Shard, ShardMap};
use engine_postgres::parts::{PostgresState, Route, Routes, Shards, column, jittered};
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
    fn route(&self, partition: &[u8]) -> Route {
        let shards = self.shard_map();
        if shards.is_none() && self.meter.is_none() {
            return Route::default();
        }
        let hash = hash(partition);
        let meter = self.meter.as_ref().map(|meter| Box::new(meter.begin(hash, partition)) as _);
        Route { group: shards.and_then(|shards| shards.group_of(hash)), meter }
    }

    fn shards(&self) -> Option<Arc<Shards>> {
        Some(self.shards.read().as_ref()?.by_group())
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
