//! Get Table Service Stats (specification 10 §6).

use crate::answer::Answer;
use std::time::SystemTime;
use wire::service_stats::{self, GeoReplication};

/// Answers that the secondary endpoint is up to date: it reads what the primary one writes.
pub(crate) fn run(now: SystemTime) -> Answer {
    Answer::xml(service_stats::write(GeoReplication::Live(now)))
}
