//! The errors of an open database.

use crate::log::errors::{DiskError, WriteError};
use crate::tree::TreeError;
use std::fmt;
use std::io;

/// The reason for which the stored data could not be read or written.
#[derive(Debug)]
pub struct StorageError(Cause);

#[derive(Debug)]
enum Cause {
    Tree(TreeError),
    Log(WriteError),
    Disk(DiskError),
    /// There is no room in memory, because sorted files could not be written or merged, or because the engine closes.
    NoRoom,
    /// A write panicked.
    Interrupted,
    /// No standby confirmed a write in time.
    Unconfirmed,
    /// A standby was promoted.
    Fenced,
    /// An entry of the engine itself cannot be read.
    Damaged(String),
}

impl StorageError {
    pub(crate) const UNCONFIRMED: Self = Self(Cause::Unconfirmed);
    pub(crate) const FENCED: Self = Self(Cause::Fenced);
    pub(crate) const NO_ROOM: Self = Self(Cause::NoRoom);
    pub(crate) const INTERRUPTED: Self = Self(Cause::Interrupted);

    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self(Cause::Damaged(what.into()))
    }

    /// Returns the description of the damage, if an entry of the engine itself cannot be read.
    pub(crate) fn damage(&self) -> Option<&str> {
        match &self.0 {
            Cause::Damaged(what) => Some(what),
            _ => None,
        }
    }

    /// Returns whether the write was refused before anything was written.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.0, Cause::Fenced | Cause::Interrupted | Cause::NoRoom)
    }

    /// Returns the error of the operating system, if it is the reason.
    pub(crate) fn io(&self) -> Option<&io::Error> {
        match &self.0 {
            Cause::Tree(error) => error.io(),
            Cause::Log(WriteError::Disk(error)) | Cause::Disk(error) => Some(&error.source),
            Cause::Log(_)
            | Cause::NoRoom
            | Cause::Interrupted
            | Cause::Unconfirmed
            | Cause::Fenced
            | Cause::Damaged(_) => None,
        }
    }
}

impl From<TreeError> for StorageError {
    fn from(error: TreeError) -> Self {
        Self(Cause::Tree(error))
    }
}

impl From<WriteError> for StorageError {
    fn from(error: WriteError) -> Self {
        Self(Cause::Log(error))
    }
}

impl From<DiskError> for StorageError {
    fn from(error: DiskError) -> Self {
        Self(Cause::Disk(error))
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Tree(error) => error.fmt(f),
            Cause::Log(error) => error.fmt(f),
            Cause::Disk(error) => error.fmt(f),
            Cause::NoRoom => f.write_str("the memory for unflushed writes is full"),
            Cause::Interrupted => f.write_str("a write panicked; see the log for its location, and restart the server"),
            Cause::Unconfirmed => {
                f.write_str("the standby has not confirmed the last write; see that it runs and is connected")
            }
            Cause::Fenced => f.write_str("a standby was promoted, so nothing may be written here any more"),
            Cause::Damaged(what) => f.write_str(what),
        }
    }
}

// The message contains the cause.
impl std::error::Error for StorageError {}
