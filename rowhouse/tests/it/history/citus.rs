//! Servers that share a Citus cluster.

use super::clock::{Clocks, ShiftedClock};
use super::faults::{Faults, targets};
use super::steps::change_shards;
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
pub(super) const LOGICAL: &str = "force_logical";
/// How shards are moved and split, alternately.
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
        let table = format!("citus{round}");
        let mut clients = Clients::new(table.clone(), CLIENTS, MIX, random);
        let targets = targets(&clocks, round, SERVERS);
        let mut chosen = Random::new(random.number());
        let sql = |statement: &str| cluster.sql(0, &database, statement);
        let mut faults = Faults::new(&url, &["--distribute"], &targets, &clocks, &mut chosen, sql);
        clients.create_table(faults.client());
        added.get_or_insert_with(|| {
            cluster.add_worker(&database);
            cluster.sql(0, &database, "SELECT replicate_reference_tables('block_writes')");
        });
        clients.work(&targets, |progress| {
            thread::scope(|scope| {
                let first = *first_mode.get_or_insert_with(|| faults.random.below(2));
                let mode = MODES[usize::try_from((first + round) % 2).unwrap()];
                // Logical replication waits for an hour if the clock of a node is set back by one.
                let nodes = if mode == LOGICAL { &[][..] } else { &nodes };
                let (seed, cluster, database, table) = (faults.random.number(), &cluster, &database, &table);
                let changes = scope.spawn(move || change_shards_through_faults(cluster, database, table, mode, seed));
                harm(&mut faults, cluster, nodes);
                faults.heal();
                changes.join().unwrap().into_iter().for_each(|change| faults.tally.count(change));
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

/// Moves and splits the shards of the partitions that the clients use, while other nodes fail. Returns the number of
/// each kind of change.
fn change_shards_through_faults(
    cluster: &CitusCluster,
    database: &str,
    table: &str,
    mode: &str,
    seed: u64,
) -> Vec<&'static str> {
    let (mut random, mut changes) = (Random::new(seed), Vec::new());
    let end = Instant::now() + WORK;
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(random.below(500)));
        match change_shards(cluster, database, table, mode, &mut random) {
            Ok(change) => changes.extend(change),
            // A node that the change needs was down.
            Err(error) => {
                println!("a shard was not changed: {}", error.lines().next().unwrap_or_default());
                changes.push("failed changes of shards");
            }
        }
    }
    changes
}
