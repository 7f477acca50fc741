//! The one place where the crate reads time.

use model::clock::SystemClock;
use model::{Clock, DateTime};
use std::time::{Duration, Instant};

/// The time of day, as it stands in manifests and state files.
pub(crate) fn now() -> DateTime {
    SystemClock.now()
}

/// The present moment, for measuring how long something takes.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// How long ago an instant was.
pub(crate) fn elapsed_since(earlier: Instant) -> Duration {
    earlier.elapsed()
}
