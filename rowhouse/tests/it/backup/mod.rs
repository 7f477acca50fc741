//! `rowhouse backup`, `restore` and `check` as their users run them: beside running servers, under load, interrupted, and
//! on damaged files.
//!
//! What was restored is judged by reading it over HTTP, not by what the commands say about themselves.

mod damage;
mod interrupted;
mod loads;
mod repository;
mod ways;

use test_support::Random;

const SEED: &str = "ROWHOUSE_BACKUP_SEED";

/// Chance from a seed that is printed, and can be set to repeat a run.
fn random() -> Random {
    Random::from_environment(SEED)
}
