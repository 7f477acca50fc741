//! The limits of connections (`connections.rs`) and requests: how many at one time (`admission.rs`), entities in a second
//! (`throttle/`), and how much an account may keep (`quota/`).
//!
//! Each is called by one step of the request path. This folder must not know operations, formats or HTTP.

use crate::request::memory::Usage;

pub(crate) mod admission;
pub(crate) mod connections;
pub(crate) mod quota;
pub(crate) mod throttle;

/// The limits that all requests share.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LimitFigures {
    pub(crate) requests: Usage,
    pub(crate) memory_bytes: Usage,
}
