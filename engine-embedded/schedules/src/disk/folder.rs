//! Replaces the data folder by the model of the hardware.

use super::checks::Disk;
use crate::disk::open_error::OpenError;
use crate::hardware::Hardware;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Folder(Arc<Hardware>);

impl Folder {
    /// Creates a folder on the disk, which the schedule uses from now on.
    pub(crate) fn new(disk: &Disk) -> Self {
        disk.hardware.make_current();
        Self(Arc::clone(&disk.hardware))
    }

    pub(crate) fn create_parts(&self) -> Result<(), OpenError> {
        Ok(())
    }

    pub(crate) fn tree(&self) -> PathBuf {
        "tree".into()
    }

    pub(crate) fn log(&self) -> PathBuf {
        "log".into()
    }

    pub(crate) fn probe(&self) -> io::Result<()> {
        self.0.probe()
    }
}
