//! Compares the engine with the memory engine under random operations, on PostgreSQL and on Citus.

use async_trait::async_trait;
use engine::Engine;
use engine_contract::model_test::{EngineOpener, answers_as_the_memory_engine};
use engine_contract::support::ManualClock;
use engine_postgres::PostgresOptions;
use rowhouse_engine_citus::{Balance, open as open_database};
use test_support::cluster::{CitusCluster, Cluster};

struct DatabaseOpener {
    url: String,
    distribute: bool,
}

#[async_trait]
impl EngineOpener for DatabaseOpener {
    fn steps_default(&self) -> u64 {
        3000
    }

    // A server knows the stamps of another server, or of the previous holder of its slot, only if its writes encounter
    // them.
    fn has_order_of_stamps(&self) -> bool {
        false
    }

    async fn open(&self, clock: ManualClock, _: bool) -> Box<dyn Engine> {
        let (url, distribute) = (self.url.clone(), self.distribute);
        let options = PostgresOptions { distribute, ..PostgresOptions::new(url, 4) };
        Box::new(open_database(&options, Balance::Off, clock).await.unwrap())
    }

    /// The database writes the files.
    fn file_limit(&self) -> Option<fn(Option<u64>)> {
        None
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_on_postgresql_answers_as_the_memory_engine() {
    let Some(cluster) = Cluster::shared() else { return };
    answers_as_the_memory_engine(Box::new(DatabaseOpener { url: cluster.database(), distribute: false })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_on_citus_answers_as_the_memory_engine() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let url = cluster.workers(&cluster.database_with_shards(crate::contract::SHARDS));
    answers_as_the_memory_engine(Box::new(DatabaseOpener { url, distribute: true })).await;
}
