//! The admin listener of a running server: what it answers, what it counts, what it logs, and the traces.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod collector;
mod endpoints;
mod log;
mod metrics;
mod page;
mod traces;
