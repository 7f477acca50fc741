//! Reads transactions of a log while it is written.
//!
//! A reader takes no lock while it reads. A segment may therefore be archived, reused or dropped under it; the reader
//! notices, because a group is only valid in the segment in which it was written, and looks for the segment again.

use crate::log::archive::{Archive, ArchivedFile, ArchivedSegment};
use crate::log::disk::{Disk, DiskFile, ReadAt};
use crate::log::errors::{DiskError, OpenLogError};
use crate::log::format::{self, Record, SEGMENT_HEADER_BYTES, SegmentEnd};
use crate::log::segment_reader::SegmentReader;
use crate::log::segments::Name;
use crate::log::tail::Position;
use crate::log::upkeep::{Shared, Upkeep};
use crate::sequence::Sequence;
use crate::sync::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The number of bytes that are read at a time. A reader at the end of the log reads few.
const READ_BYTES: usize = 64 * 1024;
/// The number of places at which readers stopped that are kept, so that the next read continues there.
const PLACES_MAX: usize = 1024;
/// How often a reader looks for a segment again that has changed under it.
const ATTEMPTS_MAX: usize = 4;

/// The reason why transactions could not be read.
#[derive(Debug)]
pub(crate) enum ReadLogError {
    /// The log begins with a later transaction.
    Dropped(Sequence),
    Log(OpenLogError),
}

impl From<OpenLogError> for ReadLogError {
    fn from(error: OpenLogError) -> Self {
        Self::Log(error)
    }
}

impl From<DiskError> for ReadLogError {
    fn from(error: DiskError) -> Self {
        Self::Log(error.into())
    }
}

impl fmt::Display for ReadLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped(first) => write!(f, "the log begins with transaction {first}"),
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadLogError {}

/// Receives records in order, until it breaks.
pub(crate) type RecordVisitor<'v> = &'v mut dyn FnMut(&Record<'_>) -> ControlFlow<()>;

#[derive(Debug)]
pub(crate) struct LogReader<D: Disk> {
    shared: Arc<Shared<D>>,
    places: Mutex<Places>,
}

/// The beginnings of groups: by the first transaction of a group, the segment and the offset.
#[derive(Debug, Default)]
struct Places {
    known: BTreeMap<Sequence, (u64, u64)>,
    /// From the oldest to the newest one.
    order: VecDeque<Sequence>,
}

impl Places {
    fn remember(&mut self, first: Sequence, segment: u64, offset: u64) {
        if self.known.insert(first, (segment, offset)).is_some() {
            return;
        }
        self.order.push_back(first);
        if self.order.len() > PLACES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Returns the last known group of a segment at or before a transaction: its offset and first sequence.
    fn find(&self, segment: u64, sequence: Sequence) -> Option<(u64, Sequence)> {
        let (first, (known, offset)) = self.known.range(..=sequence).next_back()?;
        (*known == segment).then_some((*offset, *first))
    }
}

/// Where a segment is read from.
#[derive(Debug)]
enum Source<F> {
    Live(F),
    Archived(Box<ArchivedFile<F>>),
}

impl<F: DiskFile> ReadAt for Source<F> {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Live(file) => file.read_at(bytes, offset),
            Self::Archived(file) => file.read_at(bytes, offset),
        }
    }

    fn length(&self) -> io::Result<u64> {
        match self {
            Self::Live(file) => file.length(),
            Self::Archived(file) => file.length(),
        }
    }
}

/// A segment that contains a transaction.
#[derive(Debug, Clone, Copy)]
struct Found {
    id: u64,
    first: Sequence,
    /// The first transaction of the next segment; `None` in the current one.
    end: Option<Sequence>,
    /// `None` if the segment is live.
    archived: Option<ArchivedSegment>,
}

impl<D: Disk> LogReader<D> {
    pub(crate) fn new(upkeep: &Upkeep<D>) -> Self {
        Self { shared: Arc::clone(&upkeep.shared), places: Mutex::default() }
    }

    fn archive(&self) -> Option<&Archive<D>> {
        self.shared.archive.get()
    }

    /// Returns the first transaction that can be read.
    pub(crate) fn first(&self) -> Sequence {
        let files = self.shared.segments.files.lock();
        let live = files.live.front().map_or(Sequence::ZERO, |segment| segment.first);
        let Some(archive) = self.archive() else { return live };
        archive.oldest().map_or(live, |oldest| oldest.first).max(archive.beginning())
    }

    /// Passes the transactions from `from` through `through` to the visitor, until it breaks. The last one must be on
    /// disk. Returns the transaction to continue from.
    pub(crate) fn read(
        &self,
        from: Sequence,
        through: Sequence,
        visit: RecordVisitor<'_>,
    ) -> Result<Sequence, ReadLogError> {
        let (mut next, mut attempts) = (from, 0);
        while next <= through {
            let before = next;
            match self.read_segment(&mut next, through, visit) {
                Ok(ControlFlow::Break(())) => return Ok(next),
                Ok(ControlFlow::Continue(())) if next > before => attempts = 0,
                Ok(ControlFlow::Continue(())) if attempts < ATTEMPTS_MAX => attempts += 1,
                Err(ReadLogError::Log(_)) if attempts < ATTEMPTS_MAX => attempts += 1,
                Ok(ControlFlow::Continue(())) => {
                    let what = format!("transaction {next} cannot be read");
                    return Err(self.give_up(next, OpenLogError::damaged("", what)));
                }
                Err(ReadLogError::Log(error)) => return Err(self.give_up(next, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(next)
    }

    /// If a transaction is in an archived segment that is damaged, gives up the archive up to there: readers would
    /// otherwise get the same error until the segment is too old.
    fn give_up(&self, sequence: Sequence, error: OpenLogError) -> ReadLogError {
        let archived = self.find(sequence).ok().and_then(|found| found.archived);
        let Some((archive, segment)) = self.archive().zip(archived).filter(|_| error.is_damage()) else {
            return error.into();
        };
        tracing::error!(
            %error,
            segment = segment.id,
            end = segment.end.get(),
            "an archived segment of the log is damaged, so it is removed with all earlier ones; readers cannot resume before its end"
        );
        archive.give_up(segment);
        ReadLogError::Dropped(self.first())
    }

    fn find(&self, sequence: Sequence) -> Result<Found, ReadLogError> {
        // A segment is archived before it is released, so at least one of the two lists contains it.
        let files = self.shared.segments.files.lock();
        let after = files.live.partition_point(|segment| segment.first <= sequence);
        if let Some(live) = after.checked_sub(1).and_then(|index| files.live.get(index)) {
            let end = files.live.get(after).map(|next| next.first);
            return Ok(Found { id: live.id, first: live.first, end, archived: None });
        }
        let live = files.live.front().map(|segment| (segment.id, segment.first));
        drop(files);
        let archived = self.archive().and_then(|archive| archive.find(sequence, live));
        let found = archived.map(|(segment, end)| Found {
            id: segment.id,
            first: segment.first,
            end: Some(end),
            archived: Some(segment),
        });
        found.ok_or_else(|| ReadLogError::Dropped(self.first()))
    }

    /// Reads a segment up to its end, up to `through`, or until the visitor breaks. Makes no progress if the segment
    /// changed.
    fn read_segment(
        &self,
        next: &mut Sequence,
        through: Sequence,
        visit: RecordVisitor<'_>,
    ) -> Result<ControlFlow<()>, ReadLogError> {
        if *next < self.first() {
            return Err(ReadLogError::Dropped(self.first()));
        }
        let found = self.find(*next)?;
        let name = Name::Live(found.id).to_string();
        let mut place = self.places.lock().find(found.id, *next);
        let source = if let Some((archive, segment)) = self.archive().zip(found.archived) {
            let file = archive.read(segment)?;
            place = place.max(file.place(*next));
            Source::Archived(Box::new(file))
        } else {
            let file = self.shared.segments.disk.open_to_read(&name);
            Source::Live(file.map_err(|error| DiskError::new("open", &name, error))?)
        };
        let mut reader = SegmentReader::new(name, source, READ_BYTES)?;
        let header = reader.header(found.id)?;
        let mut at = Position { end: header.beginning(), last: found.first.previous() };
        if let Some((offset, first)) = place {
            at = Position { end: SegmentEnd { offset, digest: 0 }, last: first.previous() };
        }
        let last = found.end.map_or(through, |end| end.previous().min(through));
        while let Some(after) = reader.skip(&header, at, *next)? {
            at = after;
        }
        while *next <= last {
            let Some(group) = reader.group(&header, at)? else { return self.pass_gap(&found, at.last.next(), next) };
            let begins = at;
            at = group.end(at);
            for record in format::records(group.body(), group.header.count) {
                if record.header.sequence < *next || record.header.sequence > last {
                    continue;
                }
                *next = record.header.sequence.next();
                if visit(&record).is_break() {
                    let place = if *next <= at.last { (begins, group.header.first) } else { (at, *next) };
                    self.places.lock().remember(place.1, found.id, place.0.end.offset);
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        if found.end.is_none_or(|end| *next < end) {
            self.places.lock().remember(at.last.next(), found.id, at.end.offset);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Continues behind the numbers that were skipped before the next segment, if the segment ends before transaction
    /// `end`. Otherwise, makes no progress.
    fn pass_gap(&self, found: &Found, end: Sequence, next: &mut Sequence) -> Result<ControlFlow<()>, ReadLogError> {
        let Some(following) = found.end.filter(|following| end < *following) else {
            return Ok(ControlFlow::Continue(()));
        };
        let ends_here = if let Some(archived) = found.archived {
            archived.end == end
        } else {
            let id = found.id.saturating_add(1);
            let header = SegmentReader::open(&self.shared.segments.disk, id, SEGMENT_HEADER_BYTES)?.header(id)?;
            header.first == following && end.plus(header.skipped) == following
        };
        if !ends_here {
            return Ok(ControlFlow::Continue(()));
        }
        // Whoever has such a position has read transactions that this log does not contain.
        if *next > end {
            return Err(ReadLogError::Dropped(following));
        }
        *next = following;
        Ok(ControlFlow::Continue(()))
    }
}
