//! Where requests go if the partitions of the database are on several nodes. The crate above this one knows that; a
//! single node needs no routes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Row;

/// The IDs of the shards that each group of nodes stores, in ascending order.
pub type Shards = BTreeMap<i32, Vec<i64>>;

/// Measures the load that the requests to partitions cause.
pub trait RequestMeter: Send + Sync {
    /// Adds rows that the database returned.
    fn add_read_rows(&self, rows: usize);
    /// Adds rows that the database was asked to change.
    fn add_written_rows(&self, rows: usize);
    /// Adds the time of a step.
    fn add_time(&self, time: Duration);
}

/// The places of the partitions, as last read. Only speed depends on them, because any node forwards a statement to the
/// node that has the partition.
pub trait Routes: Send + Sync {
    /// Returns the group of nodes that stores a partition; `None` if any node may be asked.
    fn group_of(&self, partition: &[u8]) -> Option<i32>;

    /// Begins to measure a request to a partition, which has a connection, if its load is measured. What is returned is
    /// dropped when the request ends.
    fn measure(&self, partition: &[u8]) -> Option<Box<dyn RequestMeter>>;

    /// Returns the shards of each group, each exactly once; `None` if they are not known.
    fn shards(&self) -> Option<Arc<Shards>>;

    /// Returns the statement that reads the places, if there is one.
    fn query(&self) -> Option<&'static str>;

    /// Notes what the statement returned.
    fn learn(&self, rows: &[Row]);
}

/// The routes of a database that is not distributed.
pub(crate) struct NoRoutes;

impl Routes for NoRoutes {
    fn group_of(&self, _: &[u8]) -> Option<i32> {
        None
    }

    fn measure(&self, _: &[u8]) -> Option<Box<dyn RequestMeter>> {
        None
    }

    fn shards(&self) -> Option<Arc<Shards>> {
        None
    }

    fn query(&self) -> Option<&'static str> {
        None
    }

    fn learn(&self, _: &[Row]) {}
}
