//! A server on a simulated disk: `disk.c` is loaded into it, records its file operations and injects faults.

use crate::PROGRAM;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use test_support::Server;
use test_support::command::compile_library;

pub(crate) const ENOSPC: u32 = 28;
pub(crate) const EIO: u32 = 5;

pub(crate) struct SimulatedDisk {
    place: tempfile::TempDir,
    library: PathBuf,
    pub(crate) data: PathBuf,
    control: PathBuf,
    seed: u64,
    /// The record of file operations, if they are to be recorded.
    log: Option<PathBuf>,
}

impl SimulatedDisk {
    /// Creates a disk whose only purpose is to fail.
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/crash/disk.c");
        let library = compile_library(&source, place.path());
        let root = place.path().canonicalize().unwrap();
        let (data, control) = (root.join("data"), root.join("control"));
        fs::create_dir(&data).unwrap();
        Self { place, library, data, control, seed: 0, log: None }
    }

    /// Creates a disk that also records operations, and chooses the operations that fail from a seed.
    pub(super) fn recorded(seed: u64) -> Self {
        let disk = Self::new();
        Self { log: Some(disk.path("log")), seed, ..disk }
    }

    /// Returns the path of a file or folder next to the data folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.data.with_file_name(name)
    }

    pub(super) fn log(&self) -> &Path {
        self.log.as_deref().unwrap()
    }

    pub(super) fn start(&self) -> Server {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, options: &[&str]) -> Server {
        let arguments = [&["--data", self.data.to_str().unwrap(), "--extensions"], options].concat();
        PROGRAM.start_with(&arguments, |command| self.simulate_for(command))
    }

    /// Makes a program use the disk for its files in the data folder.
    pub(super) fn simulate_for(&self, command: &mut Command) {
        let paths = [("LD_PRELOAD", &self.library), ("DISK_FOLDER", &self.data), ("DISK_CONTROL", &self.control)];
        command.envs(paths).envs(self.log.as_ref().map(|log| ("DISK_LOG", log)));
        command.env("DISK_SEED", self.seed.to_string());
    }

    pub(crate) fn fail(&self, kinds: &str, error: u32, free: Option<u64>) {
        let free = free.map_or("-1".to_owned(), |free| free.to_string());
        self.order(&format!("{kinds} {error} {free} 0 1"));
    }

    /// Gives orders to `disk.c`, one per line. They replace earlier orders.
    pub(super) fn order(&self, orders: &str) {
        // The file must appear atomically.
        let new = self.place.path().join("new-control");
        fs::write(&new, format!("{orders}\n")).unwrap();
        fs::rename(new, &self.control).unwrap();
    }

    pub(crate) fn repair(&self) {
        fs::remove_file(&self.control).unwrap();
    }
}
