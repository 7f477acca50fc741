//! Builds a page from the entities that an engine visits in the order of the scan: expiry, filter, count limit,
//! look-ahead, deadline and cancellation. Every engine builds its pages here, so all pages end in the same way.
//!
//! Invariants:
//!
//! 1. At least one entity is examined or passed before the deadline is checked, so a chain of pages always ends.
//! 2. An entity that cannot be read is an error; it is never skipped. Of an entity that the filter refuses, only what
//!    decides is read: often a few properties, and not the key.
//!
//! The change feed of the server, whose rows no engine stores, builds its pages here, too.
//!
//! This module must not know where the entities are stored.

use crate::contract::{EntitySink, Fault, Scan, ScanEnd, SinkDecision};
use crate::parts::cancellation::Cancellation;
use crate::parts::monotonic;
use model::plan::EntityFilter;
use model::{DateTime, EntityView, Expiry, IndexedProperty, KeyRange, Position, StoredEntity};
use std::ops::ControlFlow;
use std::time::Instant;

/// The maximum number of entities and KiB of records, added up, that are examined between two checks of the deadline. A
/// long filter can take half a second for an entity with a long string, which `contains` may search many times.
const WORK_BETWEEN_CHECKS: usize = 64;

/// Returns the non-empty parts of the ranges of a scan in key order from the scan's position on. They are ascending; a
/// descending scan visits the last one first.
pub fn ranges_to_visit(scan: &Scan) -> Vec<KeyRange> {
    let from_position = |range: &KeyRange| match &scan.from {
        Some(position) if scan.order.is_descending() => range.up_to_position(position),
        Some(position) => range.from_position(position),
        None => range.clone(),
    };
    scan.ranges.iter().map(from_position).filter(|range| !range.is_empty()).collect()
}

/// The maximum number of entities and KiB of records, added up, in the first part of a small page, which takes about as
/// long as a few gets. The entity that exceeds the bound belongs to the rest, unless it is the first one.
pub const FIRST_PART_WORK_MAX: usize = 64;
/// The maximum number of entities in a small page, so that a page of entities of 1 KiB fits into its first part.
const SMALL_PAGE_ENTITIES_MAX: usize = FIRST_PART_WORK_MAX / 2;
/// The maximum number of key ranges in a small page. All of them may be empty, and looking for that counts as no work.
const SMALL_PAGE_RANGES_MAX: usize = 8;

/// Returns whether a scan visits only a few known keys.
pub fn has_few_keys(scan: &Scan) -> bool {
    has_few_ranges(scan) && scan.ranges.iter().all(KeyRange::is_point)
}

fn has_few_ranges(scan: &Scan) -> bool {
    scan.order.is_of_keys() && scan.ranges.len() <= SMALL_PAGE_RANGES_MAX
}

/// Returns whether the page of a scan has few entities. Its filter may refuse many others. `has_indexes` tells whether
/// the table has some: with one, thousands of its entries may be read before the first entity.
pub fn has_few_entities(scan: &Scan, has_indexes: impl FnOnce() -> bool) -> bool {
    has_few_ranges(scan) && scan.limit <= SMALL_PAGE_ENTITIES_MAX && (scan.filter.is_none() || !has_indexes())
}

/// Returns the work of visiting an entity: 1, and the number of KiB of its record.
pub fn work_of(record: &[u8]) -> usize {
    1 + record.len() / 1024
}

/// Builds a page from the entities that an engine visits in the order of the scan.
pub struct PageBuilder<S> {
    sink: S,
    filter: Option<EntityFilter>,
    expiry: Expiry,
    limit: usize,
    deadline: Instant,
    cancellations: Vec<Cancellation>,
    accepted: usize,
    examined: u64,
    passed: u64,
    /// The number of entities and KiB of records examined or passed since the last check of the deadline.
    unchecked: usize,
    /// Whether the page is full, so that the scan only looks for the next match.
    full: bool,
    next: Option<Position>,
    earliest_expiry: Option<DateTime>,
    index: Option<IndexedProperty>,
}

impl<S: EntitySink> PageBuilder<S> {
    /// Creates an empty page. `expiry` decides what is visible. The page ends early when one of the cancellations is
    /// triggered.
    pub fn new(scan: Scan, expiry: Expiry, sink: S, cancellations: Vec<Cancellation>) -> Self {
        let range_count = scan.ranges.len();
        Self {
            sink,
            filter: scan.filter.map(|filter| EntityFilter::new(filter, range_count)),
            expiry,
            limit: scan.limit,
            deadline: scan.deadline,
            cancellations,
            accepted: 0,
            examined: 0,
            passed: 0,
            unchecked: 0,
            full: scan.limit == 0,
            next: None,
            earliest_expiry: None,
            index: None,
        }
    }

    /// Records that the entities are found in an index.
    #[must_use]
    pub fn from_index(self, property: IndexedProperty) -> Self {
        Self { index: Some(property), ..self }
    }

    /// Offers the next entity in key order to the page. Returns `Break` if the page has ended.
    pub fn visit(&mut self, key: &[u8], record: &[u8]) -> Result<ControlFlow<()>, Fault> {
        self.visit_at(key, key, record)
    }

    /// Offers the next entity to the page. `position` is its position in the order of the scan.
    pub fn visit_at(&mut self, position: &[u8], key: &[u8], record: &[u8]) -> Result<ControlFlow<()>, Fault> {
        if self.must_stop() {
            return Ok(self.end_before(position));
        }
        let entity = StoredEntity::new(key, record).map_err(|_| damaged(key))?;
        self.examine(position, key, entity)
    }

    /// Offers the next entity, which is not stored, to the page. `key` is its position in the order of the scan.
    pub fn visit_view(&mut self, key: &[u8], entity: &EntityView<'_>) -> Result<ControlFlow<()>, Fault> {
        if self.must_stop() {
            return Ok(self.end_before(key));
        }
        self.examine(key, key, StoredEntity::from(entity.clone()))
    }

    fn examine(&mut self, position: &[u8], key: &[u8], mut entity: StoredEntity<'_>) -> Result<ControlFlow<()>, Fault> {
        self.examined += 1;
        self.unchecked += 1 + entity.record().record_bytes() / 1024;
        let expires = self.expiry.of(entity.record());
        if !self.expiry.shows(expires) {
            self.earliest_expiry = self.earliest_expiry.into_iter().chain(expires).min();
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(filter) = &mut self.filter
            && !filter.matches(key, &mut entity).map_err(|_| damaged(key))?
        {
            return Ok(ControlFlow::Continue(()));
        }
        if self.full {
            return Ok(self.end_before(position));
        }
        let intake = self.sink.entity(&entity.into_view().map_err(|_| damaged(key))?);
        if intake == SinkDecision::Refused {
            return Ok(self.end_before(position));
        }
        self.accepted += 1;
        self.full = intake == SinkDecision::AcceptedLast || self.accepted >= self.limit;
        Ok(ControlFlow::Continue(()))
    }

    /// Passes over an entity outside the ranges of the scan. Returns `Break` if the page has ended.
    pub fn pass(&mut self, position: &[u8]) -> ControlFlow<()> {
        if self.must_stop() {
            return self.end_before(position);
        }
        self.passed += 1;
        self.unchecked += 1;
        ControlFlow::Continue(())
    }

    /// Returns the sink and the end of the page.
    pub fn finish(self) -> (S, ScanEnd) {
        let Self { sink, next, examined, accepted, earliest_expiry, index, .. } = self;
        (sink, ScanEnd { next, examined, accepted: accepted as u64, earliest_expiry, index })
    }

    /// Ends the page before the entity at a position, which has not been examined. Returns `Break`, as [`Self::visit`]
    /// does.
    pub fn end_before(&mut self, position: &[u8]) -> ControlFlow<()> {
        self.next = Some(Position::from_bytes(position.to_vec()));
        ControlFlow::Break(())
    }

    /// Returns whether the page is full, so that the scan only looks for the next match.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Returns whether the deadline has passed.
    pub fn is_due(&self) -> bool {
        monotonic::now() >= self.deadline
    }

    fn must_stop(&mut self) -> bool {
        let steps = self.examined + self.passed;
        if steps == 0 {
            return self.is_cancelled();
        }
        if steps > 1 && self.unchecked < WORK_BETWEEN_CHECKS {
            return false;
        }
        self.unchecked = 0;
        self.is_cancelled() || self.is_due()
    }

    fn is_cancelled(&self) -> bool {
        self.cancellations.iter().any(Cancellation::is_cancelled)
    }
}

/// Logs an entity that cannot be read. Keys are user data, so they appear only in the log, not in the fault.
pub fn damaged(key: &[u8]) -> Fault {
    tracing::error!(key = %key.escape_ascii(), "an entity cannot be read because it is damaged");
    Fault::Damaged("the record of an entity cannot be read; the log names its key".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::filter::{Comparison, Literal, Operator, PropertyName};
    use model::{EdmValue, EntityKey, Filter, Record, RecordBuilder};
    use std::time::Duration;

    struct Counting;

    impl EntitySink for Counting {
        fn entity(&mut self, _entity: &EntityView<'_>) -> SinkDecision {
            SinkDecision::Accepted
        }
    }

    fn record(bytes: usize) -> Record {
        let mut builder = RecordBuilder::default();
        builder.push("P", EdmValue::Binary(&vec![0; bytes]));
        builder.finish(DateTime::MIN)
    }

    #[test]
    fn only_the_key_of_an_accepted_entity_must_be_readable() {
        let filter = |literal| {
            let comparison = Comparison {
                property: PropertyName::new("N"),
                operator: Operator::Equal,
                literal: Literal::Int32(literal),
            };
            Some(Filter::Compare(comparison))
        };
        let mut builder = RecordBuilder::default();
        builder.push("N", EdmValue::Int32(1));
        let record = builder.finish(DateTime::MIN);
        for (filter, is_read) in [(filter(1), false), (filter(2), true), (None, false)] {
            let deadline = Instant::now() + Duration::from_hours(1);
            let scan = Scan { filter, ..Scan::all(deadline) };
            let mut page = PageBuilder::new(scan, Expiry::NEVER, Counting, Vec::new());
            let visited = page.visit(b"a key without a separator", record.as_bytes());
            assert_eq!(visited.is_ok(), is_read);
            if let Err(fault) = visited {
                assert!(matches!(fault, Fault::Damaged(_)));
            }
        }
    }

    #[test]
    fn the_deadline_is_checked_after_64_small_entities_or_64_kib() {
        for (bytes, examined) in [(1, 65), (1024, 33), (10_000, 8), (64 * 1024, 2)] {
            let (cancellation, record) = (Cancellation::default(), record(bytes));
            let deadline = Instant::now() + Duration::from_hours(1);
            let scan = Scan { limit: 1000, ..Scan::all(deadline) };
            let mut page = PageBuilder::new(scan, Expiry::NEVER, Counting, vec![cancellation.clone()]);
            let key = EntityKey::new("p", "r").unwrap().encode();
            let mut visit = || page.visit(&key, record.as_bytes()).unwrap();
            assert!(visit().is_continue() && visit().is_continue());
            // Cancellation is checked together with the deadline.
            cancellation.cancel();
            while visit().is_continue() {}
            assert_eq!(page.finish().1.examined, examined, "{bytes}");
        }
    }
}
