//! Connections of clients, counted where they are accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted about connections.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    pub(crate) open: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) failed_handshakes: AtomicU64,
    pub(crate) slow_readers: AtomicU64,
}

/// A connection that is open, as long as this lives.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<ConnectionCounters>);

impl ConnectionCounters {
    /// A connection was accepted.
    pub(crate) fn accept(self: &Arc<Self>) -> OpenConnection {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// A TLS handshake failed or took too long.
    pub(crate) fn handshake_failed(&self) {
        self.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }

    /// A client took nothing of its answer for so long that it was cut off.
    pub(crate) fn count_slow_reader(&self) {
        self.slow_readers.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
