//! Faults that a test scripts for single requests.
//!
//! Invariant: a server without a script is started without the layer that asks for faults.
//!
//! This module must not know which requests a test chooses.

use http::{Method, StatusCode};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Chooses the faults of each request.
#[derive(Clone)]
pub struct FaultScript(Arc<Choose>);

/// Returns the faults of a request, given its method and the path of its URL; `None` for no fault.
type Choose = dyn Fn(&Method, &str) -> Option<RequestFaults> + Send + Sync;

impl FaultScript {
    /// Creates a script from a function, which gets the method and the path of each request.
    pub fn new(choose: impl Fn(&Method, &str) -> Option<RequestFaults> + Send + Sync + 'static) -> Self {
        Self(Arc::new(choose))
    }

    pub(crate) fn faults(&self, method: &Method, path: &str) -> Option<RequestFaults> {
        self.0(method, path)
    }
}

impl fmt::Debug for FaultScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultScript").finish_non_exhaustive()
    }
}

/// The faults that affect one request, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestFaults {
    /// The delay before the request is executed.
    pub delay: Duration,
    /// The response that is sent instead of executing the request.
    pub refusal: Option<ScriptedRefusal>,
    /// True if the connection is closed instead of sending the response to the executed request.
    pub loses_response: bool,
}

/// A response that does not come from the Table service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedRefusal {
    /// The status.
    pub status: StatusCode,
    /// The error code of the service; `None` for an empty response, such as one from a proxy.
    pub code: Option<Box<str>>,
}
