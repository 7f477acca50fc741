//! The folder of a log on a real disk.

use crate::log::disk::{Disk, DiskFile, ReadAt};
use platform::files;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct RealDisk {
    folder: PathBuf,
}

impl RealDisk {
    /// The folder must exist, and its name must be durable.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }
}

impl Disk for RealDisk {
    type File = File;

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            // No file of the log has a name that is not UTF-8.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        files::private_file().read(true).write(true).create(true).truncate(true).open(self.folder.join(name))
    }

    fn open(&self, name: &str) -> io::Result<File> {
        File::options().read(true).write(true).open(self.folder.join(name))
    }

    fn open_to_read(&self, name: &str) -> io::Result<File> {
        File::open(self.folder.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        files::rename(&self.folder.join(from), &self.folder.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        files::remove(&self.folder.join(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        files::sync_folder(&self.folder)
    }

    /// The keys of the standard library's hasher come from the operating system.
    fn new_salt(&self) -> u64 {
        RandomState::new().hash_one(0)
    }
}

impl ReadAt for File {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        files::read_at(self, bytes, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl DiskFile for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        files::write_all_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }
}
