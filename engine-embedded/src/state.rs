//! The state shared by the threads and the callers of the embedded engine.

use super::counts::{CommitterCounts, MergeCounts};
use super::hashed_key::KeyHashes;
use super::recent_reads::RecentReads;
use crate::disk::folder::Folder;
use crate::disk::layout::{self, TableId};
use crate::disk::open_error::OpenError;
use crate::disk::preflight::Acknowledged;
use crate::disk::storage::{OpenSettings, Recovered, Snapshot, Storage, storage_fault};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, sleep};
use engine::parts::cancellation::Cancellation;
use engine::parts::catalog::Catalog;
use engine::parts::monotonic;
use engine::parts::page::damaged;
use engine::parts::properties::AccountProperties;
use engine::{Fault, ReadError, TableKey};
use fjall::Readable;
use model::{EntityKey, Record};
use std::sync::Arc;
use std::time::Duration;

const LAST_READER_POLL: Duration = Duration::from_millis(1);

pub(crate) struct EmbeddedState {
    /// `None` while the database is closed because a write failed, and after the engine is closed. Changed only by the
    /// committer or after the committer has stopped.
    storage: RwLock<Option<Arc<Storage>>>,
    settings: OpenSettings,
    recent_reads: RecentReads,
    /// Changed only by the committer, after the change is durable.
    catalog: RwLock<Catalog<TableId>>,
    /// Changed only by the committer, after the change is durable.
    properties: RwLock<AccountProperties>,
    /// Set when the engine accepts no more operations. Long-running work then stops soon.
    pub(crate) closing: Cancellation,
    /// Whether an acknowledged write is not yet synced. Used only with the durability `Interval`.
    pub(crate) is_unsynced: AtomicBool,
    /// The last group that is visible to readers, recorded after the whole group has become visible.
    pub(crate) visible_group: AtomicU64,
    pub(crate) key_hashes: KeyHashes,
    pub(crate) counts: CommitterCounts,
    pub(crate) merges: MergeCounts,
    /// A test holds this lock to keep the purger from starting a step.
    #[cfg(test)]
    pub(crate) purges_held: tokio::sync::Mutex<()>,
    // Dropped last, so that no other process can open the folder while the database is still being closed.
    folder: Arc<Folder>,
}

impl EmbeddedState {
    pub(crate) fn new(
        folder: Folder,
        settings: OpenSettings,
        storage: Storage,
        catalog: Catalog<TableId>,
        properties: AccountProperties,
    ) -> Self {
        Self {
            storage: RwLock::new(Some(Arc::new(storage))),
            settings,
            recent_reads: RecentReads::new(),
            catalog: RwLock::new(catalog),
            properties: RwLock::new(properties),
            closing: Cancellation::default(),
            is_unsynced: AtomicBool::new(false),
            visible_group: AtomicU64::new(0),
            key_hashes: KeyHashes::default(),
            counts: CommitterCounts::new(),
            merges: MergeCounts::default(),
            #[cfg(test)]
            purges_held: tokio::sync::Mutex::default(),
            folder: Arc::new(folder),
        }
    }

    /// The caller must drop the database soon, because it cannot be reopened while it is held.
    pub(crate) fn storage(&self) -> Result<Arc<Storage>, Fault> {
        let storage = self.storage.read().unwrap_or_else(PoisonError::into_inner);
        storage.clone().ok_or_else(|| self.check_open().err().unwrap_or(Fault::Suspended))
    }

    /// Takes the database out of this state so that it can be closed. Returns `None` if it is already closed because a
    /// write failed. The database closes when the last reader finishes.
    pub(crate) fn take_storage(&self) -> Option<Arc<Storage>> {
        self.storage.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Closes the database, if it is open, and opens it again, so that writes are possible after a failed write. While
    /// the database is closed, nothing can be read, but data that was read earlier stays valid. The batches that were
    /// acknowledged when the database was closed are kept in `acknowledged` for the next attempt.
    pub(crate) fn reopen(&self, acknowledged: &mut Acknowledged) -> Result<(), OpenError> {
        if let Some(mut shared) = self.take_storage() {
            shared.retired.cancel();
            // The library holds its lock until the last reader finishes; scans have just been told to stop. A reader
            // must not be the one that closes the database, because closing waits for the library's threads. Therefore,
            // poll until only the committer's reference is left.
            let storage = loop {
                match Arc::try_unwrap(shared) {
                    Ok(storage) => break storage,
                    Err(still_shared) => shared = still_shared,
                }
                sleep(LAST_READER_POLL);
            };
            *acknowledged = storage.acknowledged(self.settings.incomplete_writes);
        }
        let storage = Storage::reopen(&self.folder, self.settings, *acknowledged)?;
        // From now on, the library may flush the contents of the journals.
        *acknowledged = storage.acknowledged(self.settings.incomplete_writes);
        // It is now known which parts of the failed write are on disk.
        let Recovered { catalog, properties, .. } = storage.recover()?;
        *self.catalog_mut() = catalog;
        self.properties_mut().replace_all(properties);
        *self.storage.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(storage));
        Ok(())
    }

    pub(crate) fn catalog(&self) -> RwLockReadGuard<'_, Catalog<TableId>> {
        // A change to the catalog cannot panic halfway, so the data behind a poisoned lock is valid.
        self.catalog.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn catalog_mut(&self) -> RwLockWriteGuard<'_, Catalog<TableId>> {
        self.catalog.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn properties(&self) -> RwLockReadGuard<'_, AccountProperties> {
        self.properties.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn properties_mut(&self) -> RwLockWriteGuard<'_, AccountProperties> {
        self.properties.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check_open(&self) -> Result<(), Fault> {
        if self.closing.is_cancelled() { Err(Fault::Closed) } else { Ok(()) }
    }

    /// Returns whether the given number of reads, which are about to start, are likely to wait for the disk.
    pub(crate) fn reads_may_wait(&self, reads: usize) -> bool {
        let storage = || self.storage().ok();
        let loaded = || storage().map_or(0, |storage| storage.blocks_loaded());
        let fits_cache = || storage().is_none_or(|storage| storage.data.disk_space() <= self.settings.cache_bytes);
        self.recent_reads.may_wait(monotonic::now(), reads as u64, loaded, fits_cache)
    }

    /// Returns a view of the latest state. This method may wait for the batch that is being written, so it must not be
    /// called on a thread that also runs other tasks.
    pub(crate) fn view(&self) -> Result<View, Fault> {
        let storage = self.storage()?;
        Ok(View { snapshot: storage.snapshot(), storage })
    }

    /// Returns a view of the latest state, or `None` if [`Self::view`] would have to wait.
    pub(crate) fn try_view(&self) -> Result<Option<View>, Fault> {
        let storage = self.storage()?;
        Ok(storage.try_snapshot().map(|snapshot| View { snapshot, storage }))
    }

    /// Returns the record of an entity. If [`Self::reads_may_wait`] returns true, this method must not be called on a
    /// thread that also runs other tasks.
    pub(crate) fn get(&self, view: &View, table: &TableKey, key: &EntityKey) -> Result<Option<Record>, ReadError> {
        // The view was taken before this lookup, so a table that still exists had not been purged when the view was
        // taken.
        let id = self.table_id(table)?;
        let full_key = layout::key_of_entity(id, key);
        let value = view.snapshot.get(&view.storage.data, &full_key).map_err(|error| read_fault(error, &full_key))?;
        let Some(value) = value else { return Ok(None) };
        let record = Record::from_bytes(value.to_vec());
        match record.view() {
            Ok(_) => Ok(Some(record)),
            Err(_) => Err(ReadError::Fault(damaged(&full_key))),
        }
    }

    pub(crate) fn table_id(&self, table: &TableKey) -> Result<TableId, ReadError> {
        Ok(self.catalog().get(table).ok_or(ReadError::TableNotFound)?.table)
    }
}

/// The state of the database at one instant. It contains either all of a batch or none of it.
pub(crate) struct View {
    // Dropped before the database to which it belongs.
    pub(crate) snapshot: Snapshot,
    pub(crate) storage: Arc<Storage>,
}

/// Keys are user data, so they appear only in the log, not in the fault.
pub(crate) fn read_fault(error: fjall::Error, key: &[u8]) -> ReadError {
    tracing::error!(%error, at_or_after_key = %key.escape_ascii(), "the database could not be read");
    ReadError::Fault(storage_fault(error))
}
