//! What the server needs to know of replication. The program in which the server runs implements it.

use bytes::Bytes;
use engine::figures::ReplicationFigures;
use http::HeaderMap;
use std::fmt;
use std::pin::Pin;
use std::time::SystemTime;

/// The path of requests by other servers. No account can have this name.
pub const REPLICATION_PATH: &str = "/_rowhouse-replication";

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
