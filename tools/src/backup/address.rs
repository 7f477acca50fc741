//! Where a repository is: in a folder, or in object storage.

use clap::builder::{OsStringValueParser, TypedValueParser};
use object_storage::{MalformedAddress, ObjectStorage, is_address};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// The address of a repository.
#[derive(Debug, Clone)]
pub enum RepositoryAddress {
    /// A folder.
    Folder(PathBuf),
    /// Object storage, such as `s3://bucket/prefix`. Clones share their connections.
    Remote(ObjectStorage),
}

impl RepositoryAddress {
    /// Parses options. A path does not have to be UTF-8.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(Self::parse)
    }

    fn parse(text: OsString) -> Result<Self, MalformedAddress> {
        match text.to_str().filter(|text| is_address(text)) {
            Some(address) => Ok(Self::Remote(ObjectStorage::new(address.parse()?))),
            None => Ok(Self::Folder(text.into())),
        }
    }
}

impl fmt::Display for RepositoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Remote(objects) => objects.fmt(f),
        }
    }
}
