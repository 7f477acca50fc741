//! Clients that keep a connection and do not go on: with the head of a request, or with reading a response.

use super::slow_reader::SendMonitor;
use crate::limits::connections::ConnectionState;
use std::fmt;
use std::sync::Arc;

/// Looks at one connection in intervals.
#[derive(Debug)]
pub(crate) struct ConnectionWatch {
    pub(crate) state: Arc<ConnectionState>,
    pub(crate) monitor: Arc<SendMonitor>,
    /// Since when the connection waited for a head at the last look.
    waiting: Option<u64>,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenUp {
    SlowReader,
    SlowHead,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SlowReader => "the client does not read its response",
            Self::SlowHead => "the client does not send its request",
        })
    }
}

impl ConnectionWatch {
    pub(crate) fn new(state: Arc<ConnectionState>, monitor: Arc<SendMonitor>) -> Self {
        Self { state, monitor, waiting: None }
    }

    /// Whether the connection is given up. A head that was awaited at two looks in a row is: the first of a connection, and
    /// one that has begun. A connection may be idle longer between two requests.
    pub(crate) fn look(&mut self) -> Option<GivenUp> {
        if self.monitor.is_too_slow() {
            return Some(GivenUp::SlowReader);
        }
        let before = std::mem::replace(&mut self.waiting, self.state.waiting_for_head());
        (self.waiting.is_some() && self.waiting == before).then_some(GivenUp::SlowHead)
    }
}
