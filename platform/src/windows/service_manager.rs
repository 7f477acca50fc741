//! Notifications to the service manager, which Windows does not support.

use std::ffi::OsStr;
use std::io;

/// Always fails: Windows does not have such sockets.
pub fn notify(_socket: &OsStr, _message: &str) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "NOTIFY_SOCKET is set, but Windows does not support it; unset it"))
}
