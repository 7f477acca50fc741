//! The reasons why a log could not be opened or written.

use crate::sequence::Sequence;
use std::fmt;
use std::io;

/// A failed operation on the disk.
#[derive(Debug)]
pub(crate) struct DiskError {
    /// The operation, as a phrase that starts with a verb in the infinitive.
    pub(crate) doing: &'static str,
    /// The name of the file in the folder of the log; empty for the folder itself.
    pub(crate) name: String,
    pub(crate) source: io::Error,
}

impl DiskError {
    pub(crate) fn new(doing: &'static str, name: &str, source: io::Error) -> Self {
        Self { doing, name: name.to_owned(), source }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {} {}: {}", self.doing, self.name, self.source)
    }
}

// The message contains the cause, as in the other errors of this module.
impl std::error::Error for DiskError {}

#[derive(Debug)]
pub(crate) enum OpenLogError {
    /// Acknowledged transactions are missing, or may be. Nothing was changed.
    Damaged {
        /// The name of the segment in the folder of the log; empty for the folder itself.
        name: String,
        /// The description of the problem.
        what: String,
    },
    Disk(DiskError),
}

impl OpenLogError {
    pub(crate) fn damaged(name: &str, what: impl Into<String>) -> Self {
        Self::Damaged { name: name.to_owned(), what: what.into() }
    }

    /// Returns whether the bytes are wrong or missing, so that another attempt would not help.
    pub(crate) fn is_damage(&self) -> bool {
        use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
        match self {
            Self::Damaged { .. } => true,
            Self::Disk(error) => matches!(error.source.kind(), InvalidData | NotFound | UnexpectedEof),
        }
    }
}

impl From<DiskError> for OpenLogError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl fmt::Display for OpenLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { name, what } if name.is_empty() => write!(f, "the log is damaged: {what}"),
            Self::Damaged { name, what } => write!(f, "the log segment {name} is damaged: {what}"),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenLogError {}

#[derive(Debug)]
pub(crate) enum WriteError {
    /// An earlier write or sync failed, and the log has not recovered from it. Nothing was written.
    Refused,
    /// The group does not begin with the next sequence number. Nothing was written.
    OutOfOrder {
        /// The number with which the group must begin.
        expected: Sequence,
    },
    /// The group exceeds the maximum length. Nothing was written.
    TooLarge,
    /// It is unknown what is on disk. The log refuses writes until `Writer::recover_after_failure` succeeds.
    Disk(DiskError),
}

impl From<DiskError> for WriteError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("the log refuses writes after an earlier failure"),
            Self::OutOfOrder { expected } => write!(f, "the group does not begin with transaction {expected}"),
            Self::TooLarge => f.write_str("the group is too large"),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WriteError {}
