//! `rowhouse backup`, `restore` and `check` as their users run them: beside running servers, under load, interrupted, and
//! on damaged files.
//!
//! What was restored is judged by reading it over HTTP, not by what the commands say about themselves.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "a seed that is not printed cannot be repeated")]

#[path = "../support/bank.rs"]
mod bank;
#[path = "../copy/command.rs"]
mod command;
#[path = "../copy/content.rs"]
mod content;
mod damage;
mod interrupted;
mod loads;
mod repository;
#[path = "../support/mod.rs"]
mod support;
mod ways;

use support::Random;

const SEED: &str = "ROWHOUSE_BACKUP_SEED";

/// Chance from a seed that is printed, and can be set to repeat a run.
fn random() -> Random {
    Random::from_environment(SEED)
}
