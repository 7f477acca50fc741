//! Files of one user, and what the file system does with them.
//!
//! A new file inherits the access of its folder. So what is made below the profile of a user is for this user and for
//! administrators, and elsewhere the folder decides.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Options for a file that should be for its owner alone: the folder decides.
pub fn private_file() -> OpenOptions {
    File::options()
}

/// Options for folders that should be for their owner alone: their parent decides.
pub fn private_folder() -> DirBuilder {
    DirBuilder::new()
}

/// The program of this name in a folder, as package managers of scripts put it there: a file of commands.
pub fn script(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join(format!("{name}.cmd"));
    path.is_file().then_some(path)
}

/// A warning if others have access to a file or a folder with secrets or data: none, since access lists are not read.
pub fn exposure(_path: &Path) -> Option<String> {
    None
}

/// Gives a new file the access of another file: both inherit it from their folder.
pub fn copy_access(_from: &Path, _to: &File) -> io::Result<()> {
    Ok(())
}

/// Lets other users read a file of this user: its folder decides.
pub fn make_readable(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Makes the names in a folder durable: the journal of the file system does, and a folder cannot be synced.
pub fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes a file that will only be read appear at another path: as a second name, which needs no privilege as a symbolic link
/// does, or as a copy on another volume.
pub fn link_to_read(file: &Path, link: &Path) -> io::Result<()> {
    std::fs::hard_link(file, link).or_else(|_| std::fs::copy(file, link).map(drop))
}

/// Which file a path means: its path without links. A second name of a file is taken for another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIdentity(PathBuf);

impl FileIdentity {
    /// The file that a path means, through links.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self(path.canonicalize()?))
    }
}

/// Whether a file could not be opened because this process has too many open.
pub fn is_too_many_open_files(error: &io::Error) -> bool {
    /// `ERROR_TOO_MANY_OPEN_FILES`.
    const NUMBER: i32 = 4;
    error.raw_os_error() == Some(NUMBER)
}
