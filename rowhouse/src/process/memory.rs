//! Gives the memory that the start took back to the system.
//!
//! A start on data reads journals of many megabytes. The allocator keeps what was freed for about a second, and looks
//! what it can give back only while it is at work. A server that nobody uses yet would hold all of it.

use std::hint::black_box;
use std::time::Duration;
use tokio::time::sleep;

/// When it is looked, after the start, in seconds: behind the delay of the allocator, and once more for what it missed.
const LOOKS_SECONDS: [u64; 2] = [2, 4];
/// A block so large that freeing it makes the allocator look, in bytes. Nothing is written to it, so it takes no memory.
const LARGE_BLOCK_BYTES: usize = 32 * 1024 * 1024;

/// Makes the allocator look twice, and ends.
pub(crate) async fn give_back() {
    for seconds in LOOKS_SECONDS {
        sleep(Duration::from_secs(seconds)).await;
        drop(black_box(Vec::<u8>::with_capacity(LARGE_BLOCK_BYTES)));
    }
}
