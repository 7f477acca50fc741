//! The current segment: what was written to it, what is on disk, and whether it may still be written.
//!
//! The writer appends while another thread may sync. Both share this state, and neither holds its lock during a write
//! or a sync.

use crate::log::disk::DiskFile;
use crate::log::errors::{DiskError, WriteError};
use crate::log::format::{SEGMENT_HEADER_BYTES, SegmentEnd, SegmentHeader};
use crate::log::group::{Group, Place};
use crate::log::options::Durability;
use crate::log::segments::{BegunSegment, Name};
use crate::sequence::Sequence;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) end: SegmentEnd,
    /// The last transaction before it.
    pub(crate) last: Sequence,
}

#[derive(Debug)]
pub(crate) struct Tail<F> {
    file: Arc<F>,
    pub(crate) header: SegmentHeader,
    /// Whether the file grows with each write. Otherwise, its blocks were written before.
    pub(crate) is_growing: bool,
    pub(crate) appended: Position,
    /// Everything before it is on disk.
    pub(crate) synced: Position,
    /// Acknowledged groups between `synced` and `appended`, from which they can be written again.
    unsynced: VecDeque<Group>,
    pub(crate) unsynced_bytes: usize,
    /// Whether a write or sync failed. The file is then never written or synced again.
    pub(crate) has_failed: bool,
}

impl<F> Tail<F> {
    pub(crate) fn new(begun: BegunSegment<F>) -> Self {
        let at = Position { end: begun.end, last: begun.last };
        Self {
            file: Arc::new(begun.file),
            header: begun.header,
            is_growing: begun.is_growing,
            appended: at,
            synced: at,
            unsynced: VecDeque::new(),
            unsynced_bytes: 0,
            has_failed: false,
        }
    }

    /// Whether the segment contains no group.
    pub(crate) fn is_empty(&self) -> bool {
        self.appended.end.offset == SEGMENT_HEADER_BYTES as u64
    }

    /// Takes out the groups that must be written again after a failure.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Group> {
        self.unsynced_bytes = 0;
        self.unsynced.drain(..).collect()
    }

    pub(crate) fn put_back(&mut self, groups: Vec<Group>) {
        self.unsynced_bytes = groups.iter().map(Group::bytes).sum();
        self.unsynced = groups.into();
    }

    fn advance_synced(&mut self, to: Position) {
        self.synced = to;
        while self.unsynced.front().is_some_and(|group| group.next_sequence() <= to.last.next()) {
            let bytes = self.unsynced.pop_front().map_or(0, |group| group.bytes());
            self.unsynced_bytes -= bytes;
        }
    }
}

#[derive(Debug)]
pub(crate) struct SharedTail<F> {
    durability: Durability,
    /// Held during a sync. The operating system reports a failure to only one of two concurrent syncs of a file.
    pub(crate) syncing: Mutex<()>,
    pub(crate) state: Mutex<Tail<F>>,
}

impl<F: DiskFile> SharedTail<F> {
    pub(crate) fn new(durability: Durability, begun: BegunSegment<F>) -> Self {
        Self { durability, syncing: Mutex::new(()), state: Mutex::new(Tail::new(begun)) }
    }

    /// Writes a group to the current segment, without a sync. Empties the group if that succeeds.
    pub(crate) fn append(&self, group: &mut Group) -> Result<(), WriteError> {
        let (file, place, before) = {
            let tail = self.state.lock();
            if tail.has_failed {
                return Err(WriteError::Refused);
            }
            let SegmentHeader { salt, id: segment, .. } = tail.header;
            let place = Place { salt, segment, offset: tail.appended.end.offset, synced_through: tail.synced.last };
            (Arc::clone(&tail.file), place, tail.appended)
        };
        let bytes = group.bytes();
        let sealed = group.seal(place);
        let end = sealed.end(before.end);
        let written = file.write_all_at(sealed.bytes, place.offset);
        let mut tail = self.state.lock();
        if let Err(error) = written {
            tail.has_failed = true;
            return Err(DiskError::new("write", &Name::Live(place.segment).to_string(), error).into());
        }
        if tail.has_failed {
            // A concurrent sync failed, so this group may be lost.
            return Err(WriteError::Refused);
        }
        let next = group.next_sequence();
        tail.appended = Position { end, last: next.previous() };
        match self.durability {
            Durability::Sync => group.restart(next),
            Durability::Interval => {
                tail.unsynced.push_back(group.take());
                tail.unsynced_bytes += bytes;
            }
        }
        Ok(())
    }

    /// Syncs everything appended before the call. Returns the last transaction that is on disk.
    pub(crate) fn sync(&self) -> Result<Sequence, WriteError> {
        let _turn = self.syncing.lock();
        let (file, to, segment) = {
            let tail = self.state.lock();
            if tail.has_failed {
                return Err(WriteError::Refused);
            }
            if tail.synced == tail.appended {
                return Ok(tail.synced.last);
            }
            (Arc::clone(&tail.file), tail.appended, tail.header.id)
        };
        let synced = file.sync_data();
        let mut tail = self.state.lock();
        if let Err(error) = synced {
            tail.has_failed = true;
            return Err(DiskError::new("sync", &Name::Live(segment).to_string(), error).into());
        }
        if tail.has_failed {
            // A write after `to` failed while the file was synced. The sync itself was good.
            tail.advance_synced(to);
            return Err(WriteError::Refused);
        }
        tail.advance_synced(to);
        Ok(to.last)
    }
}
