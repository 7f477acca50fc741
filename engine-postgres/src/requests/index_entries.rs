//! Reads the entries of an index: in ranges, or in the order of a list, in which the entries of all types of numbers
//! are merged.
//!
//! Invariant: at most [`CHUNK_ENTRIES_MAX`] entries of each type are held, so memory is bounded.

use crate::connections::pool::Lease;
use crate::connections::rows::{column, read};
use crate::layout::{DatabaseTableId, EntryColumns};
use crate::requests::scan_part::fault_of;
use crate::statements;
use engine::ReadError;
use engine::parts::index::{HIT_BYTES_MAX, HITS_MAX, hits, key_of_entry};
use model::KeyRange;
use model::index::{OrderedGroup, compare_entries};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::vec;
use tokio_postgres::types::ToSql;

pub(crate) const CHUNK_ENTRIES_MAX: usize = 1024;

/// An index that is read over one connection.
pub(crate) struct IndexReader<'l> {
    pub(crate) lease: &'l Lease,
    pub(crate) table: DatabaseTableId,
    pub(crate) index: i64,
    pub(crate) is_descending: bool,
}

impl IndexReader<'_> {
    /// Takes at most `limit` entries from the beginning of a range. Returns `None` for the rest if nothing is left.
    async fn take(&self, range: KeyRange, limit: usize) -> Result<(Vec<Vec<u8>>, Option<KeyRange>), ReadError> {
        let KeyRange { start, end } = range;
        // No type has this number.
        let end = end.unwrap_or_else(|| vec![u8::MAX]);
        let (from, to) = (EntryColumns::new(self.table, &start), EntryColumns::new(self.table, &end));
        let sql = if self.is_descending { statements::ENTRIES_BETWEEN_DESCENDING } else { statements::ENTRIES_BETWEEN };
        let asked = i64::try_from(limit).unwrap_or(i64::MAX);
        let values: [&(dyn ToSql + Sync); 8] =
            [&self.index, &from.value, &from.partition, &from.row, &to.value, &to.partition, &to.row, &asked];
        let rows = read(self.lease, sql, &values).await.map_err(fault_of)?;
        let mut entries = Vec::with_capacity(rows.len());
        for row in &rows {
            let part = |index| column(row, index).map_err(ReadError::Fault);
            entries.push(EntryColumns { value: part(0)?, partition: part(1)?, row: part(2)? }.into_entry());
        }
        let rest = entries.last().filter(|_| entries.len() >= limit).map(|last| {
            if self.is_descending {
                KeyRange { start, end: Some(last.clone()) }
            } else {
                KeyRange { start: [last.as_slice(), &[0]].concat(), end: Some(end) }
            }
        });
        Ok((entries, rest))
    }

    /// Collects the keys of the entities that have entries in the ranges and lie in ranges of keys, in the order of the
    /// scan. Returns `None` if there are too many entries.
    pub(crate) async fn hits(
        &self,
        ranges: Vec<KeyRange>,
        key_ranges: &[KeyRange],
        is_descending: bool,
    ) -> Result<Option<Vec<Vec<u8>>>, ReadError> {
        let (mut entries, mut count, mut bytes) = (Vec::new(), 0, 0);
        for range in ranges {
            let mut rest = Some(range);
            while let Some(range) = rest {
                let (chunk, after) = self.take(range, CHUNK_ENTRIES_MAX).await?;
                rest = after;
                count += chunk.len();
                let is_inside =
                    |entry: &Vec<u8>| key_of_entry(entry).is_some_and(|key| KeyRange::any_contains(key_ranges, key));
                entries.extend(chunk.into_iter().filter(is_inside).inspect(|entry| bytes += entry.len()));
                // The values need memory too, although they do not count as hits.
                if count > HITS_MAX || bytes > 4 * HIT_BYTES_MAX {
                    return Ok(None);
                }
            }
        }
        hits(entries.into_iter().map(Ok), key_ranges, is_descending)
    }
}

/// The entries of an index in the order of a list.
pub(crate) struct OrderedEntries {
    groups: vec::IntoIter<OrderedGroup>,
    streams: Vec<Stream>,
}

/// The entries of one type.
#[derive(Default)]
struct Stream {
    ranges: VecDeque<KeyRange>,
    entries: VecDeque<Vec<u8>>,
}

impl Stream {
    async fn fill(&mut self, reader: &IndexReader<'_>, limit: usize) -> Result<(), ReadError> {
        while self.entries.is_empty()
            && let Some(range) = self.ranges.pop_front()
        {
            let (entries, rest) = reader.take(range, limit).await?;
            self.entries.extend(entries);
            if let Some(rest) = rest {
                self.ranges.push_front(rest);
            }
        }
        Ok(())
    }
}

impl OrderedEntries {
    pub(crate) fn new(groups: Vec<OrderedGroup>) -> Self {
        Self { groups: groups.into_iter(), streams: Vec::new() }
    }

    /// Returns the next entry. If entries must be read, reads at most `limit` of each type.
    pub(crate) async fn next(&mut self, reader: &IndexReader<'_>, limit: usize) -> Result<Option<Vec<u8>>, ReadError> {
        let wanted = if reader.is_descending { Ordering::Greater } else { Ordering::Less };
        loop {
            for stream in &mut self.streams {
                stream.fill(reader, limit.clamp(1, CHUNK_ENTRIES_MAX)).await?;
            }
            let streams = self.streams.iter_mut().filter(|stream| !stream.entries.is_empty());
            let first = streams.reduce(|a, b| {
                let is_before = match (a.entries.front(), b.entries.front()) {
                    (Some(a), Some(b)) => compare_entries(b, a) == wanted,
                    _ => false,
                };
                if is_before { b } else { a }
            });
            if let Some(stream) = first {
                return Ok(stream.entries.pop_front());
            }
            let Some(group) = self.groups.next() else { return Ok(None) };
            let stream = |ranges: Vec<KeyRange>| Stream { ranges: ranges.into(), ..Stream::default() };
            self.streams = group.into_iter().map(stream).collect();
        }
    }
}
