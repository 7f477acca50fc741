//! The process and its operating system: memory, the service manager, open files, and standard input.
//!
//! The allocator returns freed memory only after a delay, and only during another call. Without the settings here, an
//! idle server would keep the memory that it needed to read the log at startup or to handle a load peak, and an export
//! of several pages at a time would take half as much memory again.
//!
//! Code in this file must not depend on requests or data.

use anyhow::Context;
use platform::process::{open_files_limit, set_open_files_limit};
use platform::{OpenFilesLimit, service_manager};
use std::hint::black_box;
use std::time::Duration;
use std::{env, io, thread};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

/// Settings of the allocator, which reads them only from the environment, before `main`.
const ALLOCATOR_SETTINGS: [(&str, &str); 2] = [
    // A huge page stays resident even if only a few of its bytes are in use.
    ("MIMALLOC_ALLOW_THP", "0"),
    // The delay before freed memory is returned, in milliseconds. With the default of 1000, attack peaks within a
    // second add up.
    ("MIMALLOC_PURGE_DELAY", "100"),
];
const CALL_INTERVAL: Duration = Duration::from_secs(1);
/// The size of a block that is large enough for the allocator to return memory when the block is freed, in bytes.
/// Nothing is written to the block, so it uses no memory.
const LARGE_BLOCK_BYTES: usize = 32 * 1024 * 1024;

/// Restarts the process with the allocator settings that are missing from its environment. Must be called before any
/// thread is started or any file is read. If the system cannot restart a process, it works, but may exceed the
/// documented memory bound.
pub(crate) fn configure_allocator() {
    let missing: Vec<_> = ALLOCATOR_SETTINGS.into_iter().filter(|(name, _)| env::var_os(name).is_none()).collect();
    if !missing.is_empty() {
        // Returns only on failure. There is no log yet to report it.
        let _: std::io::Error = platform::process::restart_with(&missing);
    }
}

/// Makes the allocator return freed memory periodically.
pub(crate) async fn return_freed_memory() {
    let mut calls = interval(CALL_INTERVAL);
    calls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        calls.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(LARGE_BLOCK_BYTES)));
    }
}

const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// Notifies the service manager that the server is ready.
///
/// The systemd protocol (`sd_notify`) sends one datagram to the socket in an environment variable. Without the
/// variable, nothing is sent. An error does not stop the server.
pub(crate) fn notify_ready(endpoint: &str) {
    notify(&format!("READY=1\nSTATUS=listening on {endpoint}"));
}

pub(crate) fn notify_stopping() {
    notify("STOPPING=1\nSTATUS=finishing requests");
}

fn notify(message: &str) {
    if let Some(socket) = std::env::var_os(SOCKET_VARIABLE)
        && let Err(error) = service_manager::notify(&socket, message)
    {
        warn!("failed to notify the service manager at {}: {error}", socket.display());
    }
}

/// Files that are not client connections. The storage library keeps up to 900 open for reading; the others are files
/// being written, segments of the log, and connections to a database.
const OTHER_FILES: u64 = 1100;

/// Raises the limit on open files for the given number of connections, as far as the system allows. Returns how many
/// connections are possible.
///
/// The limit covers connections as well as the engine's files. If connections used all of it, the engine could not open
/// a file to write, and would report a disk failure. Connections therefore get only what the engine does not need.
///
/// Many systems start a program with a limit of 1,024 files, but let it request far more.
pub(crate) fn connection_capacity(asked: usize) -> usize {
    let OpenFilesLimit { current, maximum } = open_files_limit();
    let needed = (asked as u64).saturating_add(OTHER_FILES);
    let mut files = current.unwrap_or(u64::MAX);
    let possible = maximum.unwrap_or(u64::MAX).min(needed);
    if files < possible {
        match set_open_files_limit(possible) {
            Ok(()) => files = possible,
            Err(error) => warn!(%error, "failed to raise the limit on open files"),
        }
    }
    let room = capacity_for(files, asked);
    if room < asked {
        warn!(
            files,
            "the limit on open files allows only {room} connections, not {asked}; raise it (ulimit -Hn, LimitNOFILE) or \
             lower --max-connections"
        );
    }
    room
}

/// If there are not even enough files for the engine, connections get a quarter of them.
fn capacity_for(files: u64, asked: usize) -> usize {
    let room = files.saturating_sub(OTHER_FILES).max(files / 4).max(1);
    usize::try_from(room).unwrap_or(usize::MAX).min(asked)
}

/// Detects the end of standard input, which stops a server that another program started.
///
/// A pipe is closed when the last process that can write to it exits, however that process exits. A server therefore
/// cannot outlive the program that started it, even if that program is killed and cannot send a signal. Any input
/// before that is read and dropped.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_engine() {
        for (files, asked, room) in [
            (65_536, 10_000, 10_000),
            (u64::MAX, 10_000, 10_000),
            (11_100, 10_000, 10_000),
            (11_099, 10_000, 9_999),
            (4096, 10_000, 2_996),
            (1024, 10_000, 256),
            (1024, 10, 10),
            (1, 10, 1),
        ] {
            assert_eq!(capacity_for(files, asked), room, "{asked} with {files} files");
        }
    }

    #[test]
    fn the_limit_is_raised_when_it_may_be() {
        let before = open_files_limit();
        let room = connection_capacity(3000);
        let after = open_files_limit();
        assert_eq!(after.maximum, before.maximum);
        assert!(room == 3000 || after.current == after.maximum, "{room} with {after:?}");
    }
}
