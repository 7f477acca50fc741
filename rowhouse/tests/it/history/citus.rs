//! Servers that share a Citus cluster: through faults, and while shards are moved and split all the time, with the
//! statements of the balancer and by the balancer.

use super::clock::{Clocks, ShiftedClock};
use super::faults::{Faults, targets};
use super::http_client::Target;
use super::{Clients, Tally, run_rounds};
use crate::PROGRAM;
use crate::citus::steps::wait_until_nothing_is_left;
use history::{Mix, StampOrder};
use std::thread;
use std::time::{Duration, Instant};
use test_support::cluster::CitusCluster;
use test_support::{Random, Server, eventually};

const SERVERS: usize = 3;
const CLIENTS: usize = 9;
const MIX: Mix = Mix { partitions: 8, rows: 5, has_filters: true };
const WORK: Duration = Duration::from_secs(10);
const LOGICAL: &str = "force_logical";
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

/// The number of moves and splits in each round.
const STEPS: usize = 6;
/// One in this number of steps is left to the balancer, if the load is uneven.
const BALANCER: u64 = 3;

#[test]
fn servers_on_citus_are_strictly_serializable_while_shards_are_moved_and_split() {
    let Some(cluster) = CitusCluster::start(3) else { return };
    // With few shards, the clients use all of them, and each step concerns a large part of the operations.
    let database = cluster.database_with_shards(4);
    let url = cluster.workers(&database);
    let arguments = ["--store", &url, "--distribute", "--store-connections", "8"];
    let servers: Vec<Server> = (0..SERVERS).map(|_| PROGRAM.start(&arguments)).collect();
    let target = |server: &Server| {
        let target = Target::new(None);
        target.address.write().unwrap().clone_from(&server.address);
        target
    };
    let targets: Vec<_> = servers.iter().map(target).collect();
    eventually("the load of all servers", || {
        let shown = PROGRAM.folder().run("balance", &["--show", "--store", &url], &[]);
        shown.stdout.starts_with(&format!("measured by {SERVERS} servers")).then_some(())
    });
    let mut longest = Duration::ZERO;
    run_rounds("Citus, moves and splits", |round, random| {
        let mut tally = Tally::default();
        let table = format!("steps{round}");
        let mut clients = Clients::new(table.clone(), CLIENTS, MIX, random);
        clients.create_table(servers[0].client());
        clients.work(&targets, |progress| {
            progress.wait_for_all();
            for _ in 0..STEPS {
                let step = if random.below(BALANCER) == 0 { balance(&url) } else { None };
                let step = step.or_else(|| change_shards(&cluster, &database, &table, LOGICAL, random).unwrap());
                tally.count(step.expect("clients have written to shards"));
            }
            progress.wait_for_all();
        });
        clients.check(StampOrder::Life, &mut tally);
        longest = longest.max(clients.longest_write());
        tally
    });
    println!("no client waited longer than {longest:?} for the answer to a write");
    wait_until_nothing_is_left(&cluster, &database);
    for server in servers {
        server.stop_cleanly();
    }
}

/// Lets the balancer take a step, if the load is uneven.
fn balance(url: &str) -> Option<&'static str> {
    let ran = PROGRAM.folder().run("balance", &["--take", "--store", url], &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    println!("{}", ran.stdout.trim());
    match ran.stdout.strip_prefix("done: ")?.split(' ').next()? {
        "move" => Some("moves by the balancer"),
        "split" => Some("splits by the balancer"),
        _ => panic!("{ran:?}"),
    }
}

/// Moves or splits a shard of the partitions that a table has. Returns what was done, or `None` if the table is empty.
///
/// No piece of a split goes directly to the node of the shard, as in the steps of the balancer: such a split can hang
/// while there are writes.
fn change_shards(
    cluster: &CitusCluster,
    database: &str,
    table: &str,
    mode: &str,
    random: &mut Random,
) -> Result<Option<&'static str>, String> {
    let sql = |statement: &str| cluster.try_sql(0, database, statement);
    // A partition in the database begins with the ID of its table.
    let id = sql(&format!("SELECT lpad(to_hex(id), 16, '0') FROM rowhouse_tables WHERE name = '{table}'"))?;
    let partitions = sql(&format!(
        "SELECT DISTINCT encode(partition, 'hex') FROM rowhouse_entities
         WHERE encode(substr(partition, 1, 8), 'hex') = '{}' ORDER BY 1",
        id.trim()
    ))?;
    let partitions: Vec<_> = partitions.lines().collect();
    if partitions.is_empty() {
        return Ok(None);
    }
    let partition = partitions[random.index(partitions.len())];
    let shard = sql(&format!(
        "SELECT shardid, nodeid, shardminvalue, shardmaxvalue, worker_hash('\\x{partition}'::bytea)
         FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)
         WHERE shardid = get_shard_id_for_distribution_column('rowhouse_entities', '\\x{partition}'::bytea)"
    ))?;
    let shard: Vec<i64> = shard.trim().split('|').map(|number| number.parse().unwrap()).collect();
    let [shard, node, first, last, hash] = shard[..] else { panic!("{partition} is in {shard:?}") };
    let others =
        sql(&format!("SELECT nodeid FROM pg_dist_node WHERE shouldhaveshards AND nodeid <> {node} ORDER BY 1"))?;
    let others: Vec<_> = others.lines().collect();
    if first == last || random.below(2) == 0 {
        let to = others[random.index(others.len())];
        sql(&format!("SELECT citus_move_shard_placement({shard}, {node}, {to}, '{mode}')"))?;
        return Ok(Some("moves"));
    }
    // The partition gets its own shard, or the shard is divided anywhere.
    let mut points: Vec<_> = [hash - 1, hash].into_iter().filter(|point| (first..last).contains(point)).collect();
    if random.below(2) == 0 {
        points = vec![first + i64::try_from(random.below(u64::try_from(last - first).unwrap())).unwrap()];
    }
    let nodes: Vec<_> = (0..=points.len()).map(|_| others[random.index(others.len())]).collect();
    let (points, nodes) = (points.iter().map(i64::to_string).collect::<Vec<_>>().join(","), nodes.join(","));
    sql(&format!("SELECT citus_split_shard_by_split_points({shard}, '{{{points}}}', '{{{nodes}}}', '{mode}')"))?;
    Ok(Some("splits"))
}
