//! Tests the engine with several equivalent nodes: the choice of the node for a request, and the behaviour when a node
//! fails.

use crate::discovery::{Address, NOT_OF_THIS_CLUSTER, connect};
use crate::hash::hash;
use crate::routes::{CitusRoutes, SHARDS, ShardMap};
use crate::{Balance, open as open_database};
use engine::{Engine, EngineExt, Fault, ReadError, Scan, TableKey};
use engine_contract::support::{self, CollectingSink};
use engine_postgres::parts::{Lease, PostgresState, Routes};
use engine_postgres::{Postgres, PostgresOptions};
use futures_util::future::join_all;
use model::clock::SystemClock;
use model::{AccountName, EntityKey, KeyText, Mutation, RecordBuilder, TableName, Transaction};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use test_support::cluster::CitusCluster;
use test_support::{Random, TIMEOUT, eventually};

type TestEngine = Postgres;

async fn open(url: String, distribute: bool) -> TestEngine {
    // The number of connections that may wait for an unresponsive node.
    let options = PostgresOptions { distribute, ..PostgresOptions::new(url, 30) };
    open_database(&options, Balance::Off, SystemClock).await.unwrap()
}

async fn distributed(cluster: &CitusCluster) -> String {
    let database = cluster.database();
    open(cluster.coordinator(&database), true).await;
    database
}

async fn own_group(lease: &Lease) -> i32 {
    lease.query_one("SELECT groupid FROM pg_dist_local_group", &[]).await.unwrap().get(0)
}

async fn shard_map(shared: &PostgresState) -> Arc<ShardMap> {
    let routes = CitusRoutes::new(true, None);
    routes.learn(&shared.pool.read(SHARDS, &[]).await.unwrap());
    routes.shard_map().unwrap()
}

fn partitions(count: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(7);
    (0..count).map(|length| (0..length % 90).map(|_| u8::try_from(random.below(256)).unwrap()).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_known_to_be_where_citus_has_them() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let database = distributed(cluster).await;
    let engine = open(cluster.all(&database), false).await;
    let pool = &engine.state().pool;
    let shards = pool.shards().expect("the table is distributed");
    assert_eq!(shards.keys().copied().collect::<Vec<_>>(), [1, 2]);
    let map = shard_map(engine.state()).await;
    let lease = pool.take().await.unwrap();
    let placement = "SELECT groupid FROM pg_dist_placement WHERE shardid = \
                     get_shard_id_for_distribution_column('rowhouse_entities', $1::bytea)";
    for partition in partitions(400) {
        let group: i32 = lease.query_one(placement, &[&partition]).await.unwrap().get(0);
        assert_eq!(map.group_of(hash(&partition)), Some(group), "{partition:?}");
    }
    lease.return_to_pool();
    for partition in partitions(20) {
        let lease = pool.take_for(&partition).await.unwrap();
        assert_eq!(Some(own_group(&lease).await), map.group_of(hash(&partition)));
        lease.return_to_pool();
    }
    for (lease, group) in pool.take_for_shards(&shards).await.unwrap().expect("there is a node for each group") {
        assert_eq!(own_group(&lease).await, group);
        lease.return_to_pool();
    }
    // The table is not distributed here, so no shards are known.
    let database = cluster.database();
    let plain = open(cluster.coordinator(&database), false).await;
    let balanced = open(format!("{}?load_balance_hosts=random", cluster.coordinator(&database)), false).await;
    for engine in [plain, balanced] {
        assert_eq!(engine.state().pool.shards(), None);
        engine.state().pool.take_for(b"any").await.unwrap().return_to_pool();
    }
}

/// Citus plans a statement with the places that it knows, and drops a shard that it has moved soon afterwards. The
/// statement then fails, because it names the dropped shard.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_dropped_after_a_move_is_no_internal_error() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let database = distributed(cluster).await;
    // One engine reads shards by name, and one only through Citus.
    let engines = [open(cluster.all(&database), false).await, open(cluster.coordinator(&database), false).await];
    let table = TableKey { account: AccountName::new("account1").unwrap(), name: TableName::new("Moved").unwrap() };
    engines[0].create_table(&table).await.unwrap();
    let shards = "SELECT shardid FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) \
                  WHERE logicalrelid = 'rowhouse_entities'::regclass AND groupid = 1";
    let shards = cluster.sql(0, &database, shards);
    let rename = move |from: &str, to: &str| {
        let rename = |shard: &str| format!("ALTER TABLE {from}_{shard} RENAME TO {to}_{shard};");
        let statements: String = shards.lines().map(rename).collect();
        let allow = "SET citus.enable_manual_changes_to_shards = on; SET citus.override_table_visibility = off;";
        cluster.sql(1, &database, &format!("{allow}{statements}"));
    };
    let drops = tokio::task::spawn_blocking(move || {
        for _ in 0..3 {
            rename("rowhouse_entities", "dropped");
            thread::sleep(Duration::from_millis(500));
            rename("dropped", "rowhouse_entities");
            thread::sleep(Duration::from_millis(100));
        }
    });
    let (table, drops) = (&table, &drops);
    let requests = engines.iter().enumerate().map(async |(number, engine)| {
        let partition = KeyText::new(&format!("p{number}")).unwrap();
        while !drops.is_finished() {
            for row in 0..16 {
                let key = EntityKey { partition: partition.clone(), row: KeyText::new(&row.to_string()).unwrap() };
                let upsert = Mutation::InsertOrReplace { key: key.clone(), properties: RecordBuilder::default() };
                engine.commit(table, Transaction::single(upsert)).await.unwrap();
                assert!(engine.get(table, &key).await.unwrap().is_some());
            }
            let scan = Scan::all(Instant::now() + TIMEOUT);
            match engine.scan(table, scan, CollectingSink::default()).await {
                Ok((found, _)) => assert!(found.entities.len() >= 16),
                // The page had already begun.
                Err(ReadError::Fault(Fault::Unavailable(_))) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    });
    join_all(requests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_belong_to_the_cluster_gets_no_requests_although_it_answers() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let database = cluster.database();
    cluster.sql(0, &database, &format!("SELECT citus_remove_node('127.0.0.1', {})", cluster.port(2)));
    cluster.sql(2, &database, "DROP EXTENSION citus; CREATE EXTENSION citus");
    open(cluster.coordinator(&database), true).await;
    let engine = open(cluster.workers(&database), false).await;
    let is_up: Vec<_> = engine.state().pool.nodes().iter().map(|node| node.is_up()).collect();
    assert_eq!(is_up, [true, false]);
}

/// A changeset that waits for a lock of an entity must not examine the old copy of the shard and write to the new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_is_not_moved_while_a_changeset_examines_its_entities() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let database = cluster.database_with_shards(1);
    open(cluster.coordinator(&database), true).await;
    let sql = |statement: &str| cluster.sql(0, &database, statement).trim().to_owned();
    let placed = "FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid) \
                  WHERE logicalrelid = 'rowhouse_entities'::regclass";
    let source = if sql(&format!("SELECT nodeport {placed}")) == cluster.port(1) { 1 } else { 2 };
    let [at_source, at_target] = [source, 3 - source].map(|node| cluster.url_of(node, &database));
    let (engine, other) = (Arc::new(open(at_source, false).await), Arc::new(open(at_target, false).await));
    let table = support::table("Moved");
    engine.create_table(&table).await.unwrap();
    let rows = ["a", "b"];
    let inserts = Transaction::new(rows.iter().map(|row| support::insert("p", row, 1)).collect()).unwrap();
    let written = engine.commit(&table, inserts).await.unwrap();
    let expected = support::if_match(support::stamp(written[0].clone()));

    let lock = engine.state().pool.take().await.unwrap();
    let partition = sql("SELECT encode(partition, 'hex') FROM rowhouse_entities LIMIT 1");
    let lock_rows = format!("BEGIN; SELECT 1 FROM rowhouse_entities WHERE partition = '\\x{partition}' FOR UPDATE");
    lock.batch_execute(&lock_rows).await.unwrap();
    let replace = |row: &str| Mutation::Replace {
        key: support::key("p", row),
        properties: support::properties(&[("Value", 2)]),
        condition: expected.clone(),
    };
    let changeset = Transaction::new(rows.iter().map(|row| replace(row)).collect()).unwrap();
    let moved = format!(
        "SELECT citus_move_shard_placement(shardid, nodeid, \
         (SELECT nodeid FROM pg_dist_node WHERE nodeport = {}), 'block_writes') {placed}",
        cluster.port(3 - source)
    );
    let commit = |engine: &Arc<TestEngine>, transaction| {
        let (engine, table) = (Arc::clone(engine), table.clone());
        tokio::spawn(async move { engine.commit(&table, transaction).await })
    };
    let waiting = || {
        let waiting = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) \
                       WHERE datname = current_database() AND NOT granted";
        cluster.sql(source, &database, waiting).trim().parse::<u32>().unwrap()
    };
    let replaced = commit(&engine, changeset);
    eventually("the wait of the changeset", || (waiting() == 1).then_some(()));
    let mover = {
        let database = database.clone();
        thread::spawn(move || cluster.sql(0, &database, &moved))
    };
    eventually("the wait of the move", || (waiting() == 2 || mover.is_finished()).then_some(()));
    assert!(!mover.is_finished(), "the shard was moved although a changeset examines its entities");
    let overwritten = commit(&other, Transaction::single(support::upsert("p", "a", 3)));
    lock.batch_execute("COMMIT").await.unwrap();
    let (replaced, overwritten) = (replaced.await.unwrap(), overwritten.await.unwrap());
    mover.join().unwrap();
    assert!(replaced.is_ok() && overwritten.is_ok(), "{replaced:?}, {overwritten:?}");
    let found = engine.get(&table, &support::key("p", "a")).await.unwrap().unwrap();
    assert_eq!(support::value(&found), 3, "the changeset, which was conditional, came first");
}

#[tokio::test(flavor = "multi_thread")]
async fn outdated_functions_are_replaced_on_all_nodes() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let database = distributed(cluster).await;
    let sources = |node| {
        let sources =
            "SELECT prosrc FROM pg_proc WHERE proname IN ('rowhouse_commit', 'rowhouse_add_entries') ORDER BY proname";
        cluster.sql(node, &database, sources)
    };
    let current = sources(0);
    assert_eq!(current.matches("row < ''::bytea").count(), 2, "{current}");
    let outdated = "CREATE OR REPLACE FUNCTION rowhouse_add_entries(_partition bytea, _table bigint, _generation bigint, \
         _rows bytea[], _stamps bytea[], _entry_rows bytea[], _entry_indexes bigint[], _entry_values bytea[]) \
         RETURNS void LANGUAGE plpgsql AS 'BEGIN END'";
    cluster.sql(0, &database, outdated);
    assert_ne!(sources(1), current);
    open(cluster.workers(&database), false).await;
    for node in 0..3 {
        assert_eq!(sources(node), current);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_in_the_url_is_used_while_it_has_shards() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let database = distributed(cluster).await;
    let engine = open(cluster.url_of_several(&[1], &database), false).await;
    let pool = &engine.state().pool;
    let becomes = async |expected: &[usize]| {
        let expected = expected.iter().map(|node| format!("127.0.0.1:{}", cluster.port(*node))).collect::<Vec<_>>();
        let names = || pool.nodes().iter().map(|node| node.name().to_owned()).collect::<Vec<_>>();
        let began = Instant::now();
        while names() != expected {
            assert!(began.elapsed() < TIMEOUT, "{:?}", names());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    becomes(&[1, 2]).await;
    let shards = pool.shards().unwrap();
    let map = shard_map(engine.state()).await;
    for partition in partitions(20) {
        let lease = pool.take_for(&partition).await.unwrap();
        assert_eq!(Some(own_group(&lease).await), map.group_of(hash(&partition)));
        lease.return_to_pool();
    }
    assert!(pool.take_for_shards(&shards).await.unwrap().is_some());

    cluster.sql(0, &database, &format!("SELECT citus_drain_node('127.0.0.1', {}, 'block_writes')", cluster.port(2)));
    becomes(&[1]).await;
    let lease = pool.take_for(b"any").await.unwrap();
    assert_eq!(own_group(&lease).await, 1);
    lease.return_to_pool();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_not_added_unless_it_finds_the_lease_of_the_server() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let database = distributed(cluster).await;
    let engine = open(cluster.url_of_several(&[1], &database), false).await;
    let address = |group| Address { group, host: "127.0.0.1".to_owned(), port: cluster.port(2).parse().unwrap() };
    assert!(connect(engine.state(), engine.state().slot_number(), &address(2)).await.is_ok());
    let error = connect(engine.state(), engine.state().slot_number(), &address(1)).await.err().unwrap();
    assert_eq!(error, NOT_OF_THIS_CLUSTER, "the node belongs to another group");
    // As if the address led to another cluster, in which another server holds the lease.
    let other = open(cluster.all(&database), false).await;
    let error = connect(engine.state(), other.state().slot_number(), &address(2)).await.err().unwrap();
    assert_eq!(error, NOT_OF_THIS_CLUSTER);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_answer_is_left_out_until_it_does() {
    let Some(cluster) = CitusCluster::start(2) else { return };
    let database = distributed(&cluster).await;
    let engine = open(cluster.all(&database), false).await;
    let pool = &engine.state().pool;
    let shards = pool.shards().unwrap();
    let map = shard_map(engine.state()).await;
    let partition = partitions(100).into_iter().find(|partition| map.group_of(hash(partition)) == Some(2)).unwrap();
    let is_up = || engine.state().pool.nodes().iter().map(|node| node.is_up()).collect::<Vec<_>>();
    let becomes = async |expected: [bool; 3]| {
        let began = Instant::now();
        while is_up() != expected {
            assert!(began.elapsed() < TIMEOUT, "{:?}", is_up());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let elsewhere = async || {
        for _ in 0..20 {
            for lease in [pool.take().await.unwrap(), pool.take_for(&partition).await.unwrap()] {
                assert_ne!(own_group(&lease).await, 2);
                lease.return_to_pool();
            }
        }
    };
    assert_eq!(is_up(), [true; 3]);
    cluster.kill(2);
    becomes([true, true, false]).await;
    elsewhere().await;
    cluster.restart(2);
    becomes([true; 3]).await;
    let lease = pool.take_for(&partition).await.unwrap();
    assert_eq!(own_group(&lease).await, 2);
    lease.return_to_pool();
    // A frozen node accepts connections but does not respond.
    let frozen = cluster.freeze(2);
    becomes([true, true, false]).await;
    elsewhere().await;
    drop(frozen);
    becomes([true; 3]).await;
    // The engine can be opened even if a node is down.
    cluster.kill(2);
    let other = open(cluster.url_of_several(&[2, 1, 0], &database), false).await;
    assert!(other.state().pool.take_for(&partition).await.is_ok());
    assert_eq!(other.state().pool.shards(), Some(shards));
}
