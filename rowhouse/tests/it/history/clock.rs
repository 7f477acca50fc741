//! Wall clocks that a test shifts while servers and database nodes run: `clock.c` is loaded into each of them.

use crate::PROGRAM;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use test_support::command::compile_library;
use test_support::{Random, Server};

/// The offsets of a clock from the real time, in seconds.
const OFFSETS: [i64; 3] = [-3600, 0, 3600];

/// The compiled library, and the folder for the offsets of all clocks.
pub(crate) struct Clocks {
    folder: tempfile::TempDir,
    library: PathBuf,
}

/// The clock of one server or database node. It outlives the process, which may start again with the same clock.
pub(crate) struct ShiftedClock {
    path: PathBuf,
    file: File,
    seconds: AtomicI64,
    /// The number of changes, times two; odd during a change.
    version: AtomicU64,
}

impl Clocks {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/history/clock.c");
        let library = compile_library(&source, folder.path());
        // Database nodes may run as another user.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        Self { folder, library }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Creates a clock that shows the real time. A database node needs a clock with the name of the node's
    /// data folder.
    pub(crate) fn clock(&self, name: &str) -> ShiftedClock {
        let path = self.folder.path().join(name);
        let mut options = OpenOptions::new();
        let file = options.create_new(true).read(true).write(true).open(&path).unwrap();
        file.write_all_at(&0_i64.to_ne_bytes(), 0).unwrap();
        ShiftedClock { path, file, seconds: AtomicI64::new(0), version: AtomicU64::new(0) }
    }

    pub(crate) fn start(&self, clock: &ShiftedClock, arguments: &[&str]) -> Server {
        PROGRAM.start_with(arguments, |command| {
            command.env("LD_PRELOAD", &self.library).env("CLOCK_FILE", &clock.path);
        })
    }
}

impl ShiftedClock {
    /// Lets the clock jump to another offset from the real time.
    pub(super) fn jump(&self, random: &mut Random) {
        let others: Vec<_> = OFFSETS.into_iter().filter(|offset| *offset != self.seconds()).collect();
        self.set(others[random.index(others.len())]);
    }

    /// Sets the offset from the real time.
    pub(crate) fn set(&self, seconds: i64) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
        self.seconds.store(seconds, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn seconds(&self) -> i64 {
        self.seconds.load(Ordering::SeqCst)
    }

    /// Returns the version of the offset. If it is even and still the same after a request, the clock did not jump
    /// while the request was prepared or served.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}
