//! The free space of the data folder's file system.
//!
//! The engine refuses writes before the disk is full. Its background writes need space, for example for sorted files
//! that replace others. Deletions, with which an operator frees space, also need some.
//!
//! What is in memtables will need space when it is flushed. It therefore counts as written to the disk already: the
//! caller passes its size as `unflushed_bytes`.

use engine::figures::DiskFigures;
use engine::parts::monotonic;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// The time for which a measurement of the free space is reused. At a gigabyte per second, 100 MB can be written in
/// that time.
const READING_AGE_MAX: Duration = Duration::from_millis(100);
/// Once space is low, writes are accepted again only when the free space exceeds the reserve by this fraction of the
/// reserve. Otherwise, every file that is created or deleted could change whether writes are accepted.
const MARGIN_DIVISOR: u64 = 16;
/// The time for which a thread waits until kept log is dropped. A block that is compressed at the same time is synced
/// first.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct FreeSpace {
    disk: Disk,
    reading: Option<Reading>,
    is_low: bool,
}

#[derive(Debug)]
struct Reading {
    at: Instant,
    /// `None` if the free space could not be read.
    free_bytes: Option<u64>,
    unflushed_bytes: u64,
}

impl FreeSpace {
    pub(crate) fn new(disk: Disk) -> Self {
        Self { disk, reading: None, is_low: false }
    }

    /// Returns whether writes of `bytes`, as far as they are not deletions, must be refused. Between two queries of the
    /// file system, what was added to the memtables counts as written to the log. Before space becomes low, kept log is
    /// dropped.
    pub(crate) fn is_low(&mut self, unflushed_bytes: u64, bytes: u64) -> bool {
        let Disk { reserve_bytes, .. } = self.disk;
        if reserve_bytes == 0 {
            return false;
        }
        // The bytes are written to the log, and again when they are flushed.
        let needed = reserve_bytes.saturating_add(unflushed_bytes).saturating_add(bytes.saturating_mul(2));
        let is_current =
            |reading: &Reading| reading.at.elapsed() < READING_AGE_MAX && reading.unflushed_bytes <= unflushed_bytes;
        if !self.reading.as_ref().is_some_and(is_current) {
            let mut free = free_bytes(&self.disk.folder);
            if !self.is_low && free.as_ref().is_ok_and(|free| *free < needed) && self.disk.drop_kept_log(0) {
                free = free_bytes(&self.disk.folder);
            }
            if let Err(error) = &free {
                tracing::debug!(%error, "the free space of the data folder could not be read");
            }
            self.reading = Some(Reading { at: monotonic::now(), free_bytes: free.ok(), unflushed_bytes });
        }
        if let Some(Reading { free_bytes: Some(free), unflushed_bytes: then, .. }) = self.reading {
            self.record(free.saturating_sub(unflushed_bytes - then), needed);
        }
        self.is_low
    }

    /// Logs a message if the free space changes which writes are accepted.
    fn record(&mut self, free_bytes: u64, needed_bytes: u64) {
        let (folder, reserve_bytes) = (self.disk.folder.display(), self.disk.reserve_bytes);
        let margin = if self.is_low { reserve_bytes / MARGIN_DIVISOR } else { 0 };
        let is_low = free_bytes < needed_bytes.saturating_add(margin);
        if is_low == self.is_low {
            return;
        }
        self.is_low = is_low;
        if is_low {
            tracing::error!(%folder, free_bytes, needed_bytes, reserve_bytes, "the disk is almost full, so only deletions are accepted; free some disk space");
        } else {
            tracing::info!(%folder, free_bytes, needed_bytes, reserve_bytes, "the disk has free space again, so all writes are accepted");
        }
    }
}

/// The file system of the data folder.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) folder: PathBuf,
    pub(crate) reserve_bytes: u64,
    /// Reaches the thread that drops kept log, if log is kept.
    pub(crate) keeper: Option<Sender<RoomRequest>>,
}

/// Asks for the oldest part of the kept log to be dropped.
#[derive(Debug)]
pub(crate) struct RoomRequest {
    /// How many bytes it must be possible to write afterwards.
    pub(crate) bytes: u64,
    /// Dropped with the request, which answers it.
    _answer: Sender<()>,
}

impl Disk {
    pub(crate) fn figures(&self) -> Option<DiskFigures> {
        let free_bytes = free_bytes(&self.folder).ok()?;
        Some(DiskFigures { free_bytes, reserve_bytes: self.reserve_bytes })
    }

    /// Returns the number of bytes that can be written before the free space falls below the reserve, or `u64::MAX` if
    /// the free space is unknown.
    pub(crate) fn room_bytes(&self, unflushed_bytes: u64) -> u64 {
        let room =
            |disk: DiskFigures| disk.free_bytes.saturating_sub(disk.reserve_bytes.saturating_add(unflushed_bytes));
        self.figures().map_or(u64::MAX, room)
    }

    /// Returns whether the free space is below the reserve, even after all kept log was dropped.
    pub(crate) fn is_full(&self) -> bool {
        let is_low = || self.figures().is_some_and(|disk| disk.free_bytes < disk.reserve_bytes);
        is_low() && (!self.drop_kept_log(0) || is_low())
    }

    /// Waits until so much kept log is dropped that the given number of bytes can be written, or all of it. Returns
    /// false if no log is kept.
    pub(crate) fn drop_kept_log(&self, bytes: u64) -> bool {
        let Some(keeper) = &self.keeper else { return false };
        let (answer, answered) = channel();
        let is_asked = keeper.send(RoomRequest { bytes, _answer: answer }).is_ok();
        if is_asked {
            let _answered = answered.recv_timeout(KEEPER_TIMEOUT);
        }
        is_asked
    }
}

pub(crate) fn free_bytes(folder: &Path) -> io::Result<u64> {
    #[cfg(test)]
    if let Some(free) = bounded::free_bytes(folder) {
        return Ok(free);
    }
    fs4::available_space(folder)
}

/// Small disks for tests.
#[cfg(test)]
pub(crate) mod bounded {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;

    static DISKS: Mutex<Vec<(PathBuf, u64)>> = Mutex::new(Vec::new());

    /// Pretends that a folder is on a disk of the given size.
    pub(crate) fn limit(folder: &Path, bytes: u64) {
        DISKS.lock().unwrap().push((folder.to_owned(), bytes));
    }

    pub(super) fn free_bytes(folder: &Path) -> Option<u64> {
        let size = DISKS.lock().unwrap().iter().find(|(path, _)| path == folder)?.1;
        Some(size.saturating_sub(used_bytes(folder)))
    }

    /// Files can disappear at any time.
    pub(crate) fn used_bytes(path: &Path) -> u64 {
        let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
        if !metadata.is_dir() {
            return metadata.len();
        }
        fs::read_dir(path).map_or(0, |entries| entries.flatten().map(|entry| used_bytes(&entry.path())).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_free_space() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).unwrap() > 0);
        let disk = |reserve_bytes| Disk { folder: folder.path().to_owned(), reserve_bytes, keeper: None };
        assert!(!FreeSpace::new(disk(1)).is_low(0, 0));
        assert!(FreeSpace::new(disk(u64::MAX)).is_low(0, 0));
        assert!(!FreeSpace::new(disk(0)).is_low(0, 0));
    }

    #[test]
    fn a_disk_is_full_as_long_as_its_space_is_below_the_reserve() {
        let folder = tempfile::tempdir().unwrap();
        bounded::limit(folder.path(), 2000);
        let disk = Disk { folder: folder.path().to_owned(), reserve_bytes: 1000, keeper: None };
        let before = disk.is_full();
        std::fs::write(folder.path().join("large"), [0; 1500]).unwrap();
        let between = disk.is_full();
        std::fs::remove_file(folder.path().join("large")).unwrap();
        // The folder itself takes no space here.
        assert_eq!((before, between, disk.is_full()), (false, true, false));
    }

    #[test]
    fn space_that_was_low_must_exceed_the_reserve_by_a_margin() {
        let mut space = FreeSpace::new(Disk { folder: "/".into(), reserve_bytes: 1600, keeper: None });
        for (free, is_low) in [(1600, false), (1599, true), (1600, true), (1699, true), (1700, false), (1600, false)] {
            space.record(free, 1600);
            assert_eq!(space.is_low, is_low, "{free}");
        }
    }

    #[test]
    fn what_is_not_flushed_counts_as_written() {
        let folder = tempfile::tempdir().unwrap();
        bounded::limit(folder.path(), 10_000);
        let disk = || Disk { folder: folder.path().to_owned(), reserve_bytes: 1000, keeper: None };
        let mut space = FreeSpace::new(disk());
        assert!(!space.is_low(4000, 0));
        // Without another query: 3000 bytes were also written to the log.
        assert!(space.is_low(7000, 0));
        for (unflushed, bytes, is_low) in [(9000, 0, false), (9001, 0, true), (0, 4500, false), (0, 4501, true)] {
            assert_eq!(FreeSpace::new(disk()).is_low(unflushed, bytes), is_low, "{unflushed}, {bytes}");
        }
        assert_eq!([0, 4000, 10_000].map(|unflushed| disk().room_bytes(unflushed)), [9000, 5000, 0]);
    }
}
