//! Tests of what the server answers: requests over HTTP to a server inside the test process, with an engine in memory
//! and a stopped clock.
//!
//! `operations/` has the files of `src/operations/`. `service/` tests what all operations have in common: the steps
//! of a request (`service.rs`), the rules for tables (`tables/`), authorization and limits. Expected responses come
//! from the specification, and tests cite its sections.
//!
//! The tests of the built program (`rowhouse/tests/it`) cover what only a process has: options, files, signals,
//! restarts, and logs.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failure is a failed test")]

mod case;
mod log;
mod operations;
mod server;
mod service;

use case::{Case, Layer, check, delete, etag, get, merge, post, put, signature, timestamp};
use server::Server;
