//! The change feed: what clients see of the log, in terms of tables and entities.

use crate::disk::layout::{
    self, CatalogEntry, DeletedTable, EngineEntry, LAST_STAMP, NEXT_TABLE_ID, TableId, catalog_key, decode_engine_entry,
};
use crate::disk::payload::{Operation, Origin, take_operation};
use crate::disk::storage::{Storage, storage_fault};
use crate::log::archive::Archive;
use crate::log::format;
use crate::log::reader::{LogReader, ReadLogError};
use crate::log::real_disk::RealDisk;
use crate::sequence::Sequence;
use crate::state::EmbeddedState;
use crate::tree::Snapshot;
use crate::writing::committer::{CatalogChange, Request};
use crate::writing::fair_queue::FairQueue;
use crate::writing::queue_memory::QueueMemory;
use engine::changes::{
    Change, ChangeEffect, ChangeLog, ChangePage, ChangeSelection, ChangedTransaction, ChangesEnd, ChangesError,
    ChangesFuture, DatedChangeLog, KeptChanges,
};
use engine::figures::ChangeLogFigures;
use engine::{Fault, TableKey};
use model::{AccountName, DateTime, Record, record};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// The maximum size of the transactions that one call examines, in bytes.
const EXAMINED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The maximum number of transactions that one call examines.
const EXAMINED_MAX: usize = 64 * 1024;

/// The name under which backups wait for their turn in the queue of the committer.
const TURN: &str = "backup";

#[derive(Clone)]
pub(crate) struct EmbeddedFeed(Arc<Inner>);

struct Inner {
    shared: Arc<EmbeddedState>,
    reader: LogReader<RealDisk>,
    /// The tables by ID, as far as they were needed: those that exist, and deleted ones that the log mentions.
    names: Mutex<HashMap<TableId, Arc<TableKey>>>,
    /// The queue of the committer. A standby has no committer.
    committer: Option<(Arc<FairQueue<Request>>, Arc<QueueMemory>)>,
}

impl EmbeddedFeed {
    pub(crate) fn new(
        shared: Arc<EmbeddedState>,
        committer: Option<(Arc<FairQueue<Request>>, Arc<QueueMemory>)>,
    ) -> Self {
        let reader = LogReader::new(&shared.storage.upkeep);
        Self(Arc::new(Inner { shared, reader, names: Mutex::default(), committer }))
    }

    pub(crate) fn figures(&self) -> ChangeLogFigures {
        let KeptChanges { first, next } = self.0.kept();
        let archive = self.0.shared.storage.upkeep.archive();
        let oldest = archive.and_then(Archive::oldest).and_then(|segment| segment.oldest);
        let oldest = oldest.and_then(|stamp| DateTime::from_ticks(i64::try_from(stamp).ok()?));
        ChangeLogFigures { bytes: archive.map_or(0, Archive::bytes), first, next, oldest, undecoded_bytes: None }
    }

    /// Runs a read on a thread that may wait for the disk.
    fn on_blocking_thread<'a, T: Send + 'static>(
        &self,
        read: impl FnOnce(&Inner) -> Result<T, ChangesError> + Send + 'static,
    ) -> ChangesFuture<'a, T> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            inner.shared.check_open().map_err(ChangesError::Fault)?;
            let read = tokio::task::spawn_blocking(move || read(&inner)).await;
            read.map_err(|error| ChangesError::Fault(Fault::Storage(Box::new(error))))?
        })
    }
}

impl ChangeLog for EmbeddedFeed {
    fn kept(&self) -> KeptChanges {
        self.0.kept()
    }

    fn latest(&self) -> ChangesFuture<'_, KeptChanges> {
        Box::pin(async { Ok(self.kept()) })
    }

    fn beginning(&self) -> ChangesFuture<'_, u64> {
        let archive = self.0.shared.storage.upkeep.archive();
        let beginning = archive.map_or(0, |archive| archive.beginning().get());
        Box::pin(async move { Ok(beginning) })
    }

    fn read<'a>(&'a self, from: u64, selection: &'a ChangeSelection, bytes: usize) -> ChangesFuture<'a, ChangePage> {
        let selection = selection.clone();
        self.on_blocking_thread(move |inner| inner.read(Sequence::new(from), &selection, bytes))
    }

    fn find(&self, time: DateTime) -> ChangesFuture<'_, u64> {
        self.on_blocking_thread(move |inner| inner.find(time).map(Sequence::get))
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.0.shared.storage.watch()
    }
}

impl DatedChangeLog for EmbeddedFeed {
    fn end(&self) -> ChangesFuture<'_, ChangesEnd> {
        Box::pin(async move {
            let shared = &self.0.shared;
            shared.check_open().map_err(ChangesError::Fault)?;
            let Some((queue, memory)) = &self.0.committer else {
                return self.on_blocking_thread(Inner::end_of_standby).await;
            };
            // Only the committer knows which stamps it has issued to transactions that are not in the log yet.
            let turn = AccountName::new(TURN).expect("it is a valid name of an account");
            let memory = memory.acquire(&turn, 1).await;
            let (answer, answered) = oneshot::channel();
            let pushed = queue.push(Request::Catalog(CatalogChange::End(answer), memory));
            pushed.map_err(|_| ChangesError::Fault(Fault::Closed))?;
            answered.await.map_err(|_| ChangesError::Fault(Fault::Closed))
        })
    }
}

impl Inner {
    /// The last stamp of the primary that has arrived. Its next transactions have later ones.
    fn end_of_standby(&self) -> Result<ChangesEnd, ChangesError> {
        let snapshot = self.shared.storage.tree.snapshot();
        let time = last_stamp(&snapshot).map_err(ChangesError::Fault)?;
        Ok(ChangesEnd { next: snapshot.sequence().next().get(), time })
    }

    fn kept(&self) -> KeptChanges {
        let next = self.shared.storage.readable().get();
        KeptChanges { first: self.reader.first().get().min(next), next }
    }

    fn read(&self, from: Sequence, selection: &ChangeSelection, bytes: usize) -> Result<ChangePage, ChangesError> {
        let through = self.shared.storage.readable().previous();
        let mut page = ChangePage { transactions: Vec::new(), next: from.get() };
        let (mut size, mut examined_bytes, mut examined) = (0, 0, 0);
        let mut failure = None;
        // Later than the end of what is read, so that it is not an earlier table.
        let existing = selection.table.as_ref().filter(|_| selection.existing_only);
        let lowest = existing.map(|table| self.lowest_id(table)).transpose().map_err(ChangesError::Fault)?.flatten();
        let decoder = Decoder { selection, lowest, table: |id| self.table(id) };
        let next = self.reader.read(from, through, &mut |record| {
            match decoder.transaction(record) {
                Ok(None) => {}
                Ok(Some((transaction, bytes))) => {
                    size += bytes;
                    page.transactions.push(transaction);
                }
                Err(fault) => {
                    failure = Some(fault);
                    return ControlFlow::Break(());
                }
            }
            examined += 1;
            examined_bytes += record.payload.len();
            let is_full = size >= bytes || examined_bytes >= EXAMINED_BYTES_MAX || examined >= EXAMINED_MAX;
            if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(fault) = failure {
            return Err(ChangesError::Fault(fault));
        }
        page.next = next.map_err(read_error)?.get();
        Ok(page)
    }

    fn find(&self, time: DateTime) -> Result<Sequence, ChangesError> {
        let ticks = time.ticks().unsigned_abs();
        let through = self.shared.storage.readable().previous();
        // The snapshot has the stamps of all transactions through this one.
        if last_stamp(&self.shared.storage.tree.snapshot()).map_err(ChangesError::Fault)? < time {
            return Ok(through.next());
        }
        let archive = self.shared.storage.upkeep.archive();
        let first = self.reader.first();
        // Stamps increase, so everything before this segment is earlier.
        let from = archive.and_then(|archive| {
            let segments = archive.segments();
            let later = segments.iter().find(|segment| segment.newest.is_some_and(|newest| newest >= ticks));
            later.map(|segment| segment.first).or_else(|| segments.last().map(|last| last.end))
        });
        let mut found = None;
        let next = self.reader.read(from.unwrap_or(first).max(first), through, &mut |record| {
            // Transactions without a stamp are not shown to readers.
            if record.header.stamp < ticks {
                return ControlFlow::Continue(());
            }
            found = Some(record.header.sequence);
            ControlFlow::Break(())
        });
        let next = next.map_err(read_error)?;
        Ok(found.unwrap_or(next))
    }

    /// Returns the ID of a table, or one that no table has if it does not exist. Tables with the same name that were
    /// deleted have lower IDs.
    fn lowest_id(&self, table: &TableKey) -> Result<Option<TableId>, Fault> {
        let key = catalog_key(table);
        let value = self.shared.storage.tree.snapshot().get(&key).map_err(storage_fault)?;
        match value.map(|value| decode_engine_entry(&key, &value)) {
            Some(Ok(EngineEntry::Table(entry))) => Ok(Some(entry.id)),
            Some(_) => Err(Fault::Damaged(format!("the entry of the table {} cannot be read", table.name))),
            None => Ok(TableId::from_bytes(&u64::MAX.to_be_bytes())),
        }
    }

    /// Returns the name of a table that exists or that the log mentions.
    fn table(&self, id: TableId) -> Result<Option<Arc<TableKey>>, Fault> {
        let mut names = self.names.lock();
        if let Some(name) = names.get(&id) {
            return Ok(Some(Arc::clone(name)));
        }
        // What is read is visible, so the current snapshot contains the name.
        let mut known = HashMap::new();
        for entry in Storage::own_entries(&self.shared.storage.tree.snapshot()) {
            let (key, value) = entry.map_err(storage_fault)?;
            match decode_engine_entry(&key, &value) {
                Ok(EngineEntry::Table(entry)) => drop(known.insert(entry.id, Arc::new(entry.table))),
                Ok(EngineEntry::Deleted(entry)) => drop(known.insert(entry.id, Arc::new(entry.table))),
                _ => {}
            }
        }
        *names = known;
        Ok(names.get(&id).cloned())
    }
}

/// Returns the stamp of the last transaction in a snapshot.
fn last_stamp(snapshot: &Snapshot) -> Result<DateTime, Fault> {
    let value = snapshot.get(LAST_STAMP).map_err(storage_fault)?;
    match value.map(|value| decode_engine_entry(LAST_STAMP, &value)) {
        Some(Ok(EngineEntry::LastStamp(stamp))) => Ok(stamp),
        Some(_) => Err(Fault::Damaged("the last Timestamp issued cannot be read".to_owned())),
        None => Ok(DateTime::MIN),
    }
}

fn read_error(error: ReadLogError) -> ChangesError {
    match error {
        ReadLogError::Dropped(first) => ChangesError::Dropped(first.get()),
        ReadLogError::Log(error) => {
            tracing::error!(%error, "the log could not be read");
            ChangesError::Fault(Fault::Storage(Box::new(error)))
        }
    }
}

/// Returns whether readers of the change feed see transactions of this origin.
fn is_shown(origin: Origin) -> bool {
    match origin {
        Origin::Client | Origin::Catalog | Origin::Expiry => true,
        Origin::Purge | Origin::Index => false,
    }
}

pub(super) struct Decoder<'s, F> {
    pub(super) selection: &'s ChangeSelection,
    /// Entities of tables with lower IDs are left out.
    pub(super) lowest: Option<TableId>,
    /// Returns the name of a table.
    pub(super) table: F,
}

impl<F: Fn(TableId) -> Result<Option<Arc<TableKey>>, Fault>> Decoder<'_, F> {
    /// Returns the selected changes of a transaction, and their size in bytes. Returns `None` if there are none.
    pub(super) fn transaction(
        &self,
        record: &format::Record<'_>,
    ) -> Result<Option<(ChangedTransaction, usize)>, Fault> {
        let position = record.header.sequence.get();
        let damaged = || Fault::Damaged(format!("transaction {position} in the log cannot be read"));
        let origin = Origin::try_from(record.header.origin).map_err(|()| damaged())?;
        if !is_shown(origin) {
            return Ok(None);
        }
        let time = i64::try_from(record.header.stamp).ok().and_then(DateTime::from_ticks).ok_or_else(damaged)?;
        let changes = match origin {
            Origin::Catalog => self.catalog_change(record.payload).ok_or_else(damaged)?,
            _ => self.entity_changes(record.payload, time, origin == Origin::Expiry, damaged)?,
        };
        let bytes = changes.iter().map(|change| change.effect.bytes()).sum();
        Ok((!changes.is_empty()).then_some((ChangedTransaction { position, time, changes }, bytes)))
    }

    fn entity_changes(
        &self,
        mut payload: &[u8],
        time: DateTime,
        is_expired: bool,
        damaged: impl Fn() -> Fault,
    ) -> Result<Vec<Change>, Fault> {
        let mut changes = Vec::new();
        // The first operation is of an entity. The others with the same ID are, too; the rest are entries of indexes.
        let mut transaction_table = None;
        while !payload.is_empty() {
            let operation = take_operation(&mut payload).ok_or_else(&damaged)?;
            let (Operation::Delete { key } | Operation::Put { key, .. } | Operation::PutRecord { key, .. }) = operation;
            let (id, key) = key.split_at_checked(size_of::<TableId>()).ok_or_else(&damaged)?;
            let id = TableId::from_bytes(id).ok_or_else(&damaged)?;
            let (table_id, table) = if let Some(known) = &transaction_table {
                known
            } else {
                let table = (self.table)(id)?.ok_or_else(&damaged)?;
                if !self.selection.contains(&table) || Some(id) < self.lowest {
                    return Ok(changes);
                }
                transaction_table.insert((id, table))
            };
            if id != *table_id {
                continue;
            }
            let (table, key) = (Arc::clone(table), key.to_vec());
            let effect = match operation {
                Operation::Delete { .. } => ChangeEffect::Delete { table, key, is_expired },
                Operation::PutRecord { record, .. } => {
                    let mut bytes = record.to_vec();
                    record::stamp(&mut bytes, time).map_err(|_| damaged())?;
                    ChangeEffect::Put { table, key, record: Record::from_bytes(bytes) }
                }
                Operation::Put { .. } => return Err(damaged()),
            };
            changes.push(Change { index: u32::try_from(changes.len()).unwrap_or(u32::MAX), effect });
        }
        Ok(changes)
    }

    /// A catalog transaction changes one table, or the service properties of one account.
    fn catalog_change(&self, mut payload: &[u8]) -> Option<Vec<Change>> {
        let (mut effect, mut next_id, mut created) = (None, None, None);
        while !payload.is_empty() {
            let Operation::Put { key, value } = take_operation(&mut payload)? else { continue };
            if key == NEXT_TABLE_ID {
                next_id = Some(TableId::from_bytes(value)?);
                continue;
            }
            effect = Some(match layout::decode_engine_entry(key, value) {
                Ok(EngineEntry::Table(CatalogEntry { table, id, created: at, policies, settings, .. })) => {
                    created = Some((id, at));
                    ChangeEffect::SetTable { table: Arc::new(table), policies, settings }
                }
                Ok(EngineEntry::Deleted(DeletedTable { table, .. })) => {
                    ChangeEffect::DeleteTable { table: Arc::new(table) }
                }
                Ok(EngineEntry::ServiceProperties(account, properties)) => {
                    ChangeEffect::SetProperties { account, properties }
                }
                Ok(EngineEntry::NextTableId(_) | EngineEntry::LastStamp(_) | EngineEntry::Purge(_)) => continue,
                Err(_) => return None,
            });
        }
        // The ID of a table is issued only when it is created, and the IDs of its indexes are higher.
        let effect = match (effect?, created) {
            (ChangeEffect::SetTable { table, .. }, Some((id, created))) if next_id == Some(id.next()) => {
                ChangeEffect::CreateTable { table, created }
            }
            (effect, _) => effect,
        };
        let is_selected = self.selection.selects(&effect);
        Some(is_selected.then_some(Change { index: 0, effect }).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::disk::space::{Disk, FreeSpace, bounded};
    use crate::log::archive::ArchivedSegment;
    use crate::upkeep::retention::{Ages, drop_excess, forget_names, make_room, remove_names};
    use crate::{Embedded, EmbeddedOptions, KeptLog};
    use engine::changes::{
        ChangeEffect, ChangeSelection, ChangedTransaction, ChangesError, DatedChangeLog, first_position,
    };
    use engine::{ChangeLog, Engine, KeepChanges, TableKey};
    use engine_contract::support::{ManualClock, START_TICKS, commit_one, insert, key, properties, table};
    use model::{DateTime, EdmValue, Mutation, Transaction};
    use std::path::Path;
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    const TIMEOUT: Duration = Duration::from_mins(1);
    const SECOND: i64 = 10_000_000;
    const BOUNDS: KeepChanges = KeepChanges { age: Duration::from_hours(1), bytes: 1 << 40 };

    fn open(folder: &Path, kept_log: KeptLog, clock: &ManualClock) -> (Embedded, Option<Arc<dyn ChangeLog>>) {
        let engine =
            Embedded::open(folder, &EmbeddedOptions { kept_log, ..EmbeddedOptions::default() }, clock.clone()).unwrap();
        let log = engine.change_log();
        (engine, log)
    }

    fn segments(engine: &Embedded) -> Vec<ArchivedSegment> {
        engine.shared.storage.upkeep.archive().unwrap().segments()
    }

    /// Ends a segment of the log, and waits until it is archived.
    fn archive(engine: &Embedded) {
        let (storage, before) = (&engine.shared.storage, segments(engine).len());
        let began = Instant::now();
        // The purge of a deleted table may write in between.
        while !{
            storage.flush_everything().unwrap();
            storage.retire_log().unwrap()
        } {
            assert!(began.elapsed() < TIMEOUT, "the log is not retired");
        }
        while segments(engine).len() == before {
            assert!(began.elapsed() < TIMEOUT, "the segment is not archived");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    async fn read_all(log: &Arc<dyn ChangeLog>, from: u64) -> Vec<ChangedTransaction> {
        let (mut all, mut next) = (Vec::new(), from);
        while next < log.kept().next {
            let page = log.read(next, &ChangeSelection::default(), 1000).await.unwrap();
            all.extend(page.transactions);
            next = page.next;
        }
        all
    }

    /// Writes three archived segments, 100 seconds apart, with a table that is deleted in the second one.
    async fn fill(engine: &Embedded, clock: &ManualClock) {
        let (kept, gone) = (table("Kept"), table("Gone"));
        engine.create_table(&kept).await.unwrap();
        engine.create_table(&gone).await.unwrap();
        for part in 0..3 {
            clock.set(START_TICKS + part * 100 * SECOND);
            for row in 0..50 {
                let row = format!("{part}-{row}");
                commit_one(engine, &kept, insert("p", &row, 1)).await.unwrap();
                if part == 0 {
                    commit_one(engine, &gone, insert("p", &row, 1)).await.unwrap();
                }
            }
            if part == 1 {
                engine.delete_table(&gone).await.unwrap();
            }
            archive(engine);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_kept_log_survives_restarts_with_the_names_of_deleted_tables() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(START_TICKS);
        let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
        fill(&engine, &clock).await;
        let log = log.unwrap();
        let (first, before) = (log.kept().first, read_all(&log, log.kept().first).await);
        let is_of_gone = |change: &engine::Change| match &change.effect {
            ChangeEffect::Put { table: of, .. } | ChangeEffect::DeleteTable { table: of } => of.name.as_str() == "Gone",
            _ => false,
        };
        let gone =
            before.iter().flat_map(|transaction| &transaction.changes).filter(|change| is_of_gone(change)).count();
        assert_eq!((before.len(), gone, first), (203, 51, 1));
        // Once without a clean shutdown, and once with one.
        drop((engine, log));
        let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
        assert_eq!(read_all(&log.unwrap(), first).await, before);
        engine.close().await.unwrap();
        drop(engine);
        let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
        let log = log.unwrap();
        assert_eq!(read_all(&log, first).await, before);

        // A command on the folder keeps what was kept, and what it writes.
        engine.close().await.unwrap();
        drop((engine, log));
        let (engine, _) = open(folder.path(), KeptLog::AsBefore, &clock);
        commit_one(&engine, &table("Kept"), insert("p", "by a command", 1)).await.unwrap();
        archive(&engine);
        engine.close().await.unwrap();
        drop(engine);
        let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
        let log = log.unwrap();
        let after = read_all(&log, first).await;
        assert_eq!((&after[..before.len()], after.len()), (&before[..], before.len() + 1));

        // Without the option, everything that was kept is removed.
        engine.close().await.unwrap();
        drop((engine, log));
        let (engine, log) = open(folder.path(), KeptLog::Nothing, &clock);
        assert!(log.is_none() && !folder.path().join("archive").exists());
        remove_names(&engine.shared, |_| false).unwrap();
        engine.close().await.unwrap();
        drop(engine);
        let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
        let log = log.unwrap();
        let kept = log.kept();
        assert!(kept.first == kept.next && kept.first >= 204, "{kept:?}");
        let read = log.read(1, &ChangeSelection::default(), 1).await;
        assert!(matches!(read, Err(ChangesError::Dropped(from)) if from == kept.first), "{read:?}");
        commit_one(&engine, &table("Kept"), insert("p", "last", 1)).await.unwrap();
        assert_eq!(read_all(&log, kept.first).await.len(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_oldest_segments_are_dropped_by_age_and_by_size_and_when_the_disk_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(START_TICKS);
        let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
        let log = log.unwrap();
        fill(&engine, &clock).await;
        let storage = &engine.shared.storage;
        let archive_of = storage.upkeep.archive().unwrap();
        let [first, second, third] = segments(&engine)[..] else { panic!("{:?}", segments(&engine)) };
        assert!(first.oldest < first.newest && first.newest < second.oldest);

        // The first segment ends at the start, and the second one 100 seconds later.
        let age = KeepChanges { age: Duration::from_secs(150), ..BOUNDS };
        drop_excess(archive_of, age, START_TICKS + 149 * SECOND, |_| false).unwrap();
        assert_eq!(segments(&engine), [first, second, third]);
        // A standby with a base copy needs the last transaction of the first segment, and then what follows it.
        let (hold, later) = (archive_of.holds.begin(first.end.previous()), archive_of.holds.begin(second.first));
        drop_excess(archive_of, age, START_TICKS + 200 * SECOND, |_| false).unwrap();
        assert_eq!(segments(&engine), [first, second, third]);
        hold.advance(first.end);
        drop_excess(archive_of, age, START_TICKS + 200 * SECOND, |_| false).unwrap();
        assert_eq!(segments(&engine), [second, third]);
        drop(hold);
        assert_eq!(archive_of.holds.first(), Some(second.first));
        assert_eq!(log.kept().first, second.first.get());
        let names = || {
            let entries =
                storage.tree.snapshot().range(crate::disk::layout::DELETED_PREFIX..crate::disk::layout::DELETED_END);
            entries.count()
        };
        forget_names(&engine.shared, archive_of).unwrap();
        assert_eq!(names(), 1, "the second segment mentions the deleted table");

        // A hold does not raise the maximum size.
        drop_excess(archive_of, KeepChanges { bytes: third.bytes, ..BOUNDS }, START_TICKS, |_| false).unwrap();
        assert_eq!(segments(&engine), [third]);
        drop(later);
        assert_eq!(archive_of.holds.first(), None);
        forget_names(&engine.shared, archive_of).unwrap();
        assert_eq!(names(), 0);

        let has_room = Disk { folder: folder.path().to_owned(), reserve_bytes: 0, keeper: None };
        make_room(&engine.shared, archive_of, &has_room, 0).unwrap();
        assert_eq!(segments(&engine), [third]);
        let is_full = Disk { reserve_bytes: u64::MAX, ..has_room };
        make_room(&engine.shared, archive_of, &is_full, 0).unwrap();
        assert_eq!(segments(&engine), []);
        let kept = log.kept();
        assert!(kept.first >= third.end.get() && kept.first <= kept.next, "{kept:?}");
        let old = TableKey::clone(&table("Kept"));
        let selection = ChangeSelection { table: Some(old), ..ChangeSelection::default() };
        let read = log.read(second.first.get(), &selection, 1).await;
        assert!(matches!(read, Err(ChangesError::Dropped(from)) if from == kept.first), "{read:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_kept_log_begins_after_every_position_of_an_earlier_folder() {
        const YEAR_2026: i64 = 134_116_992_000_000_000;
        let folder = tempfile::tempdir().unwrap();
        let mut clock = ManualClock::at(YEAR_2026);
        let mut end = 0;
        for number in 0..3 {
            let path = folder.path().join(number.to_string());
            let (engine, log) = open(&path, KeptLog::Within(BOUNDS), &clock);
            engine.create_table(&table("Kept")).await.unwrap();
            let first = log.unwrap().kept().first;
            assert!(first > end || number == 0, "{first} after {end}");
            engine.close().await.unwrap();
            drop(engine);
            // The clock does not move the positions of a log that exists.
            clock = ManualClock::at(YEAR_2026 + number * SECOND + SECOND / 2);
            let (engine, log) = open(&path, KeptLog::Within(BOUNDS), &clock);
            let log = log.unwrap();
            commit_one(&engine, &table("Kept"), insert("p", "r", 1)).await.unwrap();
            assert_eq!(
                read_all(&log, first).await.iter().map(|read| read.position).collect::<Vec<_>>(),
                [first, first + 1]
            );
            let dropped = log.read(first - 1, &ChangeSelection::default(), 1).await;
            assert!(matches!(dropped, Err(ChangesError::Dropped(from)) if from == first) || first == 1, "{dropped:?}");
            end = log.kept().next;
            clock = ManualClock::at(YEAR_2026 + (number + 1) * SECOND);
        }
        assert!(first_position(DateTime::MAX) < 1 << 47, "the tree can count as far");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_follows_the_end_of_a_log_is_later() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(START_TICKS);
        let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
        let (log, dated) = (log.unwrap(), engine.dated_change_log().unwrap());
        for step in 0..4 {
            // Even if the clock goes backwards.
            clock.set(START_TICKS - step * SECOND);
            engine.create_table(&table(&format!("Table{step}"))).await.unwrap();
            commit_one(&engine, &table("Table0"), insert("p", &step.to_string(), 1)).await.unwrap();
            let end = DatedChangeLog::end(&*dated).await.unwrap();
            assert_eq!(end.next, log.kept().next);
            assert!(read_all(&log, 1).await.iter().all(|read| read.time < end.time));
            commit_one(&engine, &table("Table0"), insert("q", &step.to_string(), 1)).await.unwrap();
            assert!(read_all(&log, end.next).await[0].time > end.time);
        }
    }

    #[test]
    fn a_clock_that_is_set_does_not_end_the_kept_log() {
        let hour = 3600 * SECOND;
        let at = |ticks| DateTime::from_ticks(ticks).unwrap();
        let ages = Ages::new(at(10 * hour));
        for (now, expected) in [(10 * hour, 10 * hour), (9 * hour, 9 * hour)] {
            assert_eq!(ages.now(at(now)), expected);
        }
        assert!(ages.now(at(1000 * hour)) < 11 * hour, "the clock was set forward");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_segment_that_claims_to_be_from_the_future_is_not_kept_forever() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(START_TICKS);
        let (engine, _log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
        fill(&engine, &clock).await;
        let (archive, mut ages) = (engine.shared.storage.upkeep.archive().unwrap(), Ages::new(DateTime::MIN));
        let age = Duration::from_millis(1);
        ages.see(archive);
        std::thread::sleep(2 * age);
        let [first, ..] = segments(&engine)[..] else { panic!("nothing is archived") };
        assert!(ages.is_seen_longer(first.id, age) && !ages.is_seen_longer(first.id, TIMEOUT));
        drop_excess(archive, BOUNDS, 0, |id| ages.is_seen_longer(id, age)).unwrap();
        assert_eq!(segments(&engine), []);
    }

    /// The disk is large for the keeper, so it drops log only because it is asked to.
    #[tokio::test(flavor = "multi_thread")]
    async fn kept_log_is_dropped_when_it_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(START_TICKS);
        let (engine, _log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
        fill(&engine, &clock).await;
        assert_eq!(segments(&engine).len(), 3);
        assert!(engine.disk.drop_kept_log(0));
        assert_eq!(segments(&engine).len(), 3);
        assert!(engine.disk.drop_kept_log(u64::MAX));
        assert_eq!(segments(&engine), []);
    }

    #[test]
    fn space_becomes_low_only_after_kept_log_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        bounded::limit(folder.path(), 1000);
        let kept = folder.path().join("kept");
        std::fs::write(&kept, [0; 200]).unwrap();
        let (keeper, requests) = mpsc::channel();
        let mut space =
            FreeSpace::new(Disk { folder: folder.path().to_owned(), reserve_bytes: 900, keeper: Some(keeper) });
        let answering = std::thread::spawn(move || {
            let first = requests.recv().unwrap();
            std::fs::remove_file(kept).unwrap();
            drop(first);
            requests.recv().map(drop)
        });
        assert!(!space.is_low(0, 0));
        drop(space);
        assert!(answering.join().unwrap().is_err(), "it was asked once");
    }

    /// A fast writer must not be refused while any log is kept: neither while a segment is compressed, nor because a
    /// merge lacks room.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_fast_writer_on_a_small_disk_is_never_refused() {
        let folder = tempfile::tempdir().unwrap();
        bounded::limit(folder.path(), 700 << 20);
        let kept_log = KeptLog::Within(BOUNDS);
        let options = EmbeddedOptions { kept_log, min_free_bytes: 50 << 20, ..EmbeddedOptions::default() };
        let engine = Embedded::open(folder.path(), &options, ManualClock::at(START_TICKS)).unwrap();
        engine.create_table(&table("Kept")).await.unwrap();
        let mut random = test_support::Random::new(1);
        let mut bytes = vec![0; 500_000];
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&random.number().to_be_bytes()[..part.len()]);
        }
        for number in 0..3000_u32 {
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            let mut properties = properties(&[("value", i64::from(number))]);
            for part in 0..8 {
                properties.push(&format!("part{part}"), EdmValue::Binary(&bytes[part * 60_000..][..60_000]));
            }
            let put = Mutation::InsertOrReplace { key: key("p", &(number % 20).to_string()), properties };
            let written = engine.commit(&table("Kept"), Transaction::single(put)).await;
            assert!(written.is_ok(), "write {number}: {:?}, {:?}", written.map(drop), segments(&engine));
        }
        let log = engine.change_log().unwrap();
        assert!(log.kept().first > 1, "the disk was too large");
    }
}
