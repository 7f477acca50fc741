//! The change feed: what clients see of the engine's change log.
//!
//! This folder must not depend on operations or HTTP.

use engine::ChangeLog;
use std::fmt;
use std::sync::Arc;

/// The change feed of a server.
pub(crate) struct ChangeFeed {
    pub(crate) log: Arc<dyn ChangeLog>,
    pub(crate) streams_max: usize,
}

impl ChangeFeed {
    pub(crate) fn new(log: Arc<dyn ChangeLog>, streams_max: usize) -> Self {
        Self { log, streams_max }
    }
}

impl fmt::Debug for ChangeFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeFeed").field("kept", &self.log.kept()).finish_non_exhaustive()
    }
}
