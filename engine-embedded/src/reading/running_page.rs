//! A page of entities that is being read. A scan keeps this state while it waits for its next turn.
//!
//! A page reads everything, including the entries of an index, from one snapshot.

use crate::disk::layout::{self, StoredTable, TableId, TableIndex};
use crate::reading::scans::ScanSlot;
use crate::state::{EmbeddedState, read_fault};
use crate::tree::{Key, Range, Snapshot, TreeError, Value};
use engine::parts::cancellation::Cancellation;
use engine::parts::index::{self, OrderedEntries};
use engine::parts::page::{PageBuilder, ranges_to_visit};
use engine::{EntitySink, Order, ReadError, Scan, ScanEnd, TableKey};
use model::{IndexedProperty, KeyRange};
use std::sync::Arc;
use std::time::Instant;
use std::vec;

const ENTITIES_BETWEEN_CHECKS: u32 = 64;

pub(crate) struct RunningPage<S> {
    page: PageBuilder<S>,
    deadline: Instant,
    id: TableId,
    source: Source,
    /// The next entity, if the scan had to stop before it.
    held: Option<Found>,
    /// The last key that was read, for reporting an entity that cannot be read.
    last_key: Vec<u8>,
    snapshot: Snapshot,
    // Dropped last, because it keeps the folder locked.
    shared: Arc<EmbeddedState>,
}

/// Where the entities of a page are found.
enum Source {
    /// In ranges of keys.
    Ranges { ranges: vec::IntoIter<KeyRange>, entries: Option<Range> },
    /// At keys that an index contains, in key order.
    Hits(vec::IntoIter<Vec<u8>>),
    /// At the keys of the entries of an index, in the order of the index.
    Index { entries: OrderedEntries<IndexEntries>, id: TableId, is_descending: bool, key_ranges: Vec<KeyRange> },
}

struct Found {
    full_key: Key,
    /// `None` if the entity is outside the ranges of the scan.
    record: Option<Value>,
    /// The entry of the index in whose order the entities are read.
    entry: Option<Vec<u8>>,
}

impl Found {
    fn key(&self) -> &[u8] {
        layout::key_in_table(&self.full_key).unwrap_or_default()
    }

    fn position(&self) -> &[u8] {
        self.entry.as_deref().unwrap_or_else(|| self.key())
    }
}

/// The entries of an index in a range, from either end.
struct IndexEntries {
    entries: Range,
    is_descending: bool,
}

impl IndexEntries {
    fn new(snapshot: &Snapshot, id: TableId, range: &KeyRange, is_descending: bool) -> Self {
        Self { entries: snapshot.range(layout::stored_range(id, range)), is_descending }
    }
}

impl Iterator for IndexEntries {
    type Item = Result<Vec<u8>, TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = if self.is_descending { self.entries.next_back() } else { self.entries.next() };
        Some(entry?.map(|(key, _)| layout::key_in_table(&key).unwrap_or_default().to_vec()))
    }
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
        let before = shared.catalog.read().get(table).map(|listed| listed.table.clone());
        let view = shared.view();
        let (stored, expiry) = view.table(&shared, table, scan.visible)?;
        let snapshot = view.snapshot;
        let indexes = Indexes { before, now: &stored };
        let (source, property) = source(&snapshot, &indexes, &scan)?;
        let deadline = scan.deadline;
        let cancellations = vec![abandoned, shared.closing.clone()];
        let mut page = PageBuilder::new(scan, expiry, sink, cancellations);
        if let Some(property) = property {
            page = page.from_index(property);
        }
        let (held, last_key) = (None, Vec::new());
        Ok(Self { page, deadline, id: stored.id, source, held, last_key, snapshot, shared })
    }

    /// Reads until the page is finished or the scan must give up its slot. Must not be called on a thread that also
    /// runs other tasks.
    pub(crate) fn run(mut self, slot: &ScanSlot) -> Result<Step<S>, ReadError> {
        let mut until_check = ENTITIES_BETWEEN_CHECKS;
        while let Some(found) = self.next()? {
            if until_check == 0 {
                if slot.must_yield() {
                    self.held = Some(found);
                    return Ok(Step::Paused(Box::new(self)));
                }
                until_check = ENTITIES_BETWEEN_CHECKS;
            }
            until_check -= 1;
            let next = match &found.record {
                Some(record) => self.page.visit_at(found.position(), found.key(), record).map_err(ReadError::Fault)?,
                None => self.page.pass(found.position()),
            };
            if next.is_break() {
                break;
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(&found.full_key);
        }
        let (sink, end) = self.finish()?;
        Ok(Step::Finished(sink, end))
    }

    /// The page ends at its deadline, however many entities it has.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn end(mut self) -> Result<(S, ScanEnd), ReadError> {
        if let Some(found) = self.held.take() {
            let _ended = self.page.end_before(found.position());
        }
        self.finish()
    }

    fn next(&mut self) -> Result<Option<Found>, ReadError> {
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        match &mut self.source {
            Source::Ranges { ranges, entries } => loop {
                if let Some(entity) = entries.as_mut().and_then(Iterator::next) {
                    let (full_key, record) = entity.map_err(|error| read_fault(error, &self.last_key))?;
                    return Ok(Some(Found { full_key, record: Some(record), entry: None }));
                }
                let Some(range) = ranges.next() else { return Ok(None) };
                let range = layout::stored_range(self.id, &range);
                self.last_key.clone_from(&range.start);
                *entries = Some(self.snapshot.range(range));
            },
            // An entry whose entity is missing is damage, which a check reports. The entity does not exist.
            Source::Hits(keys) => {
                for key in keys {
                    let full_key = layout::entity_key(self.id, &key);
                    let record = self.snapshot.get(&full_key).map_err(|error| read_fault(error, &full_key))?;
                    if record.is_some() {
                        return Ok(Some(Found { full_key: full_key.into(), record, entry: None }));
                    }
                }
                Ok(None)
            }
            Source::Index { entries, id, is_descending, key_ranges } => {
                let open = |range: KeyRange| IndexEntries::new(&self.snapshot, *id, &range, *is_descending);
                while let Some(entry) = entries.next(&open).map_err(|error| read_fault(error, &self.last_key))? {
                    let Some(key) = index::key_of_entry(&entry) else { continue };
                    let full_key = layout::entity_key(self.id, key);
                    if !key_ranges.iter().any(|range| range.contains(key)) {
                        return Ok(Some(Found { full_key: full_key.into(), record: None, entry: Some(entry) }));
                    }
                    let record = self.snapshot.get(&full_key).map_err(|error| read_fault(error, &full_key))?;
                    if record.is_some() {
                        return Ok(Some(Found { full_key: full_key.into(), record, entry: Some(entry) }));
                    }
                }
                Ok(None)
            }
        }
    }

    fn finish(self) -> Result<(S, ScanEnd), ReadError> {
        // A page that the engine cut short would look like one that is complete.
        self.shared.check_open().map_err(ReadError::Fault)?;
        Ok(self.page.finish())
    }
}

/// The indexes of a table before and after a snapshot was taken.
struct Indexes<'a> {
    before: Option<StoredTable>,
    now: &'a StoredTable,
}

impl Indexes<'_> {
    /// Returns the indexes that the snapshot contains as a whole: they were ready before the snapshot, and their
    /// entries were not yet being removed after it.
    fn readable(&self) -> impl Iterator<Item = &TableIndex> {
        let before = self.before.as_ref().map_or(&[][..], StoredTable::indexes);
        self.now.indexes().iter().filter(|index| before.iter().any(|known| known.id == index.id && known.is_ready))
    }
}

/// Returns where the entities of a page are found, and the property of the index that is read.
fn source(
    snapshot: &Snapshot,
    indexes: &Indexes<'_>,
    scan: &Scan,
) -> Result<(Source, Option<IndexedProperty>), ReadError> {
    if let Order::Value { property, is_descending } = &scan.order {
        let is_listed = indexes.now.indexes().iter().any(|index| index.property == *property);
        let Some(index) = indexes.readable().find(|index| index.property == *property) else {
            return Err(if is_listed { ReadError::IndexNotReady } else { ReadError::IndexNotFound });
        };
        let entries = OrderedEntries::new(scan, property, *is_descending);
        let (key_ranges, is_descending) = (scan.ranges.clone(), *is_descending);
        let source = Source::Index { entries, id: index.id, is_descending, key_ranges };
        return Ok((source, Some(property.clone())));
    }
    let ranges = ranges_to_visit(scan);
    if let Some(plan) = index::plan(scan, indexes.readable().map(|index| &index.property))
        && let Some(index) = indexes.readable().find(|index| index.property == plan.property)
    {
        let entries = plan.ranges.iter().flat_map(|range| IndexEntries::new(snapshot, index.id, range, false));
        if let Some(hits) = index::hits(entries, &ranges).map_err(|error| read_fault(error, &index.id.to_bytes()))? {
            return Ok((Source::Hits(hits.into_iter()), Some(plan.property)));
        }
    }
    Ok((Source::Ranges { ranges: ranges.into_iter(), entries: None }, None))
}
