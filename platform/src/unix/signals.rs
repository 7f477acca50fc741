//! Signals: SIGTERM and Ctrl-C ask to stop, SIGHUP to read files again.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A future that is ready at the first signal that asks to stop, with its name. From this call on these signals no longer end
/// the process.
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

/// Requests to read files again.
#[derive(Debug)]
pub struct Hangups(Signal);

impl Hangups {
    /// Listens for them from now on.
    pub fn listen() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Waits for the next request.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }
}
