//! What the service manager is told: nothing, since the protocol of systemd is not there.

use std::ffi::OsStr;
use std::io;

/// Fails: there are no such sockets.
pub fn notify(_socket: &OsStr, _message: &str) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "Windows has no sockets of this kind; unset NOTIFY_SOCKET"))
}
