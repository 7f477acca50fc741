//! Requests to stop: Ctrl-C, Ctrl-Break, a console that is closed, and a system that shuts down.

use std::io;
use tokio::signal::windows;

/// A future that is ready at the first request to stop, with its name. From this call on Ctrl-C and Ctrl-Break no longer end the
/// process. When its console is closed, Windows ends it after about 5 s.
pub fn stop() -> io::Result<impl Future<Output = &'static str>> {
    let (mut ctrl_c, mut ctrl_break) = (windows::ctrl_c()?, windows::ctrl_break()?);
    let (mut close, mut shutdown) = (windows::ctrl_close()?, windows::ctrl_shutdown()?);
    Ok(async move {
        tokio::select! {
            _ = ctrl_c.recv() => "Ctrl-C",
            _ = ctrl_break.recv() => "Ctrl-Break",
            _ = close.recv() => "the end of the console",
            _ = shutdown.recv() => "the shutdown of the system",
        }
    })
}

/// Requests to read files again: there is no such signal, so none comes.
#[derive(Debug)]
pub struct Hangups(());

impl Hangups {
    /// Listens for them from now on.
    pub fn listen() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// Never returns.
    pub async fn next(&mut self) {
        std::future::pending().await
    }
}
