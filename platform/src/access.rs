//! The types of the interface that are the same on all systems.

use std::io;

/// The mode in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads an existing file.
    Read,
    /// Reads and writes an existing file.
    ReadWrite,
    /// Writes a file, creating it if it is missing.
    WriteOrCreate,
}

/// The limit on open files in a process, including connections. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFilesLimit {
    /// The current limit.
    pub current: Option<u64>,
    /// The value up to which the process may raise the current limit.
    pub maximum: Option<u64>,
}

pub(crate) fn not_regular_file_error() -> io::Error {
    io::Error::other("it is not a regular file; check where it comes from, then remove it")
}
