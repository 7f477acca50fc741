//! What the engine's recovery finds after a crash.

use super::contents::{Contents, apply, contents_of_files, items_of};
use crate::hardware::{Log, Remains, read};
use crate::log::disk::{Disk, DiskFile, ReadAt};
use crate::log::format::SEGMENT_HEADER_BYTES;
use crate::log::inspection::inspect;
use crate::sequence::Sequence;
use crate::tree::RESERVED_KEY;
use std::io;

pub(crate) struct Survivors {
    pub(crate) contents: Contents,
    /// The last transaction.
    pub(crate) last: Sequence,
    pub(crate) is_clean: bool,
}

impl Survivors {
    /// Returns what recovery finds, and a violation if it refuses the folder.
    pub(super) fn new(Remains { log, sorted_files }: Remains) -> (Self, Option<String>) {
        let mut contents = contents_of_files(&sorted_files);
        let mark = contents.remove(RESERVED_KEY);
        let persisted = mark.map_or(0, |mark| u64::from_le_bytes(mark[..].try_into().unwrap()));
        let persisted = Sequence::new(persisted);
        let found = inspect(&CrashedDisk(log), SEGMENT_HEADER_BYTES, Some(persisted), &mut |record| {
            apply(&mut contents, &items_of(record.payload, record.header.stamp));
            Ok(())
        });
        let (last, is_clean, violation) = match found {
            Ok(Some(found)) => (found.last, found.is_clean, None),
            Ok(None) if persisted == Sequence::ZERO => (Sequence::ZERO, false, None),
            Ok(None) => (persisted, false, Some("the log is missing".to_owned())),
            Err(error) => (persisted, false, Some(error.to_string())),
        };
        (Self { contents, last, is_clean }, violation)
    }
}

/// The folder of the log as a crash left it.
#[derive(Debug)]
struct CrashedDisk(Log);

impl Disk for CrashedDisk {
    type File = CrashedFile;

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.names.keys().cloned().collect())
    }

    fn open_to_read(&self, name: &str) -> io::Result<CrashedFile> {
        let number = *self.0.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(CrashedFile(self.0.files[number].cached.clone()))
    }

    fn create(&self, _: &str) -> io::Result<CrashedFile> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, _: &str) -> io::Result<CrashedFile> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_folder(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn new_salt(&self) -> u64 {
        0
    }
}

#[derive(Debug)]
struct CrashedFile(Vec<u8>);

impl ReadAt for CrashedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(read(&self.0, bytes, offset))
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

impl DiskFile for CrashedFile {
    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
