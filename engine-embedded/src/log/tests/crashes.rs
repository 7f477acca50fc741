//! The simulated crashes.

use super::disk::Lie;
use super::simulation::{self, Counts, Planted, finds};
use super::workload::Misuse;
use crate::log::options::Durability;
use test_support::{Random, setting};

/// With this many workloads for each durability, there are more than 100,000 crashes.
const ROUNDS: u64 = 32;
const SEED: &str = "ROWHOUSE_LOG_SEED";

fn simulate(durability: Durability) {
    let mut random = Random::from_environment(SEED);
    let mut total = Counts::default();
    let rounds = setting("ROWHOUSE_CRASH_ROUNDS").unwrap_or(ROUNDS);
    for round in 0..rounds {
        let seed = random.number();
        let (counts, failure) = simulation::run(durability, None, seed);
        assert_eq!(failure, None, "in round {round}, seed {seed}");
        total = total.and(counts);
    }
    println!("{durability:?}: {total:?}");
}

#[test]
fn no_crash_loses_a_synced_transaction() {
    simulate(Durability::Sync);
}

#[test]
fn with_intervals_a_crash_loses_only_what_was_not_synced() {
    simulate(Durability::Interval);
}

/// Mistakes in the log itself are planted by the package in `engine-embedded/tests/planted`.
#[test]
fn mistakes_of_the_disk_and_of_the_caller_are_found() {
    let planted = [
        Planted::Disk(Lie::FoldersAreNotSynced),
        Planted::Disk(Lie::FilesAreNotSynced),
        Planted::Disk(Lie::SaltsAreKnown),
        Planted::Caller(Misuse::AcknowledgeBeforeSync),
    ];
    let missed = planted.map(|planted| (planted, finds(&format!("{planted:?}"), Durability::Sync, Some(planted))));
    assert!(missed.iter().all(|(_, is_found)| *is_found), "{missed:?}");
}
