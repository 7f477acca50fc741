//! `rowhouse copy` as its users run it: between data folders and running servers, interrupted and disturbed.
//!
//! What was copied is judged by reading both sides over HTTP, not by what the command says about itself.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "../../../store/tests/support/cluster.rs"]
mod cluster;
mod command;
mod content;
mod disturbed;
mod interrupted;
mod proxy;
mod refusals;
#[path = "../support/mod.rs"]
mod support;
mod ways;
