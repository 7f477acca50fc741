//! Runs the contract suite on PostgreSQL and on Citus, and checks their histories.

use engine::{ChangeLog, Engine, KeepChanges};
use engine_contract::history_test::{StampOrder, is_strictly_serializable};
use engine_contract::support::{ManualClock, START_TICKS};
use engine_contract::{every_case, every_case_of_changes, every_case_of_indexes, restart};
use engine_postgres::{Postgres, PostgresOptions};
use rowhouse_engine_citus::Balance;
use std::sync::Arc;
use std::time::Duration;
use test_support::cluster::{CitusCluster, Cluster};

/// The number of shards on two workers.
pub(crate) const SHARDS: u32 = 4;

fn open_postgres(clock: ManualClock) -> Option<(Postgres, ())> {
    Some(open_database(Cluster::shared()?.database(), false, clock))
}

fn open_citus(clock: ManualClock) -> Option<(Postgres, ())> {
    let cluster = CitusCluster::shared()?;
    Some(open_database(cluster.workers(&cluster.database_with_shards(SHARDS)), true, clock))
}

fn open_postgres_with_changes(clock: ManualClock) -> Option<(Postgres, Arc<dyn ChangeLog>, ())> {
    Some(open_with_changes(Cluster::shared()?.database(), false, clock))
}

fn open_citus_with_changes(clock: ManualClock) -> Option<(Postgres, Arc<dyn ChangeLog>, ())> {
    let cluster = CitusCluster::shared()?;
    Some(open_with_changes(cluster.workers(&cluster.database_with_shards(SHARDS)), true, clock))
}

fn open_with_changes(url: String, distribute: bool, clock: ManualClock) -> (Postgres, Arc<dyn ChangeLog>, ()) {
    let keep_changes = Some(KeepChanges { age: Duration::from_hours(24), bytes: 1 << 30 });
    let options = PostgresOptions { keep_changes, distribute, ..PostgresOptions::new(url, 8) };
    let open = rowhouse_engine_citus::open(&options, Balance::Off, clock);
    let engine = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(open)).unwrap();
    let log = engine.change_log().unwrap();
    (engine, log, ())
}

fn open_database(url: String, distribute: bool, clock: ManualClock) -> (Postgres, ()) {
    let options = PostgresOptions { distribute, ..PostgresOptions::new(url, 8) };
    let open = rowhouse_engine_citus::open(&options, Balance::Off, clock);
    (tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(open)).unwrap(), ())
}

every_case!(postgres, open_postgres);
every_case!(citus, open_citus);
every_case_of_indexes!(indexes_on_postgres, open_postgres);
every_case_of_indexes!(indexes_on_citus, open_citus);
every_case_of_changes!(changes_on_postgres, open_postgres_with_changes);
every_case_of_changes!(changes_on_citus, open_citus_with_changes);

#[tokio::test]
async fn service_properties_survive_a_restart() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let options = PostgresOptions::new(url, 4);
    let open = async || {
        let engine = rowhouse_engine_citus::open(&options, Balance::Off, ManualClock::at(START_TICKS)).await.unwrap();
        Arc::new(engine) as Arc<dyn Engine>
    };
    restart::survives_a_restart(open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_on_postgresql_are_strictly_serializable() {
    let Some((engine, ())) = open_postgres(ManualClock::at(START_TICKS)) else { return };
    is_strictly_serializable(Arc::new(engine), StampOrder::Life).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_on_citus_are_strictly_serializable() {
    let Some((engine, ())) = open_citus(ManualClock::at(START_TICKS)) else { return };
    is_strictly_serializable(Arc::new(engine), StampOrder::Life).await;
}
