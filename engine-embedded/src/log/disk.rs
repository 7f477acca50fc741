//! What the log needs of a disk: files in one folder.
//!
//! The rules that the log relies on are stated here. The simulated disk of the tests breaks everything else.

use std::fmt;
use std::io;

/// The folder of a log.
pub(crate) trait Disk: fmt::Debug + Send + Sync + 'static {
    type File: DiskFile;

    /// Returns the names of all files, in any order.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Creates a file, or empties the existing one.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Opens an existing file only for reading.
    fn open_to_read(&self, name: &str) -> io::Result<Self::File>;

    /// Renames a file. An existing file with the new name is replaced in the same step.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all names durable that were created, changed or removed before. Before that, a crash may undo any of these
    /// changes, in any order, but each only as a whole. If this fails, a later call that succeeds includes the changes.
    fn sync_folder(&self) -> io::Result<()>;

    /// Returns a number that no client can guess.
    fn new_salt(&self) -> u64;
}

/// A file, or what is stored in one, that can be read.
pub(crate) trait ReadAt: fmt::Debug + Send + Sync + 'static {
    /// Returns fewer bytes than requested only at the end.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Returns the length in bytes.
    fn length(&self) -> io::Result<u64>;
}

pub(crate) trait DiskFile: ReadAt {
    /// After an error, or a crash before the next sync, any part of the bytes may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes everything written before durable, with the length of the file. After an error, any part of it may be lost
    /// at the next crash, even if a later call succeeds, and even if it can be read until then.
    fn sync_data(&self) -> io::Result<()>;
}
