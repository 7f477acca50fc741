//! The types that the interface has on every system.

use std::io;

/// How a file of a folder is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read what is there.
    Read,
    /// To read and write what is there.
    ReadWrite,
    /// To write; a missing file is created.
    WriteOrCreate,
}

/// How many files a process may have open, connections included. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFilesLimit {
    /// The limit now.
    pub current: Option<u64>,
    /// What the process may raise it to.
    pub maximum: Option<u64>,
}

/// The error for what is not a regular file.
pub(crate) fn not_regular() -> io::Error {
    io::Error::other("it is not a regular file; find out where it comes from, and remove it")
}
