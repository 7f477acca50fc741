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

    /// Returns the description of the damage, if a file cannot be what the library wrote.
    pub(crate) fn damage(&self) -> Option<String> {
        match self {
            Self::Library(library::Error::Io(error)) => match error.kind() {
                // The library seeks to positions before the beginning of a file that is too short.
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => Some("it ends too early".to_owned()),
                io::ErrorKind::NotFound => Some("it is missing".to_owned()),
                _ => None,
            },
            Self::Library(error) => Some(format!("it cannot be decoded ({error:?})")),
            Self::Inconsistent(_) => {
                Some("its files do not match the sequence recorded with the last flush".to_owned())
            }
            Self::Missing(_) => Some("the list of sorted files is missing".to_owned()),
            Self::Exists(_) => None,
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
            Self::Library(library::Error::Io(error)) => error.fmt(f),
            Self::Library(error) => write!(
                f,
                "a block of a sorted file is damaged ({error:?}); stop the server, run `rowhouse check`, which names the \
                 file, and restore a backup"
            ),
        }
    }
}

// The message contains the library's error.
impl Error for TreeError {}

impl From<library::Error> for TreeError {
    fn from(error: library::Error) -> Self {
        Self::Library(error)
    }
}
