//! Test code shared by several crates: the built program as a process, a client for it, a PostgreSQL server, sources of
//! load, and an issuer of tokens.
//!
//! Only tests depend on this crate. It uses the protocol (`model`, `wire`), but no engine and no server, because it
//! must not depend on the crates under test.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failed test")]

pub mod cluster;
pub mod command;
pub mod content;
pub mod delegation;
pub mod issuer;
pub mod link;
pub mod minting;
pub mod proxy;
pub mod writers;

mod client;
mod port;
mod random;
mod server;

pub use client::{ACCOUNT, Account, Client, KEY, Response, head, statuses, transact};
pub use port::ReservedPort;
pub use random::Random;
pub use server::{Program, Server};

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The timeout of a test for an event that must happen. Only a test that hangs reaches it.
pub const TIMEOUT: Duration = Duration::from_mins(1);

/// Returns a number from the environment that makes a run longer or repeats it.
pub fn setting(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

/// Sets a flag when it is dropped, so that threads that watch the flag stop even if the test fails.
#[derive(Debug)]
pub struct EndOnDrop<'a>(pub &'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Calls `look` until it returns a value. Fails the test after [`TIMEOUT`].
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(TIMEOUT, what, look)
}

/// Like [`eventually`], for what takes minutes on a busy machine, and looks at longer intervals.
pub fn eventually_within<T>(time: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < time, "timed out waiting for: {what}");
        thread::sleep(time / 6000);
    }
}
