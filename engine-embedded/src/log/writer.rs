//! The writer of a log, which belongs to the committer.

use crate::log::disk::Disk;
use crate::log::errors::{DiskError, WriteError};
use crate::log::format::GROUP_BYTES_MAX;
use crate::log::group::Group;
use crate::log::options::{Durability, Options};
use crate::log::segments::{BegunSegment, NextSegment, SegmentFile, Segments};
use crate::log::tail::Tail;
use crate::log::upkeep::{Shared, Upkeep};
use crate::sequence::Sequence;
use std::slice;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Writer<D: Disk> {
    shared: Arc<Shared<D>>,
}

impl<D: Disk> Writer<D> {
    /// Continues a log in a segment that is live and durable.
    pub(crate) fn new(segments: Segments<D>, current: BegunSegment<D::File>) -> Self {
        let durability = segments.options.durability;
        Self { shared: Arc::new(Shared::new(segments, durability, current)) }
    }

    /// Returns a handle for other threads.
    pub(crate) fn upkeep(&self) -> Upkeep<D> {
        Upkeep::new(&self.shared)
    }

    /// Returns the number with which the next group must begin.
    pub(crate) fn next_sequence(&self) -> Sequence {
        self.shared.tail.state.lock().appended.last.next()
    }

    /// Writes a group with one write, and empties it. An empty group is ignored.
    ///
    /// With [`Durability::Sync`], the group counts only after [`Self::sync`], and must be followed by one. With
    /// [`Durability::Interval`], it counts at once, and a sync by another thread makes it durable.
    ///
    /// After an error, the group must be restarted with [`Self::next_sequence`] once the log has recovered. It is then
    /// certain that the group was not written.
    pub(crate) fn append(&mut self, group: &mut Group) -> Result<(), WriteError> {
        if group.is_empty() {
            return Ok(());
        }
        let expected = self.next_sequence();
        if group.first() != expected {
            return Err(WriteError::OutOfOrder { expected });
        }
        if group.bytes() > GROUP_BYTES_MAX {
            return Err(WriteError::TooLarge);
        }
        let Options { durability, unsynced_bytes_max, .. } = self.shared.segments.options;
        if self.must_rotate(group.bytes())? {
            if durability == Durability::Sync {
                // The sync of the header includes the group.
                self.rotate(slice::from_mut(group), SegmentFile::SpareOrNew)?;
                group.restart(group.next_sequence());
                return Ok(());
            }
            self.rotate(&mut [], SegmentFile::SpareOrNew)?;
        }
        let unsynced_bytes = self.shared.tail.state.lock().unsynced_bytes;
        if durability == Durability::Interval
            && unsynced_bytes > 0
            && unsynced_bytes + group.bytes() > unsynced_bytes_max
        {
            self.sync()?;
        }
        self.shared.tail.append(group)
    }

    /// Syncs everything appended before. Returns the last transaction that is on disk.
    pub(crate) fn sync(&mut self) -> Result<Sequence, WriteError> {
        self.shared.tail.sync()
    }

    /// Refuses writes until [`Self::recover_after_failure`] succeeds, as after a failed write.
    pub(crate) fn fail(&mut self) {
        self.shared.tail.state.lock().has_failed = true;
    }

    /// Returns the epoch of the current segment.
    fn epoch(&self) -> u64 {
        self.shared.tail.state.lock().header.epoch
    }

    /// Begins a segment with a higher epoch, if the current one has a lower one.
    pub(crate) fn begin_epoch(&mut self, epoch: u64) -> Result<(), WriteError> {
        self.sync()?;
        if self.epoch() < epoch { self.rotate_in(&mut [], epoch, Sequence::ZERO, SegmentFile::New) } else { Ok(()) }
    }

    /// Begins a segment with the given transaction, if the next one has a lower number. The numbers in between never
    /// belong to a transaction.
    pub(crate) fn skip_to(&mut self, first: Sequence) -> Result<(), WriteError> {
        self.sync()?;
        if self.next_sequence() < first {
            self.rotate_in(&mut [], self.epoch(), first, SegmentFile::New)
        } else {
            Ok(())
        }
    }

    /// Returns the current segment, and where the next group would begin in it.
    #[cfg(test)]
    pub(crate) fn place(&self) -> (u64, u64) {
        let tail = self.shared.tail.state.lock();
        (tail.header.id, tail.appended.end.offset)
    }

    fn must_rotate(&self, group_bytes: usize) -> Result<bool, WriteError> {
        let options = &self.shared.segments.options;
        let (is_growing, end) = {
            let tail = self.shared.tail.state.lock();
            if tail.has_failed {
                return Err(WriteError::Refused);
            }
            if tail.is_empty() {
                return Ok(false);
            }
            (tail.is_growing, tail.appended.end.offset)
        };
        // A prepared file has faster syncs than one that grows.
        let is_faster_ready = || is_growing && !self.shared.segments.files.lock().spares.is_empty();
        Ok(end.saturating_add(group_bytes as u64) > options.segment_bytes
            || (end >= options.prepare_after_bytes && is_faster_ready()))
    }

    /// Continues in a new segment, whose header names the end of the current one. The segment begins with the groups,
    /// which are then on disk.
    fn rotate(&mut self, groups: &mut [Group], file: SegmentFile) -> Result<(), WriteError> {
        self.sync()?;
        let epoch = self.epoch();
        self.rotate_in(groups, epoch, Sequence::ZERO, file)
    }

    /// `first` is as for [`Self::begin`].
    fn rotate_in(
        &mut self,
        groups: &mut [Group],
        epoch: u64,
        first: Sequence,
        file: SegmentFile,
    ) -> Result<(), WriteError> {
        let begun = self.begin(groups, epoch, first, file);
        let mut tail = self.shared.tail.state.lock();
        match begun {
            Ok(begun) => {
                *tail = Tail::new(begun);
                Ok(())
            }
            Err(error) => {
                // The next segment may be live after a crash, and then nothing counts that follows the end it names.
                tail.has_failed = true;
                Err(error.into())
            }
        }
    }

    /// Begins the segment that follows what is certainly on disk. Its first transaction is the next one, or `first` if
    /// that is later.
    fn begin(
        &self,
        groups: &mut [Group],
        epoch: u64,
        first: Sequence,
        file: SegmentFile,
    ) -> Result<BegunSegment<D::File>, DiskError> {
        let (header, certain) = {
            let tail = self.shared.tail.state.lock();
            (tail.header, tail.synced)
        };
        let (id, next) = (header.id.saturating_add(1), certain.last.next());
        let first = first.max(next);
        let skipped = first.get() - next.get();
        self.shared.segments.begin(NextSegment { id, epoch, first, previous: certain.end, skipped, groups, file })
    }

    /// Continues in a new segment after a write or a sync failed. What was acknowledged and is not certainly on disk is
    /// written again; the failed group is cut off forever. Returns the last transaction of the log. Does nothing if
    /// nothing failed.
    ///
    /// Until this succeeds, writes are refused, and a crash may leave the failed group or not. It can be repeated.
    pub(crate) fn recover_after_failure(&mut self) -> Result<Sequence, DiskError> {
        let shared = Arc::clone(&self.shared);
        let _no_sync = shared.tail.syncing.lock();
        let mut groups = {
            let mut tail = shared.tail.state.lock();
            if !tail.has_failed {
                return Ok(tail.appended.last);
            }
            tail.take_unsynced()
        };
        shared.segments.distrust_current();
        let begun = self.begin(&mut groups, self.epoch(), Sequence::ZERO, SegmentFile::SpareOrNew);
        let mut tail = shared.tail.state.lock();
        match begun {
            Ok(begun) => {
                let last = begun.last;
                *tail = Tail::new(begun);
                Ok(last)
            }
            Err(error) => {
                tail.put_back(groups);
                Err(error)
            }
        }
    }

    /// Releases all segments, and the files that wait for reuse, if every transaction is persisted elsewhere. A new and
    /// short segment continues. Returns false if nothing could be released.
    pub(crate) fn retire(&mut self, persisted: Sequence) -> Result<bool, WriteError> {
        let (is_empty, last) = {
            let tail = self.shared.tail.state.lock();
            (tail.is_empty(), tail.appended.last)
        };
        if last > persisted {
            return Ok(false);
        }
        if !is_empty {
            self.rotate(&mut [], SegmentFile::New)?;
        }
        let upkeep = self.upkeep();
        upkeep.release(persisted)?;
        upkeep.remove_spares()?;
        Ok(true)
    }

    /// Syncs the log, and begins a new segment that records where it ends. When the log is opened again, any loss
    /// before that end is damage. Writes nothing if nothing was appended since the log was opened.
    pub(crate) fn close(&mut self) -> Result<(), WriteError> {
        if self.sync().is_err() {
            self.recover_after_failure()?;
        }
        if !self.shared.tail.state.lock().is_empty() {
            self.rotate(&mut [], SegmentFile::New)?;
        }
        Ok(())
    }
}
