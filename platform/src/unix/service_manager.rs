//! Notifications to the service manager: datagrams to a socket, in the protocol of systemd (`sd_notify`).

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;

/// Sends a message to the socket that the service manager specified.
pub fn notify(socket: &OsStr, message: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read its socket must not delay the server.
    sender.set_nonblocking(true)?;
    let sent = match abstract_address(socket) {
        Some(address) => sender.send_to_addr(message.as_bytes(), &address?)?,
        None => sender.send_to(message.as_bytes(), socket)?,
    };
    if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Returns the abstract address for a name that starts with `@`. On Linux, such a name denotes a socket that is not a
/// file.
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
