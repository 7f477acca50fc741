//! Histories of a correct service are accepted.

use history::{Report, Rules, Simulation, StampOrder, check, simulate};

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
