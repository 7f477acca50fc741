//! Tests of `rowhouse backup`, `restore` and `check` as users run them: next to running servers, under load,
//! interrupted, and on damaged files.
//!
//! The tests judge a restore by reading the data over HTTP, not by the output of the command.

mod damage;
mod interrupted;
mod loads;
mod point_in_time;
mod repository;
mod ways;

use test_support::Random;

const SEED: &str = "ROWHOUSE_BACKUP_SEED";

/// Returns random numbers from a seed. The seed is printed, and can be set to repeat a run.
fn random() -> Random {
    Random::from_environment(SEED)
}
