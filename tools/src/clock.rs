//! The only module of this crate that reads the time.

use model::clock::SystemClock;
use model::{Clock, DateTime};
use std::time::{Duration, Instant};

pub(crate) fn now() -> DateTime {
    SystemClock.now()
}

pub(crate) fn instant() -> Instant {
    Instant::now()
}

pub(crate) fn elapsed_since(earlier: Instant) -> Duration {
    earlier.elapsed()
}
