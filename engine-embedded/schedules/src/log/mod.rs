//! The engine's folder of the same name, on a model of the disk.

#[path = "../../../src/log/archive.rs"]
pub(crate) mod archive;
#[path = "../../../src/log/disk.rs"]
pub(crate) mod disk;
#[path = "../../../src/log/errors.rs"]
pub(crate) mod errors;
#[path = "../../../src/log/format.rs"]
pub(crate) mod format;
#[path = "../../../src/log/group.rs"]
pub(crate) mod group;
#[path = "../../../src/log/holds.rs"]
pub(crate) mod holds;
#[path = "../../../src/log/options.rs"]
pub(crate) mod options;
#[path = "../../../src/log/recovery.rs"]
pub(crate) mod recovery;
#[path = "../../../src/log/segments.rs"]
pub(crate) mod segments;
#[path = "../../../src/log/upkeep.rs"]
pub(crate) mod upkeep;
#[path = "../../../src/log/writer.rs"]
pub(crate) mod writer;

#[path = "../../../src/log/segment_reader.rs"]
mod segment_reader;
#[path = "../../../src/log/tail.rs"]
mod tail;

/// Replaces the real disk by the log's part of the model in [`crate::hardware`].
pub(crate) mod real_disk {
    use crate::hardware::{Hardware, Operation, read};
    use crate::log::disk::{Disk, DiskFile, ReadAt};
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    /// The folder of the log in the data folder that the current thread has open.
    #[derive(Debug)]
    pub(crate) struct RealDisk(Arc<Hardware>);

    impl RealDisk {
        pub(crate) fn new(_: &Path) -> Self {
            Self(Hardware::current())
        }
    }

    #[derive(Debug)]
    pub(crate) struct File {
        hardware: Arc<Hardware>,
        number: usize,
    }

    impl RealDisk {
        fn file(&self, number: Option<usize>) -> io::Result<File> {
            let number = number.ok_or(io::ErrorKind::NotFound)?;
            Ok(File { hardware: Arc::clone(&self.0), number })
        }
    }

    impl Disk for RealDisk {
        type File = File;

        fn names(&self) -> io::Result<Vec<String>> {
            Ok(self.0.log(|log| log.names.keys().cloned().collect()))
        }

        fn create(&self, name: &str) -> io::Result<File> {
            let number = self.0.perform(Operation::Create, |log| log.create(name))?;
            self.file(Some(number))
        }

        fn open(&self, name: &str) -> io::Result<File> {
            self.file(self.0.log(|log| log.names.get(name).copied()))
        }

        fn open_to_read(&self, name: &str) -> io::Result<File> {
            self.open(name)
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.0.perform(Operation::Rename, |log| {
                let number = log.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
                log.names.insert(to.to_owned(), number);
                Ok(())
            })?
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.0.perform(Operation::Remove, |log| {
                log.names.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
            })?
        }

        fn sync_folder(&self) -> io::Result<()> {
            self.0.sync_folder()
        }

        fn new_salt(&self) -> u64 {
            self.0.log(|log| {
                log.salts += 1;
                log.salts
            })
        }
    }

    impl ReadAt for File {
        fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
            Ok(self.hardware.log(|log| read(&log.files[self.number].cached, bytes, offset)))
        }

        fn length(&self) -> io::Result<u64> {
            Ok(self.hardware.log(|log| log.files[self.number].cached.len() as u64))
        }
    }

    impl DiskFile for File {
        fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            self.hardware.write(self.number, bytes, offset)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.hardware.sync(self.number)
        }
    }
}
