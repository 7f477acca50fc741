//! The connection that a request came over.

use std::net::SocketAddr;

/// A connection as the rules about requests see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionInfo {
    /// The other end of the connection: the client, or the last proxy before this server.
    pub(crate) peer: SocketAddr,
    /// Whether requests and responses are encrypted between the peer and this server.
    pub(crate) is_tls: bool,
}

impl ConnectionInfo {
    /// The scheme of addresses under which the client reaches this server.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}
