//! Reads a segment group by group.

use crate::log::disk::{Disk, DiskFile, ReadAt};
use crate::log::errors::{DiskError, OpenLogError};
use crate::log::format::{
    self, GROUP_ALIGNMENT, GROUP_HEADER_BYTES, GroupHeader, SEGMENT_HEADER_BYTES, SegmentEnd, SegmentHeader,
};
use crate::log::segments::Name;
use crate::log::tail::Position;
use crate::sequence::Sequence;

/// A segment file that is read from its beginning to its end, through a buffer.
#[derive(Debug)]
pub(crate) struct SegmentReader<F> {
    name: String,
    file: F,
    length: u64,
    read_bytes: usize,
    buffer: Vec<u8>,
    /// The position of `buffer` in the file, in bytes.
    buffer_at: u64,
}

/// A group whose hashes are right.
#[derive(Debug)]
pub(crate) struct ReadGroup<'r> {
    pub(crate) header: GroupHeader,
    pub(crate) bytes: &'r [u8],
}

impl ReadGroup<'_> {
    pub(crate) fn body(&self) -> &[u8] {
        self.bytes.get(GROUP_HEADER_BYTES..).unwrap_or_default()
    }

    /// Returns the position after this group.
    pub(crate) fn end(&self, before: Position) -> Position {
        let digest = self.bytes.first_chunk().map_or(0, |header| format::next_digest(before.end.digest, header));
        let offset = before.end.offset.saturating_add(u64::from(self.header.bytes));
        Position { end: SegmentEnd { offset, digest }, last: self.header.last() }
    }
}

/// What follows the end of the valid groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing, or the zeros of a prepared file.
    Blank,
    /// An incomplete write, or the remains of an earlier use of the file.
    Remains,
    /// A later group, at this offset, which proves that the missing transactions had been synced.
    Evidence(u64),
}

impl<F: DiskFile> SegmentReader<F> {
    pub(crate) fn open<D: Disk<File = F>>(disk: &D, id: u64, read_bytes: usize) -> Result<Self, DiskError> {
        let name = Name::Live(id).to_string();
        let file = disk.open_to_read(&name).map_err(|error| DiskError::new("open", &name, error))?;
        Self::new(name, file, read_bytes)
    }
}

impl<F: ReadAt> SegmentReader<F> {
    pub(crate) fn new(name: String, file: F, read_bytes: usize) -> Result<Self, DiskError> {
        let length = file.length().map_err(|error| DiskError::new("read the length of", &name, error))?;
        Ok(Self { name, file, length, read_bytes, buffer: Vec::new(), buffer_at: 0 })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns bytes of the file, or `None` if it ends before the last of them.
    fn get(&mut self, offset: u64, count: usize) -> Result<Option<&[u8]>, DiskError> {
        if offset.checked_add(count as u64).is_none_or(|end| end > self.length) {
            return Ok(None);
        }
        let buffer_end = self.buffer_at.saturating_add(self.buffer.len() as u64);
        if offset < self.buffer_at || offset.saturating_add(count as u64) > buffer_end {
            let left = usize::try_from(self.length - offset).unwrap_or(usize::MAX);
            self.buffer.resize(self.read_bytes.max(count).min(left), 0);
            let read = self.file.read_at(&mut self.buffer, offset);
            let read = read.map_err(|error| DiskError::new("read", &self.name, error))?;
            self.buffer.truncate(read);
            self.buffer_at = offset;
        }
        let at = usize::try_from(offset - self.buffer_at).unwrap_or(usize::MAX);
        Ok(self.buffer.get(at..).and_then(|bytes| bytes.get(..count)))
    }

    pub(crate) fn header(&mut self, id: u64) -> Result<SegmentHeader, OpenLogError> {
        let decoded = match self.get(0, SEGMENT_HEADER_BYTES)? {
            Some(bytes) => SegmentHeader::decode(bytes),
            None => return Err(OpenLogError::damaged(&self.name, "it is shorter than the header of a segment")),
        };
        let header = decoded.map_err(|error| OpenLogError::damaged(&self.name, error.to_string()))?;
        if header.id != id {
            let what = format!("it contains segment {}, so the file was renamed or overwritten", header.id);
            return Err(OpenLogError::damaged(&self.name, what));
        }
        Ok(header)
    }

    /// Returns the group at a position, or `None` if there is no intact group that continues the log.
    pub(crate) fn group(&mut self, segment: &SegmentHeader, at: Position) -> Result<Option<ReadGroup<'_>>, DiskError> {
        let offset = at.end.offset;
        let Some(header) = self.group_header(segment, offset)? else { return Ok(None) };
        let bytes = usize::try_from(header.bytes).unwrap_or(usize::MAX);
        let follows = header.first == at.last.next() && header.count > 0 && header.synced_through < header.first;
        if !follows || bytes < GROUP_HEADER_BYTES || bytes % GROUP_ALIGNMENT != 0 {
            return Ok(None);
        }
        let Some(bytes) = self.get(offset, bytes)? else { return Ok(None) };
        let group = ReadGroup { header, bytes };
        Ok(is_intact(&group, segment.salt).then_some(group))
    }

    /// Returns the position after the group at a position, if the group ends before the given transaction. Reads only
    /// the header of the group, and does not extend the digest.
    pub(crate) fn skip(
        &mut self,
        segment: &SegmentHeader,
        at: Position,
        until: Sequence,
    ) -> Result<Option<Position>, DiskError> {
        let Some(header) = self.group_header(segment, at.end.offset)? else { return Ok(None) };
        let offset = at.end.offset.saturating_add(u64::from(header.bytes));
        let after = Position { end: SegmentEnd { offset, ..at.end }, last: header.last() };
        Ok((header.first == at.last.next() && header.last() < until && header.bytes > 0).then_some(after))
    }

    fn group_header(&mut self, segment: &SegmentHeader, offset: u64) -> Result<Option<GroupHeader>, DiskError> {
        let bytes = self.get(offset, GROUP_HEADER_BYTES)?;
        Ok(bytes.and_then(|bytes| GroupHeader::decode(bytes, segment.salt, segment.id, offset)))
    }

    /// Determines what follows the last intact group. A header alone is evidence: it was written after the transactions
    /// that it names were synced, whatever became of the rest of its group.
    pub(crate) fn rest(&mut self, segment: &SegmentHeader, from: u64, missing: Sequence) -> Result<Rest, DiskError> {
        let mut rest = Rest::Blank;
        let mut offset = from;
        while offset < self.length {
            let left = usize::try_from(self.length - offset).unwrap_or(usize::MAX);
            let bytes = left.min(GROUP_HEADER_BYTES);
            let Some(bytes) = self.get(offset, bytes)? else { break };
            if bytes.iter().any(|byte| *byte != 0) {
                rest = Rest::Remains;
            }
            let header = GroupHeader::decode(bytes, segment.salt, segment.id, offset);
            if header.is_some_and(|header| header.synced_through >= missing) {
                return Ok(Rest::Evidence(offset));
            }
            offset += GROUP_ALIGNMENT as u64;
        }
        Ok(rest)
    }
}

fn is_intact(group: &ReadGroup<'_>, salt: u64) -> bool {
    let (mut hash, mut next) = (salt, group.header.first);
    for record in format::records(group.body(), group.header.count) {
        let has_payload = format::payload_hash(record.payload) == record.header.payload_hash;
        if record.header.sequence != next || !has_payload {
            return false;
        }
        hash = format::next_records_hash(hash, record.header_bytes);
        next = next.next();
    }
    hash == group.header.records && next == group.header.last().next()
}
