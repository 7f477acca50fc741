//! Publishes the load that this server measures, in tables that the first server creates.

use crate::heat::{Load, Measurement, Meter};
use engine::parts::monotonic;
use engine_postgres::StoreError;
use engine_postgres::parts::{AttemptError, PostgresState, Settings, jittered};
use engine_postgres::parts::{BALANCE_LEASE, Dialect, TAKE_TURNS, begin, on_coordinator};
use std::sync::Arc;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(5);
/// The pause after the tables could not be created, for example because the coordinator is down.
const RETRY: Duration = Duration::from_secs(30);

const PUBLISH: &str = "INSERT INTO rowhouse_heat (number, at, reads, writes, rows, written, seconds, partitions, costs) \
     VALUES ($1, now(), $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (number) DO UPDATE SET at = excluded.at, \
     reads = excluded.reads, writes = excluded.writes, rows = excluded.rows, written = excluded.written, seconds = excluded.seconds, \
     partitions = excluded.partitions, costs = excluded.costs";

/// Publishes at intervals until the engine is closed.
pub(crate) async fn publish_load(shared: Arc<PostgresState>, meter: Arc<Meter>, settings: Settings) {
    while let Err(error) = prepare(&settings).await {
        tracing::warn!(%error, "the load of the nodes cannot be measured yet");
        tokio::time::sleep(RETRY).await;
    }
    let mut began = monotonic::now();
    loop {
        tokio::time::sleep(jittered(INTERVAL)).await;
        let measurement = meter.measure(began.elapsed());
        began = monotonic::now();
        if let Err(trouble) = publish(&shared, &measurement).await {
            tracing::debug!(?trouble, "the load could not be published");
        }
    }
}

async fn publish(shared: &PostgresState, measurement: &Measurement) -> Result<(), AttemptError> {
    let Some(number) = shared.slot_number() else { return Ok(()) };
    #[allow(clippy::cast_possible_truncation, reason = "a load needs no more precision")]
    let column = |of: fn(&Load) -> f64| measurement.buckets.iter().map(|load| of(load) as f32).collect::<Vec<_>>();
    let columns = [
        column(|load| load.reads),
        column(|load| load.writes),
        column(|load| load.rows),
        column(|load| load.written),
        column(|load| load.seconds),
    ];
    #[allow(clippy::cast_possible_truncation, reason = "a load needs no more precision")]
    let (partitions, costs): (Vec<&[u8]>, Vec<f32>) =
        measurement.hottest.iter().map(|(key, cost)| (key.as_slice(), *cost as f32)).unzip();
    let [reads, writes, rows, written, seconds] = &columns;
    shared.pool.write(PUBLISH, &[&number, reads, writes, rows, written, seconds, &partitions, &costs]).await?;
    Ok(())
}

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

/// Creates the tables, unless they exist: they are not part of the schema of a database that is not distributed.
/// Servers take turns.
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
