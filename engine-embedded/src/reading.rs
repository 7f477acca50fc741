//! Pages and snapshots. A page is read from one snapshot, including the entries of an index. Scans take turns, and a
//! long scan keeps the state of its page while it waits for its next turn.

use crate::disk::folder::Folder;
use crate::disk::layout::{self, EngineEntry, EngineEntryError, StoredTable, TableId, TableIndex};
use crate::disk::storage::{Storage, storage_fault};
use crate::recent_reads::{ReadTimer, SLOW_READ};
use crate::state::{EmbeddedState, read_fault};
use crate::tree::{Key, Range, Snapshot, TreeError, Value};
use engine::parts::cancellation::Cancellation;
use engine::parts::index::{self, OrderedEntries};
use engine::parts::monotonic;
use engine::parts::page::{FIRST_PART_WORK_MAX, PageBuilder, has_few_entities, has_few_keys};
use engine::parts::page::{ranges_to_visit, work_of};
use engine::snapshot::{EntityVisitor, SnapshotContents, SnapshotError, Snapshots};
use engine::{EntitySink, Fault, Order, ReadError, Scan, ScanEnd, TableKey};
use model::{DateTime, IndexedProperty, KeyRange};
use std::iter::Rev;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::vec;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const ENTITIES_BETWEEN_CHECKS: u32 = 64;

/// The number of tombstones in the tree above which no page counts as small, unless its keys are known. The library
/// steps over that many in some milliseconds, and cannot be interrupted.
pub(crate) const TOMBSTONES_MAX: u64 = 50_000;

pub(crate) struct RunningPage<S> {
    page: PageBuilder<S>,
    deadline: Instant,
    id: TableId,
    source: Source,
    /// The next entity, if the scan had to stop before it.
    held: Option<Found>,
    /// The last key that was read, for reporting an entity that cannot be read.
    last_key: Key,
    snapshot: Snapshot,
    // Dropped last, because it keeps the folder locked.
    shared: Arc<EmbeddedState>,
}

/// Where the entities of a page are found.
enum Source {
    /// In ranges of keys.
    Ascending(RangeEntries<Range, vec::IntoIter<KeyRange>>),
    /// In ranges of keys, from the last entity to the first one.
    Descending(RangeEntries<Rev<Range>, Rev<vec::IntoIter<KeyRange>>>),
    /// At keys that an index contains, in the order of the scan.
    Hits(vec::IntoIter<Vec<u8>>),
    /// At the keys of the entries of an index, in the order of the index.
    Index { entries: OrderedEntries<IndexEntries>, id: TableId, is_descending: bool, key_ranges: Vec<KeyRange> },
}

/// The entities in ranges of keys. Both the entities of a range and the ranges are in the order of the scan.
struct RangeEntries<E, R> {
    ranges: R,
    entries: Option<E>,
}

impl<E, R> RangeEntries<E, R>
where
    E: Iterator<Item = Result<(Key, Value), TreeError>>,
    R: Iterator<Item = KeyRange>,
{
    fn new(ranges: R) -> Self {
        Self { ranges, entries: None }
    }

    /// Returns the next entity of the range that is open.
    fn next_in_range(&mut self) -> Option<E::Item> {
        self.entries.as_mut().and_then(Iterator::next)
    }

    fn next(
        &mut self,
        id: TableId,
        snapshot: &Snapshot,
        last_key: &mut Key,
        open: impl Fn(Range) -> E,
    ) -> Result<Option<Found>, ReadError> {
        loop {
            if let Some(entity) = self.next_in_range() {
                let (full_key, record) = entity.map_err(|error| read_fault(error, last_key))?;
                return Ok(Some(Found { full_key, record: Some(record), entry: None }));
            }
            let Some(range) = self.ranges.next() else { return Ok(None) };
            // Opening an iterator takes several times as long.
            if range.is_point() {
                let full_key = layout::entity_key(id, &range.start);
                let record = snapshot.get(&full_key).map_err(|error| read_fault(error, &full_key))?;
                if record.is_some() {
                    self.entries = None;
                    return Ok(Some(Found { full_key: full_key.into(), record, entry: None }));
                }
                continue;
            }
            let range = layout::stored_range(id, &range);
            *last_key = Key::from(range.start.as_slice());
            self.entries = Some(open(snapshot.range(range)));
        }
    }
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

/// Returns whether the page of a scan needs few entities. If the filter refuses many, or if they are large, the page
/// does not end in its first part.
pub(crate) fn is_small(shared: &EmbeddedState, table: &TableKey, scan: &Scan) -> bool {
    has_few_keys(scan)
        || has_few_entities(scan, || shared.has_indexes(table)) && shared.storage.tree.tombstones() <= TOMBSTONES_MAX
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
        let (held, last_key) = (None, Key::from(&[][..]));
        Ok(Self { page, deadline, id: stored.id, source, held, last_key, snapshot, shared })
    }

    /// Reads until the page is finished or the scan must give up its slot. Must not be called on a thread that also
    /// runs other tasks.
    pub(crate) fn run(mut self, slot: &ScanSlot) -> Result<Step<S>, ReadError> {
        let mut until_check = ENTITIES_BETWEEN_CHECKS;
        loop {
            if until_check == 0 {
                if slot.must_yield() {
                    let Some(found) = self.next()? else { break };
                    self.held = Some(found);
                    return Ok(Step::Paused(Box::new(self)));
                }
                until_check = ENTITIES_BETWEEN_CHECKS;
            }
            until_check -= 1;
            if self.visit_next()?.is_break() {
                break;
            }
        }
        let (sink, end) = self.finish()?;
        Ok(Step::Finished(sink, end))
    }

    /// Reads the first part of a small page, which takes about as long as a few gets, and records how long the reads
    /// took. May be called on a thread that also runs other tasks unless recent reads or pages are moved.
    pub(crate) fn run_first_part(mut self) -> Result<Step<S>, ReadError> {
        let shared = Arc::clone(&self.shared);
        let (mut work, mut reading) = (0, Duration::ZERO);
        let timer = ReadTimer::start(shared.recent_reads.are_watched() || shared.recent_pages.are_watched());
        let loaded = shared.storage.tree.blocks_loaded();
        let found = loop {
            let began = monotonic::now();
            let found = self.next();
            reading += monotonic::now().saturating_duration_since(began);
            let Ok(Some(next)) = &found else { break found };
            // The first entity is always visited, as by a get.
            let is_first = work == 0;
            work += next.record.as_deref().map_or(1, work_of);
            if !is_first && (work > FIRST_PART_WORK_MAX || reading >= SLOW_READ) {
                break found;
            }
            if self.visit(next)?.is_break() {
                break Ok(None);
            }
        };
        let has_loaded = found.is_err() || shared.storage.tree.blocks_loaded() != loaded;
        shared.record_page(timer.read_time(reading), has_loaded);
        self.held = found?;
        if self.held.is_some() {
            return Ok(Step::Paused(Box::new(self)));
        }
        let (sink, end) = self.finish()?;
        Ok(Step::Finished(sink, end))
    }

    fn visit(&mut self, found: &Found) -> Result<ControlFlow<()>, ReadError> {
        let next = match &found.record {
            Some(record) => self.page.visit_at(found.position(), found.key(), record).map_err(ReadError::Fault)?,
            None => self.page.pass(found.position()),
        };
        self.last_key.clone_from(&found.full_key);
        Ok(next)
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

    /// Offers the next entity to the page. Returns `Break` if there is none, or if the page has ended.
    fn visit_next(&mut self) -> Result<ControlFlow<()>, ReadError> {
        // Nearly all entities of long scans are found here, without further copies.
        let found = match &mut self.source {
            _ if self.held.is_some() => None,
            Source::Ascending(entries) => entries.next_in_range(),
            Source::Descending(entries) => entries.next_in_range(),
            Source::Hits(_) | Source::Index { .. } => None,
        };
        if let Some(entity) = found {
            let (full_key, record) = entity.map_err(|error| read_fault(error, &self.last_key))?;
            let key = layout::key_in_table(&full_key).unwrap_or_default();
            let next = self.page.visit(key, &record).map_err(ReadError::Fault)?;
            self.last_key = full_key;
            return Ok(next);
        }
        match self.next()? {
            Some(found) => self.visit(&found),
            None => Ok(ControlFlow::Break(())),
        }
    }

    fn next(&mut self) -> Result<Option<Found>, ReadError> {
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        match &mut self.source {
            Source::Ascending(entries) => entries.next(self.id, &self.snapshot, &mut self.last_key, |range| range),
            Source::Descending(entries) => entries.next(self.id, &self.snapshot, &mut self.last_key, Iterator::rev),
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
                    if !KeyRange::any_contains(key_ranges, key) {
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
        let hits = index::hits(entries, &ranges, scan.order.is_descending());
        if let Some(hits) = hits.map_err(|error| read_fault(error, &index.id.to_bytes()))? {
            return Ok((Source::Hits(hits.into_iter()), Some(plan.property)));
        }
    }
    let ranges = ranges.into_iter();
    let source = if scan.order.is_descending() {
        Source::Descending(RangeEntries::new(ranges.rev()))
    } else {
        Source::Ascending(RangeEntries::new(ranges))
    };
    Ok((source, None))
}

/// The time for which a scan keeps its slot while others wait. It is enough for several pages of a thousand entities,
/// and many times the cost of resuming later.
const SLICE: Duration = Duration::from_millis(10);

pub(crate) struct Scans {
    slots: Arc<Semaphore>,
    /// As many permits as there are slots, for resuming scans that wait for a slot or have one.
    resume_permits: Arc<Semaphore>,
    slots_max: usize,
    slice: Duration,
    waiting: Arc<AtomicUsize>,
}

/// The scan holds its slot until this value is dropped.
pub(crate) struct ScanSlot {
    _permit: OwnedSemaphorePermit,
    _resume_permit: Option<OwnedSemaphorePermit>,
    slice_end: Instant,
    waiting: Arc<AtomicUsize>,
}

impl Scans {
    pub(crate) fn new(slots_max: usize) -> Self {
        let slots_max = slots_max.clamp(1, Semaphore::MAX_PERMITS);
        let semaphore = || Arc::new(Semaphore::new(slots_max));
        Self { slots: semaphore(), resume_permits: semaphore(), slots_max, slice: SLICE, waiting: Arc::default() }
    }

    pub(crate) async fn begin(&self) -> Result<ScanSlot, Fault> {
        let _waiting = WaitingCount::begin(&self.waiting);
        Ok(self.slot(acquire(&self.slots).await?, None))
    }

    /// Returns `None` if no slot becomes free before the deadline.
    pub(crate) async fn resume(&self, deadline: Instant) -> Result<Option<ScanSlot>, Fault> {
        let _waiting = WaitingCount::begin(&self.waiting);
        let slot = async {
            let resume_permit = acquire(&self.resume_permits).await?;
            Ok(self.slot(acquire(&self.slots).await?, Some(resume_permit)))
        };
        tokio::time::timeout_at(deadline.into(), slot).await.ok().transpose()
    }

    pub(crate) fn running(&self) -> usize {
        self.slots_max.saturating_sub(self.slots.available_permits())
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Makes every scan give up its slot as soon as others wait, so that tests do not depend on [`SLICE`].
    #[cfg(test)]
    pub(crate) fn without_slices(&mut self) {
        self.slice = Duration::ZERO;
    }

    fn slot(&self, permit: OwnedSemaphorePermit, resume_permit: Option<OwnedSemaphorePermit>) -> ScanSlot {
        let slice_end = monotonic::now() + self.slice;
        ScanSlot { _permit: permit, _resume_permit: resume_permit, slice_end, waiting: Arc::clone(&self.waiting) }
    }
}

impl ScanSlot {
    pub(crate) fn must_yield(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 && monotonic::now() >= self.slice_end
    }
}

async fn acquire(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Fault> {
    Arc::clone(semaphore).acquire_owned().await.map_err(|_| Fault::Closed)
}

struct WaitingCount<'a>(&'a AtomicUsize);

impl<'a> WaitingCount<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for WaitingCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Snapshots for EmbeddedState {
    fn take(&self) -> Result<Box<dyn engine::Snapshot>, Fault> {
        self.check_open()?;
        let snapshot = self.storage.tree.snapshot();
        let (contents, ids) = contents(&snapshot)?;
        let (closing, folder) = (self.closing.clone(), Some(Arc::clone(self.folder())));
        Ok(Box::new(EmbeddedSnapshot { contents, ids, snapshot, closing, _folder: folder }))
    }
}

/// While the snapshot exists, its contents are not removed from disk.
pub(crate) struct EmbeddedSnapshot {
    pub(crate) contents: SnapshotContents,
    /// The IDs of the tables, in the order of the tables.
    pub(crate) ids: Vec<TableId>,
    pub(crate) snapshot: Snapshot,
    pub(crate) closing: Cancellation,
    // Dropped last, so that no other process can open the folder while the tree is still open.
    pub(crate) _folder: Option<Arc<Folder>>,
}

impl engine::Snapshot for EmbeddedSnapshot {
    fn contents(&self) -> &SnapshotContents {
        &self.contents
    }

    fn check(&self) -> Result<(), Fault> {
        if self.closing.is_cancelled() { Err(Fault::Closed) } else { Ok(()) }
    }

    fn stored_entities(&self, table: usize, visit: &mut EntityVisitor<'_, SnapshotError>) -> Result<(), SnapshotError> {
        self.check().map_err(SnapshotError::Fault)?;
        let Some(id) = self.ids.get(table) else { return Ok(()) };
        let entries = self.snapshot.range(id.to_bytes()..id.next().to_bytes());
        for (index, entry) in entries.enumerate() {
            if index % ENTITIES_BETWEEN_CHECKS as usize == 0 {
                self.check().map_err(SnapshotError::Fault)?;
            }
            let (key, record) = entry.map_err(|error| SnapshotError::Fault(storage_fault(error)))?;
            visit(layout::key_in_table(&key).unwrap_or_default(), &record)?;
        }
        Ok(())
    }
}

fn contents(snapshot: &Snapshot) -> Result<(SnapshotContents, Vec<TableId>), Fault> {
    let position = Some(snapshot.sequence().next().get());
    let mut contents =
        SnapshotContents { last_stamp: DateTime::MIN, properties: Vec::new(), tables: Vec::new(), position };
    let mut ids = Vec::new();
    for entry in Storage::own_entries(snapshot) {
        let (key, value) = entry.map_err(storage_fault)?;
        match layout::decode_engine_entry(&key, &value) {
            Ok(EngineEntry::LastStamp(stamp)) => contents.last_stamp = stamp,
            Ok(EngineEntry::Table(entry)) => {
                ids.push(entry.id);
                contents.tables.push(entry.into_snapshot());
            }
            Ok(EngineEntry::ServiceProperties(account, properties)) => contents.properties.push((account, *properties)),
            Ok(EngineEntry::NextTableId(_) | EngineEntry::Purge(_) | EngineEntry::Deleted(_))
            | Err(EngineEntryError::UnknownKind) => {}
            Err(EngineEntryError::Damaged(what)) => return Err(Fault::Damaged(what.to_owned())),
        }
    }
    Ok((contents, ids))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn a_scan_that_begins_waits_for_no_more_of_those_that_continue_than_there_are_places() {
        let scans = Arc::new(Scans::new(1));
        let order = Arc::new(Mutex::new(Vec::new()));
        let holder = scans.begin().await.unwrap();
        let mut tasks = Vec::new();
        for (waiting, name) in (1..).zip(["continues 1", "continues 2", "continues 3", "begins 1", "begins 2"]) {
            let (scans, order) = (Arc::clone(&scans), Arc::clone(&order));
            let waits = Arc::clone(&scans);
            tasks.push(tokio::spawn(async move {
                let slot = match name.strip_prefix("continues") {
                    Some(_) => scans.resume(monotonic::now() + LONG).await.unwrap().unwrap(),
                    None => scans.begin().await.unwrap(),
                };
                order.lock().unwrap().push(name);
                drop(slot);
            }));
            // On a single thread, the spawned task reaches its wait before the test continues.
            tokio::task::yield_now().await;
            assert_eq!((waits.waiting(), waits.running()), (waiting, 1));
        }
        drop(holder);
        for task in tasks {
            task.await.unwrap();
        }
        let expected = ["continues 1", "begins 1", "begins 2", "continues 2", "continues 3"];
        assert_eq!(*order.lock().unwrap(), expected);
        assert_eq!((scans.waiting(), scans.running()), (0, 0));
    }

    #[tokio::test]
    async fn a_place_is_kept_as_long_as_nobody_waits() {
        let mut scans = Scans::new(1);
        scans.without_slices();
        let slot = scans.begin().await.unwrap();
        assert!(!slot.must_yield());
        let deadline = monotonic::now().checked_sub(LONG).unwrap();
        let waiting = scans.begin();
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("no slot is free"),
            () = std::future::ready(()) => {}
        }
        assert!(slot.must_yield());
        assert!(scans.resume(deadline).await.unwrap().is_none(), "its deadline has passed");
        drop(slot);
        assert!(!waiting.await.unwrap().must_yield());
    }
}
