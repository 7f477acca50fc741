//! Where a repository is.

use clap::builder::{PathBufValueParser, TypedValueParser};
use std::fmt;
use std::path::PathBuf;

/// The address of a repository.
#[derive(Debug, Clone)]
pub enum RepositoryAddress {
    /// A folder.
    Folder(PathBuf),
}

impl RepositoryAddress {
    /// Parses options.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        PathBufValueParser::new().map(Self::Folder)
    }
}

impl fmt::Display for RepositoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Folder(path) = self;
        path.display().fmt(f)
    }
}
