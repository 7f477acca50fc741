//! Tests of the built program: they start it as its users do, and communicate with it over the network.
//!
//! The tests are one binary, which is linked once. They share its process, so no test may change the state of the
//! process, such as its environment, its working folder or its limits.
//!
//! Many of them send signals, so they need Unix. On other systems, `tests/portable.rs` runs instead.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "seeds and skipped parts are printed")]

mod admin;
mod analytics;
mod automatic_failover;
mod backup;
mod black_box;
mod change_replay;
mod citus;
mod commands;
mod copy;
mod crash;
mod database;
mod database_recovery;
mod documents;
mod explorer;
mod files;
mod health;
mod history;
mod hostile;
mod lifecycle;
mod limits;
mod load;
mod overload;
// The archive contains the program for Linux.
#[cfg(target_os = "linux")]
mod package;
mod printed_commands;
mod private;
mod rehearsal;
mod runbooks;
mod sandbox;
mod standby;
mod test_controls;
mod upgrade;

use test_support::Program;

const PROGRAM: Program = Program::at(env!("CARGO_BIN_EXE_rowhouse"));
