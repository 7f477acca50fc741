//! Why a data folder was not opened: what is wrong, where, and what to do about it.

use super::layout::FORMAT;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a data folder was not opened. Nothing in it was changed, unless the disk failed half-way.
#[derive(Debug)]
pub enum OpenError {
    /// Another engine, of this or of another process, works on the folder.
    Locked {
        /// The data folder.
        folder: PathBuf,
    },
    /// There is no data folder.
    Missing {
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// A backup is to be restored into the folder, and it holds data already.
    InUse {
        /// The data folder.
        folder: PathBuf,
    },
    /// A backup is being restored into the folder, or was and that was interrupted.
    Restoring {
        /// The data folder.
        folder: PathBuf,
    },
    /// The folder has files and no marker that says that they are ours.
    Foreign {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder was written by a later version of Rowhouse.
    Newer {
        /// The marker file.
        folder_marker: PathBuf,
        /// The format that it names.
        found: u32,
    },
    /// A file is missing or damaged.
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The operating system refused a file operation.
    Io {
        /// What was tried, as a verb.
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
        source: fjall::Error,
    },
}

impl OpenError {
    pub(super) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), source }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { folder } => write!(
                f,
                "the data folder {} is in use by another Rowhouse; stop that one, or use another folder",
                folder.display()
            ),
            Self::Missing { folder } => write!(f, "there is no data folder at {}", folder.display()),
            Self::InUse { folder } => write!(
                f,
                "the data folder {} holds data already; restore into a missing or an empty folder",
                folder.display()
            ),
            Self::Restoring { folder } => write!(
                f,
                "a backup is being restored into {}, or that was interrupted; restore it again into the same folder, or \
                 delete the folder",
                folder.display()
            ),
            Self::Foreign { folder } => write!(
                f,
                "the folder {} has files in it and is not a Rowhouse data folder; use an empty or a new folder",
                folder.display()
            ),
            Self::Newer { folder_marker, found } => write!(
                f,
                "{} says format {found}, and this version of Rowhouse reads up to format {}; use a newer version",
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
                "could not {doing} {}: {source}; check that the folder exists, is writable, and that the disk is healthy",
                path.display()
            ),
            Self::Storage { path, source } => write!(
                f,
                "the database in {} could not be opened: {source}; keep a copy of the data folder, then check the \
                 disk, or restore a backup",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Storage { source, .. } => Some(source),
            _ => None,
        }
    }
}
