//! Keeps the memory of the process near what is in use.
//!
//! The allocator returns freed memory some time later, and only during another call. So a server without requests would keep all
//! that a start took to read journals, and all of a peak of load.

use std::env;
use std::hint::black_box;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Settings of the allocator, which it reads only from the environment, before `main`.
const ALLOCATOR_SETTINGS: [(&str, &str); 2] = [
    // A huge page stays resident for a few bytes in use.
    ("MIMALLOC_ALLOW_THP", "0"),
    // Milliseconds until freed memory is returned. With the default of 1000, the peaks of attacks within a second add up.
    ("MIMALLOC_PURGE_DELAY", "100"),
];
/// How often the allocator is called.
const CALL_INTERVAL: Duration = Duration::from_secs(1);
/// A block so large that freeing it makes the allocator return memory, in bytes. Nothing is written to it, so it takes none.
const LARGE_BLOCK_BYTES: usize = 32 * 1024 * 1024;

/// Restarts the process with the allocator settings that its environment lacks. Must be called before any thread is started or any
/// file is read. If the system cannot restart a process, the server works, but may exceed the documented memory bound.
pub(crate) fn configure_allocator() {
    let missing: Vec<_> = ALLOCATOR_SETTINGS.into_iter().filter(|(name, _)| env::var_os(name).is_none()).collect();
    if !missing.is_empty() {
        // Returns only if it failed. There is no log yet that could tell.
        let _: std::io::Error = platform::process::restart_with(&missing);
    }
}

/// Makes the allocator return freed memory, again and again.
pub(crate) async fn give_back() {
    let mut calls = interval(CALL_INTERVAL);
    calls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        calls.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(LARGE_BLOCK_BYTES)));
    }
}
