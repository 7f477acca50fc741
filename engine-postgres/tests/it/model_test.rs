//! Compares the engine with the memory engine under random operations, on PostgreSQL and on Citus.

use engine_contract::model_test::{EngineOpener, answers_as_the_memory_engine};
use engine_contract::support::ManualClock;
use rowhouse_engine_postgres::{Postgres, PostgresOptions};
use test_support::cluster::{CitusCluster, Cluster};

struct DatabaseOpener {
    url: String,
    distribute: bool,
}

impl EngineOpener for DatabaseOpener {
    type Engine = Postgres;
    const STEPS_DEFAULT: u64 = 3000;
    // A server knows the stamps of another server, or of the previous holder of its slot, only if its writes encounter
    // them.
    const HAS_ORDER_OF_STAMPS: bool = false;
    const HAS_FAULTS: bool = false;

    async fn open(&self, clock: ManualClock, _: bool) -> Postgres {
        let (url, distribute) = (self.url.clone(), self.distribute);
        let options = PostgresOptions { distribute, ..PostgresOptions::new(url, 4) };
        Postgres::open(&options, clock).await.unwrap()
    }

    fn limit_files(_: Option<u64>) {
        unreachable!("the database writes the files");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_on_postgresql_answers_as_the_memory_engine() {
    let Some(cluster) = Cluster::shared() else { return };
    answers_as_the_memory_engine(DatabaseOpener { url: cluster.database(), distribute: false }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_on_citus_answers_as_the_memory_engine() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let url = cluster.workers(&cluster.database_with_shards(crate::contract::SHARDS));
    answers_as_the_memory_engine(DatabaseOpener { url, distribute: true }).await;
}
