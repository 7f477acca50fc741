//! Signals: SIGTERM and Ctrl-C request a stop; SIGHUP requests reloading files.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Returns a future that resolves at the first stop signal, with its name. From this call on, these signals no longer
/// terminate the process.
pub fn stop() -> io::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "Ctrl-C",
        }
    })
}

/// The requests to reload files.
#[derive(Debug)]
pub struct Hangups(Signal);

impl Hangups {
    /// Starts listening for requests.
    pub fn listen() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Waits for the next request.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }
}
