//! The data folder: its owner, its format, and the lock that excludes other processes.
//!
//! Invariant: a folder is never changed if it does not belong to Rowhouse, has a different format, is damaged or is in
//! use.
//!
//! A new folder is marked in two steps. First the marker is written under a temporary name and the database is created;
//! once that is complete, the marker is renamed to its final name. A folder that has only a temporary marker belongs to
//! Rowhouse but never held acknowledged data, so its database may be deleted and created again.
//!
//! A folder of an earlier format is migrated (`opening`). During the migration, it has a separate marker: earlier
//! versions refuse it as a newer format, and this version continues the migration.

use crate::disk::layout::FORMAT;
use crate::disk::lineage::{Identity, Lineage, Role};
use crate::disk::open_error::OpenError;
use platform::files::{exposure_warning, private_folder, rename, sync_folder};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const MARKER: &str = "rowhouse.marker";
const NEW_MARKER: &str = "rowhouse.marker.new";
/// The names of the marker before the first release. Their folders have other formats with the same numbers.
const DEVELOPMENT_MARKERS: [&str; 2] = ["rowhouse.format", "rowhouse.format.new"];
const LOCK: &str = "rowhouse.lock";
/// The folder of the sorted files.
const TREE: &str = "tree";
/// The folder of the log.
const LOG: &str = "log";
/// The folder of the segments of the log that are kept for readers.
const ARCHIVE: &str = "archive";
const FIRST_LINE: &str = "rowhouse data folder";
/// Precedes the former format while a folder is being migrated.
const MIGRATING: &str = "migrating from format ";
const LAST_LINE: &str = "Written by Rowhouse. Do not edit or delete this file.";

/// Marks a folder into which a backup is being restored. While this file exists, only a restore opens the folder. It
/// is empty, or says which base copy the folder is being filled from.
const RESTORING: &str = "rowhouse.restoring";
const NEW_RESTORING: &str = "rowhouse.restoring.new";

/// The file with the lineage of a folder that takes part in replication.
const LINEAGE: &str = "rowhouse.replication";
const NEW_LINEAGE: &str = "rowhouse.replication.new";

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
    /// `None` in a new folder.
    format: Option<u32>,
}

impl Drop for Folder {
    /// Releases the lock. Closing the file would not release it while a child process that is being started also has
    /// the file open.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl Folder {
    /// Takes ownership of a data folder. A missing or empty folder becomes a new data folder.
    pub(crate) fn acquire(path: &Path) -> Result<Self, OpenError> {
        if found_format(path)?.is_none() {
            create_private(path)?;
        }
        let lock = lock(path)?;
        // Another process may have changed the folder between the first check and the lock.
        let format = found_format(path)?;
        if format.is_none() {
            prepare(path).map_err(|error| OpenError::io("prepare the folder", path, error))?;
        }
        Ok(Self { path: path.to_owned(), lock, format })
    }

    /// Takes ownership of the folder of a standby. Returns its identity too.
    pub(crate) fn acquire_standby(path: &Path) -> Result<(Self, Lineage, Identity), OpenError> {
        Self::acquire_in_role(path, |role| match role {
            Role::Standby { id, .. } => Some(id),
            Role::Primary { .. } | Role::Fenced { .. } => None,
        })
    }

    /// Takes ownership of a folder that can be promoted: of a standby, or of a former primary.
    pub(crate) fn acquire_to_promote(path: &Path) -> Result<(Self, Lineage), OpenError> {
        let may_be_promoted = |role| (!matches!(role, Role::Primary { .. })).then_some(());
        let (folder, lineage, ()) = Self::acquire_in_role(path, may_be_promoted)?;
        Ok((folder, lineage))
    }

    fn acquire_in_role<T>(path: &Path, accept: impl Fn(Role) -> Option<T>) -> Result<(Self, Lineage, T), OpenError> {
        let accepted = || {
            let accepted = lineage(path)?.and_then(|lineage| Some((accept(lineage.role)?, lineage)));
            accepted.ok_or_else(|| OpenError::NotStandby { folder: path.to_owned() })
        };
        if path.join(RESTORING).exists() {
            return Err(OpenError::Restoring { folder: path.to_owned() });
        }
        // Do not create a folder.
        accepted()?;
        let folder = Self::acquire(path)?;
        let (accepted, lineage) = accepted()?;
        Ok((folder, lineage, accepted))
    }

    /// Takes ownership of a complete data folder for reading, without changing anything. The folder may be read-only or
    /// a copy without its lock file.
    pub(crate) fn acquire_to_read(path: &Path) -> Result<Self, OpenError> {
        let Some(format) = found_format(path)? else {
            return Err(OpenError::Missing { folder: path.to_owned() });
        };
        if format != FORMAT {
            return Err(OpenError::NotMigrated { folder: path.to_owned(), format });
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
        Ok(Self { path: path.to_owned(), lock, format: Some(format) })
    }

    /// Takes ownership of a folder in order to restore a backup into it. The folder may be missing, empty, or contain
    /// the remains of an interrupted restore, which are deleted. Until [`Self::complete_restore`] is called, only
    /// another restore opens the folder.
    pub(crate) fn acquire_to_restore(path: &Path) -> Result<Self, OpenError> {
        check_restorable(path)?;
        create_private(path)?;
        let lock = lock(path)?;
        check_restorable(path)?;
        let prepared = || -> io::Result<()> {
            File::create(path.join(RESTORING))?.sync_all()?;
            sync_folder(path)?;
            remove_if_there(&path.join(MARKER))?;
            // A restored backup has a log without relation to the one that was in the folder.
            remove_if_there(&path.join(LINEAGE))?;
            remove_if_there(&path.join(NEW_RESTORING))?;
            prepare(path)
        };
        prepared().map_err(|error| OpenError::io("prepare the folder", path, error))?;
        Ok(Self { path: path.to_owned(), lock, format: None })
    }

    /// Takes ownership of a folder in order to continue an interrupted base copy. Returns what
    /// [`Self::write_copy`] wrote too, or `None` if there is no such copy. The tree is as it was left, and there is no
    /// log.
    pub(crate) fn acquire_to_resume(path: &Path) -> Result<Option<(Self, String)>, OpenError> {
        check_restorable(path)?;
        let copy = || match fs::read_to_string(path.join(RESTORING)) {
            Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::io("read", &path.join(RESTORING), error)),
        };
        if copy()?.is_none() {
            return Ok(None);
        }
        let lock = lock(path)?;
        let Some(text) = copy()? else { return Ok(None) };
        let prepared = || -> io::Result<()> {
            // The attempt may have been interrupted while it completed the folder.
            write_synced(&path.join(NEW_MARKER), marker_text(FORMAT).as_bytes())?;
            remove_if_there(&path.join(MARKER))?;
            remove_folder_if_there(&path.join(LOG))
        };
        prepared().map_err(|error| OpenError::io("prepare the folder", path, error))?;
        let folder = Self { path: path.to_owned(), lock, format: None };
        folder.create_log()?;
        folder.sync_names()?;
        Ok(Some((folder, text)))
    }

    /// Records which base copy the folder is being filled from, after the tree was created.
    pub(crate) fn write_copy(&self, text: &str) -> Result<(), OpenError> {
        replace_file(&self.path, RESTORING, NEW_RESTORING, text.as_bytes())
            .map_err(|error| OpenError::io("write the state of the base copy in", &self.path, error))
    }

    /// Completes a restore, after all its data has been synced. The folder is then like any other that was closed
    /// cleanly.
    pub(crate) fn complete_restore(&mut self) -> Result<(), OpenError> {
        self.complete()?;
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

    /// Returns the lineage of the folder, if it takes part in replication.
    pub(crate) fn lineage(&self) -> Result<Option<Lineage>, OpenError> {
        lineage(&self.path)
    }

    pub(crate) fn write_lineage(&self, lineage: &Lineage) -> Result<(), OpenError> {
        replace_file(&self.path, LINEAGE, NEW_LINEAGE, lineage.encode().as_bytes())
            .map_err(|error| OpenError::io("write the state of the replication in", &self.path, error))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.path.join(TREE)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Creates the folders of the log and the tree.
    pub(crate) fn create_parts(&self) -> Result<(), OpenError> {
        for part in [self.tree(), self.log()] {
            create_private(&part)?;
        }
        self.sync_names()
    }

    /// Syncs all folders. After a crash, names may be visible that a power failure would remove.
    pub(crate) fn sync_names(&self) -> Result<(), OpenError> {
        sync_folders(&self.path).map_err(|error| OpenError::io("sync the folders of", &self.path, error))
    }

    pub(crate) fn is_new(&self) -> bool {
        self.format.is_none()
    }

    /// Returns the format of a complete folder. It is the newest one, unless the folder is still to be migrated.
    pub(crate) fn format(&self) -> Option<u32> {
        self.format
    }

    /// Marks a folder before a step of its migration. Earlier versions do not open it any more.
    pub(crate) fn begin_migration(&self, from: u32) -> Result<(), OpenError> {
        self.replace_marker(&migrating_text(from))
    }

    /// Marks the folder after a step of its migration.
    pub(crate) fn complete_migration(&mut self, format: u32) -> Result<(), OpenError> {
        self.replace_marker(&marker_text(format))?;
        self.format = Some(format);
        Ok(())
    }

    /// Creates the folder of the segments that are kept for readers, if it is missing.
    pub(crate) fn create_archive(&self) -> Result<PathBuf, OpenError> {
        let archive = self.path.join(ARCHIVE);
        create_private(&archive)?;
        sync_folder(&self.path).map_err(|error| OpenError::io("create the folder", &archive, error))?;
        Ok(archive)
    }

    pub(crate) fn has_archive(&self) -> bool {
        self.path.join(ARCHIVE).is_dir()
    }

    /// Deletes the segments that were kept for readers.
    pub(crate) fn remove_archive(&self) -> Result<(), OpenError> {
        let archive = self.path.join(ARCHIVE);
        remove_folder_if_there(&archive).map_err(|error| OpenError::io("remove the folder", &archive, error))
    }

    /// Creates the folder of the log.
    pub(crate) fn create_log(&self) -> Result<(), OpenError> {
        create_private(&self.log())
    }

    fn replace_marker(&self, text: &str) -> Result<(), OpenError> {
        replace_file(&self.path, MARKER, NEW_MARKER, text.as_bytes())
            .map_err(|error| OpenError::io("write the format marker in", &self.path, error))
    }

    /// Marks the log and the tree as completely created.
    pub(crate) fn complete(&mut self) -> Result<(), OpenError> {
        sync_folders(&self.path)
            .and_then(|()| rename(&self.path.join(NEW_MARKER), &self.path.join(MARKER)))
            .and_then(|()| sync_folder(&self.path))
            .map_err(|error| OpenError::io("write the format marker in", &self.path, error))?;
        self.format = Some(FORMAT);
        Ok(())
    }
}

/// Returns the lineage of a folder that another process may have open, if the folder takes part in replication. A
/// folder with an incomplete base copy does not yet.
pub fn lineage(path: &Path) -> Result<Option<Lineage>, OpenError> {
    if path.join(RESTORING).exists() {
        return Ok(None);
    }
    let path = path.join(LINEAGE);
    match fs::read_to_string(&path) {
        Ok(text) => Lineage::decode(&text)
            .map(Some)
            .ok_or_else(|| OpenError::damaged(&path, "it is not a state of the replication that Rowhouse wrote")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::io("read the state of the replication", &path, error)),
    }
}

/// Checks that a folder is missing, empty, or left by an interrupted restore or base copy.
fn check_restorable(path: &Path) -> Result<(), OpenError> {
    match found_format(path) {
        Ok(None) | Err(OpenError::Restoring { .. }) => Ok(()),
        Ok(Some(_)) => Err(OpenError::InUse { folder: path.to_owned() }),
        Err(error) => Err(error),
    }
}

/// Returns the format of a folder without changing it. Returns `None` if the folder is missing, empty, or left by an
/// unfinished first startup.
fn found_format(path: &Path) -> Result<Option<u32>, OpenError> {
    let names = match names(path) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io("read the folder", path, error)),
    };
    if names.iter().any(|name| DEVELOPMENT_MARKERS.contains(&name.as_str())) {
        return Err(OpenError::Development { folder: path.to_owned() });
    }
    if names.iter().any(|name| name == RESTORING) {
        return Err(OpenError::Restoring { folder: path.to_owned() });
    }
    if names.iter().any(|name| name == MARKER) {
        return marked_format(&path.join(MARKER), FORMAT).map(Some);
    }
    let was_being_created = names.iter().any(|name| name == NEW_MARKER);
    let is_ours = |name: &str| was_being_created && [NEW_MARKER, TREE, LOG].contains(&name);
    if names.iter().any(|name| !IGNORED.contains(&name.as_str()) && !is_ours(name)) {
        return Err(OpenError::Foreign { folder: path.to_owned() });
    }
    Ok(None)
}

pub(crate) fn names(path: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Returns the format that a marker names. `newest` is the newest format that the program reads.
pub(crate) fn marked_format(path: &Path, newest: u32) -> Result<u32, OpenError> {
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
        Some(found) if found > newest => Err(OpenError::Newer { folder_marker: path.to_owned(), found }),
        Some(found) if found > 0 && text == marker_text(found) => Ok(found),
        Some(next) if next > 1 && text == migrating_text(next - 1) => Ok(next - 1),
        _ => Err(damaged()),
    }
}

fn marker_text(format: u32) -> String {
    format!("{FIRST_LINE}\nformat {format}\n{LAST_LINE}\n")
}

fn migrating_text(from: u32) -> String {
    format!("{FIRST_LINE}\nformat {}\n{MIGRATING}{from}\n{LAST_LINE}\n", from + 1)
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

/// Deletes the log and the tree of an unfinished first startup.
fn prepare(path: &Path) -> io::Result<()> {
    write_synced(&path.join(NEW_MARKER), marker_text(FORMAT).as_bytes())?;
    sync_folder(path)?;
    for part in [TREE, LOG] {
        remove_folder_if_there(&path.join(part))?;
    }
    sync_parent(path)
}

/// Replaces a file of a folder as a whole, so that a crash leaves the old or the new one.
pub(crate) fn replace_file(folder: &Path, name: &str, new_name: &str, content: &[u8]) -> io::Result<()> {
    let new = folder.join(new_name);
    write_synced(&new, content)?;
    rename(&new, &folder.join(name))?;
    sync_folder(folder)
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn remove_folder_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
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
