//! A page of entities that is being read. A scan keeps this state while it waits for its next turn.

use crate::disk::layout::{self, TableId};
use crate::reading::scans::ScanSlot;
use crate::state::{EmbeddedState, read_fault};
use crate::tree::{Key, Range, Snapshot, Value};
use engine::parts::cancellation::Cancellation;
use engine::parts::page::{PageBuilder, ranges_to_visit};
use engine::{EntitySink, ReadError, Scan, ScanEnd, TableKey};
use model::KeyRange;
use std::sync::Arc;
use std::time::Instant;
use std::vec;

const ENTITIES_BETWEEN_CHECKS: u32 = 64;

pub(crate) struct RunningPage<S> {
    page: PageBuilder<S>,
    deadline: Instant,
    id: TableId,
    ranges: vec::IntoIter<KeyRange>,
    /// The next entity, if the scan had to stop before it.
    held: Option<(Key, Value)>,
    /// The last key that was read, for reporting an entity that cannot be read.
    last_key: Vec<u8>,
    entries: Option<Range>,
    snapshot: Snapshot,
    // Dropped last, because it keeps the folder locked.
    shared: Arc<EmbeddedState>,
}

pub(crate) enum Step<S> {
    Finished(S, ScanEnd),
    /// Other scans are waiting, so the page resumes later.
    Paused(Box<RunningPage<S>>),
}

impl<S: EntitySink> RunningPage<S> {
    pub(crate) fn begin(
        shared: Arc<EmbeddedState>,
        table: &TableKey,
        scan: Scan,
        sink: S,
        abandoned: Cancellation,
    ) -> Result<Self, ReadError> {
        shared.check_open().map_err(ReadError::Fault)?;
        let view = shared.view();
        let (id, expiry) = view.table(&shared, table, scan.visible)?;
        let snapshot = view.snapshot;
        let (ranges, deadline) = (ranges_to_visit(&scan).into_iter(), scan.deadline);
        let cancellations = vec![abandoned, shared.closing.clone()];
        let page = PageBuilder::new(scan, expiry, sink, cancellations);
        let (held, last_key, entries) = (None, Vec::new(), None);
        Ok(Self { page, deadline, id, ranges, held, last_key, entries, snapshot, shared })
    }

    /// Reads until the page is finished or the scan must give up its slot. Must not be called on a thread that also
    /// runs other tasks.
    pub(crate) fn run(mut self, slot: &ScanSlot) -> Result<Step<S>, ReadError> {
        let mut until_check = ENTITIES_BETWEEN_CHECKS;
        while let Some((full_key, record)) = self.next()? {
            if until_check == 0 {
                if slot.must_yield() {
                    self.held = Some((full_key, record));
                    return Ok(Step::Paused(Box::new(self)));
                }
                until_check = ENTITIES_BETWEEN_CHECKS;
            }
            until_check -= 1;
            let key = layout::key_in_table(&full_key).unwrap_or_default();
            if self.page.visit(key, &record).map_err(ReadError::Fault)?.is_break() {
                break;
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(&full_key);
        }
        let (sink, end) = self.finish()?;
        Ok(Step::Finished(sink, end))
    }

    /// The page ends at its deadline, however many entities it has.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn end(mut self) -> Result<(S, ScanEnd), ReadError> {
        if let Some((full_key, _)) = self.held.take() {
            let _ended = self.page.end_before(layout::key_in_table(&full_key).unwrap_or_default());
        }
        self.finish()
    }

    fn next(&mut self) -> Result<Option<(Key, Value)>, ReadError> {
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        loop {
            if let Some(entry) = self.entries.as_mut().and_then(Iterator::next) {
                return entry.map(Some).map_err(|error| read_fault(error, &self.last_key));
            }
            let Some(range) = self.ranges.next() else { return Ok(None) };
            let start = layout::entity_key(self.id, &range.start);
            let end = match &range.end {
                Some(end) => layout::entity_key(self.id, end),
                None => self.id.next().to_bytes().to_vec(),
            };
            self.last_key.clone_from(&start);
            self.entries = Some(self.snapshot.range(start..end));
        }
    }

    fn finish(self) -> Result<(S, ScanEnd), ReadError> {
        // A page that the engine cut short would look like one that is complete.
        self.shared.check_open().map_err(ReadError::Fault)?;
        Ok(self.page.finish())
    }
}
