//! What an operator sees of the load of a cluster.

use crate::StoreError;
use crate::balance::balancer::{self, Taken};
use crate::balance::cluster::ClusterLoad;
use crate::balance::plan::{Advice, Step, advise};
use crate::balance::reading::{PastStep, read_cluster, read_steps};
use crate::connections::dialect::Dialect;
use crate::connections::settings::Settings;
use crate::schema::opening::Session;
use model::key::decode_ordinal;
use std::collections::HashMap;
use tokio_postgres::error::SqlState;

const TABLES: &str = "SELECT id, convert_from(account, 'UTF8'), name FROM rowhouse_tables WHERE id = ANY($1)";

/// The load of a cluster, and what should be done about it.
#[derive(Debug, Clone)]
pub struct BalanceReport {
    /// The load.
    pub cluster: ClusterLoad,
    /// The number of servers that measured it.
    pub servers: usize,
    /// The hottest partitions with their accounts, tables and keys, the hottest one first.
    pub partitions: Vec<NamedPartition>,
    /// What should be done.
    pub advice: Advice,
    /// The steps of the last day, the oldest one first.
    pub steps: Vec<PastStep>,
}

/// A partition with much load.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedPartition {
    /// The account.
    pub account: String,
    /// The table.
    pub table: String,
    /// The partition key.
    pub key: String,
    /// The estimated processor time per second.
    pub cost: f64,
}

impl BalanceReport {
    /// Reads the load from the database.
    pub async fn read(url: &str, password: Option<&str>) -> Result<Self, StoreError> {
        let settings = Settings::new(url, password)?;
        let place = &settings.place;
        let error = |error: tokio_postgres::Error| match error.code() {
            Some(&SqlState::UNDEFINED_TABLE) => StoreError::new(format!(
                "no server has published its load in the database {place}; start the servers with --balance suggest or \
                 --balance auto"
            )),
            _ => StoreError::from_postgres(place, &error),
        };
        let session = Session::open(&settings, &settings.config).await?;
        let client = &session.client;
        if Dialect::detect(client, place).await? != Dialect::Citus {
            return Err(StoreError::new(format!(
                "the database {place} has no nodes to balance: it is not a Citus cluster"
            )));
        }
        let (cluster, servers) = read_cluster(client).await.map_err(error)?;
        let steps = read_steps(client).await.map_err(error)?;
        let parts = cluster
            .partitions
            .iter()
            .filter_map(|partition| Some((partition.key.split_first_chunk()?, partition.cost)));
        let parts: Vec<_> = parts.map(|((id, key), cost)| (i64::from_be_bytes(*id), key, cost)).collect();
        let ids: Vec<i64> = parts.iter().map(|(id, ..)| *id).collect();
        let mut tables = HashMap::new();
        for row in client.query(TABLES, &[&ids]).await.map_err(error)? {
            let (id, account, name): (i64, String, String) =
                (row.try_get(0).map_err(error)?, row.try_get(1).map_err(error)?, row.try_get(2).map_err(error)?);
            tables.insert(id, (account, name));
        }
        session.close().await;
        // The table may have been deleted.
        let named = parts.into_iter().filter_map(|(id, key, cost)| {
            let (account, table) = tables.get(&id)?.clone();
            Some(NamedPartition { account, table, key: decode_ordinal(key)?.into_owned(), cost })
        });
        let partitions = named.collect();
        let advice = advise(&cluster);
        Ok(Self { cluster, servers, partitions, advice, steps })
    }

    /// Takes a step, and waits until it is completed.
    pub async fn take(&self, step: &Step, url: &str, password: Option<&str>) -> Result<(), StoreError> {
        match balancer::take(&Settings::new(url, password)?, step, None).await? {
            Taken::Completed => Ok(()),
            Taken::Not(why) => Err(StoreError::new(format!("the step was not taken: {why}"))),
        }
    }
}
