//! Segments that are kept for readers after everything in them was persisted elsewhere. They are compressed.
//!
//! Recovery never needs an archived segment, so a damaged archive affects only readers of the log: a segment that
//! cannot be read is dropped with all earlier ones. The names of the files have no gap: the oldest segment is dropped
//! first, and one is added before it is released from the log.
//!
//! | archived segment | bytes | |
//! |---|---|---|
//! | blocks | | each is a part of the segment of [`BLOCK_BYTES`] (the last may be shorter), compressed with LZ4, or as it is if that is not longer |
//! | magic | 8 | `RowhsArc`; here the footer begins |
//! | version | 4 | 1 |
//! | number of blocks | 4 | |
//! | ID, length | 8 + 8 | of the segment; the part behind the length does not count |
//! | first sequence, end | 8 + 8 | the first transaction, and the one after the last |
//! | oldest, newest stamp | 8 + 8 | 0 if no transaction has one |
//! | blocks | 20 each | stored length (4), and the first group that begins in the block: offset in the segment (8) and first sequence (8); ones if none begins in it |
//! | checksum | 8 | of the footer above |
//! | footer length | 4 | without this field |
//!
//! The segment's own hashes protect the blocks.

use crate::log::disk::{Disk, DiskFile, ReadAt};
use crate::log::errors::{DiskError, OpenLogError};
use crate::log::format::{self, SegmentHeader, take};
use crate::log::holds::LogHolds;
use crate::log::options::READ_BYTES;
use crate::log::segment_reader::SegmentReader;
use crate::log::segments::Name;
use crate::log::tail::Position;
use crate::sequence::Sequence;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"RowhsArc";
const VERSION: u32 = 1;
/// The size of a block before its compression, in bytes. A reader that seeks decompresses a block.
const BLOCK_BYTES: usize = 256 * 1024;
const FIXED_FOOTER_BYTES: usize = 8 + 4 + 4 + 6 * 8 + 8;
const BLOCK_ENTRY_BYTES: usize = 20;
const FOOTER_LENGTH_BYTES: usize = 4;
/// A footer that claims to be longer is damaged. A segment can be as long as a group.
const FOOTER_BYTES_MAX: usize = 1024 * 1024;
const NO_GROUP: u64 = u64::MAX;
/// The rate at which a segment is compressed. Faster writes would delay the syncs of groups. It must be higher than the
/// rate at which segments are filled for long.
const BYTES_PER_SECOND: u64 = 128 * 1024 * 1024;
/// The number of footers that are kept in memory, so that a reader does not read one for each page.
const FOOTERS_MAX: usize = 8;

const ARCHIVED: &str = ".lz4";
const UNFINISHED: &str = ".new";
const BEGINNING: &str = ".begin";

/// The segments that are kept for readers.
#[derive(Debug)]
pub(crate) struct Archive<D> {
    disk: D,
    /// The first transaction that readers may read. Earlier ones were written while nothing was kept.
    beginning: Sequence,
    contents: Mutex<Contents>,
    /// What is kept although it is too old.
    pub(crate) holds: LogHolds,
}

#[derive(Debug, Default)]
struct Contents {
    /// From the oldest to the newest one.
    segments: VecDeque<ArchivedSegment>,
    /// Segments that cannot be read, and earlier ones, whose files are not removed yet.
    unreadable: Vec<u64>,
    footers: VecDeque<Arc<Footer>>,
}

/// An archived segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArchivedSegment {
    pub(crate) id: u64,
    pub(crate) first: Sequence,
    /// The transaction after the last one.
    pub(crate) end: Sequence,
    /// The stamp of the first transaction that has one.
    pub(crate) oldest: Option<u64>,
    /// The stamp of the last transaction that has one.
    pub(crate) newest: Option<u64>,
    /// The size of the file, in bytes.
    pub(crate) bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Footer {
    id: u64,
    /// The part of the segment that counts, in bytes.
    length: u64,
    first: Sequence,
    end: Sequence,
    oldest: u64,
    newest: u64,
    blocks: Vec<Block>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    /// The position in the archived file, in bytes.
    at: u64,
    bytes: u32,
    /// The offset in the segment and the first sequence of the first group that begins in the block.
    group: Option<(u64, Sequence)>,
}

impl Footer {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED_FOOTER_BYTES + self.blocks.len() * BLOCK_ENTRY_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        let count = u32::try_from(self.blocks.len()).expect("a segment is shorter than 2^50 bytes");
        out.extend_from_slice(&count.to_be_bytes());
        for number in [self.id, self.length, self.first.get(), self.end.get(), self.oldest, self.newest] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for block in &self.blocks {
            let (offset, sequence) = block.group.map_or((NO_GROUP, NO_GROUP), |(at, first)| (at, first.get()));
            out.extend_from_slice(&block.bytes.to_be_bytes());
            out.extend_from_slice(&offset.to_be_bytes());
            out.extend_from_slice(&sequence.to_be_bytes());
        }
        out.extend_from_slice(&xxh3_64(&out).to_be_bytes());
        let bytes = u32::try_from(out.len()).expect("a footer is shorter than 4 GiB");
        out.extend_from_slice(&bytes.to_be_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (rest, checksum) = bytes.split_last_chunk()?;
        if xxh3_64(rest).to_be_bytes() != *checksum {
            return None;
        }
        let rest = &mut &*rest;
        if take(rest)? != MAGIC || u32::from_be_bytes(take(rest)?) != VERSION {
            return None;
        }
        let count = u32::from_be_bytes(take(rest)?);
        let mut numbers = [0; 6];
        for number in &mut numbers {
            *number = u64::from_be_bytes(take(rest)?);
        }
        let [id, length, first, end, oldest, newest] = numbers;
        let (mut blocks, mut at) = (Vec::new(), 0);
        for _ in 0..count {
            let bytes = u32::from_be_bytes(take(rest)?);
            let (offset, sequence) = (u64::from_be_bytes(take(rest)?), u64::from_be_bytes(take(rest)?));
            let group = (offset != NO_GROUP).then_some((offset, Sequence::new(sequence)));
            blocks.push(Block { at, bytes, group });
            at += u64::from(bytes);
        }
        let (first, end) = (Sequence::new(first), Sequence::new(end));
        rest.is_empty().then_some(Self { id, length, first, end, oldest, newest, blocks })
    }

    fn segment(&self, bytes: u64) -> ArchivedSegment {
        let stamp = |stamp: u64| (stamp > 0).then_some(stamp);
        let (oldest, newest) = (stamp(self.oldest), stamp(self.newest));
        ArchivedSegment { id: self.id, first: self.first, end: self.end, oldest, newest, bytes }
    }

    /// Returns the last known group at or before a transaction.
    fn place(&self, sequence: Sequence) -> Option<(u64, Sequence)> {
        let groups = self.blocks.iter().filter_map(|block| block.group);
        groups.take_while(|(_, first)| *first <= sequence).last()
    }
}

/// A segment that is read from its archived file.
#[derive(Debug)]
pub(crate) struct ArchivedFile<F> {
    file: F,
    footer: Arc<Footer>,
    /// The last block that was read, and its number.
    block: Mutex<Option<(usize, Vec<u8>)>>,
}

impl<F> ArchivedFile<F> {
    /// Returns the offset and the first sequence of a group at or shortly before a transaction.
    pub(crate) fn place(&self, sequence: Sequence) -> Option<(u64, Sequence)> {
        self.footer.place(sequence)
    }
}

impl<F: DiskFile> ArchivedFile<F> {
    fn read_block(&self, number: usize) -> io::Result<Vec<u8>> {
        let block = self.footer.blocks.get(number).ok_or(io::ErrorKind::UnexpectedEof)?;
        let begins = number as u64 * BLOCK_BYTES as u64;
        let length = usize::try_from((self.footer.length - begins).min(BLOCK_BYTES as u64)).unwrap_or(BLOCK_BYTES);
        let mut stored = vec![0; usize::try_from(block.bytes).unwrap_or(usize::MAX).min(BLOCK_BYTES)];
        if self.file.read_at(&mut stored, block.at)? != stored.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if stored.len() == length {
            return Ok(stored);
        }
        lz4_flex::block::decompress(&stored, length).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl<F: DiskFile> ReadAt for ArchivedFile<F> {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut cached = self.block.lock();
        let (mut rest, mut at, mut done) = (bytes, offset, 0);
        while !rest.is_empty() && at < self.footer.length {
            let number = usize::try_from(at / BLOCK_BYTES as u64).unwrap_or(usize::MAX);
            let within = usize::try_from(at % BLOCK_BYTES as u64).unwrap_or(usize::MAX);
            let block = match cached.take() {
                Some((known, block)) if known == number => block,
                _ => self.read_block(number)?,
            };
            let part = block.get(within..).unwrap_or_default();
            let count = part.len().min(rest.len());
            let (target, after) = rest.split_at_mut(count);
            target.copy_from_slice(part.get(..count).unwrap_or_default());
            *cached = Some((number, block));
            if count == 0 {
                break;
            }
            (rest, at, done) = (after, at + count as u64, done + count);
        }
        Ok(done)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.footer.length)
    }
}

fn archived_name(id: u64) -> String {
    format!("{id:016}{ARCHIVED}")
}

fn number_in(name: &str, ending: &str) -> Option<u64> {
    name.strip_suffix(ending)?.parse().ok()
}

impl<D: Disk> Archive<D> {
    /// Opens the archive in a folder. If the folder is empty, the archive begins with the transaction `next`. `oldest`
    /// is the oldest live segment; archived segments from it on are archived again when they are released.
    pub(crate) fn open(disk: D, next: Sequence, oldest: (u64, Sequence)) -> Result<Self, DiskError> {
        let names = disk.names().map_err(|error| DiskError::new("list", "the archive of the log", error))?;
        let removed = |name: &str| disk.remove(name).map_err(|error| DiskError::new("remove", name, error));
        let mut beginning = None;
        let mut ids = Vec::new();
        for name in &names {
            if let Some(id) = number_in(name, ARCHIVED).filter(|id| *id < oldest.0) {
                ids.push(id);
            } else if let Some(sequence) = number_in(name, BEGINNING) {
                beginning = beginning.max(Some(Sequence::new(sequence)));
            } else {
                removed(name)?;
            }
        }
        ids.sort_unstable();
        let mut segments: VecDeque<ArchivedSegment> = VecDeque::new();
        let mut expected = oldest;
        for id in ids.into_iter().rev() {
            let name = archived_name(id);
            let follows =
                |segment: &ArchivedSegment| segment.end <= expected.1 && id.checked_add(1) == Some(expected.0);
            match read_footer(&disk, &name).map(|(footer, bytes)| footer.segment(bytes)) {
                Ok(segment) if follows(&segment) => {
                    expected = (id, segment.first);
                    segments.push_front(segment);
                }
                other => {
                    let reason =
                        other.map_or_else(|error| error.to_string(), |_| "a later segment is missing".to_owned());
                    tracing::warn!(%name, %reason, "an archived segment of the log cannot be used and is removed; readers of the log can read only later transactions");
                    removed(&name)?;
                    // The earlier ones are no longer followed by this one.
                    expected = (0, Sequence::ZERO);
                }
            }
        }
        if beginning.is_none() {
            let name = format!("{next:020}{BEGINNING}", next = next.get());
            disk.create(&name).map_err(|error| DiskError::new("create", &name, error))?;
        }
        let beginning = beginning.unwrap_or(next);
        disk.sync_folder().map_err(|error| DiskError::new("sync", "the archive of the log", error))?;
        let contents = Contents { segments, ..Contents::default() };
        Ok(Self { disk, beginning, contents: Mutex::new(contents), holds: LogHolds::default() })
    }

    /// Returns whether an archive was begun in a folder.
    pub(crate) fn has_begun(disk: &D) -> Result<bool, DiskError> {
        let names = disk.names().map_err(|error| DiskError::new("list", "the archive of the log", error))?;
        Ok(names.iter().any(|name| number_in(name, BEGINNING).is_some()))
    }

    /// Returns the first transaction that may be read, if it is still kept.
    pub(crate) fn beginning(&self) -> Sequence {
        self.beginning
    }

    /// Returns the archived segments, from the oldest to the newest.
    pub(crate) fn segments(&self) -> Vec<ArchivedSegment> {
        self.contents.lock().segments.iter().copied().collect()
    }

    /// Returns the oldest archived segment.
    pub(crate) fn oldest(&self) -> Option<ArchivedSegment> {
        self.contents.lock().segments.front().copied()
    }

    /// Returns the archived segment that contains a transaction, or that is followed by skipped numbers of which it is
    /// one, and the first transaction of the following segment. `live` is the ID and the first transaction of the
    /// oldest live segment. The transaction lies before it.
    pub(crate) fn find(
        &self,
        sequence: Sequence,
        live: Option<(u64, Sequence)>,
    ) -> Option<(ArchivedSegment, Sequence)> {
        let contents = self.contents.lock();
        let after = contents.segments.partition_point(|segment| segment.first <= sequence);
        let found = contents.segments.get(after.checked_sub(1)?).copied()?;
        let next = contents.segments.get(after).map(|segment| (segment.id, segment.first)).or(live)?;
        (found.id.checked_add(1) == Some(next.0)).then_some((found, next.1))
    }

    /// Returns the size of all archived segments, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.contents.lock().segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Opens an archived segment. A reader may have it open while it is dropped.
    pub(crate) fn read(&self, segment: ArchivedSegment) -> Result<ArchivedFile<D::File>, OpenLogError> {
        let name = archived_name(segment.id);
        let file = self.disk.open_to_read(&name).map_err(|error| DiskError::new("open", &name, error))?;
        let known = self.contents.lock().footers.iter().find(|footer| footer.id == segment.id).cloned();
        if let Some(footer) = known {
            return Ok(ArchivedFile { file, footer, block: Mutex::default() });
        }
        let footer = Arc::new(read_footer(&self.disk, &name)?.0);
        let footers = &mut self.contents.lock().footers;
        footers.push_back(Arc::clone(&footer));
        if footers.len() > FOOTERS_MAX {
            footers.pop_front();
        }
        Ok(ArchivedFile { file, footer, block: Mutex::default() })
    }

    /// Compresses a live segment that the log is about to release. `next` is the header of the following segment.
    /// `pause` is called after each write with the time for which the thread must sleep to keep to the rate. If it
    /// returns false, this returns false and leaves nothing.
    ///
    /// Only one thread may add and drop segments.
    pub(crate) fn add(
        &self,
        log: &D,
        id: u64,
        next: &SegmentHeader,
        pause: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<bool, OpenLogError> {
        let newest = self.contents.lock().segments.back().copied();
        if newest.is_some_and(|newest| newest.id >= id) {
            return Ok(true);
        }
        let unfinished = format!("{id:016}{UNFINISHED}");
        let segment = self.compress(log, id, next, &unfinished, pause);
        let Some(segment) = segment.inspect_err(|_| self.remove_unfinished(&unfinished))? else {
            self.remove_unfinished(&unfinished);
            return Ok(false);
        };
        if newest.is_some_and(|newest| newest.id.checked_add(1) != Some(id)) {
            while self.drop_oldest()?.is_some() {}
        }
        self.contents.lock().segments.push_back(segment);
        Ok(true)
    }

    /// If this fails, the next attempt overwrites the file, or the next start removes it.
    fn remove_unfinished(&self, name: &str) {
        let _ = self.disk.remove(name);
    }

    fn compress(
        &self,
        log: &D,
        id: u64,
        next: &SegmentHeader,
        unfinished: &str,
        pause: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<Option<ArchivedSegment>, OpenLogError> {
        let mut reader = SegmentReader::open(log, id, READ_BYTES)?;
        let header = reader.header(id)?;
        let length = next.previous.offset;
        let failed = |doing, error| DiskError::new(doing, unfinished, error);
        let file = self.disk.create(unfinished).map_err(|error| failed("create", error))?;
        let mut target = Target { file, name: unfinished, end: 0, blocks: Vec::new() };
        let (mut oldest, mut newest, mut groups) = (0, 0, Vec::new());
        // What was read and is not written yet.
        let mut pending = header.encode().to_vec();
        let mut at = Position { end: header.beginning(), last: header.first.previous() };
        while at.end.offset < length {
            let Some(group) = reader.group(&header, at)? else {
                let what =
                    format!("it cannot be read at byte {}, so it is not archived and not released", at.end.offset);
                return Err(OpenLogError::damaged(&Name::Live(id).to_string(), what));
            };
            groups.push((at.end.offset, group.header.first));
            for record in format::records(group.body(), group.header.count) {
                newest = newest.max(record.header.stamp);
                if oldest == 0 {
                    oldest = record.header.stamp;
                }
            }
            pending.extend_from_slice(group.bytes);
            at = group.end(at);
            let whole = pending.len() - pending.len() % BLOCK_BYTES;
            for block in pending.drain(..whole).as_slice().chunks_exact(BLOCK_BYTES) {
                if !target.write(block, pause)? {
                    return Ok(None);
                }
            }
        }
        if !pending.is_empty() && !target.write(&pending, pause)? {
            return Ok(None);
        }
        let Target { file, end, mut blocks, .. } = target;
        for (offset, first) in groups {
            let block = usize::try_from(offset).unwrap_or(usize::MAX) / BLOCK_BYTES;
            if let Some(block) = blocks.get_mut(block) {
                block.group.get_or_insert((offset, first));
            }
        }
        let footer = Footer { id, length, first: header.first, end: at.last.next(), oldest, newest, blocks };
        let encoded = footer.encode();
        file.write_all_at(&encoded, end).map_err(|error| failed("write", error))?;
        file.sync_data().map_err(|error| failed("sync", error))?;
        let archived = archived_name(id);
        self.disk.rename(unfinished, &archived).map_err(|error| failed("rename", error))?;
        self.disk.sync_folder().map_err(|error| failed("sync the folder of", error))?;
        Ok(Some(footer.segment(end + encoded.len() as u64)))
    }

    /// Drops the oldest segment. Returns it, or `None` if there is none.
    pub(crate) fn drop_oldest(&self) -> Result<Option<ArchivedSegment>, DiskError> {
        // Remove it from the list first: readers then report that it was dropped.
        let oldest = {
            let mut contents = self.contents.lock();
            let Some(oldest) = contents.segments.pop_front() else { return Ok(None) };
            contents.footers.retain(|footer| footer.id != oldest.id);
            oldest
        };
        let name = archived_name(oldest.id);
        self.disk.remove(&name).map_err(|error| DiskError::new("remove", &name, error))?;
        Ok(Some(oldest))
    }

    /// Gives up a segment that cannot be read, and all earlier ones. Readers can continue after it.
    pub(crate) fn give_up(&self, unreadable: ArchivedSegment) {
        let mut contents = self.contents.lock();
        let count = contents.segments.partition_point(|segment| segment.id <= unreadable.id);
        let ids: Vec<_> = contents.segments.drain(..count).map(|segment| segment.id).collect();
        contents.footers.retain(|footer| footer.id > unreadable.id);
        contents.unreadable.extend(ids);
    }

    /// Removes the files of segments that were given up.
    pub(crate) fn remove_unreadable(&self) -> Result<(), DiskError> {
        loop {
            let Some(id) = self.contents.lock().unreadable.last().copied() else { return Ok(()) };
            let name = archived_name(id);
            match self.disk.remove(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(DiskError::new("remove", &name, error));
                }
                _ => self.contents.lock().unreadable.retain(|other| *other != id),
            }
        }
    }
}

/// A file to which blocks are written.
struct Target<'n, F> {
    file: F,
    name: &'n str,
    end: u64,
    /// The blocks so far, without their groups.
    blocks: Vec<Block>,
}

impl<F: DiskFile> Target<'_, F> {
    /// Compresses a block and writes it. Returns false if the caller must stop.
    fn write(&mut self, block: &[u8], pause: &mut dyn FnMut(Duration) -> bool) -> Result<bool, DiskError> {
        let compressed = lz4_flex::block::compress(block);
        let stored = if compressed.len() < block.len() { &compressed } else { block };
        let failed = |doing, error| DiskError::new(doing, self.name, error);
        self.file.write_all_at(stored, self.end).map_err(|error| failed("write", error))?;
        // A sync of the whole file at the end would delay the syncs of groups.
        self.file.sync_data().map_err(|error| failed("sync", error))?;
        let bytes = u32::try_from(stored.len()).unwrap_or(u32::MAX);
        self.blocks.push(Block { at: self.end, bytes, group: None });
        self.end += stored.len() as u64;
        let nanoseconds = (block.len() as u64).saturating_mul(1_000_000_000) / BYTES_PER_SECOND;
        Ok(pause(Duration::from_nanos(nanoseconds)))
    }
}

/// Returns a footer with fields that a fuzz target chose.
#[cfg(feature = "fuzzing")]
pub(crate) fn set_footer_hash(id: u64, fields: &[u8]) -> Vec<u8> {
    let rest = &mut &*fields;
    let mut numbers = [0; 5];
    for number in &mut numbers {
        *number = take(rest).map_or(0, u64::from_be_bytes);
    }
    let [length, first, end, oldest, newest] = numbers;
    let mut blocks = Vec::new();
    while let Some(bytes) = take(rest).map(u32::from_be_bytes) {
        let mut number = || take(rest).map_or(NO_GROUP, u64::from_be_bytes);
        let (offset, sequence) = (number(), number());
        blocks.push(Block { at: 0, bytes, group: (offset != NO_GROUP).then_some((offset, Sequence::new(sequence))) });
    }
    let (first, end) = (Sequence::new(first), Sequence::new(end));
    Footer { id, length, first, end, oldest, newest, blocks }.encode()
}

fn read_footer<D: Disk>(disk: &D, name: &str) -> Result<(Footer, u64), OpenLogError> {
    let file = disk.open_to_read(name).map_err(|error| DiskError::new("open", name, error))?;
    let length = file.length().map_err(|error| DiskError::new("read the length of", name, error))?;
    let damaged = || OpenLogError::damaged(name, "its footer cannot be read");
    let read = |at: Option<u64>, bytes: usize| {
        let mut buffer = vec![0; bytes];
        let count = file.read_at(&mut buffer, at.ok_or_else(damaged)?);
        let count = count.map_err(|error| DiskError::new("read", name, error))?;
        if count == bytes { Ok(buffer) } else { Err(damaged()) }
    };
    let field_at = length.checked_sub(FOOTER_LENGTH_BYTES as u64);
    let field = read(field_at, FOOTER_LENGTH_BYTES)?;
    let bytes = field.first_chunk().map_or(0, |field| u32::from_be_bytes(*field));
    let footer_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if footer_bytes > FOOTER_BYTES_MAX {
        return Err(damaged());
    }
    let footer = read(field_at.and_then(|end| end.checked_sub(u64::from(bytes))), footer_bytes)?;
    let footer = Footer::decode(&footer).ok_or_else(damaged)?;
    let blocks_end = footer.blocks.last().map_or(0, |block| block.at + u64::from(block.bytes));
    let is_whole = archived_name(footer.id) == name && Some(blocks_end + u64::from(bytes)) == field_at;
    if is_whole { Ok((footer, length)) } else { Err(damaged()) }
}
