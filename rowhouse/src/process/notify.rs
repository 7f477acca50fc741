//! Notifies the service manager that the server is ready, and that it is stopping.
//!
//! The systemd protocol (`sd_notify`) sends one datagram to the socket in an environment variable. Without the
//! variable, nothing is sent. An error does not stop the server.

use platform::service_manager;
use tracing::warn;

const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

pub(crate) fn ready(endpoint: &str) {
    notify(&format!("READY=1\nSTATUS=listening on {endpoint}"));
}

pub(crate) fn stopping() {
    notify("STOPPING=1\nSTATUS=finishing requests");
}

fn notify(message: &str) {
    if let Some(socket) = std::env::var_os(SOCKET_VARIABLE)
        && let Err(error) = service_manager::notify(&socket, message)
    {
        warn!("failed to notify the service manager at {}: {error}", socket.display());
    }
}
