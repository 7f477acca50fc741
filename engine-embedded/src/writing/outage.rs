//! The committer's recovery after a failed write: it detects when the disk works again, and continues the log.
//!
//! After a failed write or sync, it is not known what is on disk. The operating system may have dropped the data that
//! it could not write, and may report success for the next sync. The log therefore never touches the file again, and
//! continues in a new one, which says where the old one ends.
//!
//! Invariant: everything that was visible can still be read during an outage.

use crate::state::EmbeddedState;
use crate::sync::now;
use std::fmt::Display;
use std::time::{Duration, Instant};

const ATTEMPT_PAUSE: Duration = Duration::from_millis(250);
/// The maximum pause after attempts that failed although the disk accepts writes. Each of them may have left a file.
const ATTEMPT_PAUSE_MAX: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(crate) struct Outage {
    began: Instant,
    next_attempt: Instant,
    pause: Duration,
    /// The error of the last attempt, so that an unchanged error is logged only once.
    last_error: String,
}

impl Outage {
    pub(crate) fn begin(reason: &dyn Display) -> Self {
        tracing::error!(%reason, "the data folder accepts no writes because a write failed; reads continue, and writes resume when the disk works again");
        let began = now();
        Self { began, next_attempt: began, pause: ATTEMPT_PAUSE, last_error: String::new() }
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
        if shared.storage.is_unconfirmed() {
            return false;
        }
        let attempt = match shared.folder().probe() {
            Ok(()) => {
                self.pause = ATTEMPT_PAUSE_MAX.min(2 * self.pause);
                shared.resume().map_err(|error| error.to_string())
            }
            Err(error) => {
                self.pause = ATTEMPT_PAUSE;
                Err(format!("the disk does not accept writes: {error}"))
            }
        };
        self.next_attempt = now() + self.pause;
        match attempt {
            Ok(()) => {
                let seconds = self.began.elapsed().as_secs_f32();
                tracing::info!(seconds, "the data folder accepts writes again");
                true
            }
            Err(error) => {
                if error != self.last_error {
                    tracing::warn!(error, "the data folder does not accept writes yet; retrying");
                    self.last_error = error;
                }
                false
            }
        }
    }
}
