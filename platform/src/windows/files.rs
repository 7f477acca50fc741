//! File permissions, durability, links and identity.
//!
//! New files inherit the access list of their folder. Files below a user's profile are accessible to this user and to
//! administrators; elsewhere, the folder determines access.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::windows::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns options for a file intended only for its owner. The folder determines access.
pub fn private_file() -> OpenOptions {
    File::options()
}

/// Returns a builder for folders intended only for their owner. The parent determines access.
pub fn private_folder() -> DirBuilder {
    DirBuilder::new()
}

/// Returns the path of the command file with the given name in a folder where a script package manager installs its
/// programs.
pub fn script(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join(format!("{name}.cmd"));
    path.is_file().then_some(path)
}

/// Returns `None`, because access lists are not checked.
pub fn exposure_warning(_path: &Path) -> Option<String> {
    None
}

/// Does nothing: a new file inherits the access list of its folder.
pub fn copy_access(_from: &Path, _to: &File) -> io::Result<()> {
    Ok(())
}

/// Does nothing: the folder determines whether other users can read a file.
pub fn make_readable(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Reads at an offset in bytes. Returns fewer bytes than requested only at the end of the file. Moves the position of
/// the file.
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.seek_read(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all bytes at an offset in bytes. Moves the position of the file.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match file.seek_write(rest, offset.saturating_add(done as u64)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Renames a file or folder. Replaces a file with the new name. Waits for up to a second while another program
/// uses it.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    while_in_use(|| std::fs::rename(from, to))
}

/// Deletes a file. Waits for up to a second while another program uses it.
pub fn remove(path: &Path) -> io::Result<()> {
    while_in_use(|| std::fs::remove_file(path))
}

/// Repeats an operation that fails because another program, such as a virus scanner, has a file open.
fn while_in_use(operation: impl Fn() -> io::Result<()>) -> io::Result<()> {
    /// `ERROR_ACCESS_DENIED` and `ERROR_SHARING_VIOLATION`.
    const NUMBERS: [i32; 2] = [5, 32];
    const REPETITIONS: u32 = 50;
    const PAUSE: Duration = Duration::from_millis(20);
    let is_in_use = |error: &io::Error| error.raw_os_error().is_some_and(|number| NUMBERS.contains(&number));
    for _ in 0..REPETITIONS {
        match operation() {
            Err(error) if is_in_use(&error) => {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
    operation()
}

/// Does nothing: the file system's journal makes directory entries durable, and a folder cannot be synced.
pub fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Does nothing: there is no such request.
pub fn begin_writing(_file: &File, _offset: u64, _length: u64) {}

/// Makes a read-only file available at another path through a hard link, which, unlike a symbolic link, needs no
/// privilege. On another volume, copies the file.
pub fn link_to_read(file: &Path, link: &Path) -> io::Result<()> {
    std::fs::hard_link(file, link).or_else(|_| std::fs::copy(file, link).map(drop))
}

/// The identity of the file at a path: its path with links resolved. Another hard link counts as a different file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIdentity(PathBuf);

impl FileIdentity {
    /// Identifies the file at a path, following links.
    pub fn from_path(path: &Path) -> io::Result<Self> {
        Ok(Self(path.canonicalize()?))
    }
}

/// Returns true if a file could not be opened because this process has too many open files.
pub fn is_too_many_open_files(error: &io::Error) -> bool {
    /// `ERROR_TOO_MANY_OPEN_FILES`.
    const NUMBER: i32 = 4;
    error.raw_os_error() == Some(NUMBER)
}
