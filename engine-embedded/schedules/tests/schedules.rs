//! Runs each scenario in many schedules: half of them with few changes between threads (PCT), which find errors that
//! require one thread to be far behind another, and half of them random.
//!
//! `ROWHOUSE_SCHEDULES=100000` sets the number of schedules. A failure prints the variable that repeats the run. It
//! also prints the schedule: with `ROWHOUSE_SCHEDULE=…` and the name of the test, only that schedule is repeated.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "a seed that is not printed cannot be repeated")]

use rowhouse_engine_embedded_schedules::scenarios::{hand_over, log, outage, preparation, queue, room, snapshots};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::env::var;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SCHEDULES: usize = 10_000;
const STACK_BYTES: usize = 256 * 1024;
/// With a depth of `n`, an error is found with a certain probability if it needs at most `n - 1` changes of the thread.
const DEPTH: usize = 4;

fn run(scenario: fn()) {
    if let Ok(schedule) = var("ROWHOUSE_SCHEDULE") {
        return shuttle::replay(scenario, &schedule);
    }
    let number = |name| var(name).ok().map(|text| text.parse().expect("the variable is a number"));
    let seed = number("ROWHOUSE_SCHEDULES_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("ROWHOUSE_SCHEDULES_SEED={seed} repeats this run");
    let schedules = number("ROWHOUSE_SCHEDULES").map_or(SCHEDULES, |number| usize::try_from(number).unwrap());
    explore("PCT", scenario, PctScheduler::new_from_seed(seed, DEPTH, schedules / 2));
    explore("random", scenario, RandomScheduler::new_from_seed(seed, schedules.div_ceil(2)));
}

fn explore(kind: &str, scenario: fn(), scheduler: impl Scheduler + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = {
        let begun = Arc::clone(&begun);
        move || {
            begun.fetch_add(1, Ordering::Relaxed);
            scenario();
        }
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config).run(counted))) {
        println!("the {kind} schedule {} failed", begun.load(Ordering::Relaxed));
        resume_unwind(panic);
    }
}

macro_rules! tests {
    ($($module:ident::$scenario:ident),+ $(,)?) => {
        $(
            #[test]
            fn $scenario() {
                run($module::$scenario);
            }
        )+
    };
}

tests![
    snapshots::snapshots_show_whole_transactions,
    snapshots::nothing_is_retained_without_snapshots,
    room::a_writer_that_waits_for_room_is_woken,
    log::what_was_synced_survives,
    log::sorted_files_are_never_ahead_of_the_log,
    queue::requests_are_delivered_once_and_in_order,
    queue::memory_is_bounded_and_all_requests_are_granted,
    queue::an_account_that_holds_nothing_is_not_passed_over,
    preparation::the_results_are_those_of_a_serial_order,
    preparation::no_update_is_lost,
    preparation::a_preparation_is_not_used_for_a_later_table,
    hand_over::every_accepted_request_is_served_once,
    outage::no_write_is_based_on_a_lost_one,
    outage::a_panic_while_a_group_is_applied_stops_all_writes,
    outage::the_catalog_is_that_of_the_log,
    outage::writes_resume_and_nothing_acknowledged_is_lost,
];
