//! The limits on connections (`connections.rs`) and on requests: the number of requests in flight (`admission.rs`), the
//! memory of bodies (`memory.rs`), the number of entities per second (`throttle/`), and the data that an account may
//! store (`quota/`).
//!
//! Each of them is called by one step of the request path. Code in this folder must not depend on operations, formats
//! or HTTP.

use crate::limits::memory::Usage;

pub(crate) mod admission;
pub(crate) mod connections;
pub(crate) mod memory;
pub(crate) mod quota;
pub(crate) mod throttle;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LimitFigures {
    pub(crate) requests: Usage,
    pub(crate) memory_bytes: Usage,
}
