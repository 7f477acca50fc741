//! Makes the pages of queries end at a partition boundary, cuts them short, or makes them empty with a continuation
//! token.
//!
//! A page that follows another page usually begins with an entity, because the scan looks ahead. To allow an empty page
//! in between, the token names the position immediately after the last entity of the page: its row key followed by
//! U+0000, which no key contains. Each empty page adds one more of these characters. Every token's position is
//! therefore after the previous one but not after the next entity, and the number of these characters limits the number
//! of empty pages.
//!
//! At a boundary between partition servers, the token is the start of the next partition and has no row key. At most
//! one empty page precedes it, as if the rest of the server's range contained no results.
//!
//! This module must not depend on the format of a token.

use super::settings::Share;
use super::{LOG, Rehearsal};
use engine::{BoxedSink, Engine, EngineExt, EntitySink, Order, ReadError, Scan, ScanEnd, SinkDecision, TableKey};
use model::limits::REHEARSAL_EMPTY_PAGES_MAX;
use model::{EntityView, KeyRange, Position};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use tracing::debug;

/// The maximum number of times that a page is halved. A page of 1,000 entities can shrink to a page of one.
const HALVINGS_MAX: u32 = 10;
/// Follows the row key in a position immediately after an entity.
const AFTER: char = '\0';

impl Rehearsal {
    /// Scans one page as the engine does, but may end it earlier than the engine would.
    pub(super) async fn scan(
        &self,
        engine: &dyn Engine,
        table: &TableKey,
        mut scan: Scan,
        sink: BoxedSink,
    ) -> Result<(BoxedSink, ScanEnd), ReadError> {
        // A position in the order of an index says nothing about partitions. In descending order of keys, a position
        // does not name the place between two entities, so no page is empty or ends between partitions.
        if scan.limit == 0 || scan.order != Order::KEYS {
            if scan.limit > 0 && scan.order.is_of_keys() {
                scan.limit = self.page_limit(scan.limit);
            }
            return engine.scan_boxed(table, scan, sink).await;
        }
        let is_empty = may_be_empty(scan.from.as_ref()) && self.empty_pages.hits(self.settings.empty_pages);
        if !is_empty {
            scan.limit = self.page_limit(scan.limit);
        }
        let (from, last) = (scan.from.clone(), scan.ranges.last().cloned());
        let sink = PageSink {
            inner: sink,
            is_closed: is_empty,
            boundaries: PartitionBoundaries { share: self.settings.partition_pages, seed: self.seed },
            partition_before: from.as_ref().and_then(partition_before),
            last_taken: None,
        };
        let (sink, end) = engine.scan(table, scan, sink).await?;
        let start = end.next.as_ref().and_then(|next| sink.start_at_boundary(next));
        let next = match (start, &sink.last_taken) {
            (Some(_), Some(last)) if self.empty_pages.hits(self.settings.empty_pages) => Some(last.position_after()),
            (Some(start), _) => Some(start),
            (None, _) if is_empty => end.next.map(|next| from.as_ref().and_then(position_after).unwrap_or(next)),
            (None, last_taken) => self.next_of_page(end.next, last_taken.as_ref(), last.as_ref()),
        };
        debug!(
            target: LOG,
            table = %table.name, is_empty, taken = end.accepted, has_token = next.is_some(), "the page was changed by the rehearsal"
        );
        Ok((sink.inner, ScanEnd { next, ..end }))
    }

    /// `last` is the query's last key range.
    fn next_of_page(
        &self,
        next: Option<Position>,
        last_taken: Option<&LastAccepted>,
        last: Option<&KeyRange>,
    ) -> Option<Position> {
        let share = self.settings.empty_pages;
        let after = last_taken.filter(|_| !share.is_none()).map(LastAccepted::position_after);
        match (next, after) {
            (Some(next), None) => Some(next),
            (Some(_), Some(after)) => Some(after),
            // One more page, which will be empty. A token never names a position outside the key range of the
            // credential.
            (None, Some(after)) if last.is_some_and(|range| is_before_end(&after, range)) => {
                self.empty_pages.hits(share).then_some(after)
            }
            (None, _) => None,
        }
    }

    /// Returns the maximum number of results for a page that could contain up to `limit` results. Small pages are as
    /// likely as large ones.
    fn page_limit(&self, limit: usize) -> usize {
        if !self.short_pages.hits(self.settings.short_pages) {
            return limit;
        }
        let halvings = self.short_pages.draw(|rng| rng.u32(1..=HALVINGS_MAX));
        (limit >> halvings).max(1)
    }

    /// Returns the maximum number of tables for a page that could contain up to `limit` tables. Only the first page may
    /// be empty.
    pub(super) fn table_page_limit(&self, limit: usize, is_first: bool) -> usize {
        if is_first && self.empty_pages.hits(self.settings.empty_pages) {
            return 0;
        }
        self.page_limit(limit)
    }
}

/// Returns true if the position is certainly before the next entity, so that an empty page makes progress.
fn may_be_empty(from: Option<&Position>) -> bool {
    from.is_none_or(|from| (1..=REHEARSAL_EMPTY_PAGES_MAX).contains(&marks(from)))
}

fn marks(position: &Position) -> usize {
    position.keys().map_or(0, |keys| keys.row.chars().rev().take_while(|c| *c == AFTER).count())
}

/// Returns the partition that an earlier page read to its end, or to a position at which it may continue.
fn partition_before(from: &Position) -> Option<String> {
    from.keys().filter(|_| marks(from) > 0).map(|keys| keys.partition.into_owned())
}

/// Returns the position after the given one and before the next entity, or `None` if the given position may be that of
/// an entity.
fn position_after(position: &Position) -> Option<Position> {
    let keys = position.keys().filter(|_| marks(position) > 0)?;
    Some(Position::new(&keys.partition, &format!("{}{AFTER}", keys.row)))
}

fn is_before_end(position: &Position, range: &KeyRange) -> bool {
    range.end.as_ref().is_none_or(|end| position.as_bytes() < end.as_slice())
}

/// The boundaries between partition servers. They are at the same partitions in every query.
#[derive(Debug, Clone, Copy)]
struct PartitionBoundaries {
    share: Share,
    seed: u64,
}

impl PartitionBoundaries {
    fn begins(self, partition: &str) -> bool {
        let hash: u64 = BuildHasherDefault::<DefaultHasher>::default().hash_one((self.seed, partition));
        // The upper half of the hash.
        !self.share.is_none() && self.share.includes(u32::try_from(hash >> 32).unwrap_or_default())
    }
}

struct PageSink {
    inner: BoxedSink,
    is_closed: bool,
    boundaries: PartitionBoundaries,
    /// The partition of the last entity before this page, if the token names it.
    partition_before: Option<String>,
    last_taken: Option<LastAccepted>,
}

impl PageSink {
    /// Returns true if a partition server ends between the previous entity and this partition.
    fn is_boundary(&self, partition: &str) -> bool {
        let last = self.last_taken.as_ref().map(|last| last.partition.as_str()).or(self.partition_before.as_deref());
        last.is_some_and(|last| last != partition) && self.boundaries.begins(partition)
    }

    /// Returns the start of the next partition if the page ended where a partition server ends.
    fn start_at_boundary(&self, next: &Position) -> Option<Position> {
        let partition = next.keys()?.partition;
        self.is_boundary(&partition).then(|| Position::start_of_partition(&partition))
    }
}

#[derive(Debug, Default)]
struct LastAccepted {
    partition: String,
    row: String,
}

impl LastAccepted {
    fn position_after(&self) -> Position {
        Position::new(&self.partition, &format!("{}{AFTER}", self.row))
    }
}

impl EntitySink for PageSink {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        let partition = &*entity.key.partition;
        if self.is_closed || self.is_boundary(partition) {
            return SinkDecision::Refused;
        }
        let intake = self.inner.entity(entity);
        if intake != SinkDecision::Refused {
            let last = self.last_taken.get_or_insert_default();
            if last.partition != partition {
                last.partition.replace_range(.., partition);
            }
            last.row.replace_range(.., &entity.key.row);
        }
        intake
    }
}
