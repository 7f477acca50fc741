//! The log of failed requests.
//!
//! Invariant: requests without a valid credential, which anyone can send, and requests over a limit, which any client
//! can send, cause a bounded number of events per second. They are not errors of the server. Each event that is left
//! out is counted in a later event. Metrics count every request.

use crate::clock;
use crate::failure::Failure;
use crate::request::RequestContext;
use model::limits::{DENIALS_LOGGED_AT_ONCE_MAX, DENIALS_LOGGED_PER_SECOND, DENIALS_SUMMARY_SECONDS};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing::{debug, error, info, warn};

/// The time in which the rate allows one event.
const INTERVAL: Duration = Duration::from_millis(1000 / DENIALS_LOGGED_PER_SECOND as u64);

#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    /// The time at which the rate will have allowed all events so far; `None` before the first event.
    paid_until: Mutex<Option<Instant>>,
    /// The number of events that were left out and not yet reported in the log.
    suppressed: AtomicU64,
}

impl FailureLog {
    pub(crate) fn write(self: &Arc<Self>, failure: &Failure, context: &RequestContext<'_>) {
        let (code, id) = (failure.error.code.as_str(), context.id.as_str());
        let Some(source) = &failure.source else {
            debug!(code, request_id = id, "{}", failure.error.message);
            return;
        };
        let is_over_limit = failure.is_over_limit();
        if (!context.is_authenticated || is_over_limit) && !self.admits(clock::instant()) {
            self.suppress();
        } else if is_over_limit {
            warn!(code, request_id = id, "{source}");
        } else if failure.error.code.status() >= 500 {
            error!(code, request_id = id, "{source}");
        } else {
            info!(code, request_id = id, "{source}");
        }
    }

    fn admits(&self, now: Instant) -> bool {
        let mut paid_until = self.paid_until.lock();
        let start = paid_until.unwrap_or(now).max(now);
        if start.duration_since(now) > INTERVAL * (DENIALS_LOGGED_AT_ONCE_MAX - 1) {
            return false;
        }
        *paid_until = Some(start + INTERVAL);
        true
    }

    /// Counts an event that is not written. The first such event after a report schedules the next report.
    fn suppress(self: &Arc<Self>) {
        if self.suppressed.fetch_add(1, Ordering::Relaxed) > 0 {
            return;
        }
        let log = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(DENIALS_SUMMARY_SECONDS)).await;
            log.log_suppressed();
        });
    }

    pub(crate) fn log_suppressed(&self) {
        let count = self.suppressed.swap(0, Ordering::Relaxed);
        if count > 0 {
            info!(count, "{count} more refused requests were not logged; the metrics count all of them");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_written_and_then_the_rate() {
        let (log, start) = (FailureLog::default(), clock::instant());
        let admitted = |at: Duration, count: u32| (0..count).filter(|_| log.admits(start + at)).count();
        let second = Duration::from_secs(1);
        let (burst, rate) = (DENIALS_LOGGED_AT_ONCE_MAX as usize, DENIALS_LOGGED_PER_SECOND as usize);
        assert_eq!(admitted(Duration::ZERO, 10_000), burst);
        assert_eq!(admitted(second, 10_000), rate);
        assert_eq!(admitted(second * 2, 10_000), rate);
        assert_eq!(admitted(second * 3600, 10_000), burst, "unused capacity adds up to one burst");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_out_is_counted_once() {
        let log = Arc::new(FailureLog::default());
        for _ in 0..3 {
            log.suppress();
        }
        assert_eq!(log.suppressed.load(Ordering::Relaxed), 3);
        tokio::time::sleep(Duration::from_secs(DENIALS_SUMMARY_SECONDS + 1)).await;
        assert_eq!(log.suppressed.load(Ordering::Relaxed), 0);
    }
}
