//! Tests of the checker with simulated services: every planted bug is found with every seed, and histories of a correct
//! service are accepted.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "figures are printed")]

use history::{PlantedBug, Report, Rules, Simulation, StampOrder, check, simulate};

const SEEDS: u64 = 20;
/// The number of operations of a history, and the number of histories within which each bug is found. Most are found
/// in the first.
const OPERATIONS: usize = 500;
const HISTORIES: u64 = 16;

fn with_bug(bug: PlantedBug, order: StampOrder, seed: u64) -> Simulation {
    let has_filters = seed.is_multiple_of(5);
    Simulation { seed, operations: OPERATIONS, clients: 8, partitions: 2, rows: 5, order, has_filters, bug: Some(bug) }
}

fn missed_bugs(order: StampOrder) -> Vec<(PlantedBug, u64)> {
    let bugs = PlantedBug::ALL.iter().flat_map(|bug| (0..SEEDS).map(|seed| (*bug, seed)));
    let is_missed = |(bug, seed): &(PlantedBug, u64)| {
        (0..HISTORIES).all(|history| {
            let history = simulate(with_bug(*bug, order, seed + history * SEEDS));
            check(&history, Rules::new(order)).violations.is_empty()
        })
    };
    bugs.filter(is_missed).collect()
}

#[test]
fn every_planted_bug_of_a_single_server_is_found() {
    assert_eq!(missed_bugs(StampOrder::Partition), []);
}

#[test]
fn every_planted_bug_of_a_shared_database_is_found() {
    assert_eq!(missed_bugs(StampOrder::Life), []);
}

#[test]
fn a_violation_shows_its_operations_and_those_before_it() {
    for bug in [PlantedBug::StaleRead, PlantedBug::TornPage, PlantedBug::LostGroupMember, PlantedBug::DeletionUndone] {
        let order = StampOrder::Entity;
        let report = check(&simulate(with_bug(bug, order, 1)), Rules::new(order));
        assert!(!report.violations.is_empty(), "{bug:?}");
        for violation in &report.violations {
            let text = violation.to_string();
            assert!(!violation.operations.is_empty() && !violation.before.is_empty(), "{bug:?}: {text}");
            let mut shown = violation.operations.iter().chain(&violation.before);
            assert!(shown.all(|operation| text.contains(&format!("{{\"id\":{},", operation.id))), "{bug:?}: {text}");
        }
    }
}

const ORDERS: [StampOrder; 3] = [StampOrder::Partition, StampOrder::Entity, StampOrder::Life];

/// Returns a simulation whose shape depends on the seed: few or many clients, on few or many entities.
fn simulation(seed: u64, operations: usize) -> Simulation {
    let choose = |divisor: u64, count: u64| usize::try_from(seed / divisor % count).unwrap();
    Simulation {
        seed,
        operations,
        clients: [3, 8, 20][choose(3, 3)],
        partitions: 1 + choose(9, 2),
        rows: 2 + choose(18, 5),
        order: ORDERS[choose(1, 3)],
        has_filters: seed.is_multiple_of(4),
        bug: None,
    }
}

/// Checks the histories of all seeds. Returns the numbers of operations and of undecided partitions.
fn check_all(seeds: std::ops::Range<u64>, operations: usize) -> (u64, usize) {
    let mut sum = Report::default();
    for seed in seeds {
        let simulation = simulation(seed, operations);
        let report = check(&simulate(simulation), Rules::new(simulation.order));
        assert!(report.violations.is_empty(), "{simulation:?}: {report}");
        sum.operations += report.operations;
        sum.undecided.extend(report.undecided);
    }
    (sum.operations, sum.undecided.len())
}

#[test]
fn many_short_histories_of_a_correct_service_are_accepted() {
    let (operations, undecided) = check_all(0..30_000, 40);
    println!("{operations} operations, {undecided} partitions undecided");
    assert_eq!(undecided, 0);
}

#[test]
fn long_histories_of_a_correct_service_are_accepted() {
    let (operations, undecided) = check_all(0..90, 1500);
    println!("{operations} operations, {undecided} partitions undecided");
    assert!(undecided < 10, "{undecided} partitions are undecided");
}
