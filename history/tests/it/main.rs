//! Tests of the checker with simulated services.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "figures are printed")]

mod planted;
mod valid;
