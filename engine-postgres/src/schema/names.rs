//! The names of the tables in the database, and the statements that differ between databases.

use crate::connections::dialect::Dialect;
use crate::statements::TRANSACTIONS;
use tokio_postgres::{Client, Error};

/// The names and statements that differ between databases.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) schema: String,
    pub(crate) entities: String,
    pub(crate) entries: String,
    /// The name of the catalog table on a node. On Citus, it is the node's own copy, so that statements require no
    /// planning by Citus.
    pub(crate) catalog: String,
    /// Whether the entities are distributed over the Citus nodes.
    pub(crate) is_distributed: bool,
    /// The statement that returns a row if a table still exists and has the given generation.
    pub(crate) table_is_current: String,
    /// The statement that returns the transactions of each node: the node, `first next`, and whether the node could be
    /// queried.
    pub(crate) transactions: String,
}

impl Names {
    /// Returns the names in a database that is not distributed.
    pub(crate) async fn undistributed(client: &Client) -> Result<Self, Error> {
        let schema: String = client.query_one("SELECT quote_ident(current_schema())", &[]).await?.try_get(0)?;
        let catalog = format!("{schema}.rowhouse_tables");
        Ok(Self {
            entities: format!("{schema}.rowhouse_entities"),
            entries: format!("{schema}.rowhouse_index_entries"),
            table_is_current: table_is_current(&catalog),
            catalog,
            schema,
            is_distributed: false,
            transactions: format!("SELECT 0::bigint, t, true FROM ({TRANSACTIONS}) AS t (t)"),
        })
    }

    /// Queries the database for the names.
    pub(crate) async fn query(client: &Client, dialect: Dialect) -> Result<Self, Error> {
        let names = Self::undistributed(client).await?;
        if dialect != Dialect::Citus {
            return Ok(names);
        }
        let Some(shard) = client.query_opt(CATALOG_SHARD, &[&names.catalog]).await? else { return Ok(names) };
        let catalog = format!("{}_{}", names.catalog, shard.try_get::<_, i64>(0)?);
        Ok(Self {
            table_is_current: table_is_current(&catalog),
            catalog,
            is_distributed: true,
            transactions: format!(
                "SELECT nodeid::bigint, result, success FROM run_command_on_all_nodes($$ {TRANSACTIONS} $$)"
            ),
            ..names
        })
    }
}

fn table_is_current(catalog: &str) -> String {
    format!("SELECT id FROM {catalog} WHERE id = $1 AND generation = $2 AND NOT is_deleted")
}

/// Returns the single shard of a table that is replicated to every Citus node.
const CATALOG_SHARD: &str = "SELECT shardid FROM pg_dist_shard WHERE logicalrelid = to_regclass($1::text)";
