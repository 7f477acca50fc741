//! The signals that ask the process to stop.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

/// A future that is ready at the first SIGTERM or Ctrl-C. From this call on the signals no longer end the process.
pub fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => info!("stopping on SIGTERM"),
            _ = interrupt.recv() => info!("stopping on Ctrl-C"),
        }
    })
}
