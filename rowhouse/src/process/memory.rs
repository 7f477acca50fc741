//! Returns the memory of the start to the system.
//!
//! Opening data reads journals of many megabytes. The allocator keeps freed memory for about a second, and returns it only
//! during later calls. A server without requests would keep all of it.

use std::hint::black_box;
use std::time::Duration;
use tokio::time::sleep;

/// When the allocator is called, in seconds after the start: after its delay, and once more for the rest.
const CALLS_SECONDS: [u64; 2] = [2, 4];
/// A block so large that freeing it makes the allocator return memory, in bytes. Nothing is written to it, so it takes none.
const LARGE_BLOCK_BYTES: usize = 32 * 1024 * 1024;

/// Makes the allocator return freed memory, twice.
pub(crate) async fn give_back() {
    for seconds in CALLS_SECONDS {
        sleep(Duration::from_secs(seconds)).await;
        drop(black_box(Vec::<u8>::with_capacity(LARGE_BLOCK_BYTES)));
    }
}
