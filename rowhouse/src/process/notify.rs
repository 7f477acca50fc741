//! Notifies the service manager that the server is ready, and that it stops.
//!
//! The protocol of systemd (`sd_notify`) is one datagram to the socket that an environment variable names. Without the
//! variable nothing is sent, and an error does not stop the server.

use platform::service_manager;
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
        && let Err(error) = service_manager::notify(&socket, message)
    {
        warn!("the service manager could not be notified at {}: {error}", socket.display());
    }
}
