//! Decides whether an operation is retried, and after which pause.
//!
//! This module must not depend on requests.

use crate::limits::{ATTEMPTS_MAX, PAUSE_MAX, PAUSE_MIN, RETRY_AFTER_MAX};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

/// The number of attempts of an operation, the pauses between them, and the failures that are retried.
///
/// The default is [`RetryPolicy::exponential`]. Under every policy, an operation that may have been executed is retried
/// only if executing it twice does no harm. For example, a lost response to an insert is an error, because a second
/// insert could conflict with the first one.
///
/// ```
/// use rowhouse_client::RetryPolicy;
/// use std::time::Duration;
///
/// let patient = RetryPolicy::exponential().attempts(12).budget(Duration::from_secs(300));
/// let steady = RetryPolicy::linear(Duration::from_millis(250)).retry_if(|failure| failure.status == Some(503));
/// # let _ = (patient, steady);
/// ```
#[derive(Clone)]
pub struct RetryPolicy {
    backoff: Backoff,
    attempts_max: u32,
    budget: Duration,
    decide: Option<Decide>,
}

type Decide = Arc<dyn Fn(&Failure<'_>) -> bool + Send + Sync>;

#[derive(Debug, Clone, Copy)]
enum Backoff {
    Linear(Duration),
    Exponential { first: Duration, longest: Duration },
}

/// A failed attempt, as passed to [`RetryPolicy::retry_if`].
///
/// ```
/// # use rowhouse_client::{Failure, RetryPolicy};
/// // Keep the default decision, but do not retry timeouts of the service.
/// let policy = RetryPolicy::exponential().retry_if(|failure| failure.is_transient && failure.code != "OperationTimedOut");
/// # let _ = policy;
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The HTTP status; `None` if there was no response.
    pub status: Option<u16>,
    /// The error code of the service; may be empty.
    pub code: &'a str,
    /// The number of attempts so far.
    pub attempts: u32,
    /// True if the library would retry by default: the service was busy, or there was no response.
    pub is_transient: bool,
}

impl RetryPolicy {
    /// Returns a policy that makes only one attempt.
    ///
    /// ```
    /// let policy = rowhouse_client::RetryPolicy::none();
    /// # let _ = policy;
    /// ```
    pub fn none() -> Self {
        Self::linear(Duration::ZERO).attempts(1)
    }

    /// Returns a policy with the same pause after each of up to five attempts.
    ///
    /// ```
    /// let policy = rowhouse_client::RetryPolicy::linear(std::time::Duration::from_secs(1));
    /// # let _ = policy;
    /// ```
    pub fn linear(pause: Duration) -> Self {
        Self { backoff: Backoff::Linear(pause), attempts_max: ATTEMPTS_MAX, budget: Duration::MAX, decide: None }
    }

    /// Returns a policy whose pauses start at 200 ms and double with each attempt, up to 15 s. Each pause is shortened
    /// at random, at most to half its length, so that clients that failed together do not retry together. The policy
    /// makes five attempts in total.
    ///
    /// ```
    /// let policy = rowhouse_client::RetryPolicy::exponential();
    /// # let _ = policy;
    /// ```
    pub fn exponential() -> Self {
        let backoff = Backoff::Exponential { first: PAUSE_MIN, longest: PAUSE_MAX };
        Self { backoff, ..Self::linear(PAUSE_MIN) }
    }

    /// Sets the maximum number of attempts, including the first; zero counts as one.
    ///
    /// ```
    /// let policy = rowhouse_client::RetryPolicy::exponential().attempts(3);
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn attempts(self, attempts_max: u32) -> Self {
        Self { attempts_max: attempts_max.max(1), ..self }
    }

    /// Sets the first and the maximum pause of an exponential policy. For a linear policy, `first` becomes the pause.
    ///
    /// ```
    /// use std::time::Duration;
    /// let policy = rowhouse_client::RetryPolicy::exponential().pauses(Duration::from_millis(20), Duration::from_secs(2));
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn pauses(self, first: Duration, longest: Duration) -> Self {
        let backoff = match self.backoff {
            Backoff::Linear(_) => Backoff::Linear(first),
            Backoff::Exponential { .. } => Backoff::Exponential { first, longest },
        };
        Self { backoff, ..self }
    }

    /// Sets the maximum duration of an operation, including all its attempts and pauses. A pause that would exceed this
    /// duration is not started. The last attempt is abandoned when the duration is over.
    ///
    /// ```
    /// let policy = rowhouse_client::RetryPolicy::exponential().budget(std::time::Duration::from_secs(30));
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn budget(self, budget: Duration) -> Self {
        Self { budget, ..self }
    }

    /// Replaces the decision on which failures are retried. The function is called only if executing the operation
    /// twice does no harm. It is not called after the last attempt.
    ///
    /// ```
    /// let policy = rowhouse_client::RetryPolicy::exponential().retry_if(|failure| failure.status.is_none());
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn retry_if(self, decide: impl Fn(&Failure<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self { decide: Some(Arc::new(decide)), ..self }
    }

    pub(crate) fn time_max(&self) -> Duration {
        self.budget
    }

    /// Returns the pause before the next attempt, or `None` if there must be no further attempt. `elapsed` is the time
    /// since the operation began.
    pub(crate) fn pause_after(
        &self,
        failure: &Failure<'_>,
        retry_after: Option<Duration>,
        elapsed: Duration,
    ) -> Option<Duration> {
        let wants = || self.decide.as_ref().map_or(failure.is_transient, |decide| decide(failure));
        if failure.attempts >= self.attempts_max || !wants() {
            return None;
        }
        // Every `RandomState` has its own random keys, which spread the clients' retries well enough.
        let pause =
            pause_time(self.backoff, failure.attempts, retry_after, RandomState::new().hash_one(failure.attempts));
        (elapsed.saturating_add(pause) < self.budget).then_some(pause)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential()
    }
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backoff, attempts_max, budget, decide: _ } = self;
        f.debug_struct("RetryPolicy")
            .field("backoff", backoff)
            .field("attempts_max", attempts_max)
            .field("budget", budget)
            .finish_non_exhaustive()
    }
}

pub(crate) fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// Returns the pause that the service requested, limited to `RETRY_AFTER_MAX`, or otherwise the policy's pause.
fn pause_time(backoff: Backoff, attempt: u32, retry_after: Option<Duration>, random: u64) -> Duration {
    if let Some(requested) = retry_after {
        return requested.min(RETRY_AFTER_MAX);
    }
    match backoff {
        Backoff::Linear(pause) => pause,
        Backoff::Exponential { first, longest } => {
            let doubled = 2_u32.checked_pow(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
            let longest = first.saturating_mul(doubled).min(longest);
            let part = u32::try_from(random % 1000).unwrap_or_default();
            longest / 2 + longest / 2000 * part
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPONENTIAL: Backoff = Backoff::Exponential { first: PAUSE_MIN, longest: PAUSE_MAX };

    #[test]
    fn pauses_grow_are_bounded_and_differ() {
        let pause = |attempt, random| pause_time(EXPONENTIAL, attempt, None, random);
        for attempt in 1..40 {
            let (least, most) = (pause(attempt, 0), pause(attempt, 999));
            assert!(least < most && most <= PAUSE_MAX, "{attempt}");
            assert!(most <= pause(attempt + 1, 999), "{attempt}");
        }
        assert_eq!(pause(1, 0), PAUSE_MIN / 2);
        assert_eq!(pause(2, 0), PAUSE_MIN);
        assert_eq!(pause_time(EXPONENTIAL, 1, Some(Duration::from_secs(7)), 5), Duration::from_secs(7));
        assert_eq!(pause_time(EXPONENTIAL, 1, Some(Duration::from_secs(7000)), 5), RETRY_AFTER_MAX);
        assert_eq!(pause_time(Backoff::Linear(PAUSE_MAX), 9, None, 5), PAUSE_MAX);
    }

    #[test]
    fn transient_statuses() {
        assert!([408, 429, 500, 503].into_iter().all(is_transient));
        assert!(![200, 400, 403, 404, 409, 413, 501].into_iter().any(is_transient));
    }

    #[test]
    fn attempts_and_time_are_bounded() {
        let failure = |attempts| Failure { status: Some(503), code: "ServerBusy", attempts, is_transient: true };
        let second = Duration::from_secs(1);
        let policy = RetryPolicy::linear(second).attempts(3).budget(Duration::from_secs(10));
        assert_eq!(policy.pause_after(&failure(1), None, Duration::ZERO), Some(second));
        assert_eq!(policy.pause_after(&failure(3), None, Duration::ZERO), None, "the last attempt");
        assert_eq!(policy.pause_after(&failure(1), None, second * 9), None, "the pause would use up the budget");
        assert_eq!(policy.pause_after(&failure(1), Some(second * 20), second), None, "the pause is over budget");
        let lasting = Failure { is_transient: false, ..failure(1) };
        assert_eq!(policy.pause_after(&lasting, None, Duration::ZERO), None);
        let never = RetryPolicy::linear(second).attempts(3).retry_if(|_| panic!("there is nothing to decide"));
        assert_eq!(never.pause_after(&failure(3), None, Duration::ZERO), None);
        let eager = policy.retry_if(|failure| failure.code == "ServerBusy");
        assert_eq!(eager.pause_after(&lasting, None, Duration::ZERO), Some(second), "the program decides");
        assert_eq!(RetryPolicy::none().pause_after(&failure(1), None, Duration::ZERO), None);
    }
}
