//! The data folder: who owns it, which format it has, and the lock that keeps other processes out.
//!
//! Invariant: a folder that is not ours, is of another format, is damaged or is in use is not changed in any way.
//!
//! A new folder is marked in two steps. First the marker is written under a temporary name, then the database is
//! created, and when that is complete the marker gets its name. A temporary marker alone means that the folder is
//! ours and that nothing in it was ever acknowledged, so its database may be deleted and created again.

use super::closing::ClosingRecord;
use super::layout::FORMAT;
use super::open_error::OpenError;
use platform::files::{exposure, private_folder, sync_folder};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const MARKER: &str = "rowhouse.format";
const NEW_MARKER: &str = "rowhouse.format.new";
const LOCK: &str = "rowhouse.lock";
const DATABASE: &str = "database";
const FIRST_LINE: &str = "rowhouse data folder";
const LAST_LINE: &str = "Written by Rowhouse. Do not edit or delete this file.";

/// Records a database that was closed in order; it is removed before anything is written again.
pub(super) const CLOSED: &str = "rowhouse.closed";
const NEW_CLOSED: &str = "rowhouse.closed.new";
/// Longest record of a closing that is read, in bytes; a journal takes at most 80.
const CLOSED_BYTES_MAX: u64 = 1024 * 1024;

/// Marks a folder into which a backup is being restored; while it is there, only a restore opens the folder.
const RESTORING: &str = "rowhouse.restoring";

/// Created and removed to find out whether the disk accepts writes.
const PROBE: &str = "rowhouse.probe";
/// How much is written to find that out, in bytes: a smaller file may still fit on a disk that is full.
const PROBE_BYTES: usize = 1024 * 1024;

/// Longest marker that is read, in bytes.
const MARKER_BYTES_MAX: u64 = 4096;

/// Entries of a folder that do not make it non-empty: the root of a file system may have this one.
const IGNORED: [&str; 2] = [LOCK, "lost+found"];

/// A data folder that this process owns until the value is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held for its lock, which the operating system releases when the file is closed, however the process ends.
    lock: File,
    is_new: bool,
}

impl Drop for Folder {
    /// Closing the file would not release the lock while a child process that is just being started has the file, too.
    fn drop(&mut self) {
        // Where this fails, closing has to do.
        let _ = self.lock.unlock();
    }
}

/// How a database was closed in order.
#[derive(Debug)]
pub(super) enum Closing {
    /// By a version that recorded only that everything was synced.
    Unrecorded,
    /// With a record of what the journals held.
    Recorded(ClosingRecord),
}

/// What a folder is, determined without changing it.
enum Kind {
    /// Missing, empty, or from a first start that did not finish.
    New,
    /// A complete data folder of this format.
    Complete,
}

impl Folder {
    /// Takes possession of a data folder. A missing or empty one becomes a new data folder.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        if let Kind::New = kind(path)? {
            create_private(path)?;
        }
        let lock = lock(path)?;
        // Another process may have changed it between the first look and the lock.
        let is_new = matches!(kind(path)?, Kind::New);
        if is_new {
            prepare(path).map_err(|error| OpenError::io("prepare the folder", path, error))?;
        }
        Ok(Self { path: path.to_owned(), lock, is_new })
    }

    /// Takes possession of a complete data folder to read in it, and changes nothing.
    ///
    /// A folder that is read-only, or that was copied without its lock file, can be read all the same.
    pub(super) fn take_to_read(path: &Path) -> Result<Self, OpenError> {
        if let Kind::New = kind(path)? {
            return Err(OpenError::Missing { folder: path.to_owned() });
        }
        let lock_path = path.join(LOCK);
        let lock = match File::open(&lock_path) {
            Ok(lock) => try_lock(lock, path)?,
            // Without a lock file no process has the folder open. The marker is held open in place of the lock.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let marker = path.join(MARKER);
                File::open(&marker).map_err(|error| OpenError::io("open", &marker, error))?
            }
            Err(error) => return Err(OpenError::io("open the lock file", &lock_path, error)),
        };
        Ok(Self { path: path.to_owned(), lock, is_new: false })
    }

    /// Takes possession of a folder to restore a backup into: a missing or an empty one, or one with the remains of a
    /// restore that was interrupted, which are deleted.
    ///
    /// Until [`Self::complete_restore`] nothing but another restore opens the folder.
    pub(super) fn take_to_restore(path: &Path) -> Result<Self, OpenError> {
        let check = || match kind(path) {
            Ok(Kind::New) | Err(OpenError::Restoring { .. }) => Ok(()),
            Ok(Kind::Complete) => Err(OpenError::InUse { folder: path.to_owned() }),
            Err(error) => Err(error),
        };
        check()?;
        create_private(path)?;
        let lock = lock(path)?;
        check()?;
        let prepared = || -> io::Result<()> {
            File::create(path.join(RESTORING))?.sync_all()?;
            sync_folder(path)?;
            for name in [MARKER, CLOSED, NEW_CLOSED] {
                remove_if_there(&path.join(name))?;
            }
            prepare(path)
        };
        prepared().map_err(|error| OpenError::io("prepare the folder", path, error))?;
        Ok(Self { path: path.to_owned(), lock, is_new: true })
    }

    /// Completes a restore of which everything is synced: the folder becomes one like any other that was closed in order.
    pub(super) fn complete_restore(&mut self, record: &ClosingRecord) -> Result<(), OpenError> {
        self.complete()?;
        self.record_closing(record)?;
        fs::remove_file(self.path.join(RESTORING))
            .and_then(|()| sync_folder(&self.path))
            .map_err(|error| OpenError::io("complete the restore in", &self.path, error))
    }

    /// Finds out whether the disk accepts writes and syncs, with a file that is removed again.
    pub(super) fn probe(&self) -> io::Result<()> {
        let path = self.path.join(PROBE);
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&vec![0xA5; PROBE_BYTES])?;
            file.sync_all()
        });
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => written.and(Err(error)),
            _ => written,
        }?;
        sync_folder(&self.path)
    }

    /// Records that everything was synced and that nothing more will be written. A crash leaves the whole record or none.
    pub(super) fn record_closing(&self, record: &ClosingRecord) -> Result<(), OpenError> {
        let (path, new) = (self.path.join(CLOSED), self.path.join(NEW_CLOSED));
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(record.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            sync_folder(&self.path)
        };
        write().map_err(|error| OpenError::io("write", &path, error))
    }

    /// The record of the last closing; `None` if the database was not closed in order.
    pub(super) fn closing(&self) -> Result<Option<Closing>, OpenError> {
        let path = self.path.join(CLOSED);
        let mut text = String::new();
        match File::open(&path).and_then(|file| file.take(CLOSED_BYTES_MAX).read_to_string(&mut text)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                return Err(OpenError::io("read", &path, error));
            }
            Ok(0) => return Ok(Some(Closing::Unrecorded)),
            _ => {}
        }
        let what = "it is not what Rowhouse wrote when the database was closed; \
                    deleting it accepts what the journals may have lost since then";
        let record = ClosingRecord::from_text(&text).ok_or_else(|| OpenError::damaged(&path, what))?;
        Ok(Some(Closing::Recorded(record)))
    }

    /// Removes the record of the last closing, before anything is written.
    pub(super) fn forget_closing(&self) -> Result<(), OpenError> {
        let path = self.path.join(CLOSED);
        remove_if_there(&self.path.join(NEW_CLOSED))
            .and_then(|()| remove_if_there(&path))
            .and_then(|()| sync_folder(&self.path))
            .map_err(|error| OpenError::io("remove", &path, error))
    }

    /// Where the storage library keeps its files.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Whether the database does not exist yet.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Marks the database as completely created.
    ///
    /// The storage library does not sync the folder in which it creates those of its keyspaces, so this does.
    pub(super) fn complete(&mut self) -> Result<(), OpenError> {
        sync_folders(&self.database())
            .and_then(|()| fs::rename(self.path.join(NEW_MARKER), self.path.join(MARKER)))
            .and_then(|()| sync_folder(&self.path))
            .map_err(|error| OpenError::io("write the format marker in", &self.path, error))?;
        self.is_new = false;
        Ok(())
    }
}

fn kind(path: &Path) -> Result<Kind, OpenError> {
    let names = match names(path) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kind::New),
        Err(error) => return Err(OpenError::io("read the folder", path, error)),
    };
    if names.iter().any(|name| name == RESTORING) {
        return Err(OpenError::Restoring { folder: path.to_owned() });
    }
    if names.iter().any(|name| name == MARKER) {
        return check_marker(&path.join(MARKER)).map(|()| Kind::Complete);
    }
    let was_being_created = names.iter().any(|name| name == NEW_MARKER);
    let is_ours = |name: &str| was_being_created && [NEW_MARKER, DATABASE].contains(&name);
    if names.iter().any(|name| !IGNORED.contains(&name.as_str()) && !is_ours(name)) {
        return Err(OpenError::Foreign { folder: path.to_owned() });
    }
    Ok(Kind::New)
}

pub(super) fn names(path: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn check_marker(path: &Path) -> Result<(), OpenError> {
    let damaged = || OpenError::Damaged {
        path: path.to_owned(),
        what: "the format marker is not one that Rowhouse wrote".to_owned(),
    };
    let read = |error| OpenError::io("read the format marker", path, error);
    if fs::metadata(path).map_err(read)?.len() > MARKER_BYTES_MAX {
        return Err(damaged());
    }
    let bytes = fs::read(path).map_err(read)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
    let mut lines = text.split('\n');
    if lines.next() != Some(FIRST_LINE) {
        return Err(damaged());
    }
    let format = lines.next().and_then(|line| line.strip_prefix("format ")).and_then(|n| n.parse::<u32>().ok());
    match format {
        Some(FORMAT) if text == marker_text() => Ok(()),
        Some(found) if found > FORMAT => Err(OpenError::Newer { folder_marker: path.to_owned(), found }),
        _ => Err(damaged()),
    }
}

fn marker_text() -> String {
    format!("{FIRST_LINE}\nformat {FORMAT}\n{LAST_LINE}\n")
}

/// Creates a folder and its parents, if they are missing, for their owner alone.
fn create_private(path: &Path) -> Result<(), OpenError> {
    let create = private_folder().recursive(true).create(path);
    create.map_err(|error| OpenError::io("create the folder", path, error))
}

/// Locks a folder that is about to be used, and warns if others may open it.
fn lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.join(LOCK);
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = open.map_err(|error| OpenError::io("open the lock file", &path, error))?;
    let lock = try_lock(file, folder)?;
    if let Some(warning) = exposure(folder) {
        tracing::warn!("{warning}");
    }
    Ok(lock)
}

fn try_lock(file: File, folder: &Path) -> Result<File, OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { folder: folder.to_owned() }),
        Err(TryLockError::Error(error)) => Err(OpenError::io("lock", &folder.join(LOCK), error)),
    }
}

/// Prepares an empty folder for a new database, and deletes the database of an unfinished first start.
fn prepare(path: &Path) -> io::Result<()> {
    let mut marker = File::create(path.join(NEW_MARKER))?;
    marker.write_all(marker_text().as_bytes())?;
    marker.sync_all()?;
    sync_folder(path)?;
    match fs::remove_dir_all(path.join(DATABASE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => sync_parent(path),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Syncs a folder and the folders in it.
fn sync_folders(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(path)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.canonicalize()?.parent() {
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}
