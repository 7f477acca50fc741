//! Tests of the change log on Citus: partitions move, shards are split, nodes come and go, and nodes and servers fail.

use crate::changes::{DAY, Server, check, eventually, log_of, start_writers, wait_until_complete};
use engine::{ChangeEffect, ChangeSelection, ChangesError, Engine};
use engine_contract::cases::changes::wait_for;
use engine_contract::support::*;
use engine_postgres::{PostgresOptions, StoreError};
use model::clock::SystemClock;
use rowhouse_engine_citus::{Balance, open as open_database};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use test_support::cluster::CitusCluster;

async fn try_open(url: &str, is_logged: bool) -> Result<Server, StoreError> {
    let keep_changes = is_logged.then_some(DAY);
    let options = PostgresOptions { distribute: true, keep_changes, ..PostgresOptions::new(url, 6) };
    open_database(&options, Balance::Off, SystemClock).await
}

async fn open(url: &str) -> Server {
    try_open(url, true).await.unwrap()
}

/// A database of a cluster.
struct Database<'c> {
    cluster: &'c CitusCluster,
    name: String,
}

impl Database<'_> {
    fn sql(&self, statement: &str) -> String {
        self.cluster.sql(0, &self.name, statement).trim().to_owned()
    }

    /// Returns the shards of the entities on a node.
    fn shards(&self, node: usize) -> Vec<String> {
        let shards = self.sql(&format!(
            "SELECT shardid FROM citus_shards WHERE nodeport = {} AND table_name = 'rowhouse_entities'::regclass \
             ORDER BY 1",
            self.cluster.port(node)
        ));
        shards.lines().map(str::to_owned).collect()
    }

    /// Adds a worker, without shards.
    fn add_worker(&self) -> usize {
        let added = self.cluster.add_worker(&self.name);
        self.sql("SELECT replicate_reference_tables('block_writes')");
        added
    }

    fn move_shard(&self, shard: &str, from: usize, to: usize, mode: &str) {
        let (from, to) = (self.cluster.port(from), self.cluster.port(to));
        self.sql(&format!(
            "SELECT citus_move_shard_placement({shard}, '127.0.0.1', {from}, '127.0.0.1', {to}, '{mode}')"
        ));
    }

    /// Waits until the server that decodes has seen where the shards are.
    fn settle(&self) {
        self.cluster.wait_until_change_log_has_placements(&self.name);
    }

    /// Divides a shard in the middle between two nodes.
    fn split_shard(&self, shard: &str, nodes: [usize; 2]) {
        let [one, other] = nodes.map(|node| {
            self.sql(&format!("SELECT nodeid FROM pg_dist_node WHERE nodeport = {}", self.cluster.port(node)))
        });
        let middle = format!(
            "SELECT (shardminvalue::bigint + shardmaxvalue::bigint) / 2 FROM pg_dist_shard WHERE shardid = {shard}"
        );
        let middle = self.sql(&middle);
        self.sql(&format!(
            "SELECT citus_split_shard_by_split_points({shard}, ARRAY['{middle}'], ARRAY[{one}, {other}], \
             'block_writes')"
        ));
    }

    /// Waits until the log of a node is decoded, or is not decoded any more.
    async fn wait_for_slot(&self, node: usize, exists: bool) {
        let slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND active";
        eventually("a slot", async || {
            self.cluster.sql(node, &self.name, slots).trim() == if exists { "1" } else { "0" }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_shown_once_while_partitions_move_and_nodes_and_servers_fail() {
    let Some(cluster) = CitusCluster::start(2) else { return };
    let database = Database { cluster: &cluster, name: cluster.database() };
    let url = cluster.workers(&database.name);
    let (one, other) = (Arc::new(open(&url).await), Arc::new(open(&url).await));
    let (log, table) = (log_of(&one), table("Moves"));
    let begin = log.kept().next;
    one.create_table(&table).await.unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let writers = start_writers(12, [&one, &other], &table, &is_done);
    let progress = async |what: &str| {
        let before = log.kept().next;
        eventually(what, async || log.kept().next > before + 50).await;
        println!("{what}: {} transactions", log.kept().next - begin);
    };
    progress("before the moves").await;
    // The same shards move back and forth.
    for (round, mode) in ["block_writes", "block_writes", "force_logical"].into_iter().enumerate() {
        for shard in database.shards(1).iter().take(3 - round) {
            for (from, to) in [(1, 2), (2, 1), (1, 2)] {
                database.move_shard(shard, from, to, mode);
                database.settle();
            }
        }
        progress("after a round of moves").await;
        for shard in database.shards(2).iter().take(6) {
            database.move_shard(shard, 2, 1, mode);
        }
        database.settle();
    }
    for shard in database.shards(1).iter().take(4) {
        database.split_shard(shard, [1, 2]);
    }
    database.settle();
    progress("after splits").await;
    // The server that decodes is killed.
    let third = open(&url).await;
    for server in [third, open(&url).await] {
        let reader = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots \
                      WHERE database = current_database() AND active";
        cluster.sql(1, &database.name, reader);
        progress("after a connection was lost").await;
        drop(server);
        progress("after a server was dropped").await;
    }
    for node in [1, 2, 0] {
        cluster.kill(node);
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.restart(node);
        progress("after a node was killed").await;
    }
    // A node is added, another one is removed.
    let added = database.add_worker();
    database.wait_for_slot(added, true).await;
    database.settle();
    for shard in database.shards(1) {
        database.move_shard(&shard, 1, added, "block_writes");
    }
    database.settle();
    progress("after partitions moved to a new node").await;
    is_done.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeMap::new();
    for (partition, writer) in writers {
        acknowledged.insert(partition, writer.await.unwrap());
    }
    let shown = wait_until_complete(&one, &log, begin).await;
    assert_eq!(log.kept().first, begin, "nothing was dropped");
    check(&one, &table, &shown, &acknowledged).await;
    for server in [&*other, &open(&url).await] {
        let log = log_of(server);
        eventually("the same end", async || log.kept().next == log_of(&one).kept().next).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_log_begins_when_the_order_is_unknown() {
    let Some(cluster) = CitusCluster::start(2) else { return };
    let database = Database { cluster: &cluster, name: cluster.database() };
    let url = cluster.workers(&database.name);
    let table = table("Away");
    let server = open(&url).await;
    let begin = log_of(&server).kept().next;
    server.create_table(&table).await.unwrap();
    wait_for(&log_of(&server), begin, 1).await;
    server.close().await.unwrap();
    let without = try_open(&url, false).await.unwrap();
    let write = async |row: &str| {
        for partition in 0..20 {
            commit_one(&without, &table, upsert(&partition.to_string(), row, 1)).await.unwrap();
        }
    };
    // Shards that moved once while no server looked are in order.
    write("before").await;
    for shard in database.shards(1) {
        database.move_shard(&shard, 1, 2, "block_writes");
    }
    write("after").await;
    let server = open(&url).await;
    let shown = wait_for(&log_of(&server), begin, 41).await;
    for partition in 0..20 {
        let keys = shown.iter().filter_map(|one| match &one.changes[0].effect {
            ChangeEffect::Put { key, .. } => Some(key.clone()),
            _ => None,
        });
        let of_partition = [key(&partition.to_string(), "before"), key(&partition.to_string(), "after")];
        let of_partition = of_partition.map(|key| key.encode());
        assert!(keys.filter(|key| of_partition.contains(key)).eq(of_partition.iter().cloned()), "{shown:?}");
    }
    let end = log_of(&server).kept().next;
    server.close().await.unwrap();
    let all = ChangeSelection::default();
    let expect_new_log = async |what: &str, end: u64| {
        let server = open(&url).await;
        let log = log_of(&server);
        eventually(what, async || log.kept().first > end).await;
        assert!(matches!(log.read(end, &all, 1).await, Err(ChangesError::Dropped(_))), "{what}");
        let next = log.kept().next;
        commit_one(&server, &table, upsert("p", what, 1)).await.unwrap();
        wait_for(&log, next, 1).await;
        server.close().await.unwrap();
        log.kept().next
    };
    // A shard that moved twice.
    let shard = &database.shards(2)[0];
    database.move_shard(shard, 2, 1, "block_writes");
    database.move_shard(shard, 1, 2, "block_writes");
    let end = expect_new_log("a shard moved twice", end).await;
    // A node that received shards before it had a slot.
    let added = database.add_worker();
    database.move_shard(shard, 2, added, "block_writes");
    let end = expect_new_log("a node was added too late", end).await;
    // A lost slot of a worker.
    database.wait_for_slot(added, false).await;
    let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots \
                WHERE database = current_database()";
    cluster.sql(added, &database.name, drop);
    expect_new_log("a slot was lost", end).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_and_an_unused_log_leave_no_slots() {
    let Some(cluster) = CitusCluster::start(2) else { return };
    let database = Database { cluster: &cluster, name: cluster.database() };
    let url = cluster.url_of_several(&[1], &database.name);
    let server = open(&url).await;
    let (log, table) = (log_of(&server), table("Removed"));
    let begin = log.kept().next;
    server.create_table(&table).await.unwrap();
    wait_for(&log, begin, 1).await;
    for shard in database.shards(2) {
        database.move_shard(&shard, 2, 1, "block_writes");
    }
    let drain = format!("SELECT citus_drain_node('127.0.0.1', {}, 'block_writes')", cluster.port(2));
    database.sql(&drain);
    database.wait_for_slot(2, true).await;
    database.sql(&format!("SELECT citus_remove_node('127.0.0.1', {})", cluster.port(2)));
    database.wait_for_slot(2, false).await;
    commit_one(&server, &table, upsert("p", "r", 1)).await.unwrap();
    wait_for(&log, begin, 2).await;
    server.close().await.unwrap();
    database.sql("UPDATE rowhouse_leases SET renewed = now() - interval '1 hour' WHERE number = 66");
    let without = try_open(&url, false).await.unwrap();
    let objects = "SELECT (SELECT count(*) FROM pg_replication_slots WHERE database = current_database()) \
                   + (SELECT count(*) FROM pg_publication) \
                   + (SELECT count(*) FROM pg_class WHERE relname LIKE 'rowhouse_change%')";
    eventually("the removal of the log", async || {
        (0..2).all(|node| cluster.sql(node, &database.name, objects).trim() == "0")
    })
    .await;
    without.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_decoder_of_citus_survives_many_changes_of_the_catalog() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let server = open(&cluster.workers(&cluster.database())).await;
    let (log, table) = (log_of(&server), table("Churn"));
    let begin = log.kept().next;
    for _ in 0..100 {
        server.create_table(&table).await.unwrap();
        server.delete_table(&table).await.unwrap();
    }
    wait_for(&log, begin, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_log_requires_of_each_node_is_named() {
    let Some(cluster) = CitusCluster::start(2) else { return };
    let name = cluster.database();
    let url = cluster.workers(&name);
    cluster.sql(2, &name, "ALTER SYSTEM SET citus.enable_change_data_capture = off");
    cluster.sql(2, &name, "SELECT pg_reload_conf()");
    let refused = try_open(&url, true).await.err().unwrap().to_string();
    let place = format!("127.0.0.1:{}", cluster.port(2));
    assert!(refused.contains("citus.enable_change_data_capture = on") && refused.contains(&place), "{refused}");
    cluster.sql(2, &name, "ALTER SYSTEM RESET citus.enable_change_data_capture");
    cluster.sql(2, &name, "SELECT pg_reload_conf()");
    drop(open(&url).await);
}
