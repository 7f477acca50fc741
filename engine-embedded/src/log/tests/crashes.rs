//! The simulated crashes, and the proof that they find mistakes.

use super::disk::Lie;
use super::simulation::{self, Counts, Planted};
use super::workload::Misuse;
use crate::log::mutants::Mutant;
use crate::log::options::Durability;
use test_support::{Random, setting};

/// With this many workloads for each durability, there are more than 100,000 crashes.
const ROUNDS: u64 = 32;
/// The maximum number of workloads in which a planted mistake must show.
const ROUNDS_TO_FIND: u64 = 400;
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

/// Returns the number of rounds and crashes after which a planted mistake was found.
fn find(planted: Planted, durability: Durability) -> Option<(u64, u64, String)> {
    let mut total = Counts::default();
    for round in 0..ROUNDS_TO_FIND {
        let (counts, failure) = simulation::run(durability, Some(planted), round);
        total = total.and(counts);
        if let Some(failure) = failure {
            return Some((round + 1, total.crashes, failure));
        }
    }
    None
}

#[test]
fn planted_mistakes_are_found() {
    use Durability::{Interval, Sync};
    use Mutant::*;
    let planted = [
        (Planted::Log(ForgetSyncedThrough), Sync),
        (Planted::Log(ClaimEverythingSynced), Interval),
        (Planted::Log(TrustSyncAfterFailure), Sync),
        (Planted::Log(ContinueAfterFailedRotation), Sync),
        (Planted::Log(NameUnsyncedEnd), Sync),
        (Planted::Log(DropUnsyncedGroups), Interval),
        (Planted::Log(RotateWithoutSync), Interval),
        (Planted::Log(RenameBeforeSync), Sync),
        (Planted::Log(ReuseBeforeRename), Sync),
        (Planted::Log(ReleaseWithoutSync), Sync),
        (Planted::Log(ReleaseTooMuch), Sync),
        (Planted::Log(AppendAfterCut), Sync),
        (Planted::Log(TrustPageCache), Sync),
        (Planted::Log(TrustNames), Sync),
        (Planted::Log(IgnorePayloads), Sync),
        (Planted::Log(IgnoreEvidence), Sync),
        (Planted::Log(ChangeBeforeJudging), Sync),
        (Planted::Log(CloseWithoutSegment), Sync),
        (Planted::Log(ArchiveWithoutSync), Sync),
        (Planted::Disk(Lie::FoldersAreNotSynced), Sync),
        (Planted::Disk(Lie::FilesAreNotSynced), Sync),
        (Planted::Disk(Lie::SaltsAreKnown), Sync),
        (Planted::Caller(Misuse::AcknowledgeBeforeSync), Sync),
    ];
    let mut missed = Vec::new();
    for (planted, durability) in planted {
        match find(planted, durability) {
            Some((rounds, crashes, failure)) => {
                println!("{planted:?}: found in round {rounds} after {crashes} crashes: {failure}");
            }
            None => missed.push(planted),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
