//! Detects the end of standard input, which stops a server that another program started.
//!
//! A pipe is closed when the last process that can write to it exits, however that process exits. A server therefore
//! cannot outlive the program that started it, even if that program is killed and cannot send a signal. Any input
//! before that is read and dropped. This module must not know what stopping means.

use anyhow::Context;
use std::io;
use std::thread;
use tokio::sync::watch;

#[derive(Clone)]
pub(crate) struct StandardInput(watch::Receiver<()>);

impl StandardInput {
    /// Starts reading, in a separate thread because a read from a pipe cannot be canceled.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let (sender, ended) = watch::channel(());
        let read_all = move || {
            // An error has the same meaning as the end of the input: nothing more can arrive.
            drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
            drop(sender);
        };
        thread::Builder::new().name("standard input".to_owned()).spawn(read_all).context("starting a thread")?;
        Ok(Self(ended))
    }

    /// Completes when the input has ended or cannot be read.
    pub(crate) async fn ended(mut self) {
        // The sender never sends, so this returns an error once the sender is dropped, which means that the input has
        // ended.
        drop(self.0.changed().await);
    }
}
