use crate::terminal::notice;
use anyhow::Context;
use platform::files::{private_file, private_folder, rename, sync_folder};
use std::ffi::OsString;
use std::fs::TryLockError;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The new file is accessible only to its owner. It is on disk under its name when this returns.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let what = || format!("writing {}", path.display());
    let new = with_suffix(path, ".new");
    let mut file = private_file().write(true).create(true).truncate(true).open(&new).with_context(what)?;
    file.write_all(content).and_then(|()| file.sync_data()).with_context(what)?;
    rename(&new, path).and_then(|()| sync_name(path)).with_context(what)
}

/// Makes the name of a new or replaced file durable.
pub(crate) fn sync_name(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    sync_folder(folder.unwrap_or(Path::new(".")))
}

pub(crate) fn remove_file(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Repeats an attempt to lock a file while another process holds the lock, but not for longer than the given time.
pub(crate) fn wait_for_lock(
    time_max: Duration,
    lock: impl Fn() -> Result<(), TryLockError>,
) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match lock() {
            Err(TryLockError::WouldBlock) if began.elapsed() < time_max => std::thread::sleep(LOCK_POLL_INTERVAL),
            result => return result,
        }
    }
}

/// A temporary folder that only the owner can read. Dropping the value removes it.
#[derive(Debug)]
pub(crate) struct ScratchFolder(PathBuf);

impl ScratchFolder {
    pub(crate) fn create(base: &Path, command: &str) -> anyhow::Result<Self> {
        let path = base.join(format!("rowhouse-{command}-{}", uuid::Uuid::new_v4().simple()));
        let made = private_folder().create(&path);
        made.with_context(|| {
            format!("creating the temporary folder {}; choose a different folder with --scratch", path.display())
        })?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            notice(format_args!("failed to remove the temporary folder {}: {error}", self.0.display()));
        }
    }
}

pub(crate) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file.file_name().unwrap_or_default());
    name.push(suffix);
    file.with_file_name(name)
}
