//! Reads a log and decides what counts: the one rule of recovery. Changes nothing.

use crate::log::disk::{Disk, DiskFile};
use crate::log::errors::{DiskError, OpenLogError};
use crate::log::format::{self, Record, SegmentHeader};
use crate::log::group::Group;
use crate::log::reading::{Rest, SegmentReader};
use crate::log::segments::{LiveSegment, Name};
use crate::log::tail::Position;
use crate::sequence::Sequence;
use std::collections::VecDeque;

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
