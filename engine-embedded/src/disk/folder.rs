//! The data folder: its owner, its format, and the lock that excludes other processes.
//!
//! Invariant: a folder is never changed if it does not belong to Rowhouse, has a different format, is damaged or is in
//! use.
//!
//! A new folder is marked in two steps. First the marker is written under a temporary name and the database is created;
//! once that is complete, the marker is renamed to its final name. A folder that has only a temporary marker belongs to
//! Rowhouse but never held acknowledged data, so its database may be deleted and created again.

use crate::disk::closing::ClosingRecord;
use crate::disk::layout::FORMAT;
use crate::disk::open_error::OpenError;
use platform::files::{exposure_warning, private_folder, sync_folder};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const MARKER: &str = "rowhouse.format";
const NEW_MARKER: &str = "rowhouse.format.new";
const LOCK: &str = "rowhouse.lock";
const DATABASE: &str = "database";
const FIRST_LINE: &str = "rowhouse data folder";
const LAST_LINE: &str = "Written by Rowhouse. Do not edit or delete this file.";

/// Records that the database was closed cleanly. The file is removed before anything is written again.
pub(crate) const CLOSED: &str = "rowhouse.closed";
const NEW_CLOSED: &str = "rowhouse.closed.new";
/// The maximum size of the record in `CLOSED`, in bytes. Each journal takes at most 80.
const CLOSED_BYTES_MAX: u64 = 1024 * 1024;

/// Marks a folder into which a backup is being restored. While this file exists, only a restore opens the folder.
const RESTORING: &str = "rowhouse.restoring";

/// A file that is created and removed to test whether the disk accepts writes.
const PROBE: &str = "rowhouse.probe";
/// The size of the `PROBE` file, in bytes. A full disk may still have room for a smaller file.
const PROBE_BYTES: usize = 1024 * 1024;

const MARKER_BYTES_MAX: u64 = 4096;

/// Entries that do not count as contents of a folder. The root of a file system may contain `lost+found`.
const IGNORED: [&str; 2] = [LOCK, "lost+found"];

/// A data folder that this process owns until the value is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Held for its lock. The operating system releases the lock when the file is closed, even if the process crashes.
    lock: File,
    is_new: bool,
}

impl Drop for Folder {
    /// Releases the lock. Closing the file would not release it while a child process that is being started also has
    /// the file open.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

#[derive(Debug)]
pub(crate) enum Closing {
    /// Written by an earlier version, which recorded only that everything was synced.
    Unrecorded,
    Recorded(ClosingRecord),
}

/// The kind of a folder, determined without changing it.
enum Kind {
    /// The folder is missing, empty, or left by an unfinished first startup.
    New,
    Complete,
}

impl Folder {
    /// Takes ownership of a data folder. A missing or empty folder becomes a new data folder.
    pub(crate) fn acquire(path: &Path) -> Result<Self, OpenError> {
        if let Kind::New = kind(path)? {
            create_private(path)?;
        }
        let lock = lock(path)?;
        // Another process may have changed the folder between the first check and the lock.
        let is_new = matches!(kind(path)?, Kind::New);
        if is_new {
            prepare(path).map_err(|error| OpenError::io("prepare the folder", path, error))?;
        }
        Ok(Self { path: path.to_owned(), lock, is_new })
    }

    /// Takes ownership of a complete data folder for reading, without changing anything. The folder may be read-only or
    /// a copy without its lock file.
    pub(crate) fn acquire_to_read(path: &Path) -> Result<Self, OpenError> {
        if let Kind::New = kind(path)? {
            return Err(OpenError::Missing { folder: path.to_owned() });
        }
        let lock_path = path.join(LOCK);
        let lock = match File::open(&lock_path) {
            Ok(lock) => try_lock(lock, path)?,
            // Without a lock file, no process has the folder open. Hold the marker open in place of the lock file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let marker = path.join(MARKER);
                File::open(&marker).map_err(|error| OpenError::io("open", &marker, error))?
            }
            Err(error) => return Err(OpenError::io("open the lock file", &lock_path, error)),
        };
        Ok(Self { path: path.to_owned(), lock, is_new: false })
    }

    /// Takes ownership of a folder in order to restore a backup into it. The folder may be missing, empty, or contain
    /// the remains of an interrupted restore, which are deleted. Until [`Self::complete_restore`] is called, only
    /// another restore opens the folder.
    pub(crate) fn acquire_to_restore(path: &Path) -> Result<Self, OpenError> {
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

    /// Completes a restore, after all its data has been synced. The folder is then like any other that was closed
    /// cleanly.
    pub(crate) fn complete_restore(&mut self, record: &ClosingRecord) -> Result<(), OpenError> {
        self.complete()?;
        self.record_closing(record)?;
        fs::remove_file(self.path.join(RESTORING))
            .and_then(|()| sync_folder(&self.path))
            .map_err(|error| OpenError::io("complete the restore in", &self.path, error))
    }

    /// Tests whether the disk accepts writes and syncs. The file written for the test is removed afterwards.
    pub(crate) fn probe(&self) -> io::Result<()> {
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

    /// Records that everything is synced and that nothing more will be written. A crash leaves either the whole record
    /// or none.
    pub(crate) fn record_closing(&self, record: &ClosingRecord) -> Result<(), OpenError> {
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

    /// Returns `None` if the database was not closed cleanly.
    pub(crate) fn closing(&self) -> Result<Option<Closing>, OpenError> {
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
        let what = "it is not the record that Rowhouse wrote when the database was closed; \
                    to accept that the journals may have lost data since then, delete it";
        let record = ClosingRecord::from_text(&text).ok_or_else(|| OpenError::damaged(&path, what))?;
        Ok(Some(Closing::Recorded(record)))
    }

    /// Must be called before anything is written.
    pub(crate) fn remove_closing_record(&self) -> Result<(), OpenError> {
        let path = self.path.join(CLOSED);
        remove_if_there(&self.path.join(NEW_CLOSED))
            .and_then(|()| remove_if_there(&path))
            .and_then(|()| sync_folder(&self.path))
            .map_err(|error| OpenError::io("remove", &path, error))
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Marks the database as completely created. The storage library does not sync the folder that contains its
    /// keyspace folders, so this method does.
    pub(crate) fn complete(&mut self) -> Result<(), OpenError> {
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

pub(crate) fn names(path: &Path) -> io::Result<Vec<String>> {
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

fn create_private(path: &Path) -> Result<(), OpenError> {
    let create = private_folder().recursive(true).create(path);
    create.map_err(|error| OpenError::io("create the folder", path, error))
}

/// Logs a warning if other users can open the folder.
fn lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.join(LOCK);
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = open.map_err(|error| OpenError::io("open the lock file", &path, error))?;
    let lock = try_lock(file, folder)?;
    if let Some(warning) = exposure_warning(folder) {
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

/// Deletes the database of an unfinished first startup.
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

/// Syncs a folder and all folders below it.
pub(crate) fn sync_folders(path: &Path) -> io::Result<()> {
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
