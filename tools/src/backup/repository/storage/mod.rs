//! Where the files of a repository are: in a folder, or in object storage under the same names.
//!
//! This module must not know the contents of the files.

mod local;
mod remote;

use super::names::{is_chunk_folder, is_log};
use crate::backup::args::RepositoryAddress;
use anyhow::{anyhow, ensure};
use local::LocalStorage;
use remote::RemoteStorage;
use std::fmt::{Debug, Display};

const MARKER: &str = "rowhouse.repository";
/// The name of the marker before the first release.
const DEVELOPMENT_MARKER: &str = "rowhouse.backups";
const MARKER_TEXT: &str = "rowhouse backups\nformat 1\nWritten by Rowhouse. Do not edit or delete this file.\n";
const MARKER_BYTES_MAX: u64 = 4096;

/// A part of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    Manifests,
    /// Chunks, in a subfolder for each beginning of their names.
    Chunks,
    /// The parts of change logs, which continue the backups, in a subfolder for each log.
    Logs,
}

impl Area {
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Manifests => "backups",
            Self::Chunks => "chunks",
            Self::Logs => "log",
        }
    }

    /// Returns true if a folder with this name belongs to the repository. `None` for an area without subfolders.
    fn subfolders(self) -> Option<fn(&str) -> bool> {
        match self {
            Self::Manifests => None,
            Self::Chunks => Some(is_chunk_folder),
            Self::Logs => Some(is_log),
        }
    }

    /// The subfolder is empty in an area without subfolders.
    pub(super) fn path(self, subfolder: &str, name: &str) -> String {
        let folder = self.folder();
        if subfolder.is_empty() { format!("{folder}/{name}") } else { format!("{folder}/{subfolder}/{name}") }
    }
}

#[derive(Debug, Clone)]
pub(super) struct ListedFile {
    pub(super) area: Area,
    pub(super) subfolder: String,
    pub(super) name: String,
    /// The size, if the listing contains it, or 0.
    pub(super) bytes: u64,
}

impl ListedFile {
    pub(super) fn path(&self) -> String {
        self.area.path(&self.subfolder, &self.name)
    }
}

/// The files of a repository. Paths are relative to it, and consist of checked names.
pub(super) trait Storage: Debug + Send + Sync {
    /// Returns a path for messages.
    fn path_of(&self, path: &str) -> String;

    /// Returns `None` if the file does not exist.
    fn read(&self, path: &str, bytes_max: u64) -> anyhow::Result<Option<Vec<u8>>>;

    /// Writes a file completely or not at all. It is durable once its folder has been synced.
    fn write(&self, path: &str, bytes: Vec<u8>) -> anyhow::Result<()>;

    /// Makes the entries of folders durable.
    fn sync(&self, folders: &[&str]) -> anyhow::Result<()>;

    /// Passes every file in an area to the sink, in any order, even if its name is not a name of the repository.
    fn list(&self, area: Area, sink: &mut dyn FnMut(ListedFile)) -> anyhow::Result<()>;

    /// Returns the size of the removed files.
    fn remove(&self, files: &[ListedFile]) -> anyhow::Result<u64>;

    /// Returns the size of the file of a chunk if it is complete.
    fn chunk_bytes(&self, name: &str, content_bytes: u64) -> Option<u64>;

    /// From here on, no other process removes chunks, and [`Self::chunk_bytes`] knows which ones exist.
    fn begin_backup(&self) -> anyhow::Result<()>;

    /// From here on, no other process makes a backup.
    fn begin_removal(&self) -> anyhow::Result<()>;

    /// Fails if the effect of `begin_backup` or `begin_removal` may have ended, because the storage was unreachable.
    fn confirm(&self) -> anyhow::Result<()>;

    /// The number of threads that write at the same time.
    fn writers(&self) -> usize;

    /// The number of threads that read at the same time.
    fn readers(&self) -> usize;
}

fn check_marker(marker: &[u8], place: impl Display) -> anyhow::Result<()> {
    ensure!(marker == MARKER_TEXT.as_bytes(), "{place} is damaged, or was written by a later version of Rowhouse");
    Ok(())
}

fn development_error(place: impl Display) -> anyhow::Error {
    anyhow!(
        "the backup repository {place} was written by a development version of Rowhouse from before the first release; \
         restore it, `rowhouse export` the data with that version and `rowhouse import` it with this one, or choose a new \
         place for backups"
    )
}

/// An empty place becomes a repository.
pub(super) fn create_or_open(address: &RepositoryAddress) -> anyhow::Result<Box<dyn Storage>> {
    Ok(match address {
        RepositoryAddress::Folder(path) => Box::new(LocalStorage::create_or_open(path)?),
        RepositoryAddress::Remote(objects) => Box::new(RemoteStorage::create_or_open(objects)?),
    })
}

pub(super) fn open(address: &RepositoryAddress) -> anyhow::Result<Box<dyn Storage>> {
    Ok(match address {
        RepositoryAddress::Folder(path) => Box::new(LocalStorage::open(path)?),
        RepositoryAddress::Remote(objects) => Box::new(RemoteStorage::open(objects)?),
    })
}
