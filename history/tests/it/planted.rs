//! Every planted bug is found with every seed.

use history::{PlantedBug, Rules, Simulation, StampOrder, check, simulate};

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
            check(&history, Rules::without_explanation(order)).violations.is_empty()
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
fn violations_are_reduced_to_the_operations_that_show_them() {
    for bug in [PlantedBug::StaleRead, PlantedBug::TornPage, PlantedBug::LostGroupMember, PlantedBug::DeletionUndone] {
        let order = StampOrder::Entity;
        let report = check(&simulate(with_bug(bug, order, 1)), Rules::new(order));
        for violation in &report.violations {
            let operations = violation.operations.len();
            assert!((1..=8).contains(&operations), "{bug}: {violation}");
            // What is left is a violation, too, and names every operation.
            let text = violation.to_string();
            assert!(
                violation.operations.iter().all(|operation| text.contains(&format!("#{} ", operation.id))),
                "{text}"
            );
        }
        assert!(!report.violations.is_empty(), "{bug}");
    }
}

#[test]
fn the_names_of_bugs_read_back() {
    for bug in PlantedBug::ALL {
        assert_eq!(bug.name().parse(), Ok(*bug));
    }
    assert!("no-bug".parse::<PlantedBug>().is_err());
}
