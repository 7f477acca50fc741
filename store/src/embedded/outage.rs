//! What the committer does after a write failed: it finds out when the disk works again, and reopens the database.
//!
//! After a failed write or sync it is not known what is on disk: the operating system may have dropped what it could not
//! write, and report success for the next sync. The storage library therefore refuses all further writes until it is
//! opened again. Opening reads the journals, and `preflight::rescue` first rewrites the last of them, so that everything
//! that is read is also on disk, and cuts it back to its last complete batch. Before, it makes sure that this batch is not
//! earlier than the last one that was acknowledged.
//!
//! Invariants:
//!
//! 1. As long as the disk refuses a probe, the old database stays open, and everything that was visible can be read.
//! 2. Nothing is written to a database that has refused a write.

use super::preflight::Acknowledged;
use super::state::EmbeddedState;
use crate::monotonic;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long to wait between two attempts.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(250);

/// The time during which no writes are possible.
#[derive(Debug)]
pub(super) struct Outage {
    began: Instant,
    next_attempt: Instant,
    /// The error of the last attempt: the same one is logged once and not with every attempt.
    last_error: String,
    /// What was acknowledged before; unknown until the database is closed.
    acknowledged: Acknowledged,
}

impl Outage {
    /// Begins with a write that failed, or with the discovery that the library refuses them.
    pub(super) fn begin(reason: &dyn Display) -> Self {
        tracing::error!(%reason, "the data folder takes no writes because one failed; reads go on, and writes when the disk works again");
        let now = monotonic::now();
        Self { began: now, next_attempt: now, last_error: String::new(), acknowledged: Acknowledged::Unknown }
    }

    /// When the next attempt to end the outage is due.
    pub(super) fn next_attempt(&self) -> Instant {
        self.next_attempt
    }

    /// Tries to end the outage, if an attempt is due. Whether it is over.
    pub(super) fn try_to_end(&mut self, shared: &EmbeddedState) -> bool {
        if monotonic::now() < self.next_attempt {
            return false;
        }
        // Set before the attempt too: the next one is due after a pause even if this one panics.
        self.next_attempt = monotonic::now() + ATTEMPT_PAUSE;
        let attempt = match shared.folder().probe() {
            Ok(()) => shared.open_again(&mut self.acknowledged).map_err(|error| error.to_string()),
            Err(error) => Err(format!("the disk does not accept writes: {error}")),
        };
        self.next_attempt = monotonic::now() + ATTEMPT_PAUSE;
        match attempt {
            Ok(()) => {
                let seconds = self.began.elapsed().as_secs_f32();
                tracing::info!(seconds, "the data folder takes writes again");
                true
            }
            Err(error) => {
                if error != self.last_error {
                    tracing::warn!(
                        error,
                        "the data folder cannot be opened again yet; the next attempts follow, four a second"
                    );
                    self.last_error = error;
                }
                false
            }
        }
    }
}
