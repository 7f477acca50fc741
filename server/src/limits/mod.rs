//! The limits on connections (`connections.rs`) and on requests: the number of requests in flight (`admission.rs`), the
//! memory of bodies (`memory.rs`), the number of streams of changes (`streams.rs`), the number of entities per second
//! (`throttle/`), and the data that an account may store (`quota/`).
//!
//! Each of them is called by one step of the request path. Code in this folder must not depend on operations, formats
//! or HTTP.

use crate::limits::memory::Usage;
use crate::limits::streams::StreamFigures;

pub(crate) mod admission;
pub(crate) mod connections;
pub(crate) mod memory;
pub(crate) mod quota;
pub(crate) mod streams;
pub(crate) mod throttle;

#[derive(Debug, Clone, Default)]
pub(crate) struct LimitFigures {
    pub(crate) requests: Usage,
    pub(crate) memory_bytes: Usage,
    /// The streams of changes, and the position after the end of the log; `None` if there is no change feed.
    pub(crate) streams: Option<(StreamFigures, u64)>,
}
