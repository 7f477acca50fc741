//! Notifies the service manager that the server is ready, and that it stops.
//!
//! The protocol of systemd (`sd_notify`) is one datagram to the socket that an environment variable names. Without the
//! variable nothing is sent, and an error does not stop the server.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;
use tracing::warn;

/// The variable that names the socket.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// Notifies that requests are served from now on.
pub(crate) fn ready(endpoint: &str) {
    notify(&format!("READY=1\nSTATUS=listening on {endpoint}"));
}

/// Notifies that the server was asked to stop, and finishes the requests in work.
pub(crate) fn stopping() {
    notify("STOPPING=1\nSTATUS=finishing requests");
}

fn notify(message: &str) {
    if let Some(socket) = std::env::var_os(SOCKET_VARIABLE)
        && let Err(error) = send(&socket, message)
    {
        warn!("the service manager could not be notified at {}: {error}", socket.display());
    }
}

fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read must not delay the server.
    sender.set_nonblocking(true)?;
    let sent = match abstract_address(socket) {
        Some(address) => sender.send_to_addr(message.as_bytes(), &address?)?,
        None => sender.send_to(message.as_bytes(), socket)?,
    };
    if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The address for a name that begins with `@`: Linux has sockets that are not files.
#[cfg(target_os = "linux")]
fn abstract_address(socket: &OsStr) -> Option<io::Result<std::os::unix::net::SocketAddr>> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    let name = socket.as_bytes().strip_prefix(b"@")?;
    Some(std::os::unix::net::SocketAddr::from_abstract_name(name))
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_socket: &OsStr) -> Option<io::Result<std::os::unix::net::SocketAddr>> {
    None
}
