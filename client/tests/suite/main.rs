//! Runs the client library against a real service.
//!
//! By default, each case has its own in-process server. With `TABLES_CONNECTION_STRING`, all cases use the account in
//! that connection string, which can belong to Rowhouse with any engine, to the emulator, or to the cloud. A case that
//! is known to fail on the emulator calls [`support::emulator_differs`] with the reason.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "a case prints why it is skipped")]

mod bulk;
mod changes;
mod entities;
mod queries;
mod service;
mod support;
mod types;
