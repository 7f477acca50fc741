//! Access to files by name in an open folder.
//!
//! Other users may write to such a folder. Links that they create must not cause a program to read, replace or remove
//! anything outside the folder.
//!
//! Invariants:
//!
//! 1. No link or junction is followed below the folder that [`Folder::open`] opened. An open folder can be neither
//!    renamed nor removed, so its path stays valid, and reparse points in it are opened themselves instead of their
//!    targets.
//! 2. Only regular files are opened and removed.
//! 3. A newly created file has no other name.

use crate::access::{Access, not_regular_file_error};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Other processes may read and write in the folder, but not rename or remove it (`FILE_SHARE_READ`,
/// `FILE_SHARE_WRITE`).
const SHARED: u32 = 0x1 | 0x2;
/// `FILE_FLAG_BACKUP_SEMANTICS`, required for opening a folder.
const FOLDER: u32 = 0x0200_0000;
/// `FILE_FLAG_OPEN_REPARSE_POINT`.
const NOT_THROUGH_LINKS: u32 = 0x0020_0000;
/// `FILE_ATTRIBUTE_REPARSE_POINT`: links, junctions, and files provided by a program.
const REPARSE_POINT: u32 = 0x400;

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Keeps the folder from being renamed or removed, so its path stays valid.
    _handle: File,
}

impl Folder {
    /// Opens the folder at a path, following links.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let handle = open_folder(&path)?;
        Ok(Self { path, _handle: handle })
    }

    /// Opens a subfolder. Returns `None` if it is missing, and `NotADirectory` if it is not a folder.
    pub fn folder(&self, name: &str) -> io::Result<Option<Self>> {
        let path = self.path.join(name);
        match open_folder(&path) {
            Ok(handle) => Ok(Some(Self { path, _handle: handle })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a subfolder.
    pub fn create_folder(&self, name: &str) -> io::Result<()> {
        fs::create_dir(self.path.join(name))
    }

    /// Returns the names of all entries of the folder. Skips names that are not UTF-8.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    /// Opens a regular file.
    pub fn file(&self, name: &str, access: Access) -> io::Result<File> {
        let mut options = File::options();
        match access {
            Access::Read => options.read(true),
            Access::ReadWrite => options.read(true).write(true),
            Access::WriteOrCreate => options.write(true).create(true).truncate(false),
        };
        let path = self.path.join(name);
        // A folder cannot be opened as a file, and the error does not state the reason.
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            return Err(not_regular_file_error());
        }
        regular(&path, &mut options)
    }

    /// Creates a file for writing. Returns `AlreadyExists` if the name is taken.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        regular(&self.path.join(name), File::options().write(true).create_new(true))
    }

    /// Renames a file in the folder, replacing any existing file with the new name.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    /// Removes a regular file and returns its length. If a link takes its place concurrently, the link itself is
    /// removed.
    pub fn remove(&self, name: &str) -> io::Result<u64> {
        let path = self.path.join(name);
        let found = fs::symlink_metadata(&path)?;
        if !is_regular(&found) {
            return Err(not_regular_file_error());
        }
        fs::remove_file(&path)?;
        Ok(found.len())
    }

    /// Does nothing: the file system's journal makes directory entries durable, and a folder cannot be synced.
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn open_folder(path: &Path) -> io::Result<File> {
    let folder = File::options().read(true).share_mode(SHARED).custom_flags(FOLDER | NOT_THROUGH_LINKS).open(path)?;
    let found = folder.metadata()?;
    let is_folder = found.is_dir() && found.file_attributes() & REPARSE_POINT == 0;
    if is_folder { Ok(folder) } else { Err(ErrorKind::NotADirectory.into()) }
}

fn regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(NOT_THROUGH_LINKS).open(path)?;
    if is_regular(&file.metadata()?) { Ok(file) } else { Err(not_regular_file_error()) }
}

fn is_regular(found: &fs::Metadata) -> bool {
    found.is_file() && found.file_attributes() & REPARSE_POINT == 0
}
