//! What the service manager is told: that the server is ready, and that it stops.
//!
//! The protocol of systemd (`sd_notify`) is one datagram to the socket that the environment names. Without that variable
//! nothing happens, and nothing that goes wrong here is a reason not to serve.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;
use tracing::warn;

/// The variable that names the socket.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// Requests are answered from now on.
pub(crate) fn ready(endpoint: &str) {
    tell(&format!("READY=1\nSTATUS=listening on {endpoint}"));
}

/// The server was asked to stop, and finishes what is under way.
pub(crate) fn stopping() {
    tell("STOPPING=1\nSTATUS=finishing requests");
}

fn tell(message: &str) {
    if let Some(socket) = std::env::var_os(SOCKET_VARIABLE)
        && let Err(error) = send(&socket, message)
    {
        warn!("the service manager cannot be told at {}: {error}", socket.display());
    }
}

fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    // A manager that takes nothing must not hold up the server.
    sender.set_nonblocking(true)?;
    let sent = match abstract_address(socket) {
        Some(address) => sender.send_to_addr(message.as_bytes(), &address?)?,
        None => sender.send_to(message.as_bytes(), socket)?,
    };
    if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The address behind a name that begins with `@`: Linux has sockets that are no files.
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
