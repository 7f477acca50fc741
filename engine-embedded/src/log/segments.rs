//! The files of the log: their names, which of them are live, and how a segment becomes live.

use crate::log::disk::{Disk, DiskFile};
use crate::log::errors::DiskError;
use crate::log::format::{SegmentEnd, SegmentHeader};
use crate::log::group::{Group, Place};
use crate::log::options::Options;
use crate::sequence::Sequence;
use crate::sync::Mutex;
use std::collections::VecDeque;

const LIVE: &str = ".log";
const FREE: &str = ".free";
const PREPARED: &str = ".prep";
/// The length of the number in a name.
const DIGITS: usize = 16;

/// The kinds of files in the folder of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// A live segment, with its ID.
    Live(u64),
    /// A file of the size of a segment that waits for reuse. Its contents have no meaning.
    Free(u64),
    /// A file that is being prepared. A crash may leave one, and recovery deletes it.
    Prepared(u64),
}

impl Name {
    /// The number in the name of a file that is prepared. No segment has this ID, so the name cannot collide
    /// with a segment that is released or begun at the same time.
    pub(crate) const PREPARER: u64 = 0;

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (number, ending) = name.split_at_checked(DIGITS)?;
        let number = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
        match ending {
            LIVE => Some(Self::Live(number)),
            FREE => Some(Self::Free(number)),
            PREPARED => Some(Self::Prepared(number)),
            _ => None,
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, ending) = match self {
            Self::Live(id) => (id, LIVE),
            Self::Free(number) => (number, FREE),
            Self::Prepared(number) => (number, PREPARED),
        };
        write!(f, "{number:0DIGITS$}{ending}")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveSegment {
    pub(crate) id: u64,
    pub(crate) first: Sequence,
    /// Whether a write or a sync of the file failed. It is then deleted and not reused.
    pub(crate) has_failed: bool,
}

/// The files that count, as far as they are durable.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// From the oldest segment to the current one.
    pub(crate) live: VecDeque<LiveSegment>,
    /// The names of files that can be reused.
    pub(crate) spares: Vec<String>,
    /// The names of files that can be reused once the folder is synced.
    pub(crate) spares_to_sync: Vec<String>,
    /// Whether a segment was released and the folder is not synced yet.
    pub(crate) is_release_unsynced: bool,
    pub(crate) is_preparing: bool,
    /// How often the spare files were deleted. A preparation that began before the last time must not add one.
    pub(crate) retirements: u64,
}

impl Files {
    pub(crate) fn has_spares(&self) -> bool {
        !self.spares.is_empty() || !self.spares_to_sync.is_empty()
    }
}

/// The folder of a log.
#[derive(Debug)]
pub(crate) struct Segments<D> {
    pub(crate) disk: D,
    pub(crate) options: Options,
    pub(crate) files: Mutex<Files>,
}

/// The segment that is to continue the log.
#[derive(Debug)]
pub(crate) struct NextSegment<'g> {
    pub(crate) id: u64,
    pub(crate) epoch: u64,
    pub(crate) first: Sequence,
    pub(crate) previous: SegmentEnd,
    /// How many numbers between `previous` and `first` are skipped.
    pub(crate) skipped: u64,
    /// Groups that are on disk when the segment becomes live.
    pub(crate) groups: &'g mut [Group],
    pub(crate) file: SegmentFile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentFile {
    /// A spare file if there is one. It takes no new disk space, and its syncs are faster.
    SpareOrNew,
    /// A new file, which takes only as much disk space as is written.
    New,
}

#[derive(Debug)]
pub(crate) struct BegunSegment<F> {
    pub(crate) file: F,
    pub(crate) header: SegmentHeader,
    pub(crate) is_growing: bool,
    /// The end of the groups that are already in the segment.
    pub(crate) end: SegmentEnd,
    pub(crate) last: Sequence,
}

impl<D: Disk> Segments<D> {
    pub(crate) fn new(disk: D, options: Options, files: Files) -> Self {
        Self { disk, options, files: Mutex::new(files) }
    }

    pub(crate) fn sync_folder(&self, files: &mut Files) -> Result<(), DiskError> {
        self.disk.sync_folder().map_err(|error| DiskError::new("sync", "the folder of the log", error))?;
        files.is_release_unsynced = false;
        files.spares.append(&mut files.spares_to_sync);
        Ok(())
    }

    /// Prevents the file of the current segment from being reused.
    pub(crate) fn distrust_current(&self) {
        if let Some(current) = self.files.lock().live.back_mut() {
            current.has_failed = true;
        }
    }

    /// Begins a segment. If this fails, the segment may be found after a crash or not; the caller must then write
    /// nothing to the previous segment, and try again with the same ID and the same `previous`.
    pub(crate) fn begin(&self, next: NextSegment<'_>) -> Result<BegunSegment<D::File>, DiskError> {
        let mut files = self.files.lock();
        let spare = match next.file {
            SegmentFile::SpareOrNew => files.spares.pop(),
            SegmentFile::New => None,
        };
        let is_growing = spare.is_none();
        let live = LiveSegment { id: next.id, first: next.first, has_failed: false };
        let name = spare.unwrap_or_else(|| Name::Prepared(next.id).to_string());
        let begun = self.make_live(next, &name, is_growing).inspect_err(|_| {
            // The file must not be used again. If it cannot be deleted either, recovery deletes or reuses it.
            let _ = self.disk.remove(&name);
        })?;
        self.sync_folder(&mut files)?;
        files.live.push_back(live);
        Ok(begun)
    }

    /// Writes the header and the first groups into a file with one write, syncs it, and gives it the name of a live
    /// segment.
    fn make_live(
        &self,
        next: NextSegment<'_>,
        name: &str,
        is_growing: bool,
    ) -> Result<BegunSegment<D::File>, DiskError> {
        let opened = if is_growing { self.disk.create(name) } else { self.disk.open(name) };
        let file = opened.map_err(|error| DiskError::new("open", name, error))?;
        let NextSegment { id, epoch, first, previous, skipped, groups, file: _ } = next;
        let header = SegmentHeader { id, salt: self.disk.new_salt(), epoch, first, previous, skipped };
        let mut bytes = header.encode().to_vec();
        let mut end = header.beginning();
        let mut last = first.previous();
        for group in groups {
            let place = Place { salt: header.salt, segment: id, offset: end.offset, synced_through: first.previous() };
            let sealed = group.seal(place);
            bytes.extend_from_slice(sealed.bytes);
            end = sealed.end(end);
            last = group.next_sequence().previous();
        }
        file.write_all_at(&bytes, 0).map_err(|error| DiskError::new("write", name, error))?;
        file.sync_data().map_err(|error| DiskError::new("sync", name, error))?;
        let live_name = Name::Live(id).to_string();
        self.disk.rename(name, &live_name).map_err(|error| DiskError::new("rename", name, error))?;
        Ok(BegunSegment { file, header, is_growing, end, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [Name::Live(1), Name::Free(u64::MAX / 10_000), Name::Prepared(0)] {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        assert_eq!(Name::Live(27).to_string(), "0000000000000027.log");
        for other in ["27.log", "+000000000000027.log", "0000000000000027.log2", "00000000000000é7.log", "notes"] {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }
}
