//! The free space of the data folder's file system.
//!
//! The engine refuses writes before the disk is full. Its background writes need space, for example for sorted files
//! that replace others. Deletions, with which an operator frees space, also need some.

use engine::figures::DiskFigures;
use engine::parts::monotonic;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time for which a measurement of the free space is reused. At a gigabyte per second, 100 MB can be written in
/// that time.
const READING_AGE_MAX: Duration = Duration::from_millis(100);
/// Once space is low, writes are accepted again only when the free space exceeds the reserve by this fraction of the
/// reserve. Otherwise, every file that is created or deleted could change whether writes are accepted.
const MARGIN_DIVISOR: u64 = 16;

#[derive(Debug)]
pub(crate) struct FreeSpace {
    folder: PathBuf,
    reserve_bytes: u64,
    checked_at: Option<Instant>,
    is_low: bool,
}

impl FreeSpace {
    pub(crate) fn new(folder: &Path, reserve_bytes: u64) -> Self {
        Self { folder: folder.to_owned(), reserve_bytes, checked_at: None, is_low: false }
    }

    /// Queries the file system at most ten times per second.
    pub(crate) fn is_low(&mut self) -> bool {
        if self.reserve_bytes == 0 {
            return false;
        }
        if self.checked_at.is_none_or(|at| at.elapsed() >= READING_AGE_MAX) {
            match free_bytes(&self.folder) {
                Ok(free) => self.record(free),
                Err(error) => tracing::debug!(%error, "the free space of the data folder could not be read"),
            }
            self.checked_at = Some(monotonic::now());
        }
        self.is_low
    }

    /// Logs a message if the free space changes which writes are accepted.
    fn record(&mut self, free_bytes: u64) {
        let margin = if self.is_low { self.reserve_bytes / MARGIN_DIVISOR } else { 0 };
        let is_low = free_bytes < self.reserve_bytes.saturating_add(margin);
        if is_low == self.is_low {
            return;
        }
        self.is_low = is_low;
        let (folder, reserve_bytes) = (self.folder.display(), self.reserve_bytes);
        if is_low {
            tracing::error!(%folder, free_bytes, reserve_bytes, "the disk is almost full, so only deletions are accepted; free some disk space");
        } else {
            tracing::info!(%folder, free_bytes, reserve_bytes, "the disk has free space again, so all writes are accepted");
        }
    }
}

/// The file system of the data folder.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) folder: PathBuf,
    pub(crate) reserve_bytes: u64,
}

impl Disk {
    pub(crate) fn figures(&self) -> Option<DiskFigures> {
        let free_bytes = free_bytes(&self.folder).ok()?;
        Some(DiskFigures { free_bytes, reserve_bytes: self.reserve_bytes })
    }

    /// Returns the number of bytes that can be written before the free space falls below the reserve, or `u64::MAX` if
    /// the free space is unknown.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.figures().map_or(u64::MAX, |disk| disk.free_bytes.saturating_sub(disk.reserve_bytes))
    }
}

pub(crate) fn free_bytes(folder: &Path) -> io::Result<u64> {
    fs4::available_space(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_free_space() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).unwrap() > 0);
        assert!(!FreeSpace::new(folder.path(), 1).is_low());
        assert!(FreeSpace::new(folder.path(), u64::MAX).is_low());
        assert!(!FreeSpace::new(folder.path(), 0).is_low());
    }

    #[test]
    fn space_that_was_low_must_exceed_the_reserve_by_a_margin() {
        let mut space = FreeSpace::new(Path::new("/"), 1600);
        for (free, is_low) in [(1600, false), (1599, true), (1600, true), (1699, true), (1700, false), (1600, false)] {
            space.record(free);
            assert_eq!(space.is_low, is_low, "{free}");
        }
    }
}
