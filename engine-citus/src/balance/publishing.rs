//! Publishes the load that this server measures.

use crate::balance::tables;
use crate::heat::load::Load;
use crate::heat::meter::{Measurement, Meter};
use engine::parts::monotonic;
use engine_postgres::parts::{AttemptError, PostgresState, Settings, jittered};
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
    while let Err(error) = tables::prepare(&settings).await {
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
