//! What the tests of several crates share: the built program as a process, a client for it, a PostgreSQL, sources of load,
//! and tokens of an issuer.
//!
//! Only tests depend on this crate, and it depends on no crate that they test through it: it knows the protocol (`wire`)
//! and nothing of the engines or the server.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failed test")]

pub mod bank;
pub mod cluster;
pub mod command;
pub mod content;
pub mod minting;
pub mod proxy;
pub mod writers;

mod client;
mod random;
mod server;

pub use client::{ACCOUNT, Account, Client, KEY, Response, head, statuses, transact};
pub use random::Random;
pub use server::{Program, Server};

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for something that must happen; only what hangs takes so long.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Asks again until there is an answer, and fails the test after [`TIMEOUT`].
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < TIMEOUT, "{what} does not happen");
        thread::sleep(Duration::from_millis(10));
    }
}
