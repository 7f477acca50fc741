//! The tables for the load and for the steps that were taken. They are not part of the schema of a database that is not
//! distributed.

use engine_postgres::StoreError;
use engine_postgres::parts::{BALANCE_LEASE, Dialect, Settings, TAKE_TURNS, begin, on_coordinator};

const EXIST: &str = "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('rowhouse_heat')) \
     AND EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('rowhouse_balance_steps'))";
/// `rowhouse_heat` contains the last measurement of each server, by the number of its slot, as one array for each kind
/// of load.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS rowhouse_heat (number smallint PRIMARY KEY, at timestamptz NOT NULL, \
       reads real[] NOT NULL, writes real[] NOT NULL, rows real[] NOT NULL, written real[] NOT NULL, seconds real[] NOT NULL, \
       partitions bytea[] NOT NULL, costs real[] NOT NULL); \
     CREATE TABLE IF NOT EXISTS rowhouse_balance_steps (began timestamptz PRIMARY KEY, step text NOT NULL, \
       ended timestamptz, error text)";
const DISTRIBUTE: &str = "SELECT create_distributed_table('rowhouse_heat', 'number', colocate_with => 'rowhouse_leases'); \
     SELECT create_reference_table('rowhouse_balance_steps')";

/// Creates the tables, unless they exist. Servers take turns.
pub(crate) async fn prepare(settings: &Settings) -> Result<(), StoreError> {
    let error = |error| StoreError::from_postgres(&settings.place, &error);
    let session = on_coordinator(settings).await?;
    let client = &session.client;
    client.execute(TAKE_TURNS, &[]).await.map_err(error)?;
    if !client.query_one(EXIST, &[]).await.and_then(|row| row.try_get(0)).map_err(error)? {
        let lease = format!(
            "INSERT INTO rowhouse_leases (number, reserved) VALUES ({BALANCE_LEASE}, 0) ON CONFLICT DO NOTHING"
        );
        let begin = begin(Dialect::Citus);
        client.batch_execute(&format!("{begin}; {CREATE}; {DISTRIBUTE}; {lease}; COMMIT")).await.map_err(error)?;
    }
    session.close().await;
    Ok(())
}
