//! The reasons why a data folder cannot be opened.

use crate::disk::layout::FORMAT;
use crate::disk::storage_error::StorageError;
use model::DateTime;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a data folder was not opened. The folder is unchanged, unless the disk failed during the attempt.
#[derive(Debug)]
pub enum OpenError {
    /// Another engine, in this process or another one, has the folder open.
    Locked {
        /// The data folder.
        folder: PathBuf,
    },
    /// There is no data folder.
    Missing {
        /// The path that contains no data folder.
        folder: PathBuf,
    },
    /// A backup cannot be restored into the folder, because it already contains data.
    InUse {
        /// The data folder.
        folder: PathBuf,
    },
    /// A backup is being restored into the folder, or a restore was interrupted.
    Restoring {
        /// The data folder.
        folder: PathBuf,
    },
    /// The folder is a standby. Only the process that follows the primary opens it, until it is promoted.
    Standby {
        /// The data folder.
        folder: PathBuf,
    },
    /// The folder is not a standby.
    NotStandby {
        /// The data folder.
        folder: PathBuf,
    },
    /// The folder is a standby that its primary did not wait for, although it waited.
    NotAwaited {
        /// The data folder.
        folder: PathBuf,
        /// The Timestamp of its last write.
        last_stamp: DateTime,
    },
    /// The folder is a standby that its primary could not serve any more.
    CutOff {
        /// The data folder.
        folder: PathBuf,
        /// The Timestamp of its last write.
        last_stamp: DateTime,
    },
    /// The folder was a primary until a standby was promoted.
    Fenced {
        /// The data folder.
        folder: PathBuf,
        /// The number of the epoch that began with the promotion.
        by: u64,
    },
    /// The folder contains files but no data folder marker.
    Foreign {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder was written by a development version from before the first release.
    Development {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder has an earlier format, and cannot be read before it is migrated.
    NotMigrated {
        /// The data folder.
        folder: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The folder was written by a newer version of Rowhouse.
    Newer {
        /// The marker file.
        folder_marker: PathBuf,
        /// The format in the marker.
        found: u32,
    },
    /// A file is missing or damaged.
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// The description of the problem.
        what: String,
    },
    /// A file operation failed.
    Io {
        /// The operation, as a phrase that starts with a verb in the infinitive.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The storage library could not open its database.
    Storage {
        /// The folder of the database.
        path: PathBuf,
        /// The reason.
        source: StorageError,
    },
}

impl OpenError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), source }
    }

    /// Returns the error of an attempt to open the database in a folder.
    pub(crate) fn storage(folder: &Path, source: StorageError) -> Self {
        match source.damage() {
            Some(what) => Self::damaged(folder, what),
            None => Self::Storage { path: folder.to_owned(), source },
        }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { folder } => write!(
                f,
                "the data folder {} is in use by another Rowhouse process; stop that process or choose another folder",
                folder.display()
            ),
            Self::Missing { folder } => write!(f, "there is no data folder at {}; check the path", folder.display()),
            Self::InUse { folder } => write!(
                f,
                "the data folder {} already contains data; choose a missing or empty folder",
                folder.display()
            ),
            Self::Restoring { folder } => write!(
                f,
                "a backup is being restored into {}, or a restore or the base copy of a standby was interrupted; repeat \
                 it into the same folder, or delete the folder",
                folder.display()
            ),
            Self::Standby { folder } => write!(
                f,
                "the data folder {} is a standby; follow its primary with `rowhouse standby`, or make it the primary \
                 with `rowhouse promote`",
                folder.display()
            ),
            Self::NotStandby { folder } => write!(
                f,
                "the data folder {} is not a standby; a standby begins with a missing or empty folder",
                folder.display()
            ),
            Self::NotAwaited { folder, last_stamp } => write!(
                f,
                "the standby in {} may lack writes that were acknowledged, because its primary waited for another \
                 standby, or this one did not have everything yet; its last write is of {last_stamp}; promote the other \
                 standby, or if there is none, accept the loss with --despite-loss",
                folder.display()
            ),
            Self::CutOff { folder, last_stamp } => write!(
                f,
                "the standby in {} lacks writes: it could not follow its primary any more, which no longer had the log \
                 that the standby needed, or had different writes; its last write is of {last_stamp}; promote another \
                 standby, or if there is none, accept the loss with --despite-loss",
                folder.display()
            ),
            Self::Fenced { folder, by } => write!(
                f,
                "the data folder {} belongs to a former primary: a standby was promoted in epoch {by}, and this folder lacks \
                 what was written since; begin a new standby in an empty folder. If no promoted server exists, or if it \
                 is lost, `rowhouse promote --despite-loss` makes this folder the primary again",
                folder.display()
            ),
            Self::Foreign { folder } => write!(
                f,
                "the folder {} contains files but is not a Rowhouse data folder; choose an empty or new folder",
                folder.display()
            ),
            Self::Development { folder } => write!(
                f,
                "the data folder {} was written by a development version of Rowhouse from before the first release; \
                 `rowhouse export` the data with that version and `rowhouse import` it with this one, or choose an empty \
                 folder",
                folder.display()
            ),
            Self::NotMigrated { folder, format } => write!(
                f,
                "the data folder {} has format {format}; open it once with `rowhouse serve`, which migrates it to format \
                 {FORMAT}",
                folder.display()
            ),
            Self::Newer { folder_marker, found } => write!(
                f,
                "{} has format {found}, but this version of Rowhouse reads formats up to {}; use a newer version of Rowhouse",
                folder_marker.display(),
                FORMAT
            ),
            Self::Damaged { path, what } => write!(
                f,
                "{} is damaged: {what}; nothing was changed; keep a copy of the data folder and restore a backup",
                path.display()
            ),
            Self::Io { doing, path, source } => write!(
                f,
                "could not {doing} {}: {source}; check that the folder exists and is writable, and that the disk is healthy",
                path.display()
            ),
            Self::Storage { path, source } => write!(
                f,
                "{} could not be opened: {source}; keep a copy of the data folder, then check the disk, or restore a \
                 backup",
                path.display()
            ),
        }
    }
}

// The message contains the cause.
impl std::error::Error for OpenError {}
