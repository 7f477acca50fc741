//! The only place in this crate that reads the monotonic clock, which measures durations and deadlines. Wall time comes
//! only from the [`model::Clock`] of an engine.

use std::time::Instant;

/// Returns the current monotonic time.
pub fn now() -> Instant {
    Instant::now()
}
