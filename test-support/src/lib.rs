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
pub mod minting;
pub mod proxy;
pub mod writers;

mod client;
mod port;
mod server;

pub use client::{ACCOUNT, Account, Client, KEY, Response, head, outcome, statuses, transact, transact_at};
pub use port::ReservedPort;
pub use server::{Program, Server};

use std::hash::{BuildHasher, RandomState};
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

/// A random number generator (`SplitMix64`) that depends only on its seed.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator with the given seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a generator with the seed in an environment variable, or with a random seed. Prints the seed.
    #[allow(clippy::print_stdout, reason = "a run can be repeated only if its seed is printed")]
    pub fn from_environment(variable: &str) -> Self {
        let seed = setting(variable).unwrap_or_else(|| RandomState::new().hash_one(0));
        println!("{variable}={seed} repeats this run");
        Self(seed)
    }

    /// Returns any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Returns an index into `count` elements.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }
}
