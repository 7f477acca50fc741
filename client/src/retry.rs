//! When an operation is retried, and after which pause.

use crate::limits::{PAUSE_MAX, PAUSE_MIN, RETRY_AFTER_MAX};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Whether a status says that the same request may succeed later.
pub(crate) fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// Waits after the attempt with this number, counted from one.
pub(crate) async fn pause(attempt: u32, retry_after: Option<Duration>) {
    // Every `RandomState` has its own random keys, which is enough randomness to keep clients apart.
    let random = RandomState::new().hash_one(attempt);
    tokio::time::sleep(pause_time(attempt, retry_after, random)).await;
}

/// The pause that the service asked for, up to a maximum. Otherwise exponential backoff with jitter: between half and all
/// of a time that doubles with each attempt, so that requests which failed together are not repeated together.
fn pause_time(attempt: u32, retry_after: Option<Duration>, random: u64) -> Duration {
    if let Some(requested) = retry_after {
        return requested.min(RETRY_AFTER_MAX);
    }
    let doubled = 2_u32.checked_pow(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
    let longest = PAUSE_MIN.saturating_mul(doubled).min(PAUSE_MAX);
    let part = u32::try_from(random % 1000).unwrap_or_default();
    longest / 2 + longest / 2 * part / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_are_bounded_and_differ() {
        for attempt in 1..40 {
            let (least, most) = (pause_time(attempt, None, 0), pause_time(attempt, None, 999));
            assert!(least < most && most <= PAUSE_MAX, "{attempt}");
            assert!(most <= pause_time(attempt + 1, None, 999), "{attempt}");
        }
        assert_eq!(pause_time(1, None, 0), PAUSE_MIN / 2);
        assert_eq!(pause_time(2, None, 0), PAUSE_MIN);
        assert_eq!(pause_time(1, Some(Duration::from_secs(7)), 5), Duration::from_secs(7));
        assert_eq!(pause_time(1, Some(Duration::from_secs(7000)), 5), RETRY_AFTER_MAX);
    }

    #[test]
    fn transient_statuses() {
        assert!([408, 429, 500, 503].into_iter().all(is_transient));
        assert!(![200, 400, 403, 404, 409, 413, 501].into_iter().any(is_transient));
    }
}
