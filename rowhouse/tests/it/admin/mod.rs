//! Tests of the admin listener of a running server: its responses, metrics, log and traces.

mod collector;
mod endpoints;
mod log;
mod log_lines;
mod memory;
mod metrics;
pub(crate) mod page;
mod traces;
