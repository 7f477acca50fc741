//! Connections of clients, counted where they are accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of connections.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    pub(crate) open: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) failed_handshakes: AtomicU64,
    pub(crate) slow_readers: AtomicU64,
}

/// An open connection; it counts as one until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<ConnectionCounters>);

impl ConnectionCounters {
    /// Counts a connection that was accepted.
    pub(crate) fn accept(self: &Arc<Self>) -> OpenConnection {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Counts a TLS handshake that failed or took too long.
    pub(crate) fn handshake_failed(&self) {
        self.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was closed because its client did not read its response.
    pub(crate) fn count_slow_reader(&self) {
        self.slow_readers.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
