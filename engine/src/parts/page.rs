//! Builds a page from the entities that an engine visits in order: filter, count limit, look-ahead, deadline and
//! cancellation. Every engine builds its pages here, so all pages end in the same way.
//!
//! Invariants:
//!
//! 1. At least one entity is examined before the deadline is checked, so a chain of pages always ends.
//! 2. An entity that cannot be read is an error; it is never skipped.
//!
//! This module must not know where the entities are stored.

use crate::contract::{EntitySink, Fault, Scan, ScanEnd, SinkDecision};
use crate::parts::cancellation::Cancellation;
use crate::parts::monotonic;
use model::{EntityView, Filter, KeyRange, Position};
use std::ops::ControlFlow;
use std::time::Instant;

const EXAMINED_BETWEEN_CHECKS: u64 = 64;

/// Returns the non-empty parts of a scan's ranges from the scan's position on, in order.
pub fn ranges_to_visit(scan: &Scan) -> Vec<KeyRange> {
    let from_position = |range: &KeyRange| match &scan.from {
        Some(position) => range.from_position(position),
        None => range.clone(),
    };
    scan.ranges.iter().map(from_position).filter(|range| !range.is_empty()).collect()
}

/// Builds a page from the entities that an engine visits in key order.
pub struct PageBuilder<S> {
    sink: S,
    filter: Option<Filter>,
    limit: usize,
    deadline: Instant,
    cancellations: Vec<Cancellation>,
    accepted: usize,
    examined: u64,
    /// Whether the page is full, so that the scan only looks for the next match.
    full: bool,
    next: Option<Position>,
}

impl<S: EntitySink> PageBuilder<S> {
    /// Creates an empty page. It ends early when one of the cancellations is triggered.
    pub fn new(scan: Scan, sink: S, cancellations: Vec<Cancellation>) -> Self {
        Self {
            sink,
            filter: scan.filter,
            limit: scan.limit,
            deadline: scan.deadline,
            cancellations,
            accepted: 0,
            examined: 0,
            full: scan.limit == 0,
            next: None,
        }
    }

    /// Offers the next entity in order to the page. Returns `Break` if the page has ended.
    pub fn visit(&mut self, key: &[u8], record: &[u8]) -> Result<ControlFlow<()>, Fault> {
        if self.must_stop() {
            return Ok(self.end_before(key));
        }
        self.examined += 1;
        let entity = EntityView::new(key, record).map_err(|_| damaged(key))?;
        if let Some(filter) = &self.filter
            && !filter.matches(&entity).map_err(|_| damaged(key))?
        {
            return Ok(ControlFlow::Continue(()));
        }
        if self.full {
            return Ok(self.end_before(key));
        }
        let intake = self.sink.entity(&entity);
        if intake == SinkDecision::Refused {
            return Ok(self.end_before(key));
        }
        self.accepted += 1;
        self.full = intake == SinkDecision::AcceptedLast || self.accepted >= self.limit;
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the sink and the end of the page.
    pub fn finish(self) -> (S, ScanEnd) {
        (self.sink, ScanEnd { next: self.next, examined: self.examined, accepted: self.accepted as u64 })
    }

    /// Ends the page before this entity, which has not been examined. Returns `Break`, as [`Self::visit`] does.
    pub fn end_before(&mut self, key: &[u8]) -> ControlFlow<()> {
        self.next = Some(Position::from_key_bytes(key.to_vec()));
        ControlFlow::Break(())
    }

    fn must_stop(&self) -> bool {
        if self.examined == 0 {
            return self.is_cancelled();
        }
        let is_due = self.examined == 1 || self.examined.is_multiple_of(EXAMINED_BETWEEN_CHECKS);
        is_due && (self.is_cancelled() || monotonic::now() >= self.deadline)
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
