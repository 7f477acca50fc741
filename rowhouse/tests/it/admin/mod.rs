//! The admin listener of a running server: what it answers, what it counts, what it logs, and the traces.

mod collector;
mod endpoints;
mod log;
mod log_lines;
mod memory;
mod metrics;
pub(crate) mod page;
mod traces;
