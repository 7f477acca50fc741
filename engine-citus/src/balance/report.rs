//! What an operator sees of the load of a cluster.

use crate::balance::cluster::ClusterLoad;
use crate::balance::plan::advise;
use crate::balance::reading::{PastStep, read_cluster, read_steps};
use crate::heat::load::Load;
use engine::BoxFuture;
use engine::load::{LoadRates, LoadReport, NodeReport, PartitionReport, ShardReport, StepReport};
use engine_postgres::parts::{Dialect, Session, Settings};
use engine_postgres::{Password, StoreError};
use model::key::decode_ordinal;
use std::collections::HashMap;
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
