//! Keeps the memory of the process close to the amount in use.
//!
//! The allocator returns freed memory only after a delay, and only during another call. Without these settings, an idle
//! server would keep the memory that it needed to read the log at startup or to handle a load peak.

use std::env;
use std::hint::black_box;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Settings of the allocator, which reads them only from the environment, before `main`.
const ALLOCATOR_SETTINGS: [(&str, &str); 2] = [
    // A huge page stays resident even if only a few of its bytes are in use.
    ("MIMALLOC_ALLOW_THP", "0"),
    // The delay before freed memory is returned, in milliseconds. With the default of 1000, attack peaks within a
    // second add up.
    ("MIMALLOC_PURGE_DELAY", "100"),
];
const CALL_INTERVAL: Duration = Duration::from_secs(1);
/// The size of a block that is large enough for the allocator to return memory when the block is freed, in bytes.
/// Nothing is written to the block, so it uses no memory.
const LARGE_BLOCK_BYTES: usize = 32 * 1024 * 1024;

/// Restarts the process with the allocator settings that are missing from its environment. Must be called before any
/// thread is started or any file is read. If the system cannot restart a process, the server works, but may exceed the
/// documented memory bound.
pub(crate) fn configure_allocator() {
    let missing: Vec<_> = ALLOCATOR_SETTINGS.into_iter().filter(|(name, _)| env::var_os(name).is_none()).collect();
    if !missing.is_empty() {
        // Returns only on failure. There is no log yet to report it.
        let _: std::io::Error = platform::process::restart_with(&missing);
    }
}

/// Makes the allocator return freed memory periodically.
pub(crate) async fn return_freed_memory() {
    let mut calls = interval(CALL_INTERVAL);
    calls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        calls.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(LARGE_BLOCK_BYTES)));
    }
}
