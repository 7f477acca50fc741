//! The committer's recovery after a failed write: it detects when the disk works again, and reopens the database.
//!
//! After a failed write or sync, it is not known what is on disk. The operating system may have dropped the data that
//! it could not write, and may report success for the next sync. The storage library therefore refuses all further
//! writes until it is reopened. When it is opened, it reads the journals. Before that, `preflight::rescue` rewrites the
//! last journal, truncated to its last complete batch, so that everything that is read is also on disk. `rescue` first
//! verifies that the last complete batch is not earlier than the last acknowledged batch.
//!
//! Invariants:
//!
//! 1. While the disk refuses the probe, the old database stays open, and everything that was visible can still be read.
//! 2. Nothing is written to a database that has refused a write.

use crate::disk::preflight::Acknowledged;
use crate::state::EmbeddedState;
use crate::sync::now;
use std::fmt::Display;
use std::time::{Duration, Instant};

const ATTEMPT_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Outage {
    began: Instant,
    next_attempt: Instant,
    /// The error of the last attempt, so that an unchanged error is logged only once.
    last_error: String,
    /// The batches that were acknowledged before the outage. Unknown until the database is closed.
    acknowledged: Acknowledged,
}

impl Outage {
    pub(crate) fn begin(reason: &dyn Display) -> Self {
        tracing::error!(%reason, "the data folder accepts no writes because a write failed; reads continue, and writes resume when the disk works again");
        let began = now();
        Self { began, next_attempt: began, last_error: String::new(), acknowledged: Acknowledged::Unknown }
    }

    pub(crate) fn next_attempt(&self) -> Instant {
        self.next_attempt
    }

    /// Returns true if the outage is over.
    pub(crate) fn try_to_end(&mut self, shared: &EmbeddedState) -> bool {
        if now() < self.next_attempt {
            return false;
        }
        // Set the time before the attempt as well, so that the next attempt is made after a pause even if the attempt
        // panics.
        self.next_attempt = now() + ATTEMPT_PAUSE;
        let attempt = match shared.folder().probe() {
            Ok(()) => shared.reopen(&mut self.acknowledged).map_err(|error| error.to_string()),
            Err(error) => Err(format!("the disk does not accept writes: {error}")),
        };
        self.next_attempt = now() + ATTEMPT_PAUSE;
        match attempt {
            Ok(()) => {
                let seconds = self.began.elapsed().as_secs_f32();
                tracing::info!(seconds, "the data folder accepts writes again");
                true
            }
            Err(error) => {
                if error != self.last_error {
                    tracing::warn!(error, "the data folder cannot be reopened yet; retrying four times per second");
                    self.last_error = error;
                }
                false
            }
        }
    }
}
