//! The stored data of the embedded engine: the log and the tree, and how they are opened together.
//!
//! A write appends a group to the log, syncs it, applies it to the tree, and publishes it. The tree keeps what the log
//! contains in memory until it is flushed; then the log's segments are released. At startup, the log is read from the
//! last persisted transaction, and applied to the tree again.
//!
//! Invariants:
//!
//! 1. Nothing is visible before it is as durable as the engine is configured to make it.
//! 2. What the tree has persisted was synced in the log before. Otherwise, a power failure would leave a tree that is
//!    ahead of its log.
//!
//! This module must not depend on requests or threads.

use crate::disk::confirmations::Confirmations;
use crate::disk::folder::Folder;
use crate::disk::guard::{Panicked, guarded};
use crate::disk::layout::{self, DeletedTable, EngineEntry, EngineEntryError, StoredTable, TableId};
use crate::disk::open_error::OpenError;
use crate::disk::payload::{self, LoggedTransaction};
use crate::disk::storage_error::StorageError;
use crate::log::archive::Archive;
use crate::log::errors::{DiskError, OpenLogError};
use crate::log::format::Record;
use crate::log::group::Group;
use crate::log::options::{Durability, Options, READ_BYTES};
use crate::log::real_disk::RealDisk;
use crate::log::recovery::{Inspected, inspect};
use crate::log::recovery::{Known, open};
use crate::log::upkeep::Upkeep;
use crate::log::writer::Writer;
use crate::sequence::Sequence;
use crate::sync::Mutex;
use crate::tree::{Key, Range, Snapshot, Tree, TreeError, TreeSettings, Value};
use engine::Fault;
use engine::parts::catalog::Catalog;
use engine::parts::properties::AccountProperties;
use model::DateTime;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// The cache size for a database that serves no requests, in bytes.
pub(crate) const SMALL_CACHE_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenSettings {
    pub(crate) cache_bytes: u64,
    pub(crate) durability: Durability,
}

pub(crate) struct Storage {
    pub(crate) tree: Tree,
    pub(crate) upkeep: Upkeep<RealDisk>,
    appender: Mutex<Appender>,
    durability: Durability,
    /// The transaction after the last one that is visible and on disk.
    readable: Announced,
    /// The last transaction that is on disk.
    synced: Announced,
    /// Set if writes wait for a standby.
    confirmations: OnceLock<Arc<Confirmations>>,
}

/// A sequence that never decreases, for those who wait for it. It is updated only while there are receivers.
#[derive(Debug, Default)]
struct Announced(watch::Sender<u64>);

impl Announced {
    fn update(&self, current: impl FnOnce() -> Sequence) {
        if self.0.receiver_count() > 0 {
            let current = current().get();
            self.0.send_if_modified(|known| std::mem::replace(known, current.max(*known)) < current);
        }
    }

    fn watch(&self, current: impl FnOnce() -> Sequence) -> watch::Receiver<u64> {
        let receiver = self.0.subscribe();
        self.update(current);
        receiver
    }
}

/// The end of the log. Whoever holds it determines the serial order.
struct Appender {
    writer: Writer<RealDisk>,
    /// Empty between writes. Kept for its memory.
    group: Group,
    step: Step,
    /// What [`Step::Unconfirmed`] is about.
    unconfirmed: Option<Unconfirmed>,
}

/// A group that is in the log and not applied, because no standby has confirmed it yet.
struct Unconfirmed {
    first: Sequence,
    last: Sequence,
    transactions: Vec<LoggedTransaction>,
    last_stamp: Option<DateTime>,
}

/// What a write does. A panic leaves it as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There is no write.
    Idle,
    /// The group is being written to the log.
    Log,
    /// The group is in the log and is being applied to the tree.
    Apply,
    /// The log is being continued after a failure.
    Recovery,
    /// A group is in the log, and no standby confirmed it in time.
    Unconfirmed,
    /// Nothing may be written any more.
    Fenced,
}

pub(crate) struct Recovered {
    pub(crate) catalog: Catalog<StoredTable>,
    pub(crate) properties: AccountProperties,
    pub(crate) next_table_id: TableId,
    pub(crate) last_stamp: DateTime,
}

impl Storage {
    /// Opens the log and the tree of a folder that was found to be good.
    pub(crate) fn open(folder: &Folder, settings: OpenSettings) -> Result<Self, OpenError> {
        Self::open_parts(folder, settings, false)
    }

    /// Creates the log and the tree in a folder that is not complete yet.
    pub(crate) fn create(folder: &Folder, settings: OpenSettings) -> Result<Self, OpenError> {
        folder.create_parts()?;
        Self::open_parts(folder, settings, true)
    }

    fn open_parts(folder: &Folder, settings: OpenSettings, is_new: bool) -> Result<Self, OpenError> {
        let (path, tree_settings) = (folder.tree(), TreeSettings { cache_bytes: settings.cache_bytes });
        let tree = guarded_tree(&path, || {
            if is_new { Tree::create(&path, tree_settings) } else { Tree::open(&path, tree_settings) }
        })?;
        Self::open_log(folder, tree, settings, is_new)
    }

    /// Opens the log of a tree. If `is_new` is true, the log may be missing, and continues after what the tree has
    /// persisted.
    pub(crate) fn open_log(
        folder: &Folder,
        tree: Tree,
        settings: OpenSettings,
        is_new: bool,
    ) -> Result<Self, OpenError> {
        let known = Known { persisted: tree.persisted(), may_be_missing: is_new };
        let log = folder.log();
        let (writer, recovered) =
            open(RealDisk::new(&log), Options::new(settings.durability), known, &mut |record| apply(&tree, record))
                .map_err(|error| log_error(&log, error))?;
        tree.publish(recovered.last);
        if let Some(cut) = recovered.cut {
            tracing::info!(
                segment = cut.segment,
                offset = cut.offset,
                "the log ends here; what follows is ignored: an incomplete write, of which nothing was acknowledged as \
                 synced, or remains of an earlier use of the file"
            );
        }
        let group = Group::new(writer.next_sequence());
        let upkeep = writer.upkeep();
        Ok(Self {
            tree,
            upkeep,
            appender: Mutex::new(Appender { writer, group, step: Step::Idle, unconfirmed: None }),
            durability: settings.durability,
            readable: Announced::default(),
            synced: Announced::default(),
            confirmations: OnceLock::new(),
        })
    }

    /// Opens a copy of a folder's tree for reading only, with the transactions of the log that are not in its files.
    pub(crate) fn open_read_only(tree: &Path, log: &Path) -> Result<Tree, OpenError> {
        let opened = guarded_tree(tree, || Tree::open(tree, TreeSettings { cache_bytes: SMALL_CACHE_BYTES }))?;
        let persisted = opened.persisted();
        let inspected = inspect(&RealDisk::new(log), READ_BYTES, Some(persisted), &mut |record| apply(&opened, record))
            .map_err(|error| log_error(log, error))?;
        opened.publish(inspected.map_or(opened.persisted(), |log| log.last));
        Ok(opened)
    }

    /// Writes a group of transactions and makes it visible. `last_stamp` is the last stamp that was issued, if any of
    /// the transactions has one. `is_synced` matters only with [`Durability::Interval`].
    ///
    /// After an error, it is unknown what is on disk until [`Self::resume`] succeeds.
    pub(crate) fn write(
        &self,
        transactions: Vec<LoggedTransaction>,
        last_stamp: Option<DateTime>,
        is_synced: bool,
    ) -> Result<(), StorageError> {
        let mut appender = self.appender.lock();
        let Appender { writer, group, step, unconfirmed } = &mut *appender;
        match step {
            Step::Idle => {}
            Step::Unconfirmed => return Err(StorageError::UNCONFIRMED),
            Step::Fenced => return Err(StorageError::FENCED),
            Step::Log | Step::Apply | Step::Recovery => return Err(StorageError::INTERRUPTED),
        }
        *step = Step::Log;
        let first = group.first();
        for LoggedTransaction { encoded, origin, stamp, .. } in &transactions {
            group.push(encoded, stamp.map_or(NO_STAMP, |stamp| stamp.ticks().unsigned_abs()), origin.code());
        }
        if let Err(error) = writer.append(group) {
            // Nothing may be written until `resume` has decided how the log continues.
            group.restart(first);
            *step = Step::Idle;
            return Err(error.into());
        }
        let synced = match self.durability {
            Durability::Sync => writer.sync().map(drop).map_err(|error| {
                group.restart(first);
                StorageError::from(error)
            }),
            Durability::Interval if is_synced => writer.sync().map(drop).map_err(StorageError::from),
            Durability::Interval => Ok(()),
        };
        // With the durability `Interval`, the group is part of the log even if it could not be synced.
        if synced.is_ok() || self.durability == Durability::Interval {
            *step = Step::Apply;
            self.signal_synced();
            let last = first.plus(transactions.len() as u64).previous();
            if self.confirmations.get().is_some_and(|confirmations| !confirmations.wait(last)) {
                *unconfirmed = Some(Unconfirmed { first, last, transactions, last_stamp });
                *step = Step::Unconfirmed;
                return Err(StorageError::UNCONFIRMED);
            }
            self.apply(first, transactions, last_stamp);
        }
        *step = Step::Idle;
        drop(appender);
        self.signal();
        synced
    }

    /// Writes a group whose sync fails.
    #[cfg(test)]
    pub(crate) fn write_and_fail(&self, transactions: &[LoggedTransaction]) {
        let mut appender = self.appender.lock();
        let Appender { writer, group, .. } = &mut *appender;
        let first = group.first();
        for LoggedTransaction { encoded, origin, .. } in transactions {
            group.push(encoded, NO_STAMP, origin.code());
        }
        writer.append(group).expect("the write succeeds");
        writer.fail();
        group.restart(first);
    }

    /// Keeps segments of the log for readers from now on. If none were kept before, the kept log begins with `first`,
    /// or with the next transaction if that is later.
    pub(crate) fn keep_log(&self, archive: &Path, first: Sequence) -> Result<(), OpenError> {
        let failed = |error: DiskError| log_error(archive, error.into());
        let disk = RealDisk::new(archive);
        if !Archive::has_begun(&disk).map_err(failed)? {
            self.skip_to(first).map_err(|error| OpenError::storage(archive, error))?;
        }
        self.upkeep.keep_in(disk).map_err(failed)
    }

    /// Gives the next transaction the number `first`, if its number would be lower.
    pub(crate) fn skip_to(&self, first: Sequence) -> Result<(), StorageError> {
        let Appender { writer, group, .. } = &mut *self.appender.lock();
        writer.skip_to(first)?;
        let next = writer.next_sequence();
        group.restart(next);
        self.tree.publish(next.previous());
        Ok(())
    }

    /// Returns the transaction after the last one that is visible and on disk.
    pub(crate) fn readable(&self) -> Sequence {
        self.tree.published().min(self.upkeep.synced_through()).next()
    }

    /// Returns a receiver of [`Self::readable`].
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.readable.watch(|| self.readable())
    }

    /// Wakes those who wait for transactions that have become readable.
    fn signal(&self) {
        self.readable.update(|| self.readable());
    }

    /// Makes writes wait for a standby from now on. Requires [`Durability::Sync`].
    pub(crate) fn wait_for_confirmations(&self, confirmations: Arc<Confirmations>) {
        // It is set only once, when the log is opened.
        let _is_set = self.confirmations.set(confirmations);
    }

    /// Returns a receiver of the last transaction that is on disk.
    pub(crate) fn watch_synced(&self) -> watch::Receiver<u64> {
        self.synced.watch(|| self.upkeep.synced_through())
    }

    fn signal_synced(&self) {
        self.synced.update(|| self.upkeep.synced_through());
    }

    /// Returns whether writes are refused because a standby has not confirmed the last one.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.appender.lock().unconfirmed.as_ref().is_some_and(|waiting| !self.is_confirmed(waiting.last))
    }

    fn is_confirmed(&self, last: Sequence) -> bool {
        self.confirmations.get().is_none_or(|confirmations| confirmations.covers(last))
    }

    /// Refuses all writes forever.
    pub(crate) fn fence(&self) {
        if let Some(confirmations) = self.confirmations.get() {
            confirmations.close();
        }
        self.appender.lock().step = Step::Fenced;
    }

    /// Begins a segment with a higher epoch.
    pub(crate) fn begin_epoch(&self, epoch: u64) -> Result<(), StorageError> {
        Ok(self.appender.lock().writer.begin_epoch(epoch)?)
    }

    /// Returns the number that the next transaction gets.
    pub(crate) fn next_sequence(&self) -> Sequence {
        self.appender.lock().writer.next_sequence()
    }

    /// Syncs everything that was written before the call.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let synced = self.upkeep.sync().map(drop).map_err(StorageError::from);
        self.signal();
        self.signal_synced();
        synced
    }

    fn apply(&self, first: Sequence, transactions: Vec<LoggedTransaction>, last_stamp: Option<DateTime>) {
        let mut sequence = first;
        let mut last_stamp =
            last_stamp.map(|stamp| (layout::LAST_STAMP.into(), Some(layout::stamp_value(stamp).into())));
        let last = transactions.len().saturating_sub(1);
        for (index, LoggedTransaction { items, .. }) in transactions.into_iter().enumerate() {
            if index > 0 {
                sequence = sequence.next();
            }
            let stamp = if index == last { last_stamp.take() } else { None };
            self.tree.apply(sequence, items.into_iter().chain(stamp));
        }
        self.tree.publish(sequence);
    }

    /// Returns whether writes are refused because a write or a sync of the log failed, or because a write panicked.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.upkeep.has_failed() || self.appender.lock().step != Step::Idle
    }

    /// Ends the refusal of writes after a failure: begins a new segment of the log, and flushes again. What was visible
    /// stays visible.
    ///
    /// Always fails after a panic while a group was applied or the log was being continued: the tree may lack a part of
    /// what the log contains, or the log a part of what was acknowledged. Only opening the database again restores it.
    pub(crate) fn resume(&self) -> Result<(), StorageError> {
        let mut appender = self.appender.lock();
        let Appender { writer, group, step, unconfirmed } = &mut *appender;
        match step {
            Step::Idle => {}
            Step::Fenced => return Err(StorageError::FENCED),
            Step::Unconfirmed => {
                let Some(waiting) = unconfirmed.take_if(|waiting| self.is_confirmed(waiting.last)) else {
                    return Err(StorageError::UNCONFIRMED);
                };
                *step = Step::Apply;
                self.apply(waiting.first, waiting.transactions, waiting.last_stamp);
                *step = Step::Idle;
                self.signal();
            }
            // It is unknown what is on disk, as after a failed write.
            Step::Log => writer.fail(),
            Step::Apply | Step::Recovery => return Err(StorageError::INTERRUPTED),
        }
        *step = Step::Recovery;
        let recovered = writer.recover_after_failure();
        *step = Step::Idle;
        recovered?;
        group.restart(writer.next_sequence());
        drop(appender);
        self.flush()
    }

    /// Writes the sealed memtables to sorted files, and releases the segments of the log that are no longer needed.
    pub(crate) fn flush(&self) -> Result<(), StorageError> {
        // Another thread may seal a later memtable at any time, so what is synced before the tree has chosen the
        // memtables is not enough.
        self.tree.flush_after(|| self.sync())?;
        if let Err(error) = self.upkeep.release(self.tree.persisted()) {
            tracing::warn!(%error, "segments of the log could not be removed; the next flush will try again");
        }
        Ok(())
    }

    /// Also seals and writes the active memtable. If the sealed ones cannot be written, seals no further one, because
    /// writers wait only while the active memtable is full.
    pub(crate) fn flush_everything(&self) -> Result<(), StorageError> {
        self.flush()?;
        if self.tree.rotate() { self.flush() } else { Ok(()) }
    }

    /// Releases the disk space of the log if everything in it is persisted. Returns whether it was released.
    pub(crate) fn retire_log(&self) -> Result<bool, StorageError> {
        Ok(self.appender.lock().writer.retire(self.tree.persisted())?)
    }

    /// Syncs everything and records that nothing more will be written. Nothing may be written afterwards.
    pub(crate) fn close(&self) -> Result<(), StorageError> {
        Ok(self.appender.lock().writer.close()?)
    }

    /// Returns the entries of the engine itself.
    pub(crate) fn own_entries(snapshot: &Snapshot) -> Range {
        snapshot.range(..TableId::FIRST.to_bytes())
    }

    /// Reads what the engine keeps in memory.
    pub(crate) fn recover(&self) -> Result<Recovered, StorageError> {
        let mut recovered = Recovered {
            catalog: Catalog::default(),
            properties: AccountProperties::default(),
            next_table_id: TableId::FIRST,
            last_stamp: DateTime::MIN,
        };
        let mut highest_id = None;
        for entry in Self::own_entries(&self.tree.snapshot()) {
            let (key, value) = entry?;
            match layout::decode_engine_entry(&key, &value) {
                Ok(EngineEntry::NextTableId(id)) => recovered.next_table_id = id,
                Ok(EngineEntry::LastStamp(stamp)) => recovered.last_stamp = stamp,
                Ok(EngineEntry::Table(entry)) => {
                    highest_id = highest_id.max(entry.ids().max());
                    recovered.catalog.insert(&entry.table, entry.stored());
                    recovered.catalog.set_policies(&entry.table, entry.policies);
                    recovered.catalog.set_settings(&entry.table, entry.settings);
                }
                Ok(EngineEntry::Purge(id) | EngineEntry::Deleted(DeletedTable { id, .. })) => {
                    highest_id = highest_id.max(Some(id));
                }
                Ok(EngineEntry::ServiceProperties(account, set)) => recovered.properties.insert(&account, *set),
                // A newer version may have added this kind.
                Err(EngineEntryError::UnknownKind) => {}
                Err(EngineEntryError::Damaged(what)) => {
                    return Err(StorageError::damaged(format!("the key {}: {what}", key.escape_ascii())));
                }
            }
        }
        if highest_id.is_some_and(|highest| highest >= recovered.next_table_id) {
            return Err(StorageError::damaged("the ID of the next table is missing or was already issued"));
        }
        Ok(recovered)
    }
}

/// The stamp in the log of a transaction without one.
const NO_STAMP: u64 = 0;

pub(crate) type Items = Vec<(Key, Option<Value>)>;

/// Decodes a record of the log into its items and its Timestamp. An error describes the damage.
pub(crate) fn decode(record: &Record<'_>) -> Result<(Items, Option<DateTime>), String> {
    let stamp = Some(record.header.stamp).filter(|stamp| *stamp != NO_STAMP);
    let stamp =
        stamp.map(|ticks| i64::try_from(ticks).ok().and_then(DateTime::from_ticks).ok_or("its Timestamp is invalid"));
    let stamp = stamp.transpose()?;
    let items = payload::items(record.payload, stamp).ok_or("its operations cannot be read")?;
    Ok((items, stamp))
}

fn apply(tree: &Tree, record: &Record<'_>) -> Result<(), String> {
    let (items, stamp) = decode(record)?;
    let last_stamp = stamp.map(|stamp| (layout::LAST_STAMP.into(), Some(layout::stamp_value(stamp).into())));
    tree.apply(record.header.sequence, items.into_iter().chain(last_stamp));
    Ok(())
}

/// Reads the whole log without changing anything. `persisted` is the last transaction in the sorted files; if it is not
/// known, a log that begins too late or ends too early may look complete.
pub(crate) fn inspect_log(path: &Path, persisted: Option<Sequence>) -> Result<Inspected, OpenError> {
    if !path.try_exists().map_err(|error| OpenError::io("look for", path, error))? {
        return Err(OpenError::damaged(path, "it is missing"));
    }
    let inspected = inspect(&RealDisk::new(path), READ_BYTES, persisted, &mut |record| decode(record).map(drop));
    let inspected = inspected.map_err(|error| log_error(path, error))?;
    inspected.ok_or_else(|| OpenError::damaged(path, "there is no segment"))
}

pub(crate) fn log_error(log: &Path, error: OpenLogError) -> OpenError {
    match error {
        OpenLogError::Damaged { name, what } => OpenError::damaged(&log.join(name), what),
        OpenLogError::Disk(error) => {
            let path = log.join(&error.name);
            OpenError::Io { doing: error.doing, path, source: error.source }
        }
    }
}

/// Opens the tree or the sorted file at a path.
pub(crate) fn guarded_tree<T>(path: &Path, open: impl FnOnce() -> Result<T, TreeError>) -> Result<T, OpenError> {
    match guarded(open) {
        Ok(Ok(tree)) => Ok(tree),
        Ok(Err(error)) => Err(match error.damage() {
            Some(what) => OpenError::damaged(path, what),
            None => OpenError::Storage { path: path.to_owned(), source: error.into() },
        }),
        Err(Panicked) => Err(OpenError::damaged(
            path,
            "the storage library stopped at an inconsistency; see the log for its location",
        )),
    }
}

pub(crate) fn storage_fault(error: impl Into<StorageError>) -> Fault {
    Fault::Storage(Box::new(error.into()))
}
