//! Waits for the disk, and pauses between requests that fail.

use anyhow::Context;
use std::time::Duration;
use tracing::warn;

/// The pause after a failed request. Each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Runs work on a thread that may wait for the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("the work was interrupted")?
}

/// The failures since the last success.
pub(crate) struct Retry {
    pause: Duration,
    last_error: String,
}

impl Retry {
    pub(crate) fn new() -> Self {
        Self { pause: PAUSE, last_error: String::new() }
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Self::new();
    }

    /// Logs a reason unless it is the same as before, and waits.
    pub(crate) async fn failed(&mut self, what: &str, error: String) {
        if error != self.last_error {
            warn!(error, "{what}; it will be retried");
            self.last_error = error;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = PAUSE_MAX.min(2 * self.pause);
    }
}
