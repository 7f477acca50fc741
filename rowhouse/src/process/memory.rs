//! Keeps the memory of the process near what is in use.
//!
//! The allocator keeps freed memory for about a second, and returns it only during later calls. So a server would keep all that
//! a start took to read journals, and all of a peak of load, for as long as there are no requests.

use std::hint::black_box;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

/// How often the allocator is called: as often as it has something to return.
const CALL_INTERVAL: Duration = Duration::from_secs(1);
/// A block so large that freeing it makes the allocator return memory, in bytes. Nothing is written to it, so it takes none.
const LARGE_BLOCK_BYTES: usize = 32 * 1024 * 1024;

/// Turns huge pages off. With them a page in use keeps its neighbours resident, and the documented bound does not hold.
pub(crate) fn disable_huge_pages() {
    if let Err(error) = platform::process::disable_huge_pages() {
        debug!("huge pages could not be turned off, so the server may take more memory: {error}");
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
