//! Requests to stop: Ctrl-C, Ctrl-Break, closing the console, and system shutdown.

use std::io;
use tokio::signal::windows;

/// Returns a future that resolves at the first request to stop, with its name. From this call on, Ctrl-C and Ctrl-Break
/// no longer terminate the process. After the console is closed, Windows terminates the process within about 5 s.
pub fn stop() -> io::Result<impl Future<Output = &'static str>> {
    let (mut ctrl_c, mut ctrl_break) = (windows::ctrl_c()?, windows::ctrl_break()?);
    let (mut close, mut shutdown) = (windows::ctrl_close()?, windows::ctrl_shutdown()?);
    Ok(async move {
        tokio::select! {
            _ = ctrl_c.recv() => "Ctrl-C",
            _ = ctrl_break.recv() => "Ctrl-Break",
            _ = close.recv() => "the closing of the console",
            _ = shutdown.recv() => "the system shutdown",
        }
    })
}

/// The requests to reload files. Windows has no signal for them, so none arrive.
#[derive(Debug)]
pub struct Hangups(());

impl Hangups {
    /// Starts listening for requests.
    pub fn listen() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// Never returns.
    pub async fn next(&mut self) {
        std::future::pending().await
    }
}
