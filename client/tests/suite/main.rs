//! What the client library does against a real service.
//!
//! By default each case has a server of its own in the process of the test. With `TABLES_CONNECTION_STRING` all cases use the
//! account that it names: of Rowhouse on any engine, of the emulator, or of the cloud. A case that the emulator is known to
//! fail says so with [`support::emulator_differs`], and why.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "a case says why it is left out")]

mod auto_traits;
mod bulk;
mod entities;
mod queries;
mod secrets;
mod service;
mod spans;
mod support;
mod transactions;
mod types;
