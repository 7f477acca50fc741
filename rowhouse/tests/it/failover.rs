//! A test of a database failover under load: the primary is lost, and its synchronous replica replaces it.
//!
//! No acknowledged write is lost, and every entity has the acknowledged ETag. Clients see only errors after which they
//! retry, and no client hangs. The servers continue without a restart.

use crate::PROGRAM;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::cluster::Cluster;
use test_support::writers::{EntityWriter, Tally};
use test_support::{EndOnDrop, Random, eventually};

const SEED: &str = "ROWHOUSE_FAILOVER_SEED";
const WRITERS: u64 = 8;
/// The maximum duration of a request, with a margin for a busy machine, in milliseconds.
const RESPONSE_MS_MAX: u64 = 40_000;
/// The time after which every writer must be served again, on a busy machine.
const RESUMED_WITHIN: Duration = Duration::from_secs(90);

#[test]
fn a_failover_to_a_synchronous_replica_loses_nothing_and_service_resumes_by_itself() {
    let Some(cluster) = Cluster::start_with_standby() else { return };
    let mut random = Random::from_environment(SEED);
    let address = cluster.either(&cluster.database());
    let servers = [(); 2].map(|()| PROGRAM.start(&["--store", &address, "--store-connections", "6"]));
    let created = servers[0].client().request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#);
    assert_eq!(created.status, 201);
    let mut writers: Vec<_> = (0..WRITERS).map(|number| EntityWriter::new(number, random.number())).collect();
    let tallies: Vec<_> = writers.iter().map(|_| Tally::default()).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (index, (writer, tally)) in writers.iter_mut().zip(&tallies).enumerate() {
            let (address, is_over) = (&servers[index % servers.len()].address, &is_over);
            scope.spawn(move || writer.write_through_faults(address, is_over, tally));
        }
        let _end = EndOnDrop(&is_over);
        thread::sleep(Duration::from_millis(1000 + random.below(1000)));
        for tally in &tallies {
            let has_written = || tally.acknowledged.load(Ordering::SeqCst) > 0;
            eventually("a write of every writer", || has_written().then_some(()));
        }
        cluster.kill();
        let lost = Instant::now();
        // It takes some time until the loss is noticed and the standby is promoted.
        thread::sleep(Duration::from_millis(9000 + random.below(3000)));
        let promoting = Instant::now();
        cluster.promote();
        let before: Vec<_> = tallies.iter().map(|tally| tally.acknowledged.load(Ordering::SeqCst)).collect();
        println!("{before:?} acknowledged when the replica took over, {:?} after the loss", lost.elapsed());
        for (tally, before) in tallies.iter().zip(&before) {
            while tally.acknowledged.load(Ordering::SeqCst) < before + 5 {
                assert!(promoting.elapsed() < RESUMED_WITHIN, "service did not resume");
                thread::sleep(Duration::from_millis(10));
            }
        }
        println!("every writer was served again {:?} after the promotion began", promoting.elapsed());
        thread::sleep(Duration::from_millis(500));
    });
    // Every server shows what any server stored.
    for server in &servers {
        let mut client = server.client();
        for writer in &mut writers {
            writer.check(&mut client, 0);
        }
    }
    let sum = |count: fn(&Tally) -> u64| tallies.iter().map(count).sum::<u64>();
    let longest = tallies.iter().map(|tally| tally.longest_ms.load(Ordering::SeqCst)).max().unwrap();
    println!(
        "{} acknowledged, {} busy, {} unknown, the longest response took {longest} ms",
        sum(|tally| tally.acknowledged.load(Ordering::SeqCst)),
        sum(|tally| tally.busy.load(Ordering::SeqCst)),
        sum(|tally| tally.unknown.load(Ordering::SeqCst)),
    );
    assert!(sum(|tally| tally.busy.load(Ordering::SeqCst)) > 0, "writes without a primary must fail with ServerBusy");
    assert!(longest < RESPONSE_MS_MAX, "a response took {longest} ms, longer than the request timeout");
    for server in servers {
        let (status, log) = server.stop();
        assert!(status.success() && !log.iter().any(|line| line.contains("panicked")), "{log:?}");
    }
}
