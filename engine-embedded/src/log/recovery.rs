//! Opens a log, or checks it without changing it.
//!
//! Both first read everything and decide what a crash left ([`judge`]). Unless the log was shut down cleanly, opening
//! then begins a new segment. Its header names the end that is certainly on disk, so the remains behind that end can
//! never be revived; and it contains again the groups that were found behind it. These may only be in the page cache,
//! if the process was killed, and even a sync would not help if an earlier sync of the file had failed.

use crate::log::disk::{Disk, DiskFile, ReadAt};
use crate::log::errors::{DiskError, OpenLogError};
use crate::log::format::{self, Record, SegmentEnd, SegmentHeader};
use crate::log::group::Group;
use crate::log::options::Options;
use crate::log::segment_reader::{Rest, SegmentReader};
use crate::log::segments::{BegunSegment, Files, LiveSegment, Name, NextSegment, SegmentFile, Segments};
use crate::log::tail::Position;
use crate::log::writer::Writer;
use crate::sequence::Sequence;
use std::collections::VecDeque;

const FIRST_ID: u64 = 1;
const FIRST_EPOCH: u64 = 1;

/// What the caller knows about the log that it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Transactions up to this one are stored elsewhere, and were synced in the log before. A new log continues from
    /// here.
    pub(crate) persisted: Sequence,
    /// Whether the log may be missing, because this is the first start. Otherwise, a missing log is damage.
    pub(crate) may_be_missing: bool,
}

/// What was found when a log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// The last transaction of the log. All of it is on disk.
    pub(crate) last: Sequence,
    /// Whether the log was shut down cleanly, or is new.
    pub(crate) is_clean: bool,
    /// The end of the log, if something follows that was ignored: an incomplete write, or remains of an earlier use of
    /// the file.
    pub(crate) cut: Option<Cut>,
    /// The number of transactions that were written again because they might not have been on disk.
    pub(crate) rewritten: u64,
}

/// The place where a log ends although its segment continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) segment: u64,
    /// In bytes from the beginning of the segment.
    pub(crate) offset: u64,
}

impl Judged {
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.has_remains.then_some(Cut { segment: self.header.id, offset: self.end.end.offset })
    }

    /// Whether the last segment contains nothing. A clean shutdown leaves such a segment.
    pub(crate) fn is_clean(&self) -> bool {
        self.end.end == self.header.beginning() && !self.has_remains
    }
}

/// Opens a log and passes every record after the persisted ones to `visit`.
///
/// The records count only if this succeeds; until then, `visit` must not change anything on disk. After a failure,
/// nothing acknowledged is lost, and the log can be opened again.
pub(crate) fn open<D: Disk>(
    disk: D,
    options: Options,
    known: Known,
    visit: Visitor<'_>,
) -> Result<(Writer<D>, Recovered), OpenLogError> {
    let reading = Reading { persisted: Some(known.persisted), everything: false };
    let judged = judge(&disk, options.read_bytes, reading, visit)?;
    if judged.is_none() && !known.may_be_missing {
        return Err(OpenLogError::damaged("", "there is no segment"));
    }
    // After a kill, names may be visible that are not on disk.
    disk.sync_folder().map_err(|error| DiskError::new("sync", "the folder of the log", error))?;
    let files = Files { spares: spares(&disk, &options)?, ..Files::default() };
    let (writer, recovered) = match judged {
        Some(judged) => continue_log(disk, options, files, judged)?,
        None => begin_log(disk, options, files, known.persisted)?,
    };
    Ok((writer, recovered))
}

fn begin_log<D: Disk>(
    disk: D,
    options: Options,
    files: Files,
    persisted: Sequence,
) -> Result<(Writer<D>, Recovered), DiskError> {
    let segments = Segments::new(disk, options, files);
    let begun = segments.begin(NextSegment {
        id: FIRST_ID,
        epoch: FIRST_EPOCH,
        first: persisted.next(),
        previous: SegmentEnd::NONE,
        skipped: 0,
        groups: &mut [],
        file: SegmentFile::New,
    })?;
    let recovered = Recovered { last: persisted, is_clean: true, cut: None, rewritten: 0 };
    Ok((Writer::new(segments, begun), recovered))
}

fn continue_log<D: Disk>(
    disk: D,
    options: Options,
    mut files: Files,
    mut judged: Judged,
) -> Result<(Writer<D>, Recovered), DiskError> {
    let recovered = Recovered {
        last: judged.end.last,
        is_clean: judged.is_clean(),
        cut: judged.cut(),
        rewritten: judged.end.last.get() - judged.certain.last.get(),
    };
    files.live = std::mem::take(&mut judged.segments);
    if recovered.is_clean {
        let name = Name::Live(judged.header.id).to_string();
        let file = disk.open(&name).map_err(|error| DiskError::new("open", &name, error))?;
        let length = file.length().map_err(|error| DiskError::new("read the length of", &name, error))?;
        let is_growing = length < options.segment_bytes;
        let begun =
            BegunSegment { file, header: judged.header, is_growing, end: judged.end.end, last: judged.end.last };
        return Ok((Writer::new(Segments::new(disk, options, files), begun), recovered));
    }
    let from = judged.certain;
    let rewrites = !judged.uncertain.is_empty();
    let segments = Segments::new(disk, options, files);
    let begun = segments.begin(NextSegment {
        id: judged.header.id.saturating_add(1),
        epoch: judged.header.epoch,
        first: from.last.next(),
        previous: from.end,
        skipped: 0,
        groups: &mut judged.uncertain,
        // A shutdown leaves an empty segment as it is, and it must not take the disk space of a whole file.
        file: if rewrites { SegmentFile::SpareOrNew } else { SegmentFile::New },
    })?;
    Ok((Writer::new(segments, begun), recovered))
}

/// Returns the names of the files that can be reused, and deletes those that cannot or are too many.
fn spares<D: Disk>(disk: &D, options: &Options) -> Result<Vec<String>, DiskError> {
    let mut spares = Vec::new();
    for name in disk.names().map_err(|error| DiskError::new("list", "the folder of the log", error))? {
        let may_be_spare = match Name::parse(&name) {
            Some(Name::Free(_)) => true,
            Some(Name::Prepared(_)) => false,
            Some(Name::Live(_)) | None => continue,
        };
        let length = disk.open_to_read(&name).and_then(|file| file.length());
        let length = length.map_err(|error| DiskError::new("open", &name, error))?;
        if may_be_spare && length >= options.segment_bytes && spares.len() < options.spares_max {
            spares.push(name);
        } else {
            disk.remove(&name).map_err(|error| DiskError::new("remove", &name, error))?;
        }
    }
    Ok(spares)
}

/// Receives each record in order. An error describes why the payload cannot be what was written, and the log is then
/// damaged.
pub(crate) type Visitor<'v> = &'v mut dyn FnMut(&Record<'_>) -> Result<(), String>;

/// What the caller knows about the log, and how much of it must be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Transactions up to this one are stored elsewhere, were synced in the log before, and are not visited. If
    /// unknown, all are visited.
    pub(crate) persisted: Option<Sequence>,
    /// Whether segments are read in which every transaction is persisted. Otherwise, only their headers are.
    pub(crate) everything: bool,
}

#[derive(Debug)]
pub(crate) struct Judged {
    /// From the oldest to the last one. There is at least one.
    pub(crate) segments: VecDeque<LiveSegment>,
    pub(crate) header: SegmentHeader,
    /// The end of the log, in the last segment.
    pub(crate) end: Position,
    /// Everything before it is certainly on disk.
    pub(crate) certain: Position,
    /// The groups between `certain` and `end`.
    pub(crate) uncertain: Vec<Group>,
    /// Whether bytes follow the end that are not zero.
    pub(crate) has_remains: bool,
    pub(crate) transactions_read: u64,
}

/// `read_bytes` is the number of bytes that are read at a time. Returns `None` if there is no segment.
pub(crate) fn judge<D: Disk>(
    disk: &D,
    read_bytes: usize,
    reading: Reading,
    visit: Visitor<'_>,
) -> Result<Option<Judged>, OpenLogError> {
    let ids = live_ids(disk)?;
    let mut headers = Vec::with_capacity(ids.len());
    for id in &ids {
        headers.push(SegmentReader::open(disk, *id, format::SEGMENT_HEADER_BYTES)?.header(*id)?);
    }
    let Some(oldest) = headers.first() else { return Ok(None) };
    if let Some(persisted) = reading.persisted
        && oldest.first > persisted.next()
    {
        let what = format!(
            "it begins with transaction {}, but only transactions through {persisted} are stored elsewhere",
            oldest.first
        );
        return Err(OpenLogError::damaged(&Name::Live(oldest.id).to_string(), what));
    }
    check_order(&headers)?;
    let mut judge = Judge { reading, visit, transactions: 0 };
    for pair in headers.windows(2) {
        let [header, next] = pair else { continue };
        if reading.everything || next.first.previous() > reading.persisted.unwrap_or_default() {
            judge.sealed_segment(SegmentReader::open(disk, header.id, read_bytes)?, header, next)?;
        }
    }
    let segments =
        headers.iter().map(|header| LiveSegment { id: header.id, first: header.first, has_failed: false }).collect();
    let Some(last) = headers.pop() else { return Ok(None) };
    let reader = SegmentReader::open(disk, last.id, read_bytes)?;
    judge.last_segment(reader, last, segments).map(Some)
}

/// Returns the IDs of the live segments, which have no gap.
fn live_ids<D: Disk>(disk: &D) -> Result<Vec<u64>, OpenLogError> {
    let names = disk.names().map_err(|error| DiskError::new("list", "the folder of the log", error))?;
    let live = names.iter().filter_map(|name| match Name::parse(name) {
        Some(Name::Live(id)) => Some(id),
        _ => None,
    });
    let mut ids: Vec<_> = live.collect();
    ids.sort_unstable();
    for pair in ids.windows(2) {
        if let [id, next] = pair
            && id.checked_add(1) != Some(*next)
        {
            let missing = Name::Live(id.saturating_add(1));
            return Err(OpenLogError::damaged(&missing.to_string(), "it is missing, although a later segment exists"));
        }
    }
    Ok(ids)
}

fn check_order(headers: &[SegmentHeader]) -> Result<(), OpenLogError> {
    for pair in headers.windows(2) {
        if let [header, next] = pair
            && (next.first < header.first || next.epoch < header.epoch)
        {
            let what = format!("it begins with transaction {}, before the preceding segment", next.first);
            return Err(OpenLogError::damaged(&Name::Live(next.id).to_string(), what));
        }
    }
    Ok(())
}

struct Judge<'v> {
    reading: Reading,
    visit: Visitor<'v>,
    transactions: u64,
}

impl Judge<'_> {
    /// Reads a segment whose end the next segment names.
    fn sealed_segment<F: DiskFile>(
        &mut self,
        mut reader: SegmentReader<F>,
        header: &SegmentHeader,
        next: &SegmentHeader,
    ) -> Result<(), OpenLogError> {
        let name = reader.name().to_owned();
        let mut at = Position { end: header.beginning(), last: header.first.previous() };
        while at.end.offset < next.previous.offset {
            let Some(group) = reader.group(header, at)? else {
                let what = format!(
                    "it cannot be read at byte {at}, before the end at byte {} that the next segment names; the first \
                     missing transaction is {}; to accept the loss of this and all later transactions, delete the \
                     later segments and truncate this one to {at} bytes",
                    next.previous.offset,
                    at.last.next(),
                    at = at.end.offset
                );
                return Err(OpenLogError::damaged(&name, what));
            };
            let end = group.end(at);
            self.visit_group(&name, group.header.count, group.body())?;
            at = end;
        }
        if at.end == next.previous && at.last.next().plus(next.skipped) == next.first {
            return Ok(());
        }
        let what = format!("its contents up to byte {} are not those that the next segment continues", at.end.offset);
        Err(OpenLogError::damaged(&name, what))
    }

    /// Reads the segment whose tail a crash may have damaged.
    fn last_segment<F: DiskFile>(
        &mut self,
        mut reader: SegmentReader<F>,
        header: SegmentHeader,
        segments: VecDeque<LiveSegment>,
    ) -> Result<Judged, OpenLogError> {
        let name = reader.name().to_owned();
        let persisted = self.reading.persisted.unwrap_or_default();
        let mut end = Position { end: header.beginning(), last: header.first.previous() };
        let mut certain = end;
        let mut uncertain: VecDeque<(Group, Position)> = VecDeque::new();
        while let Some(group) = reader.group(&header, end)? {
            end = group.end(end);
            let synced_through = group.header.synced_through.max(persisted);
            uncertain.push_back((Group::from_segment(&group.header, group.bytes), end));
            self.visit_group(&name, group.header.count, group.body())?;
            while uncertain.front().is_some_and(|(_, end)| end.last <= synced_through) {
                certain = uncertain.pop_front().map_or(certain, |(_, end)| end);
            }
        }
        let missing = end.last.next();
        if end.last < persisted {
            let what =
                format!("it ends with transaction {}, but transactions through {persisted} were synced", end.last);
            return Err(OpenLogError::damaged(&name, what));
        }
        let rest = reader.rest(&header, end.end.offset, missing)?;
        if let Rest::Evidence(offset) = rest {
            let what = format!(
                "it cannot be read at byte {at}, but a later group at byte {offset} proves that transaction {missing} \
                 had been synced; to accept the loss of this and all later transactions, truncate it to {at} bytes",
                at = end.end.offset
            );
            return Err(OpenLogError::damaged(&name, what));
        }
        Ok(Judged {
            segments,
            header,
            end,
            certain,
            uncertain: uncertain.into_iter().map(|(group, _)| group).collect(),
            has_remains: rest == Rest::Remains,
            transactions_read: self.transactions,
        })
    }

    fn visit_group(&mut self, name: &str, count: u32, body: &[u8]) -> Result<(), OpenLogError> {
        for record in format::records(body, count) {
            self.transactions += 1;
            if record.header.sequence > self.reading.persisted.unwrap_or_default() {
                (self.visit)(&record).map_err(|what| OpenLogError::damaged(name, what))?;
            }
        }
        Ok(())
    }
}

/// What a log contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inspected {
    pub(crate) last: Sequence,
    /// The number of transactions in all segments, with those that are persisted elsewhere.
    pub(crate) transactions: u64,
    /// Whether the log was shut down cleanly.
    pub(crate) is_clean: bool,
    /// Where opening the log would cut off an incomplete write.
    pub(crate) cut: Option<Cut>,
}

/// Reads all segments, and passes every record after the persisted ones to `visit`. Returns `None` if there is no
/// segment. Without `persisted`, a log that ends too early may look complete.
pub(crate) fn inspect<D: Disk>(
    disk: &D,
    read_bytes: usize,
    persisted: Option<Sequence>,
    visit: Visitor<'_>,
) -> Result<Option<Inspected>, OpenLogError> {
    let judged = judge(disk, read_bytes, Reading { persisted, everything: true }, visit)?;
    Ok(judged.map(|judged| Inspected {
        last: judged.end.last,
        transactions: judged.transactions_read,
        is_clean: judged.is_clean(),
        cut: judged.cut(),
    }))
}
