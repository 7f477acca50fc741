//! The free space of the file system that keeps the data folder.
//!
//! The engine stops before the disk is full: what it writes by itself, such as sorted files that replace others, needs
//! room, and so do deletions, by which an operator makes room.

use crate::monotonic;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a figure of the file system is used. At a gigabyte a second, 100 MB are written meanwhile.
const ANSWER_AGE_MAX: Duration = Duration::from_millis(100);
/// Once space was low, this share of the reserve must be free on top of it, so that the engine does not switch with
/// every file that comes or goes.
const MARGIN_DIVISOR: u64 = 16;

/// Watches the free space of a folder.
#[derive(Debug)]
pub(super) struct FreeSpace {
    folder: PathBuf,
    reserve_bytes: u64,
    checked_at: Option<Instant>,
    is_low: bool,
}

impl FreeSpace {
    /// Watches that this many bytes stay free.
    pub(super) fn new(folder: &Path, reserve_bytes: u64) -> Self {
        Self { folder: folder.to_owned(), reserve_bytes, checked_at: None, is_low: false }
    }

    /// Whether there is less free space than there should be. Asks the file system at most ten times a second.
    pub(super) fn is_low(&mut self) -> bool {
        if self.reserve_bytes == 0 {
            return false;
        }
        if self.checked_at.is_none_or(|at| at.elapsed() >= ANSWER_AGE_MAX) {
            match free_bytes(&self.folder) {
                Ok(free) => self.note(free),
                Err(error) => tracing::debug!(%error, "the free space of the data folder could not be read"),
            }
            self.checked_at = Some(monotonic::now());
        }
        self.is_low
    }

    /// Notes the free space, and logs when that changes which writes are taken.
    fn note(&mut self, free_bytes: u64) {
        let margin = if self.is_low { self.reserve_bytes / MARGIN_DIVISOR } else { 0 };
        let is_low = free_bytes < self.reserve_bytes.saturating_add(margin);
        if is_low == self.is_low {
            return;
        }
        self.is_low = is_low;
        let (folder, reserve_bytes) = (self.folder.display(), self.reserve_bytes);
        if is_low {
            tracing::error!(%folder, free_bytes, reserve_bytes, "the disk is almost full, so only deletions are taken; make room on it");
        } else {
            tracing::info!(%folder, free_bytes, reserve_bytes, "the disk has free space again, so all writes are taken");
        }
    }
}

pub(super) fn free_bytes(folder: &Path) -> io::Result<u64> {
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
            space.note(free);
            assert_eq!(space.is_low, is_low, "{free}");
        }
    }
}
