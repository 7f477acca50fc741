//! Reads the load of the cluster from the database.

use crate::balance::cluster::{ClusterLoad, HotPartition, NodeLoad};
use crate::heat::load::Load;
use crate::heat::meter::BUCKETS;
use crate::shard_map::SHARDS;
use std::collections::BTreeMap;
use std::time::SystemTime;
use tokio_postgres::{Client, Error};

/// A node whose group has no shards of other nodes can have shards if it is a worker that is not being removed.
const NODES: &str = "SELECT nodeid, groupid, nodename || ':' || nodeport, shouldhaveshards FROM pg_dist_node \
     WHERE isactive AND noderole = 'primary' ORDER BY groupid";
/// A server that has published nothing for this long does not run any more.
const MEASURED: &str = "SELECT reads, writes, rows, written, seconds, partitions, costs FROM rowhouse_heat \
     WHERE at > now() - interval '30 s'";
const STEPS: &str = "SELECT began, step, ended, error FROM rowhouse_balance_steps WHERE began > now() - interval '1 day' ORDER BY began";

/// A step that was begun in the last day.
#[derive(Debug, Clone)]
pub(crate) struct PastStep {
    /// When it began.
    pub(crate) began: SystemTime,
    /// What was done.
    pub(crate) step: String,
    /// When it ended; `None` if it is running, or if its server stopped before that.
    pub(crate) ended: Option<SystemTime>,
    /// Why it failed.
    pub(crate) error: Option<String>,
}

fn loads(columns: &[Vec<f32>; 5]) -> impl Iterator<Item = Load> {
    let [reads, writes, rows, written, seconds] = columns;
    let columns = reads.iter().zip(writes).zip(rows).zip(written).zip(seconds);
    columns.map(|((((reads, writes), rows), written), seconds)| Load {
        reads: (*reads).into(),
        writes: (*writes).into(),
        rows: (*rows).into(),
        written: (*written).into(),
        seconds: (*seconds).into(),
    })
}

/// Returns the load, and the number of servers that measured it.
pub(crate) async fn read_cluster(client: &Client) -> Result<(ClusterLoad, usize), Error> {
    let (nodes, shards, measured) =
        tokio::try_join!(client.query(NODES, &[]), client.query(SHARDS, &[]), client.query(MEASURED, &[]))?;
    let node = |row: &tokio_postgres::Row| {
        Ok(NodeLoad {
            id: row.try_get(0)?,
            group: row.try_get(1)?,
            name: row.try_get(2)?,
            may_have_shards: row.try_get(3)?,
        })
    };
    let nodes = nodes.iter().map(node).collect::<Result<_, Error>>()?;
    let mut placed = Vec::with_capacity(shards.len());
    for row in &shards {
        let bound = |at| Ok::<i32, Error>(row.try_get::<_, &str>(at)?.parse().unwrap_or_default());
        placed.push((row.try_get(0)?, bound(1)?, bound(2)?, row.try_get(3)?));
    }
    let mut buckets = vec![Load::default(); BUCKETS];
    let mut partitions: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    for row in &measured {
        let columns = [row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?];
        for (bucket, load) in buckets.iter_mut().zip(loads(&columns)) {
            bucket.add(load);
        }
        let (keys, costs): (Vec<Vec<u8>>, Vec<f32>) = (row.try_get(5)?, row.try_get(6)?);
        for (key, cost) in keys.into_iter().zip(costs) {
            *partitions.entry(key).or_default() += f64::from(cost);
        }
    }
    let partitions = partitions.into_iter().map(|(key, cost)| HotPartition { key, cost }).collect();
    Ok((ClusterLoad::new(nodes, placed, buckets, partitions), measured.len()))
}

/// Returns the steps of the last day, the oldest one first.
pub(crate) async fn read_steps(client: &Client) -> Result<Vec<PastStep>, Error> {
    let step = |row: &tokio_postgres::Row| {
        Ok(PastStep { began: row.try_get(0)?, step: row.try_get(1)?, ended: row.try_get(2)?, error: row.try_get(3)? })
    };
    client.query(STEPS, &[]).await?.iter().map(step).collect()
}
