//! The errors of the tree.

use super::library;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason for which an operation of the tree failed.
#[derive(Debug)]
pub(crate) enum TreeError {
    /// The folder to be opened contains no tree. The library would create one.
    Missing(PathBuf),
    /// The folder in which a tree is to be created contains one.
    Exists(PathBuf),
    /// The sequence that was recorded with the last flush does not match the files.
    Inconsistent(PathBuf),
    /// No number is left for a list of files until the next transaction is published.
    NoListNumber,
    Library(library::Error),
}

impl TreeError {
    /// Returns the error of the operating system, if it is the reason.
    pub(crate) fn io(&self) -> Option<&io::Error> {
        match self {
            Self::Library(library::Error::Io(error)) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "the folder {} contains no tree", path.display()),
            Self::Exists(path) => write!(f, "the folder {} already contains a tree", path.display()),
            Self::Inconsistent(path) => {
                write!(f, "the files in {} do not match the sequence recorded with the last flush", path.display())
            }
            Self::NoListNumber => {
                f.write_str("the files were changed too often since the last transaction; retry after the next one")
            }
            Self::Library(error) => error.fmt(f),
        }
    }
}

impl Error for TreeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Library(error) => error.source(),
            Self::Missing(_) | Self::Exists(_) | Self::Inconsistent(_) | Self::NoListNumber => None,
        }
    }
}

impl From<library::Error> for TreeError {
    fn from(error: library::Error) -> Self {
        Self::Library(error)
    }
}
