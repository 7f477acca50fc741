//! The limits of connections (`connections.rs`) and requests: how many at one time (`admission.rs`), the memory of their bodies (`memory.rs`), entities in a second
//! (`throttle/`), and how much an account may keep (`quota/`).
//!
//! Each is called by one step of the request path. This folder must not know operations, formats or HTTP.

pub(crate) mod admission;
pub(crate) mod connections;
pub(crate) mod memory;
pub(crate) mod quota;
pub(crate) mod throttle;

/// How much of a limit is in use at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) used: u64,
    pub(crate) limit: u64,
    /// How many requests were refused so far because all of it was in use.
    pub(crate) refused: u64,
}

/// The limits that all requests share.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LimitFigures {
    pub(crate) requests: Usage,
    pub(crate) memory_bytes: Usage,
}
