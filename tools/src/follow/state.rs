//! The positions of the feeds, in a file.

use crate::file::{wait_for_lock, with_suffix};
use crate::state_file::{Command, Save, StateFile};
use anyhow::{Context, bail, ensure};
use client::ChangePosition;
use platform::files::private_file;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

const COMMAND: Command = Command { name: "follow", format: 1, advice: "choose a different file with --state" };
/// If a process is killed while it starts a command, its lock is released only once the command has started.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Must not contain secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FollowedService {
    service: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FollowProgress {
    /// All changes up to this position were acknowledged.
    position: String,
}

#[derive(Debug)]
pub(super) struct FollowState {
    file: StateFile<FollowedService, FollowProgress>,
    /// Two processes with the same state file would overwrite each other's positions.
    _lock: Option<File>,
}

impl FollowState {
    /// Without a path, nothing is recorded.
    pub(super) fn open(path: Option<PathBuf>, service: &str) -> anyhow::Result<Self> {
        let lock = path.as_deref().map(lock).transpose()?;
        let shown = path.as_deref().map_or_else(String::new, |path| path.display().to_string());
        let service = FollowedService { service: service.to_owned() };
        let file = StateFile::read_or_new(COMMAND, path, service, |known, given| {
            ensure!(
                known == given,
                "the state file {shown} belongs to {}, not to {}; choose a different file with --state, or, if \
                 the service has moved, change the address in the file",
                known.service,
                given.service
            );
            Ok(known)
        })?;
        Ok(Self { file, _lock: lock })
    }

    /// Returns `None` if nothing was recorded for a feed.
    pub(super) fn position(&self, feed: &str) -> anyhow::Result<Option<ChangePosition>> {
        let malformed = "the state file contains a malformed position";
        let known = self.file.table(feed);
        known.map(|known| ChangePosition::parse(&known.position).context(malformed)).transpose()
    }

    /// Records that all changes of a feed up to a position were acknowledged.
    pub(super) fn advance(&self, feed: &str, position: ChangePosition, save: Save) -> anyhow::Result<()> {
        let progress = FollowProgress { position: position.to_string() };
        if self.file.table(feed).as_ref() == Some(&progress) {
            return self.flush();
        }
        self.file.update(save, |_, feeds| {
            feeds.insert(feed.to_owned(), progress);
        })
    }

    pub(super) fn flush(&self) -> anyhow::Result<()> {
        self.file.flush()
    }
}

/// Locks a separate file, because the state file is replaced whenever a position is recorded. The lock ends with the
/// process.
fn lock(state: &Path) -> anyhow::Result<File> {
    let what = || format!("locking the state file {}", state.display());
    let file = private_file().write(true).create(true).truncate(false).open(with_suffix(state, ".lock"));
    let file = file.with_context(what)?;
    match wait_for_lock(LOCK_TIMEOUT, || file.try_lock()) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "another 'rowhouse follow' is using the state file {}; stop it, or choose a different file with --state",
            state.display()
        ),
        Err(TryLockError::Error(error)) => Err(error).with_context(what),
    }
}
