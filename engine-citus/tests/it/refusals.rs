//! Refused transactions that waited for a lock: the refusal is what one state of all their entities requires.

use engine::{CommitError, Engine};
use engine_contract::support::*;
use engine_postgres::PostgresOptions;
use model::{Condition, Mutation, MutationError, Transaction};
use rowhouse_engine_citus::{Balance, open as open_database};
use test_support::cluster::Cluster;
use test_support::eventually;

/// Creates one entity and deletes the other, as a transaction of another server would.
const EXCHANGE: &str = "INSERT INTO rowhouse_entities SELECT partition, convert_to('created', 'UTF8'), record \
    FROM rowhouse_entities WHERE row = convert_to('deleted', 'UTF8'); \
    DELETE FROM rowhouse_entities WHERE row = convert_to('deleted', 'UTF8')";
const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_after_a_wait_for_a_lock_does_not_mix_two_states() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let options = PostgresOptions::new(url.clone(), 2);
    let engine = open_database(&options, Balance::Off, ManualClock::at(START_TICKS)).await.unwrap();
    let table = table("Exchanged");
    engine.create_table(&table).await.unwrap();
    commit_one(&engine, &table, insert("p", "deleted", 1)).await.unwrap();
    let replace =
        Mutation::Replace { key: key("p", "deleted"), properties: properties(&[]), condition: Condition::Any };
    let transaction = Transaction::new(vec![insert("p", "created", 2), replace]).unwrap();
    let exchange = cluster.open_transaction(&url, EXCHANGE);
    let committed = tokio::spawn(async move { engine.commit(&table, transaction).await });
    eventually("the wait for the lock", || (cluster.sql(&url, WAITING).trim() != "0").then_some(()));
    exchange.commit();
    let committed = committed.await.unwrap();
    // Before the exchange, the transaction is possible. After it, the first mutation is the first to be refused.
    assert!(matches!(committed, Err(CommitError::Refused(0, MutationError::AlreadyExists))), "{committed:?}");
}
