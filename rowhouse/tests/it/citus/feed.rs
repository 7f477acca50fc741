//! The change feed of servers on Citus, while shards move, and while nodes and the server that decodes are killed.
//!
//! A reader applies each change once, and resumes after the last one. A change that is missing, repeated or out of
//! order leads to an impossible change or to a different result. Counters show in addition that every acknowledged
//! write is in the feed, even if a later one has overwritten it.

use super::{SEED, cluster};
use crate::PROGRAM;
use crate::change_replay::{ChangeReplay, WITHOUT_METADATA};
use crate::load::Load;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use test_support::cluster::CitusCluster;
use test_support::{Client, EndOnDrop, Random, Server, eventually};

const COUNTERS: u64 = 16;

/// Servers with a change feed. The first one decodes.
struct LogServers<'s> {
    store: &'s str,
    servers: Mutex<Vec<Server>>,
}

impl LogServers<'_> {
    fn start(&self) {
        let options = ["--store", self.store, "--distribute", "--store-connections", "6", "--keep-log", "1h"];
        let started = PROGRAM.start(&options);
        self.servers.lock().unwrap().push(started);
    }

    /// Kills the server that decodes.
    fn kill(&self) {
        let first = self.servers.lock().unwrap().remove(0);
        let log = first.kill9();
        assert!(!log.iter().any(|line| line.contains("panicked")), "{log:?}");
    }

    fn address(&self, number: u64) -> String {
        let servers = self.servers.lock().unwrap();
        servers[usize::try_from(number).unwrap() % servers.len()].address.clone()
    }

    /// Writes increasing numbers to an entity, and returns those that were acknowledged.
    fn count(&self, partition: u64, is_over: &AtomicBool) -> Vec<u64> {
        let (mut acknowledged, mut number) = (Vec::new(), 0);
        let path = format!("/counted(PartitionKey='{partition}',RowKey='r')");
        while !is_over.load(Ordering::SeqCst) {
            let Ok(mut client) = Client::connect(&self.address(partition)) else { continue };
            while !is_over.load(Ordering::SeqCst) {
                number += 1;
                let body = format!(r#"{{"N":{number}}}"#);
                match client.try_request("PUT", &path, &[], body.as_bytes()) {
                    Ok(answer) if answer.status == 204 => acknowledged.push(number),
                    // The write may have taken effect.
                    Ok(answer) if matches!(answer.status, 500 | 503) => thread::sleep(Duration::from_millis(20)),
                    Ok(answer) => panic!("{answer:?}"),
                    Err(_server_is_down) => break,
                }
            }
        }
        acknowledged
    }
}

fn shard_on(cluster: &CitusCluster, database: &str, node: usize) -> String {
    let statement = format!(
        "SELECT shardid FROM citus_shards WHERE nodeport = {} AND table_name = 'rowhouse_entities'::regclass LIMIT 1",
        cluster.port(node)
    );
    cluster.sql(0, database, &statement).trim().to_owned()
}

/// Checks that the feed contains each acknowledged number of a counter once and in order.
fn check_counters(client: &mut Client, acknowledged: &BTreeMap<String, Vec<u64>>) {
    let mut shown: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for change in client.query("/$ChangesCounted()?", &WITHOUT_METADATA).unwrap() {
        if let Some(number) = change.get("Entity_N") {
            let partition = change["Entity_PartitionKey"].as_str().unwrap().to_owned();
            shown.entry(partition).or_default().push(number.as_u64().unwrap());
        }
    }
    for (partition, acknowledged) in acknowledged {
        let shown = &shown[partition];
        let mut once = shown.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), shown.len(), "{partition}: a change is in the feed twice");
        let shown: Vec<u64> =
            shown.iter().copied().filter(|number| acknowledged.binary_search(number).is_ok()).collect();
        assert_eq!(&shown, acknowledged, "partition {partition}");
    }
    println!("{} acknowledged numbers are in the feed", acknowledged.values().map(Vec::len).sum::<usize>());
}

#[test]
fn the_change_feed_shows_everything_once_while_shards_move_and_nodes_and_servers_die() {
    let Some((cluster, database, store)) = cluster() else { return };
    let logs = LogServers { store: &store, servers: Mutex::default() };
    logs.start();
    logs.start();
    assert_eq!(
        Client::connect(&logs.address(0))
            .unwrap()
            .request("POST", "/Tables", &[], br#"{"TableName":"counted"}"#)
            .status,
        201
    );
    let mut load = Load::new(&store, 2, &mut Random::from_environment(SEED));
    let (is_over, mut replay, mut acknowledged) = (AtomicBool::new(false), ChangeReplay::default(), BTreeMap::new());
    thread::scope(|scope| {
        let _end = EndOnDrop(&is_over);
        let (logs, is_over, replay) = (&logs, &is_over, &mut replay);
        let counters = (0..COUNTERS).map(|partition| scope.spawn(move || (partition, logs.count(partition, is_over))));
        let counters: Vec<_> = counters.collect();
        scope.spawn(move || {
            for number in 0.. {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                replay.follow(&logs.address(number), is_over);
            }
        });
        load.work_during(|watch| {
            for (from, to, mode) in [(1, 2, "block_writes"), (2, 1, "force_logical"), (1, 2, "force_logical")] {
                for _ in 0..3 {
                    let shard = shard_on(&cluster, &database, from);
                    let (from, to) = (cluster.port(from), cluster.port(to));
                    let moved = format!(
                        "SELECT citus_move_shard_placement({shard}, '127.0.0.1', {from}, '127.0.0.1', {to}, '{mode}')"
                    );
                    cluster.sql(0, &database, &moved);
                }
                watch.wait_for_all_writers();
                cluster.wait_until_change_log_has_placements(&database);
            }
            let shard = shard_on(&cluster, &database, 1);
            let split = format!(
                "SELECT citus_split_shard_by_split_points(shardid, \
                 ARRAY[((shardminvalue::bigint + shardmaxvalue::bigint) / 2)::text], \
                 (SELECT array_agg(nodeid::integer) FROM pg_dist_node WHERE groupid <> 0), 'block_writes') \
                 FROM pg_dist_shard WHERE shardid = {shard}"
            );
            cluster.sql(0, &database, &split);
            watch.wait_for_all_writers();
            assert_eq!(watch.late_changes(), 0);
        });
        load.work_during(|watch| {
            for worker in [1, 2] {
                logs.kill();
                logs.start();
                watch.wait_for_all_writers();
                cluster.kill(worker);
                watch.wait_for_some_writers();
                logs.kill();
                cluster.restart(worker);
                logs.start();
                watch.wait_for_all_writers();
            }
        });
        is_over.store(true, Ordering::SeqCst);
        for counter in counters {
            let (partition, numbers) = counter.join().unwrap();
            acknowledged.insert(partition.to_string(), numbers);
        }
    });
    load.stop();
    let mut client = Client::connect(&logs.address(0)).unwrap();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"last"}"#).status, 201);
    eventually("the last change", || {
        replay.read(&mut client).unwrap();
        replay.has_table("last").then_some(())
    });
    replay.check(&mut client);
    check_counters(&mut client, &acknowledged);
    println!("{} changes", replay.changes());
    for server in logs.servers.into_inner().unwrap() {
        server.stop_cleanly();
    }
}
