//! The end of standard input, which ends a server that another program starts.
//!
//! A pipe ends with the last process that can write to it, however that process ends. So a server cannot outlive its starter, also
//! when that is killed and can send no signal. What arrives before the end is read and dropped. This module must not know what
//! stopping means.

use anyhow::Context;
use std::io;
use std::thread;
use tokio::sync::watch;

/// Standard input, which is read to its end.
#[derive(Clone)]
pub(crate) struct StandardInput(watch::Receiver<()>);

impl StandardInput {
    /// Begins to read, in a thread of its own because a read of a pipe cannot be cancelled.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let (sender, ended) = watch::channel(());
        let read_all = move || {
            // After an error nothing more can arrive, as after the end.
            drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
            drop(sender);
        };
        thread::Builder::new().name("standard input".to_owned()).spawn(read_all).context("starting a thread")?;
        Ok(Self(ended))
    }

    /// Completes when the input has ended or cannot be read.
    pub(crate) async fn ended(mut self) {
        // The sender sends nothing, so this is an error once it is dropped, and means the end.
        drop(self.0.changed().await);
    }
}
