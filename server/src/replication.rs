//! What the server needs to know of replication. The program in which the server runs implements it.

use bytes::Bytes;
use engine::figures::ReplicationFigures;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::pin::Pin;
use std::time::SystemTime;

/// The path of requests by other servers. No account can have this name.
pub const REPLICATION_PATH: &str = "/_rowhouse-replication";

/// The age of what a standby responds, in seconds, or `unknown`.
pub(crate) const X_MS_ROWHOUSE_AGE: HeaderName = HeaderName::from_static("x-ms-rowhouse-age");

/// The replication of a primary or of a standby.
pub trait Replicated: fmt::Debug + Send + Sync {
    /// Returns whether a request has the token with which servers prove that they belong together.
    fn accepts(&self, headers: &HeaderMap) -> bool;

    /// Responds to a request of another server, which has the token and no body. Returns the status and the body of the
    /// response.
    fn respond<'a>(&'a self, headers: &'a HeaderMap) -> Pin<Box<dyn Future<Output = (u16, Bytes)> + Send + 'a>>;

    /// Returns statistics.
    fn figures(&self) -> ReplicationFigures;

    /// Returns the state of a standby; `None` for a primary.
    fn standby(&self) -> Option<StandbyState>;
}

/// The state of a standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandbyState {
    /// All writes of the primary before this time are on the standby; `None` if it has not been connected yet.
    pub last_sync: Option<SystemTime>,
}

impl StandbyState {
    /// Returns the value of [`X_MS_ROWHOUSE_AGE`]: the time since the standby last had everything, rounded up.
    pub(crate) fn age(&self, now: SystemTime) -> HeaderValue {
        let Some(last_sync) = self.last_sync else { return HeaderValue::from_static("unknown") };
        // The clocks of the two servers differ.
        let age = now.duration_since(last_sync).unwrap_or_default();
        HeaderValue::from(age.as_secs() + u64::from(age.subsec_nanos() > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn the_age_of_a_standby_is_rounded_up() {
        let synced = UNIX_EPOCH + Duration::from_secs(100);
        for (last_sync, milliseconds, age) in [
            (None, 0, "unknown"),
            (Some(synced), 0, "0"),
            (Some(synced), 1, "1"),
            (Some(synced), 1000, "1"),
            (Some(synced), 86_400_001, "86401"),
        ] {
            let now = synced + Duration::from_millis(milliseconds);
            assert_eq!(StandbyState { last_sync }.age(now), age);
        }
        assert_eq!(StandbyState { last_sync: Some(synced) }.age(UNIX_EPOCH), "0", "the primary's clock is ahead");
    }
}
