//! What a connection does with its requests.
//!
//! This module must not know how a request is handled.

use super::refusal::Refusal;
use crate::limits::connections::RequestInProgress;
use crate::request::ConnectionInfo;
use crate::response::Segments;
use http::{Request, Response};
use hyper::body::Incoming;
use std::error::Error;
use std::fmt;
use std::time::Instant;

/// The handler of the requests of a server's connections: the service, or a layer around it.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Handles a request. `started` is the time at which its head arrived.
    fn handle(
        &self,
        request: Request<Incoming>,
        connection: ConnectionInfo,
        started: Instant,
        in_progress: &RequestInProgress,
    ) -> impl Future<Output = Result<Response<Segments>, RequestAborted>> + Send;

    /// Returns the response to a request that the HTTP library refuses. `started` is the time at which it did.
    fn refuse(&self, refusal: &Refusal<'_>, connection: ConnectionInfo, started: Instant) -> Response<Segments>;
}

/// The connection is closed without a response: the client disconnected or was too slow, or the response is lost on
/// purpose.
#[derive(Debug)]
pub(crate) struct RequestAborted;

impl fmt::Display for RequestAborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request gets no response")
    }
}

impl Error for RequestAborted {}
