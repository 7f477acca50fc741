//! The log of failed requests.
//!
//! Invariant: requests without a valid credential, which anyone can send, requests over a limit, and refused requests,
//! which any client can send, cause a bounded number of events per second. They are not errors of the server. Each
//! event that is left out is counted in a later event. Metrics count every request.

use crate::clock;
use crate::failure::Failure;
use crate::request::RequestContext;
use model::limits::{DENIALS_LOGGED_AT_ONCE_MAX, DENIALS_LOGGED_PER_SECOND, DENIALS_SUMMARY_SECONDS};
use parking_lot::Mutex;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing::{debug, error, info, warn};

/// The time in which the rate allows one event.
const INTERVAL: Duration = Duration::from_millis(1000 / DENIALS_LOGGED_PER_SECOND as u64);

#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    denials: Rate,
    /// A rate for clients that prove who they are, so that their mistakes do not hide denials.
    mistakes: Rate,
}

/// A bounded rate of events.
#[derive(Debug, Default)]
struct Rate {
    /// The time at which the rate will have allowed all events so far; `None` before the first event.
    paid_until: Mutex<Option<Instant>>,
    /// The number of events that were left out and not yet reported in the log.
    suppressed: AtomicU64,
}

impl FailureLog {
    /// Writes a failure: the reason to log, if there is one, and the cause, if there is one.
    pub(crate) fn write(self: &Arc<Self>, failure: &Failure, reason: Option<&str>, context: &RequestContext<'_>) {
        let (code, id) = (failure.error.code.as_str(), context.id.as_str());
        let reason_and_cause;
        let cause: &dyn Display = match (&reason, &failure.source) {
            (Some(reason), Some(source)) => {
                reason_and_cause = format!("{reason} Cause: {source}");
                &reason_and_cause
            }
            (None, Some(source)) => source,
            (Some(reason), None) => reason,
            (None, None) => {
                debug!(code, request_id = id, "{}", failure.error.message);
                return;
            }
        };
        let is_over_limit = failure.is_over_limit();
        let rate = match (context.is_authenticated && !is_over_limit, &failure.source) {
            (false, _) => Some(&self.denials),
            (true, None) => Some(&self.mistakes),
            (true, Some(_)) => None,
        };
        if rate.is_some_and(|rate| !self.admits(rate)) {
            return;
        }
        if is_over_limit {
            warn!(code, request_id = id, "{cause}");
        } else if failure.error.code.status() >= 500 && failure.source.is_some() {
            error!(code, request_id = id, "{cause}");
        } else {
            info!(code, request_id = id, "{cause}");
        }
    }

    /// Returns whether a rate allows an event now. Counts an event that it does not allow; the first such event after a
    /// report schedules the next report.
    fn admits(self: &Arc<Self>, rate: &Rate) -> bool {
        if rate.admits(clock::instant()) {
            return true;
        }
        if rate.suppressed.fetch_add(1, Ordering::Relaxed) == 0 {
            let log = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(DENIALS_SUMMARY_SECONDS)).await;
                log.log_suppressed();
            });
        }
        false
    }

    pub(crate) fn log_suppressed(&self) {
        for rate in [&self.denials, &self.mistakes] {
            let count = rate.suppressed.swap(0, Ordering::Relaxed);
            if count > 0 {
                info!(count, "{count} more refused requests were not logged; the metrics count all of them");
            }
        }
    }
}

impl Rate {
    fn admits(&self, now: Instant) -> bool {
        let mut paid_until = self.paid_until.lock();
        let start = paid_until.unwrap_or(now).max(now);
        if start.duration_since(now) > INTERVAL * (DENIALS_LOGGED_AT_ONCE_MAX - 1) {
            return false;
        }
        *paid_until = Some(start + INTERVAL);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_written_and_then_the_rate() {
        let (rate, start) = (Rate::default(), clock::instant());
        let admitted = |at: Duration, count: u32| (0..count).filter(|_| rate.admits(start + at)).count();
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
        *log.denials.paid_until.lock() = Some(clock::instant() + Duration::from_hours(1));
        for _ in 0..3 {
            assert!(!log.admits(&log.denials));
            assert!(log.admits(&log.mistakes), "denials do not hide mistakes");
        }
        assert_eq!(log.denials.suppressed.load(Ordering::Relaxed), 3);
        tokio::time::sleep(Duration::from_secs(DENIALS_SUMMARY_SECONDS + 1)).await;
        assert_eq!(log.denials.suppressed.load(Ordering::Relaxed), 0);
    }
}
