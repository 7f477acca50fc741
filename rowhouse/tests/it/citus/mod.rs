//! Tests of servers that use a Citus cluster through its workers, while nodes die, are cut off, or are added under
//! load.
//!
//! No acknowledged write is lost, and every entity has the acknowledged ETag. Clients see only errors after which they
//! retry. A scan of a table shows every entity once or fails. The servers continue without a restart.

mod feed;
mod guide;
pub(crate) mod steps;

use crate::PROGRAM;
use crate::admin::page::{Page, get, text};
use crate::load::{Load, start};
use serde_json::Value;
use std::thread;
use std::time::{Duration, Instant};
use test_support::cluster::CitusCluster;
use test_support::writers::fault;
use test_support::{Client, Random, Server, TIMEOUT, eventually, eventually_within};

const SEED: &str = "ROWHOUSE_CITUS_SEED";

fn cluster() -> Option<(CitusCluster, String, String)> {
    let cluster = CitusCluster::start(2)?;
    let database = cluster.database();
    let store = cluster.workers(&database);
    Some((cluster, database, store))
}

#[test]
fn nothing_is_lost_when_workers_are_cut_off_or_killed_under_load() {
    let Some((cluster, _, store)) = cluster() else { return };
    let mut random = Random::from_environment(SEED);
    let mut load = Load::new(&store, 3, &mut random);
    load.work_during(|watch| {
        let frozen = cluster.freeze(1);
        watch.wait_for_some_writers();
        thread::sleep(Duration::from_millis(4000 + random.below(2000)));
        drop(frozen);
        watch.wait_for_all_writers();
        assert_eq!(watch.late_changes(), 0);
        for worker in [1, 2, 1] {
            cluster.kill(worker);
            // Entities on the other worker are served.
            watch.wait_for_some_writers();
            thread::sleep(Duration::from_millis(random.below(1500)));
            cluster.restart(worker);
            watch.wait_for_all_writers();
        }
    });
    load.stop();
}

/// Sends a request that changes the catalog, and returns its status. If the service is unavailable, the response is
/// the same as for entities.
fn change_catalog(client: &mut Client, method: &str, path: &str) -> u16 {
    let body: &[u8] = if method == "POST" { br#"{"TableName":"later"}"# } else { b"" };
    let answer = client.request(method, path, &[], body);
    fault(&answer);
    answer.status
}

#[test]
fn entities_are_served_without_the_coordinator() {
    let Some((cluster, _, store)) = cluster() else { return };
    let mut load = Load::new(&store, 2, &mut Random::from_environment(SEED));
    let mut started: Option<Server> = None;
    load.work_during(|watch| {
        let before = watch.faults();
        cluster.kill(0);
        watch.wait_for_all_writers();
        let server = start(&store);
        let mut client = server.client();
        let table = client.request("GET", "/Tables('still')", &[], b"");
        assert_eq!(table.status, 200, "{table:?}");
        assert_eq!(change_catalog(&mut client, "POST", "/Tables"), 503);
        // The server does not know whether the node that handled the request has already executed it on the
        // coordinator.
        assert!(matches!(change_catalog(&mut client, "DELETE", "/Tables('still')"), 500 | 503));
        watch.wait_for_all_writers();
        assert_eq!(watch.faults(), before, "no operation on entities needs the coordinator");
        cluster.restart(0);
        eventually("the coordinator's return", || {
            (change_catalog(&mut client, "POST", "/Tables") == 201).then_some(())
        });
        assert_eq!(change_catalog(&mut client, "DELETE", "/Tables('later')"), 204);
        watch.wait_for_all_writers();
        assert_eq!(watch.late_changes(), 0);
        started = Some(server);
    });
    started.unwrap().stop_cleanly();
    load.stop();
}

fn shards(cluster: &CitusCluster, database: &str, node: usize) -> u32 {
    let statement = format!(
        "SELECT count(*) FROM citus_shards WHERE nodeport = {} AND table_name = 'rowhouse_entities'::regclass",
        cluster.port(node)
    );
    cluster.sql(0, database, &statement).trim().parse().unwrap()
}

/// Moves shards by a statement. A new worker needs a copy of the catalog first, and Citus may end in a deadlock
/// when it makes the copy while tables are created and deleted.
fn move_shards(cluster: &CitusCluster, database: &str, statement: &str) {
    eventually("an end without a deadlock", || match cluster.try_sql(0, database, statement) {
        Ok(_) => Some(()),
        Err(error) => {
            assert!(error.contains("deadlock"), "{error}");
            None
        }
    });
}

#[test]
fn shards_move_to_added_workers_under_load() {
    let Some((cluster, database, store)) = cluster() else { return };
    let mut load = Load::new(&store, 3, &mut Random::from_environment(SEED));
    let mut third = 0;
    load.work_during(|watch| {
        third = cluster.add_worker(&database);
        watch.wait_for_all_writers();
        assert_eq!(shards(&cluster, &database, third), 0);
        move_shards(&cluster, &database, "SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes')");
        assert!(shards(&cluster, &database, third) > 5);
        watch.wait_for_all_writers();
        assert_eq!(watch.late_changes(), 0);
    });
    // Another server, whose store URL includes the new node.
    load.add_server(&cluster.url_of_several(&[1, 2, third], &database));
    load.work_during(|watch| {
        let fourth = cluster.add_worker(&database);
        cluster.sql(0, &database, "SELECT citus_rebalance_start(shard_transfer_mode => 'force_logical')");
        cluster.sql(0, &database, "SELECT citus_rebalance_wait()");
        assert!(shards(&cluster, &database, fourth) > 5);
        watch.wait_for_all_writers();
        // A worker that is known to all servers gives up its shards.
        let drain = format!("SELECT citus_drain_node('127.0.0.1', {}, 'force_logical')", cluster.port(1));
        move_shards(&cluster, &database, &drain);
        assert_eq!(shards(&cluster, &database, 1), 0);
        watch.wait_for_all_writers();
        assert_eq!(watch.late_changes(), 0);
    });
    load.stop();
}

#[test]
fn a_shard_with_all_the_load_is_split_over_the_workers_although_the_balancer_dies() {
    let Some(cluster) = CitusCluster::start(2) else { return };
    let database = cluster.database_with_shards(1);
    let store = cluster.workers(&database);
    let start = || {
        let balance = ["--balance", "auto", "--store-connections", "8"];
        PROGRAM.start(&[&["--store", &store, "--distribute"], &balance[..]].concat())
    };
    // This server has no clients, and decides on steps: it holds the lease with the number 67 (`BALANCE_LEASE`).
    let balancer = start();
    let lease = "SELECT count(holder) FROM rowhouse_leases WHERE number = 67";
    eventually("the lease", || (cluster.sql(0, &database, lease).trim() == "1").then_some(()));
    let mut load = Load::on((0..2).map(|_| start()).collect(), &mut Random::from_environment(SEED));
    load.work_during(|watch| {
        let nodes = "SELECT count(DISTINCT groupid) FROM pg_dist_placement JOIN pg_dist_shard USING (shardid) \
             WHERE logicalrelid = 'rowhouse_entities'::regclass";
        let nodes = || cluster.sql(0, &database, nodes).trim().to_owned();
        // Several steps may be needed, each after half a minute of observations.
        let balanced = |what: &str, nodes_now: &str| {
            eventually_within(10 * TIMEOUT, what, || (nodes() == nodes_now).then_some(()));
        };
        assert_eq!(nodes(), "1");
        let has_begun = || cluster.sql(0, &database, steps::RUNNING).trim() == "1" || nodes() == "2";
        eventually_within(10 * TIMEOUT, "the first step", || has_begun().then_some(()));
        // Another server takes over.
        balancer.kill9();
        balanced("pieces of the shard on both workers", "2");
        watch.wait_for_all_writers();
        cluster.add_worker(&database);
        balanced("a shard on the new worker", "3");
        watch.wait_for_all_writers();
    });
    let shown = PROGRAM.folder().run("balance", &["--show", "--json", "--store", &store], &[]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["servers"], 2, "{shown}");
    let steps = shown["steps"].as_array().unwrap();
    assert!(steps.len() >= 2 && steps.iter().all(|step| step["error"].is_null()), "{shown}");
    assert!(steps[0]["step"].as_str().unwrap().starts_with("split shard"), "{shown}");
    load.stop();
}

const LOAD: &str = "/?restype=service&comp=balance";

fn metrics(server: &Server) -> Page {
    let page = get(server, "/metrics");
    assert_eq!(page.status, 200);
    Page::read(text(&page))
}

/// Returns the sum of all samples whose names begin like this.
fn sum(page: &Page, start: &str) -> f64 {
    page.0.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, value)| value).sum()
}

#[test]
fn a_server_shows_the_load_of_another_one() {
    let Some((cluster, _, store)) = cluster() else { return };
    let start_with = |options: &[&str]| {
        PROGRAM.start(&[&["--store", &store, "--distribute", "--store-connections", "8"], options].concat())
    };
    let (busy, idle) = (start_with(&[]), start_with(&["--extensions", "--admin", "127.0.0.1:0"]));
    let mut client = busy.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"Hot"}"#).status, 201);
    eventually("the measurements of both servers", || {
        metrics(&idle).0.get("rowhouse_cluster_servers").filter(|servers| **servers > 1.9).map(drop)
    });
    let page = eventually("the load of a partition", || {
        for row in 0..100 {
            let entity = format!("/hot(PartitionKey='hottest',RowKey='{row}')");
            assert_eq!(client.request("PUT", &entity, &[], b"{}").status, 204);
        }
        let page = metrics(&idle);
        (page.0.get("rowhouse_cluster_partition_share{rank=\"1\"}")? > &0.5).then_some(page)
    });
    assert!(sum(&page, "rowhouse_cluster_node_load{") > 0.0, "{page:?}");
    assert!(sum(&page, "rowhouse_cluster_node_waiting{") > 0.0, "{page:?}");
    assert!((sum(&page, "rowhouse_cluster_node_shards{") - 32.0).abs() < 0.1, "{page:?}");
    assert!((sum(&page, "rowhouse_balance_advice{") - 1.0).abs() < 0.1, "{page:?}");
    assert!((1.9..2.1).contains(&page.0["rowhouse_cluster_imbalance_ratio"]), "{page:?}");

    let response = idle.client().request("GET", LOAD, &[], b"");
    assert_eq!(response.status, 200, "{response:?}");
    let load: Value = response.json();
    assert_eq!(load["servers"], 2, "{load}");
    let (nodes, shards) = (load["nodes"].as_array().unwrap(), load["shards"].as_array().unwrap());
    assert_eq!(shards.len(), 32, "{load}");
    for node in nodes {
        let name = format!("rowhouse_cluster_node_shards{{node={}}}", node["name"]);
        assert!((page.0[&name] - node["shards"].as_f64().unwrap()).abs() < 0.1, "{name} {load}");
    }
    let hottest = &load["partitions"][0];
    assert_eq!((&hottest["table"], &hottest["partition"]), (&Value::from("Hot"), &Value::from("hottest")), "{load}");
    assert_eq!(load["steps"], Value::Array(Vec::new()));
    let refused = busy.client().request("GET", LOAD, &[], b"");
    assert_eq!(refused.status, 400, "a server without extensions is like the service: {refused:?}");

    (0..=2).for_each(|node| cluster.kill(node));
    let began = Instant::now();
    assert!(!metrics(&idle).0.is_empty());
    assert!(began.elapsed() < TIMEOUT, "the page must not wait for the database");
    eventually("the end of an old load", || (!metrics(&idle).0.contains_key("rowhouse_cluster_servers")).then_some(()));
    assert_eq!(idle.client().request("GET", LOAD, &[], b"").status, 503);
}
