//! The limits of connections (`connections.rs`) and requests: the number in flight (`admission.rs`), the entities per
//! second (`throttle/`), and the data that an account may store (`quota/`).
//!
//! One step of the request path calls each of them. This folder must not know operations, formats or HTTP.

use crate::request::memory::Usage;

pub(crate) mod admission;
pub(crate) mod connections;
pub(crate) mod quota;
pub(crate) mod throttle;

/// The usage of the limits that all requests share.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LimitFigures {
    pub(crate) requests: Usage,
    pub(crate) memory_bytes: Usage,
}
