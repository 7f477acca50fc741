//! The state that the threads and the callers of the embedded engine share.

use super::counts::{CommitterCounts, MergeCounts};
use super::folder::Folder;
use super::layout::{self, TableId};
use super::open_error::OpenError;
use super::preflight::Acknowledged;
use super::prepared::KeyHashes;
use super::recent_reads::RecentReads;
use super::storage::{OpenSettings, Recovered, Storage, storage_fault};
use crate::cancellation::Cancellation;
use crate::catalog::Catalog;
use crate::engine::{Fault, ReadError, TableKey};
use crate::monotonic;
use crate::page::damaged;
use crate::properties::PropertiesOfAccounts;
use fjall::Readable;
use model::{EntityKey, Record};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// How often it is looked whether the last reader of a database is done.
const LAST_READER_POLL: Duration = Duration::from_millis(1);

/// The database and what is known about it in memory.
pub(super) struct EmbeddedState {
    /// `None` while the database is closed because a write failed, and after the engine was closed. Changed by the committer
    /// alone, and after its end.
    storage: RwLock<Option<Arc<Storage>>>,
    settings: OpenSettings,
    recent_reads: RecentReads,
    /// Changed by the committer alone, after the change is durable.
    catalog: RwLock<Catalog<TableId>>,
    /// Changed by the committer alone, after the change is durable.
    properties: RwLock<PropertiesOfAccounts>,
    /// The engine accepts no more work; long work stops soon.
    pub(super) closing: Cancellation,
    /// Something that was acknowledged is not synced yet; only with the durability `Interval`.
    pub(super) is_unsynced: AtomicBool,
    /// The last group that readers see; it becomes visible as a whole and is noted here afterwards.
    pub(super) visible_group: AtomicU64,
    pub(super) key_hashes: KeyHashes,
    /// What the committer counts.
    pub(super) counts: CommitterCounts,
    /// Merges of sorted files that the engine asked for.
    pub(super) merges: MergeCounts,
    /// The purger begins no step while a test holds this.
    #[cfg(test)]
    pub(super) purges_held: tokio::sync::Mutex<()>,
    // Dropped last, so that no other process takes the folder while the database is still being closed.
    folder: Arc<Folder>,
}

impl EmbeddedState {
    pub(super) fn new(
        folder: Folder,
        settings: OpenSettings,
        storage: Storage,
        catalog: Catalog<TableId>,
        properties: PropertiesOfAccounts,
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

    /// The database. The caller drops it soon: as long as it is held the database cannot be opened again.
    pub(super) fn storage(&self) -> Result<Arc<Storage>, Fault> {
        let storage = self.storage.read().unwrap_or_else(PoisonError::into_inner);
        storage.clone().ok_or_else(|| self.check_open().err().unwrap_or(Fault::Suspended))
    }

    /// Takes the database from all later callers, to close it; `None` if it is closed because a write failed. It closes once
    /// the last reader is done.
    pub(super) fn take_storage(&self) -> Option<Arc<Storage>> {
        self.storage.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The data folder.
    pub(super) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Closes the database, if it is open, and opens it again, so that writes are possible after one has failed.
    ///
    /// Meanwhile nothing can be read either. What was read from the database before stays valid. What was acknowledged when
    /// the database was closed is kept for the next attempt.
    pub(super) fn open_again(&self, acknowledged: &mut Acknowledged) -> Result<(), OpenError> {
        if let Some(mut shared) = self.take_storage() {
            shared.retired.cancel();
            // The library keeps its lock until the last reader is done; scans were just asked to end. A reader must not
            // close the database, because closing waits for the library's threads. So this polls until the reference
            // of the committer is the last one.
            let storage = loop {
                match Arc::try_unwrap(shared) {
                    Ok(storage) => break storage,
                    Err(still_shared) => shared = still_shared,
                }
                std::thread::sleep(LAST_READER_POLL);
            };
            *acknowledged = storage.acknowledged(self.settings.cut_off);
        }
        let storage = Storage::open_again(&self.folder, self.settings, *acknowledged)?;
        // The library may write out what the journals hold from now on.
        *acknowledged = storage.acknowledged(self.settings.cut_off);
        // Now it is known what of the failed write is on disk.
        let Recovered { catalog, properties, .. } = storage.recover()?;
        *self.catalog_mut() = catalog;
        self.properties_mut().replace_all(properties);
        *self.storage.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(storage));
        Ok(())
    }

    pub(super) fn catalog(&self) -> RwLockReadGuard<'_, Catalog<TableId>> {
        // Nothing can panic in the middle of a change of the catalog, so a poisoned lock holds good data.
        self.catalog.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn catalog_mut(&self) -> RwLockWriteGuard<'_, Catalog<TableId>> {
        self.catalog.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn properties(&self) -> RwLockReadGuard<'_, PropertiesOfAccounts> {
        self.properties.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn properties_mut(&self) -> RwLockWriteGuard<'_, PropertiesOfAccounts> {
        self.properties.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses work when the engine is closing.
    pub(super) fn check_open(&self) -> Result<(), Fault> {
        if self.closing.is_cancelled() { Err(Fault::Closed) } else { Ok(()) }
    }

    /// Whether some reads that are about to begin are likely to wait for the disk.
    pub(super) fn reads_may_wait(&self, reads: usize) -> bool {
        let storage = || self.storage().ok();
        let loaded = || storage().map_or(0, |storage| storage.blocks_loaded());
        // Without a database there is nothing to wait for.
        let fits_cache = || storage().is_none_or(|storage| storage.data.disk_space() <= self.settings.cache_bytes);
        self.recent_reads.may_wait(monotonic::now(), reads as u64, loaded, fits_cache)
    }

    /// A view of the latest state. It may wait for the batch that is being written, so it must not run on a thread that serves
    /// other tasks.
    pub(super) fn view(&self) -> Result<View, Fault> {
        let storage = self.storage()?;
        Ok(View { snapshot: storage.snapshot(), storage })
    }

    /// A view of the latest state; `None` if [`Self::view`] would have to wait.
    pub(super) fn view_now(&self) -> Result<Option<View>, Fault> {
        let storage = self.storage()?;
        Ok(storage.snapshot_now().map(|snapshot| View { snapshot, storage }))
    }

    /// The record of one entity. Where [`Self::reads_may_wait`], it must not run on a thread that serves other tasks.
    pub(super) fn get(&self, view: &View, table: &TableKey, key: &EntityKey) -> Result<Option<Record>, ReadError> {
        // The view was taken before the table is looked up: a table that still exists had not been purged then.
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

    /// The id of a table that is there.
    pub(super) fn table_id(&self, table: &TableKey) -> Result<TableId, ReadError> {
        Ok(self.catalog().get(table).ok_or(ReadError::TableNotFound)?.table)
    }
}

/// The state of the database at one instant, which shows every batch whole or not at all.
pub(super) struct View {
    // Dropped before the database that it belongs to.
    pub(super) snapshot: fjall::Snapshot,
    pub(super) storage: Arc<Storage>,
}

/// Logs what could not be read. Keys are data of the user, so they go to the log and nowhere else.
pub(super) fn read_fault(error: fjall::Error, key: &[u8]) -> ReadError {
    tracing::error!(%error, at_or_after_key = %key.escape_ascii(), "the database could not be read");
    ReadError::Fault(storage_fault(error))
}
