//! Servers that share a PostgreSQL database with a synchronous standby, which replaces it in each round.

use super::clock::{Clocks, ShiftedClock};
use super::faults::{Faults, targets};
use super::{Clients, run_rounds};
use history::{Mix, StampOrder};
use std::thread;
use std::time::{Duration, Instant};
use test_support::Random;
use test_support::cluster::Cluster;

const SERVERS: usize = 3;
const CLIENTS: usize = 9;
const MIX: Mix = Mix { partitions: 6, rows: 5, has_filters: true };
/// The time before and after the failover.
const WORK: Duration = Duration::from_secs(5);
/// The maximum time without a primary.
const FAILOVER_MILLISECONDS_MAX: u64 = 1500;
/// One in this number of rounds waits until a lease expires.
const ROUNDS_PER_WAIT: u64 = 10;

#[test]
fn servers_on_postgres_are_strictly_serializable_through_faults_and_a_failover() {
    let clocks = Clocks::new();
    let nodes = ["data", "standby"].map(|node| clocks.clock(node));
    run_rounds("PostgreSQL", |round, random| {
        for clock in &nodes {
            clock.set(0);
        }
        // Each round needs a new standby.
        let Some(cluster) = Cluster::start_with_standby_and_clocks(clocks.folder()) else {
            return super::Tally::default();
        };
        let url = cluster.either(&cluster.database());
        let mut clients = Clients::new(format!("postgres{round}"), CLIENTS, MIX, random);
        let targets = targets(&clocks, round, SERVERS);
        let mut chosen = Random::new(random.number());
        let mut faults =
            Faults::new(&url, &[], &targets, &clocks, &mut chosen, |statement| cluster.sql(&url, statement));
        clients.create_table(faults.client());
        clients.work(&targets, |progress| {
            harm(&mut faults, &cluster, &nodes, true);
            fail_over(&mut faults, &cluster);
            harm(&mut faults, &cluster, &nodes[1..], false);
            if round % ROUNDS_PER_WAIT == 0 {
                faults.let_slot_expire();
            }
            faults.heal();
            progress.wait_for_all();
        });
        let mut tally = faults.stop();
        clients.check(StampOrder::Life, &mut tally);
        tally
    });
}

fn harm<'a>(faults: &mut Faults<'a>, cluster: &'a Cluster, clocks: &[ShiftedClock], has_standby: bool) {
    let end = Instant::now() + WORK;
    while Instant::now() < end {
        faults.pass_time();
        if faults.random.below(8) == 0 {
            faults.shift_database(clocks);
        } else if faults.random.below(6) > 0 || !faults.is_database_healthy() {
            faults.harm_server();
        } else if has_standby && faults.random.below(2) == 0 {
            let frozen = cluster.freeze();
            faults.database("freezes of the primary", || drop(frozen));
        } else {
            // After the failover, this is the primary. Before it, commits wait.
            let frozen = cluster.freeze_standby();
            faults.database("freezes of the standby", || drop(frozen));
        }
    }
}

fn fail_over(faults: &mut Faults<'_>, cluster: &Cluster) {
    faults.heal_database();
    faults.tally.count("failovers");
    cluster.kill();
    thread::sleep(Duration::from_millis(faults.random.below(FAILOVER_MILLISECONDS_MAX)));
    cluster.promote();
}
