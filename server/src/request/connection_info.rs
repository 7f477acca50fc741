//! The connection on which a request arrived.

use std::net::SocketAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionInfo {
    /// The other end of the connection: the client, or the last proxy before this server.
    pub(crate) peer: SocketAddr,
    /// Whether requests and responses are encrypted between the peer and this server.
    pub(crate) is_tls: bool,
}

impl ConnectionInfo {
    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}
