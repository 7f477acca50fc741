//! Tests of the checker with simulated services, and a test of an engine with the checker.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "figures are printed")]

mod engine;
mod planted;
mod valid;
