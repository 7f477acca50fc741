//! Reads the load of the cluster from the database, and what an operator sees of it.

use crate::balance::cluster::{ClusterLoad, HotPartition, NodeLoad};
use crate::balance::plan::advise;
use crate::heat::{BUCKETS, Load};
use crate::routes::SHARDS;
use engine::BoxFuture;
use engine::load::{LoadRates, LoadReport, NodeReport, PartitionReport, ShardReport, StepReport};
use engine_postgres::parts::{Dialect, Session, Settings};
use engine_postgres::{Password, StoreError};
use model::key::decode_ordinal;
use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

/// With 100 partitions, every one with at least 1% of the load is among them.
const PARTITIONS_MAX: usize = 100;
const TABLES: &str = "SELECT id, convert_from(account, 'UTF8'), name FROM rowhouse_tables WHERE id = ANY($1)";

/// Reads the load of a cluster from its database.
pub fn read_load<'a>(url: &'a str, password: Option<&'a Password>) -> BoxFuture<'a, Result<LoadReport, StoreError>> {
    Box::pin(async move {
        let settings = Settings::new(url, password)?;
        let place = &settings.place;
        let session = Session::open(&settings).await?;
        if Dialect::detect(&session.client, place).await? != Dialect::Citus {
            return Err(StoreError::new(format!(
                "the database {place} has no nodes to balance: it is not a Citus cluster"
            )));
        }
        let (_, report) = read_report(&session.client).await.map_err(|error| match error.code() {
            Some(&SqlState::UNDEFINED_TABLE) => StoreError::new(format!(
                "no server has published its load in the database {place}; start the servers with --balance suggest or \
             --balance auto"
            )),
            _ => StoreError::from_postgres(place, &error),
        })?;
        session.close().await;
        Ok(report)
    })
}

pub(crate) async fn read_report(client: &Client) -> Result<(ClusterLoad, LoadReport), Error> {
    let ((cluster, servers), steps) = tokio::try_join!(read_cluster(client), read_steps(client))?;
    let parts = cluster
        .partitions
        .iter()
        .take(PARTITIONS_MAX)
        .filter_map(|partition| Some((partition.key.split_first_chunk()?, partition.cost)));
    let parts: Vec<_> = parts.map(|((id, key), cost)| (i64::from_be_bytes(*id), key, cost)).collect();
    let ids: Vec<i64> = parts.iter().map(|(id, ..)| *id).collect();
    let mut tables = HashMap::new();
    for row in client.query(TABLES, &[&ids]).await? {
        let (id, account, name): (i64, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        tables.insert(id, (account, name));
    }
    // The table may have been deleted.
    let partitions = parts.into_iter().filter_map(|(id, key, load)| {
        let (account, table) = tables.get(&id)?.clone();
        Some(PartitionReport { account, table, partition: decode_ordinal(key)?.into_owned(), load })
    });
    let nodes = cluster.nodes.iter().map(|node| NodeReport {
        id: node.id,
        name: node.name.clone(),
        may_have_shards: node.may_have_shards,
        shards: cluster.shards_of(node).count(),
        load: rates(cluster.load_of(node)),
    });
    let shards = cluster.shards.iter().map(|shard| ShardReport {
        id: shard.id,
        first: shard.first,
        last: shard.last,
        node: cluster.nodes.iter().find(|node| node.group == shard.group).map(|node| node.id),
        load: rates(shard.load),
    });
    let advice = advise(&cluster);
    let report = LoadReport {
        servers,
        nodes: nodes.collect(),
        shards: shards.collect(),
        partitions: partitions.collect(),
        steps: steps.into_iter().map(step_report).collect(),
        action: advice.action(),
        advice: advice.to_string(),
        step: advice.step(),
    };
    Ok((cluster, report))
}

fn rates(load: Load) -> LoadRates {
    LoadRates {
        load: load.cost(),
        reads_per_second: load.reads,
        writes_per_second: load.writes,
        rows_per_second: load.rows,
        waiting: load.seconds,
    }
}

fn step_report(step: PastStep) -> StepReport {
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    StepReport { began: seconds(step.began), step: step.step, ended: step.ended.map(seconds), error: step.error }
}

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
