//! What the committer does after a write failed: it finds out when the disk works again, and opens the database anew.
//!
//! After a failed write or sync nobody knows what is on disk: the operating system may have dropped what it could not
//! write, and answer the next sync as if nothing had happened. The storage library therefore refuses all further writes
//! until it is opened again. Opening reads the journals, and `preflight::rescue` first writes the last of them anew, so
//! that everything that is read is also on disk.
//!
//! Invariants:
//!
//! 1. As long as the disk refuses a probe, the old database stays open, and everything that was visible can be read.
//! 2. Nothing is written to a database that has refused a write.

use super::state::EmbeddedState;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long to wait between two attempts.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(250);

/// The time in which no writes are possible.
#[derive(Debug)]
pub(super) struct Outage {
    began: Instant,
    next_attempt: Instant,
    /// What the last attempt said, so that it is logged once and not with every attempt.
    last_error: String,
}

impl Outage {
    /// Begins with a write that failed, or with the discovery that the library refuses them.
    pub(super) fn begin(reason: &dyn Display) -> Self {
        tracing::error!(%reason, "the data folder takes no writes; they are refused until it does, and reads go on");
        let now = Instant::now();
        Self { began: now, next_attempt: now, last_error: String::new() }
    }

    /// When the next attempt to end the outage is due.
    pub(super) fn next_attempt(&self) -> Instant {
        self.next_attempt
    }

    /// Tries to end the outage, if an attempt is due. Whether it is over.
    pub(super) fn try_to_end(&mut self, shared: &EmbeddedState) -> bool {
        if Instant::now() < self.next_attempt {
            return false;
        }
        // Set before the attempt too: the next one is due after a pause even if this one panics.
        self.next_attempt = Instant::now() + ATTEMPT_PAUSE;
        let attempt = match shared.folder().probe() {
            Ok(()) => shared.open_again().map_err(|error| error.to_string()),
            Err(error) => Err(format!("the disk does not take writes: {error}")),
        };
        self.next_attempt = Instant::now() + ATTEMPT_PAUSE;
        match attempt {
            Ok(()) => {
                let seconds = self.began.elapsed().as_secs_f32();
                tracing::info!(seconds, "the data folder takes writes again");
                true
            }
            Err(error) => {
                if error != self.last_error {
                    tracing::warn!(error, "the data folder is not restored yet; tried again four times a second");
                    self.last_error = error;
                }
                false
            }
        }
    }
}
