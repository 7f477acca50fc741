//! The only module of this crate that reads the time.

use model::clock::SystemClock;
use model::{Clock, DateTime};
use std::time::{Duration, Instant};

/// Returns the time of day, as used in manifests and state files.
pub(crate) fn now() -> DateTime {
    SystemClock.now()
}

/// Returns the current instant, for measuring durations.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Returns the time since an instant.
pub(crate) fn elapsed_since(earlier: Instant) -> Duration {
    earlier.elapsed()
}
