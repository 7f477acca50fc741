//! Steps of the balancer that are interrupted: nothing is lost, nothing is left, and the balancer takes them later.

use super::SEED;
use crate::PROGRAM;
use crate::load::{Load, Watch};
use serde_json::Value;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use test_support::cluster::CitusCluster;
use test_support::command::{CommandResult, wait_for_exit};
use test_support::content::fill;
use test_support::writers::fault;
use test_support::{Client, EndOnDrop, Random, Server, eventually, setting};

/// A step is interrupted at most this long after it has begun.
const DELAY_MILLISECONDS_MAX: u64 = 2500;
/// The maximum time for which a node is down.
const DOWN_MILLISECONDS_MAX: u64 = 3000;

/// The number of partitions that are read in large pages.
const PAGES: usize = 8;
const PAGE_ROWS: usize = 500;

#[derive(Debug, Clone, Copy)]
enum Victim {
    Balancer,
    Source,
    Target,
    Coordinator,
}

/// The victims while a shard is moved, and then those while a shard is split.
const VICTIMS: [Victim; 4] = [Victim::Balancer, Victim::Source, Victim::Target, Victim::Coordinator];

#[test]
fn an_interrupted_step_leaves_nothing_and_is_taken_later() {
    let mut random = Random::from_environment(SEED);
    let first = random.index(8);
    let mut interrupted = 0;
    let rounds = setting("ROWHOUSE_CRASH_ROUNDS").unwrap_or(2);
    for round in 0..usize::try_from(rounds).unwrap() {
        // Moves and splits alternate.
        let case = (first + 5 * round) % 8;
        let (is_split, victim) = (case % 2 == 1, VICTIMS[case / 2]);
        let Some(cluster) = CitusCluster::start(2) else { return };
        if interrupt(&cluster, is_split, victim, &mut random) {
            interrupted += 1;
        }
    }
    println!("{interrupted} of {rounds} steps were interrupted before they were completed");
}

/// A cluster with servers, whose shards are all on one node.
struct Crowded<'c> {
    cluster: &'c CitusCluster,
    database: String,
    store: String,
    /// The ID of the node with the shards, and the number of the node in the cluster.
    node: String,
    number: usize,
}

const PLACED: &str = "FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)
     WHERE logicalrelid = 'rowhouse_entities'::regclass";
/// Returns the number of running steps.
pub(super) const RUNNING: &str = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'
     AND (query LIKE 'SELECT citus_move_shard_placement(%' OR query LIKE 'SELECT citus_split_shard_by%')";

impl<'c> Crowded<'c> {
    /// Creates a database with so many shards, and starts a server with each of several lists of options.
    fn new(cluster: &'c CitusCluster, shards: u32, options: &[&[&str]]) -> (Self, Vec<Server>) {
        let database = cluster.database_with_shards(shards);
        let store = cluster.workers(&database);
        let usual = ["--store", &store, "--distribute", "--store-connections", "8"];
        let servers = options.iter().map(|options| PROGRAM.start(&[&usual, *options].concat())).collect();
        let mut crowded = Self { cluster, database, store, node: String::new(), number: 0 };
        crowded.node = crowded.sql(&format!("SELECT min(nodeid) {PLACED}"));
        let port = crowded.sql(&format!("SELECT nodeport FROM pg_dist_node WHERE nodeid = {}", crowded.node));
        crowded.number = if cluster.port(1) == port { 1 } else { 2 };
        for shard in crowded.sql(&format!("SELECT shardid, nodeid {PLACED} AND nodeid <> {}", crowded.node)).lines() {
            let (shard, from) = shard.split_once('|').unwrap();
            let to = &crowded.node;
            crowded.sql(&format!("SELECT citus_move_shard_placement({shard}, {from}, {to}, 'block_writes')"));
        }
        (crowded, servers)
    }

    fn sql(&self, statement: &str) -> String {
        self.cluster.sql(0, &self.database, statement).trim().to_owned()
    }

    /// Waits until a step runs, or until the balancer has ended because the step was too quick to be seen.
    fn wait_for_step(&self, balancer: &mut Child) {
        let has_ended = |balancer: &mut Child| balancer.try_wait().unwrap().is_some();
        eventually("a running step", || (self.sql(RUNNING) == "1" || has_ended(balancer)).then_some(()));
    }

    fn show(&self) -> Value {
        let shown = PROGRAM.folder().run("balance", &["--show", "--json", "--store", &self.store], &[]);
        if shown.code == Some(0) { serde_json::from_str(&shown.stdout).unwrap() } else { Value::Null }
    }

    /// Waits until the load is so uneven that a step should be taken, and returns the step.
    fn wait_for_advice(&self) -> Value {
        eventually("an uneven load", || Some(self.show()["step"].take()).filter(|step| !step.is_null()))
    }

    fn take(&self) -> Child {
        PROGRAM.folder().command("balance", &["--take", "--store", &self.store], &[]).spawn().unwrap()
    }

    /// Waits until all clients are served and nothing is left of a step.
    fn wait_for_recovery(&self, watch: &Watch<'_>) {
        watch.wait_for_all_writers();
        wait_until_nothing_is_left(self.cluster, &self.database);
    }
}

/// Reads large pages through a server, so that there is enough load to balance even on a slow machine.
fn read_pages(address: &str, is_over: &AtomicBool) {
    let mut client = Client::connect(address).unwrap();
    for page in 0.. {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let page =
            client.request("GET", &format!("/pages()?$filter=PartitionKey%20eq%20'p{:05}'", page % PAGES), &[], b"");
        if fault(&page).is_none() {
            assert_eq!(page.json()["value"].as_array().unwrap().len(), PAGE_ROWS);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Works while `harm` causes faults, with enough load to balance.
fn work_during(servers: Vec<Server>, random: &mut Random, harm: impl FnOnce(&Watch<'_>, &mut Random)) {
    let address = servers[0].address.clone();
    fill(&servers[0], "pages", PAGES, PAGE_ROWS);
    let mut load = Load::on(servers, random);
    load.work_during(|watch| {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| read_pages(&address, &is_over));
            let _end = EndOnDrop(&is_over);
            harm(watch, random);
        });
    });
    load.stop();
}

/// Kills a victim and restarts it, unless it is the balancer. Returns what the balancer reported.
fn kill(
    cluster: &CitusCluster,
    victim: Victim,
    source: usize,
    mut balancer: Child,
    watch: &Watch<'_>,
    random: &mut Random,
) -> Option<CommandResult> {
    let node = match victim {
        Victim::Balancer => {
            if balancer.try_wait().unwrap().is_some() {
                return Some(wait_for_exit(balancer));
            }
            balancer.kill().unwrap();
            balancer.wait().unwrap();
            return None;
        }
        Victim::Source => source,
        Victim::Target => 3 - source,
        Victim::Coordinator => 0,
    };
    cluster.kill(node);
    if node == 0 {
        watch.wait_for_all_writers();
    }
    thread::sleep(Duration::from_millis(random.below(DOWN_MILLISECONDS_MAX)));
    cluster.restart(node);
    Some(wait_for_exit(balancer))
}

/// Interrupts a step. Returns false if it was completed before.
fn interrupt(cluster: &CitusCluster, is_split: bool, victim: Victim, random: &mut Random) -> bool {
    // A single shard is split. Of several shards, one is moved.
    let (crowded, servers) = Crowded::new(cluster, if is_split { 1 } else { 8 }, &[&[][..], &[]]);
    let mut is_interrupted = false;
    work_during(servers, random, |watch, random| {
        let step = crowded.wait_for_advice();
        assert_eq!(step["move"].is_null(), is_split, "{step}");
        let mut balancer = crowded.take();
        crowded.wait_for_step(&mut balancer);
        thread::sleep(Duration::from_millis(random.below(DELAY_MILLISECONDS_MAX)));
        let ran = kill(cluster, victim, crowded.number, balancer, watch, random);
        crowded.wait_for_recovery(watch);
        is_interrupted = ran.as_ref().is_none_or(|ran| ran.code != Some(0));
        println!("{victim:?}, split: {is_split}, interrupted: {is_interrupted}, {ran:?}, {}", crowded.show()["steps"]);
        let ran = wait_for_exit(crowded.take());
        assert!(ran.code == Some(0) && ran.stdout.starts_with("done: "), "{ran:?}");
        crowded.wait_for_recovery(watch);
    });
    is_interrupted
}

#[test]
fn a_read_waits_until_its_node_has_committed_a_move() {
    let Some(cluster) = CitusCluster::start(2) else { return };
    let (crowded, servers) = Crowded::new(&cluster, 1, &[&[][..]]);
    let mut client = servers[0].client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"moved"}"#).status, 201);
    let entity = "/moved(PartitionKey='p',RowKey='r')";
    assert_eq!(client.request("PUT", entity, &[], b"{}").status, 204);
    // What Citus leaves on a node between the two phases of the commit of a move. Other nodes may have committed it.
    let change = "BEGIN; UPDATE pg_dist_placement SET groupid = groupid WHERE false; PREPARE TRANSACTION 'a move'";
    cluster.sql(crowded.number, &crowded.database, change);
    let (sender, answers) = channel();
    thread::scope(|scope| {
        for path in [entity, "/moved()?$filter=PartitionKey%20eq%20'p'", "/moved()"] {
            let (sender, mut client) = (sender.clone(), servers[0].client());
            scope.spawn(move || sender.send(client.request("GET", path, &[], b"").status).unwrap());
        }
        let early = answers.recv_timeout(Duration::from_secs(1));
        cluster.sql(crowded.number, &crowded.database, "ROLLBACK PREPARED 'a move'");
        assert!(early.is_err(), "{early:?}");
    });
    assert_eq!(answers.try_iter().collect::<Vec<_>>(), [200; 3]);
}

/// Lists the leftovers on one node.
const OF_NODE: &str = r"
    SET citus.override_table_visibility TO off;
    SELECT 'the table ' || relname FROM pg_class
    WHERE relkind = 'r' AND relname ~ '^rowhouse_.*_\d{6,}$' AND NOT EXISTS (
        SELECT FROM pg_dist_placement JOIN pg_dist_local_group USING (groupid)
        WHERE shardid = substring(relname from '\d+$')::bigint)
    UNION ALL SELECT 'the publication ' || pubname FROM pg_publication WHERE pubname LIKE 'citus_%'
    UNION ALL SELECT 'the subscription ' || subname FROM pg_subscription WHERE subname LIKE 'citus_%'
    UNION ALL SELECT 'the slot ' || slot_name FROM pg_replication_slots WHERE slot_name LIKE 'citus_%'
    UNION ALL SELECT 'the role ' || rolname FROM pg_roles WHERE rolname LIKE 'citus_%'
    UNION ALL SELECT 'the record ' || object_name FROM pg_dist_cleanup
    UNION ALL SELECT 'the transaction ' || gid FROM pg_prepared_xacts
    WHERE database = current_database() AND prepared < now() - interval '5 s'
    UNION ALL SELECT 'the wait of ' || query FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE datname = current_database() AND NOT granted AND waitstart < now() - interval '5 s'";

/// Lists what only the coordinator knows: the lock of the balancer, and parts of colocated shards that are apart.
const OF_CLUSTER: &str = "
    SELECT 'the lock of the balancer' WHERE NOT pg_try_advisory_lock(hashtextextended('rowhouse balance', 0))
    UNION ALL SELECT 'parts of ' || shardminvalue || ' in the group ' || colocationid
    FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_partition t USING (logicalrelid)
    WHERE partmethod = 'h' GROUP BY colocationid, shardminvalue, shardmaxvalue
    HAVING count(DISTINCT groupid) > 1
        OR count(*) <> (SELECT count(*) FROM pg_dist_partition WHERE colocationid = t.colocationid)";

/// Waits until Citus has removed everything that steps needed. It does so by itself.
pub(crate) fn wait_until_nothing_is_left(cluster: &CitusCluster, database: &str) {
    let mut last = String::new();
    eventually("the removal of everything that steps needed", || {
        let mut left: String = (0..cluster.nodes()).map(|node| cluster.sql(node, database, OF_NODE)).collect();
        left += &cluster.sql(0, database, OF_CLUSTER);
        if left != last {
            println!("left: {}", left.trim().replace('\n', ", "));
            last.clone_from(&left);
        }
        left.is_empty().then_some(())
    });
}
