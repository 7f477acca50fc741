//! The change log: what the log contains, in terms of tables and entities.

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

pub(crate) mod keeping;
#[cfg(test)]
mod tests;

/// The maximum size of the transactions that one call examines, in bytes.
const EXAMINED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The maximum number of transactions that one call examines.
const EXAMINED_MAX: usize = 64 * 1024;

/// The name under which backups wait for their turn in the queue of the committer.
const TURN: &str = "backup";

#[derive(Clone)]
pub(crate) struct EmbeddedChanges(Arc<Inner>);

struct Inner {
    shared: Arc<EmbeddedState>,
    reader: LogReader<RealDisk>,
    /// The tables by ID, as far as they were needed: those that exist, and deleted ones that the log mentions.
    names: Mutex<HashMap<TableId, Arc<TableKey>>>,
    /// The queue of the committer. A standby has no committer.
    committer: Option<(Arc<FairQueue<Request>>, Arc<QueueMemory>)>,
}

impl EmbeddedChanges {
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

impl ChangeLog for EmbeddedChanges {
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

impl DatedChangeLog for EmbeddedChanges {
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

/// Returns whether readers of the change log see transactions of this origin.
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
