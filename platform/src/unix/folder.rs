//! Access to files by name in an open folder.
//!
//! Other users may write to such a folder. Links that they create must not cause a program to read, replace or remove
//! anything outside the folder.
//!
//! Invariants:
//!
//! 1. No symbolic link is followed below the folder that [`Folder::open`] opened.
//! 2. Only regular files are opened and removed.
//! 3. A newly created file has no other name.

use crate::access::{Access, not_regular_file_error};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Prevents an open from blocking, for example to wait for the writer of a pipe. Only regular files are opened.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const FOLDER_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// An open folder.
#[derive(Debug)]
pub struct Folder(File);

impl Folder {
    /// Opens the folder at a path, following links.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, FOLDER, Mode::empty())?.into()))
    }

    /// Opens a subfolder. Returns `None` if it is missing, and `NotADirectory` if it is not a folder.
    pub fn folder(&self, name: &str) -> io::Result<Option<Self>> {
        match openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(handle) => Ok(Some(Self(handle.into()))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(ErrorKind::NotADirectory.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a subfolder, accessible only to its owner.
    pub fn create_folder(&self, name: &str) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, FOLDER_MODE)?)
    }

    /// Returns the names of all entries of the folder. Skips names that are not UTF-8.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Opens a regular file.
    pub fn file(&self, name: &str, access: Access) -> io::Result<File> {
        let access = match access {
            Access::Read => OFlags::RDONLY,
            Access::ReadWrite => OFlags::RDWR,
            Access::WriteOrCreate => OFlags::WRONLY | OFlags::CREATE,
        };
        let opened = openat(&self.0, name, access | FILE, FILE_MODE);
        let file = File::from(
            opened.map_err(|error| if error == Errno::LOOP { not_regular_file_error() } else { error.into() })?,
        );
        let is_regular = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile;
        if is_regular { Ok(file) } else { Err(not_regular_file_error()) }
    }

    /// Creates a file for writing, accessible only to its owner. Returns `AlreadyExists` if the name is taken.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        Ok(openat(&self.0, name, create | FILE, FILE_MODE)?.into())
    }

    /// Renames a file in the folder, replacing any existing file with the new name.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a regular file and returns its length.
    pub fn remove(&self, name: &str) -> io::Result<u64> {
        let found = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(not_regular_file_error());
        }
        unlinkat(&self.0, name, AtFlags::empty())?;
        Ok(u64::try_from(found.st_size).unwrap_or_default())
    }

    /// Makes the directory entries of the folder durable.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}
