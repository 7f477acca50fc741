//! Tests of the engine through its public interface, in one binary. They start their own database servers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failure is a failed test")]
#![allow(clippy::print_stdout, reason = "a seed that is not printed cannot be repeated")]

mod changes;
mod citus_changes;
mod citus_pages;
mod connection_loss;
mod contract;
mod indexes;
mod model_test;
mod refusals;
mod servers;
