//! Notices that a step makes no progress.
//!
//! Citus copies a shard and then sends what has changed since, over logical replication. While it waits for the target
//! to catch up, it does not notice that nothing is sent any more. This happens if the source is restarted during a
//! split, because the source's part of the split is only in its shared memory. Citus gives up after two hours
//! (`citus.logical_replication_timeout`, which a session cannot set).

use engine_postgres::StoreError;
use engine_postgres::parts::{Settings, on_coordinator};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const INTERVAL: Duration = Duration::from_secs(5);
/// The number of successive checks without replication after which a step is given up. After a connection is lost,
/// PostgreSQL reconnects within five seconds, unless a node needs longer to restart.
const CHECKS: u32 = if cfg!(test) { 2 } else { 12 };
const CHECK_TIME_MAX: Duration = Duration::from_secs(10);

/// Returns whether a node does not respond, or whether some target expects changes while no source sends them.
const IS_STALLED: &str = "SELECT NOT bool_and(success) OR sum(CASE WHEN success THEN result::bigint END) > 0 \
     FROM run_command_on_all_nodes($$ \
         SELECT (SELECT count(*) FROM pg_subscription JOIN pg_database AS d ON subdbid = d.oid \
                 WHERE subname LIKE 'citus\\_shard\\_%' AND subenabled AND d.datname = current_database()) \
              - (SELECT count(*) FROM pg_replication_slots \
                 WHERE slot_name LIKE 'citus\\_shard\\_%' AND active AND database = current_database()) $$, \
         give_warning_for_connection_errors => true)";

/// Returns when the step that is running on the coordinator makes no progress.
pub(crate) async fn wait_until_stalled(settings: &Settings) {
    let mut stalled = 0;
    while stalled < CHECKS {
        sleep(INTERVAL).await;
        match timeout(CHECK_TIME_MAX, is_stalled(settings)).await {
            Ok(Ok(false)) => stalled = 0,
            Ok(Ok(true)) | Err(_) => stalled += 1,
            // The coordinator may have no connection left.
            Ok(Err(error)) => tracing::debug!(%error, "the progress of a step could not be checked"),
        }
    }
}

async fn is_stalled(settings: &Settings) -> Result<bool, StoreError> {
    let session = on_coordinator(settings).await?;
    let is_stalled = session.client.query_one(IS_STALLED, &[]).await.and_then(|row| row.try_get(0));
    session.close().await;
    is_stalled.map_err(|error| StoreError::from_postgres(&settings.place, &error))
}

#[cfg(test)]
mod tests {
    use crate::balance::balancer::take_step;
    use crate::balance::publishing;
    use crate::{Balance, open};
    use engine::load::Step;
    use engine_postgres::PostgresOptions;
    use engine_postgres::parts::Settings;
    use model::clock::SystemClock;
    use test_support::cluster::CitusCluster;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_move_is_given_up_if_its_target_gets_no_changes() {
        let Some(cluster) = CitusCluster::start(2) else { return };
        let database = cluster.database();
        let options = PostgresOptions { distribute: true, ..PostgresOptions::new(cluster.all(&database), 4) };
        open(&options, Balance::Off, SystemClock).await.unwrap();
        publishing::prepare(&Settings::new(&cluster.coordinator(&database), None).unwrap()).await.unwrap();
        cluster.sql(2, "postgres", "ALTER SYSTEM SET max_logical_replication_workers = 0");
        cluster.kill(2);
        cluster.restart(2);

        let sql = |statement: &str| cluster.sql(0, &database, statement).trim().to_owned();
        let node = |number| {
            let node = format!("SELECT nodeid FROM pg_dist_node WHERE nodeport = {}", cluster.port(number));
            sql(&node).parse().unwrap()
        };
        let (from, to) = (node(1), node(2));
        let shard = format!(
            "SELECT min(shardid) FROM pg_dist_placement JOIN pg_dist_node USING (groupid) \
             JOIN pg_dist_shard USING (shardid) \
             WHERE logicalrelid = 'rowhouse_entities'::regclass AND nodeid = {from}"
        );
        let number = sql(&shard);
        let step = Step::Move { shard: number.parse().unwrap(), from, to };
        let error = take_step(&step, &cluster.coordinator(&database), None).await.unwrap_err().to_string();
        assert!(error.contains("no progress"), "{error}");
        assert!(sql("SELECT error FROM rowhouse_balance_steps").contains("no progress"));
        assert_eq!(sql(&shard), number, "the shard stayed where it was");
    }
}
