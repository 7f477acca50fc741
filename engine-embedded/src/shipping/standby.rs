//! The side of the standby: it fills a new folder from a base copy, and appends the records that it receives.

use super::STANDBY;
use super::records::{FrameError, RecordBatch};
use crate::disk::folder::Folder;
use crate::disk::lineage::{Awaited, Identity, Lineage, Role};
use crate::disk::open_error::OpenError;
use crate::disk::opening;
use crate::disk::payload::{LoggedTransaction, Origin, encoded};
use crate::disk::space::{Disk, free_bytes};
use crate::disk::storage::{Items, OpenSettings, SMALL_CACHE_BYTES, Storage, decode, guarded_tree};
use crate::disk::storage_error::StorageError;
use crate::log::format::Record;
use crate::log::options::Durability;
use crate::sequence::Sequence;
use crate::state::EmbeddedState;
use crate::tree::{Key, Merge, Tree, TreeError, TreeSettings, Value};
use model::DateTime;
use parking_lot::Mutex;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// The size at which entries of a base copy are applied, in bytes. It exceeds what a transaction can add, so that there
/// are fewer batches than transactions.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// The first line of the file that says which base copy a folder is filled from. The number of the copy's last
/// transaction follows, and then the lineage of the standby.
const COPY_FIRST_LINE: &str = "base copy ";

/// A data folder that is filled from a base copy. Until [`StandbyFolder::finish`] has returned, it is opened only to
/// continue or to begin again.
///
/// The keys arrive in ascending order, and each batch is flushed as a whole. After an interruption, the tree therefore
/// contains all keys of the copy up to its last one.
pub struct StandbyFolder {
    id: Identity,
    tree: Tree,
    /// The last transaction in the copy.
    sequence: Sequence,
    /// The number under which the last batch was applied. Nothing reads the folder, so only the last one matters.
    applied: Sequence,
    items: Items,
    item_bytes: usize,
    /// The last key that was added.
    last_key: Option<Key>,
    lineage: Lineage,
    // Dropped last, so that no other process can open the folder while the tree is still being closed.
    folder: Folder,
}

impl StandbyFolder {
    /// Creates the folder, which must be missing, empty, or left by an interrupted attempt. `sequence` is the last
    /// transaction in the copy, `primary` the lineage of the primary, and `awaited` what the primary said.
    pub fn begin(
        path: &Path,
        (standby, awaited): (Identity, Awaited),
        primary: &Lineage,
        sequence: u64,
    ) -> Result<Self, OpenError> {
        let folder = Folder::acquire_to_restore(path)?;
        folder.create_parts()?;
        let tree_path = folder.tree();
        let tree =
            guarded_tree(&tree_path, || Tree::create(&tree_path, TreeSettings { cache_bytes: SMALL_CACHE_BYTES }))?;
        let lineage = Lineage { role: Role::Standby { id: standby, awaited }, ..primary.clone() };
        folder.write_copy(&format!("{COPY_FIRST_LINE}{sequence}\n{}", lineage.encode()))?;
        Ok(Self::new((folder, tree), (standby, lineage), sequence))
    }

    /// Opens a folder whose copy was interrupted, also by a crash. Returns `None` if there is nothing to continue. A
    /// folder that cannot be filled is an error.
    pub fn resume(path: &Path) -> Result<Option<Self>, OpenError> {
        let Some((folder, text)) = Folder::acquire_to_resume(path)? else { return Ok(None) };
        let copy = text.strip_prefix(COPY_FIRST_LINE).and_then(|text| text.split_once('\n'));
        let copy = copy.and_then(|(sequence, lineage)| Some((sequence.parse().ok()?, Lineage::decode(lineage)?)));
        let Some((sequence, lineage)) = copy else { return Ok(None) };
        let Role::Standby { id, .. } = lineage.role else { return Ok(None) };
        let tree_path = folder.tree();
        let opened = guarded_tree(&tree_path, || {
            let tree = Tree::open(&tree_path, TreeSettings { cache_bytes: SMALL_CACHE_BYTES })?;
            let last = tree.snapshot().range::<&[u8]>(..).next_back().transpose()?;
            Ok((tree, last.map(|(key, _)| key)))
        });
        match opened {
            Ok((tree, last_key)) => Ok(Some(Self { last_key, ..Self::new((folder, tree), (id, lineage), sequence) })),
            Err(error) => {
                warn!(%error, "the interrupted base copy cannot be continued");
                Ok(None)
            }
        }
    }

    fn new((folder, tree): (Folder, Tree), (id, lineage): (Identity, Lineage), sequence: u64) -> Self {
        let (sequence, applied) = (Sequence::new(sequence), tree.persisted());
        Self { id, tree, sequence, applied, items: Vec::new(), item_bytes: 0, last_key: None, lineage, folder }
    }

    /// Returns the identity of the standby.
    pub fn id(&self) -> Identity {
        self.id
    }

    /// Returns the last transaction in the copy.
    pub fn sequence(&self) -> u64 {
        self.sequence.get()
    }

    /// Returns the free space of the folder's file system, if it is known.
    pub fn free_bytes(&self) -> Option<u64> {
        free_bytes(self.folder.path()).ok()
    }

    /// Returns the key that the next chunk must follow.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.last_key.as_deref()
    }

    /// Adds an entry, which must follow [`Self::last_key`].
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), AppendError> {
        if self.last_key().is_some_and(|last| key <= last) {
            return Err(FrameError::ENTRY.into());
        }
        if self.item_bytes >= BATCH_BYTES {
            self.apply(self.applied.next())?;
        }
        self.item_bytes += key.len() + value.len();
        let key = Key::from(key);
        self.last_key = Some(key.clone());
        self.items.push((key, Some(Value::from(value))));
        Ok(())
    }

    fn apply(&mut self, sequence: Sequence) -> Result<(), AppendError> {
        // Even the last batch must have a number.
        if sequence > self.sequence || (sequence == self.sequence && self.applied == sequence) {
            return Err(FrameError::TOO_MANY.into());
        }
        self.item_bytes = 0;
        self.tree.apply(sequence, std::mem::take(&mut self.items));
        self.tree.publish(sequence);
        self.applied = sequence;
        // No other thread flushes and merges.
        if self.tree.wait_until_full(Duration::ZERO) {
            self.flush()?;
            self.tree.merge(Merge::Overfull).map_err(StorageError::from)?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.tree.flush()?;
        if self.tree.rotate() {
            self.tree.flush()?;
        }
        Ok(())
    }

    /// Completes the folder after its last chunk. All of it is on disk afterwards.
    pub fn finish(mut self) -> Result<(), AppendError> {
        if !self.items.is_empty() {
            self.apply(self.sequence)?;
        }
        self.flush()?;
        let is_empty = self.applied == Sequence::ZERO;
        if self.tree.persisted() != self.sequence && !is_empty {
            return Err(FrameError::ENTRY.into());
        }
        let Self { tree, sequence, lineage, mut folder, .. } = self;
        let settings = OpenSettings { cache_bytes: SMALL_CACHE_BYTES, durability: Durability::Sync };
        let storage = Storage::open_log(&folder, tree, settings, true)?;
        storage.begin_epoch(lineage.epoch())?;
        storage.recover()?;
        if is_empty {
            // A log may begin with a high number, so that a primary without any data has one too.
            storage.skip_to(sequence.next())?;
        }
        storage.close()?;
        drop(storage);
        folder.write_lineage(&lineage)?;
        Ok(folder.complete_restore()?)
    }
}

/// The reason why received data was not stored.
#[derive(Debug)]
pub enum AppendError {
    /// The data is damaged, or does not continue what the standby has.
    Frame(FrameError),
    /// It could not be stored. It may be sent again.
    Storage(StorageError),
    /// The folder could not be changed.
    Open(OpenError),
    /// The disk has less free space than the reserve. Nothing was appended.
    DiskFull,
    /// The engine is closed.
    Closed,
}

impl From<FrameError> for AppendError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl From<StorageError> for AppendError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<TreeError> for AppendError {
    fn from(error: TreeError) -> Self {
        Self::Storage(error.into())
    }
}

impl From<OpenError> for AppendError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::Storage(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::DiskFull => f.write_str(
                "the disk has less free space than --min-free-space, so nothing is received; free some disk space",
            ),
            Self::Closed => f.write_str("the engine is closed"),
        }
    }
}

impl std::error::Error for AppendError {}

/// The end of a standby's log. The methods block while they wait for the disk.
pub struct StandbyLog {
    shared: Arc<EmbeddedState>,
    disk: Disk,
    lineage: Mutex<Lineage>,
    id: Identity,
}

impl StandbyLog {
    pub(crate) fn new(shared: Arc<EmbeddedState>, disk: Disk, (lineage, id): (Lineage, Identity)) -> Self {
        let _is_set = shared.read_only.set(STANDBY);
        Self { shared, disk, lineage: Mutex::new(lineage), id }
    }

    /// Returns the identity of the standby.
    pub fn id(&self) -> Identity {
        self.id
    }

    /// Returns the log's identity and epochs.
    pub fn lineage(&self) -> Lineage {
        self.lineage.lock().clone()
    }

    /// Returns the last transaction that is on disk.
    pub fn synced(&self) -> u64 {
        self.shared.storage.upkeep.synced_through().get()
    }

    /// Changes the lineage durably. What belongs to a new epoch is appended afterwards.
    pub fn set_lineage(&self, changed: Lineage) -> Result<(), AppendError> {
        let mut lineage = self.lineage.lock();
        let begins_epoch = changed.epochs != lineage.epochs;
        if begins_epoch {
            self.recover()?;
        }
        self.shared.folder().write_lineage(&changed)?;
        if begins_epoch {
            self.shared.storage.begin_epoch(changed.epoch())?;
        }
        *lineage = changed;
        Ok(())
    }

    /// Appends transactions, makes them visible, and returns the last one that is on disk. After an error, the log may
    /// contain a part of them; [`Self::synced`] tells which.
    pub fn append(&self, batch: &RecordBatch) -> Result<u64, AppendError> {
        self.shared.check_open().map_err(|_| AppendError::Closed)?;
        if self.disk.is_full() {
            return Err(AppendError::DiskFull);
        }
        self.recover()?;
        let storage = &self.shared.storage;
        let next = storage.next_sequence().get();
        if batch.first != next {
            // Numbers are skipped only where an epoch begins.
            let begins_epoch = self.lineage.lock().epochs.iter().any(|epoch| epoch.first == next);
            if batch.first < next || !begins_epoch {
                return Err(FrameError::ORDER.into());
            }
            storage.skip_to(Sequence::new(batch.first))?;
        }
        let (mut group, mut last_stamp) = (Vec::new(), None);
        batch.for_each(|record| {
            let transaction = transaction(record)?;
            last_stamp = transaction.stamp.or(last_stamp);
            let is_of_catalog = transaction.origin == Origin::Catalog;
            group.push(transaction);
            if is_of_catalog {
                // The entities of a deleted table must not disappear before the table.
                self.write(std::mem::take(&mut group), last_stamp.take())?;
                self.shared.reload()?;
            }
            Ok::<(), AppendError>(())
        })?;
        if !group.is_empty() {
            self.write(group, last_stamp)?;
        }
        Ok(self.synced())
    }

    /// Cuts off a write that failed. Otherwise, a crash could bring it back in a later epoch, where it does not belong.
    fn recover(&self) -> Result<(), StorageError> {
        if self.shared.storage.refuses_writes() { self.shared.resume() } else { Ok(()) }
    }

    fn write(&self, group: Vec<LoggedTransaction>, last_stamp: Option<DateTime>) -> Result<(), StorageError> {
        if !self.shared.storage.tree.wait_for_large_room() {
            return Err(StorageError::NO_ROOM);
        }
        self.shared.storage.write(group, last_stamp, true)
    }
}

pub(super) fn transaction(record: &Record<'_>) -> Result<LoggedTransaction, FrameError> {
    let origin = Origin::try_from(record.header.origin).map_err(|()| FrameError::ORIGIN)?;
    let (items, stamp) = decode(record).map_err(|_| FrameError::RECORD)?;
    Ok(LoggedTransaction { encoded: encoded(record.payload.to_vec()), origin, stamp, items })
}

/// The folder of a standby, or of a former primary, that may become the folder of a primary.
pub struct PromotableFolder {
    lineage: Lineage,
    last_stamp: DateTime,
    storage: Storage,
    // Dropped last, as in a folder that is filled.
    folder: Folder,
}

impl PromotableFolder {
    /// Opens the folder of a server that was stopped.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (mut folder, lineage) = Folder::acquire_to_promote(path)?;
        let settings = OpenSettings { cache_bytes: SMALL_CACHE_BYTES, durability: Durability::Sync };
        let storage = opening::open(&mut folder, settings)?;
        let last_stamp = storage.recover().map_err(|error| OpenError::storage(path, error))?.last_stamp;
        Ok(Self { lineage, last_stamp, storage, folder })
    }

    /// Returns the log's identity and epochs, and the role of the folder.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Returns the Timestamp of the last write.
    pub fn last_stamp(&self) -> DateTime {
        self.last_stamp
    }

    /// Returns the number of the next transaction.
    pub fn next(&self) -> u64 {
        self.storage.next_sequence().get()
    }

    /// Begins the epoch of a promotion. If the attempt is interrupted, the folder has its former role.
    pub fn promote(self, promoted: &Lineage) -> Result<(), OpenError> {
        // Of these two, the storage is dropped first.
        let Self { folder, storage, .. } = self;
        let storage_error = |error| OpenError::storage(folder.path(), error);
        storage.begin_epoch(promoted.epoch()).map_err(storage_error)?;
        storage.close().map_err(storage_error)?;
        drop(storage);
        folder.write_lineage(promoted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::lineage::Epoch;
    use crate::{Embedded, EmbeddedOptions, KeptLog};
    use engine::{Engine, KeepChanges};
    use engine_contract::support::{ManualClock, START_TICKS, table};
    use std::ops::ControlFlow;

    #[tokio::test]
    async fn a_failed_write_does_not_come_back_in_a_later_epoch() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let kept_log = KeptLog::Within(KeepChanges { age: Duration::from_hours(1), bytes: 1 << 30 });
        let options = EmbeddedOptions { kept_log, min_free_bytes: 0, ..EmbeddedOptions::default() };
        let first = Embedded::open(&path("first"), &options, ManualClock::at(START_TICKS)).unwrap();
        let (primary, lineage) = first.primary_log().unwrap();
        let copied = primary.base_copy().unwrap();
        let (sequence, standby) = (copied.sequence(), (Identity::random(), Awaited::None));
        let mut copy = StandbyFolder::begin(&path("second"), standby, &lineage, sequence).unwrap();
        let add = |key: &[u8], value: &[u8]| {
            copy.add(key, value).unwrap();
            ControlFlow::Continue(())
        };
        copied.read(None, add).unwrap();
        copy.finish().unwrap();
        let open = || Embedded::open_standby(&path("second"), &options, ManualClock::at(START_TICKS)).unwrap();
        let (engine, log) = open();
        first.create_table(&table("Cars")).await.unwrap();
        let batch = primary.read(sequence + 1, 1 << 20).unwrap().unwrap();
        let mut group = Vec::new();
        let decoded = batch.for_each(|record| {
            group.push(transaction(record)?);
            Ok::<(), FrameError>(())
        });
        decoded.unwrap();
        log.shared.storage.write_and_fail(&group);
        assert_eq!(log.synced(), sequence);
        // Another standby without the write was promoted.
        let mut promoted = log.lineage();
        promoted.epochs.push(Epoch { number: 2, first: sequence + 1, id: Identity::random() });
        log.set_lineage(promoted).unwrap();
        drop((engine, log));
        let (_engine, log) = open();
        assert_eq!((log.lineage().epoch(), log.synced()), (2, sequence));
    }
}
