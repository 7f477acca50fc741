//! Servers that share a Citus cluster.

use super::clock::{Clocks, ShiftedClock};
use super::faults::{Faults, targets};
use super::{Clients, run_rounds};
use history::{Mix, StampOrder};
use std::thread;
use std::time::{Duration, Instant};
use test_support::Random;
use test_support::cluster::CitusCluster;

const SERVERS: usize = 3;
const CLIENTS: usize = 9;
const MIX: Mix = Mix { partitions: 8, rows: 5, has_filters: true };
const WORK: Duration = Duration::from_secs(10);
const LOGICAL: &str = "force_logical";
/// How shards are moved, alternately.
const MODES: [&str; 2] = ["block_writes", LOGICAL];

#[test]
fn servers_on_citus_are_strictly_serializable_through_faults_and_shard_moves() {
    let clocks = Clocks::new();
    let nodes = [0, 1, 2, 3].map(|node| clocks.clock(&format!("node{node}")));
    let Some(cluster) = CitusCluster::start_with_clocks(2, clocks.folder()) else { return };
    let database = cluster.database();
    let url = cluster.workers(&database);
    let (mut added, mut first_mode) = (None, None);
    run_rounds("Citus", |round, random| {
        let mut clients = Clients::new(format!("citus{round}"), CLIENTS, MIX, random);
        let targets = targets(&clocks, round, SERVERS);
        let mut chosen = Random::new(random.number());
        let sql = |statement: &str| cluster.sql(0, &database, statement);
        let mut faults = Faults::new(&url, &["--distribute"], &targets, &clocks, &mut chosen, sql);
        clients.create_table(faults.client());
        let added = *added.get_or_insert_with(|| {
            let added = cluster.add_worker(&database);
            cluster.sql(0, &database, "SELECT replicate_reference_tables('block_writes')");
            added
        });
        clients.work(&targets, |progress| {
            thread::scope(|scope| {
                let first = *first_mode.get_or_insert_with(|| faults.random.below(2));
                let mode = MODES[usize::try_from((first + round) % 2).unwrap()];
                // Logical replication waits for an hour if the clock of a node is set back by one.
                let nodes = if mode == LOGICAL { &[][..] } else { &nodes };
                let (seed, cluster, database) = (faults.random.number(), &cluster, &database);
                let moves = scope.spawn(move || move_shards(cluster, database, added, mode, seed));
                harm(&mut faults, cluster, nodes);
                faults.heal();
                let (moved, failed) = moves.join().unwrap();
                *faults.tally.faults.entry("shard moves").or_default() += moved;
                *faults.tally.faults.entry("failed shard moves").or_default() += failed;
            });
            progress.wait_for_all();
        });
        for clock in &nodes {
            clock.set(0);
        }
        let mut tally = faults.stop();
        clients.check(StampOrder::Life, &mut tally);
        tally
    });
}

fn harm<'a>(faults: &mut Faults<'a>, cluster: &'a CitusCluster, clocks: &[ShiftedClock]) {
    let end = Instant::now() + WORK;
    while Instant::now() < end {
        faults.pass_time();
        if faults.random.below(8) == 0 && !clocks.is_empty() {
            faults.shift_database(clocks);
            continue;
        }
        if faults.random.below(5) > 0 || !faults.is_database_healthy() {
            faults.harm_server();
            continue;
        }
        let worker = 1 + faults.random.index(2);
        if faults.random.below(2) == 0 {
            cluster.kill(worker);
            faults.database("kills of a worker", move || cluster.restart(worker));
        } else {
            let frozen = cluster.freeze(worker);
            faults.database("freezes of a worker", || drop(frozen));
        }
    }
}

/// Moves the shards of the partitions that the clients use, while other nodes fail. Returns the numbers of successful
/// and failed moves.
fn move_shards(cluster: &CitusCluster, database: &str, added: usize, mode: &str, seed: u64) -> (u64, u64) {
    let (mut random, (mut moved, mut failed)) = (Random::new(seed), (0, 0));
    let end = Instant::now() + WORK;
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(random.below(500)));
        let (to, number) = (cluster.port([1, 2, added][random.index(3)]), random.below(1000));
        let partitions = "SELECT DISTINCT encode(partition, 'hex') FROM rowhouse_entities ORDER BY 1";
        let result = cluster.try_sql(0, database, partitions).and_then(|partitions| {
            let partitions: Vec<_> = partitions.lines().collect();
            let Some(partition) = partitions.get(usize::try_from(number).unwrap() % partitions.len().max(1)) else {
                return Ok(String::new());
            };
            let shard = format!("get_shard_id_for_distribution_column('rowhouse_entities', '\\x{partition}'::bytea)");
            let move_shard = format!(
                "SELECT citus_move_shard_placement(shardid, nodename, nodeport, '127.0.0.1', {to}, '{mode}')
                 FROM citus_shards WHERE shardid = {shard} AND nodeport <> {to}"
            );
            cluster.try_sql(0, database, &move_shard).map(|rows| format!("{partition}{rows}"))
        });
        match result {
            Ok(rows) if rows.ends_with('\n') => moved += 1,
            Ok(_) => {}
            // A node that the move needs was down.
            Err(error) => {
                println!("a shard was not moved: {}", error.lines().next().unwrap_or_default());
                failed += 1;
            }
        }
    }
    (moved, failed)
}
