//! The state shared by the threads and the callers of the embedded engine.

use super::counts::{CommitterCounts, MergeCounts};
use super::hashed_key::KeyHashes;
use super::recent_reads::{ReadTimer, RecentReads, SLOW_READ};
use crate::disk::folder::Folder;
use crate::disk::layout::{self, StoredTable};
use crate::disk::storage::{Recovered, Storage, storage_fault};
use crate::disk::storage_error::StorageError;
use crate::sync::RwLock;
use crate::sync::atomic::AtomicU64;
use crate::tree::{Snapshot, TreeError};
use engine::parts::cancellation::Cancellation;
use engine::parts::catalog::Catalog;
use engine::parts::monotonic;
use engine::parts::page::damaged;
use engine::parts::properties::AccountProperties;
use engine::{Fault, ReadError, TableKey};
use model::{Clock, DateTime, EntityKey, Expiry, Record, Retention, Visibility};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) struct EmbeddedState {
    pub(crate) storage: Storage,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) recent_reads: RecentReads,
    /// Small pages that loaded no block.
    pub(crate) recent_pages: RecentReads,
    /// Changed only by the committer, after the change is durable.
    pub(crate) catalog: RwLock<Catalog<StoredTable>>,
    /// Changed only by the committer, after the change is durable.
    pub(crate) properties: RwLock<AccountProperties>,
    /// Set when the engine accepts no more operations. Long-running work then stops soon.
    pub(crate) closing: Cancellation,
    /// The reason why nothing can be written, if the folder is a standby or was fenced.
    pub(crate) read_only: OnceLock<&'static str>,
    /// The last group that is visible to readers, recorded after the whole group has become visible.
    pub(crate) visible_group: AtomicU64,
    pub(crate) key_hashes: KeyHashes,
    pub(crate) counts: CommitterCounts,
    pub(crate) merges: MergeCounts,
    /// A test holds this lock to keep the purger from starting a step.
    #[cfg(test)]
    pub(crate) purges_held: tokio::sync::Mutex<()>,
    /// A test holds this lock to keep the indexer from starting a step.
    #[cfg(test)]
    pub(crate) builds_held: tokio::sync::Mutex<()>,
    /// A test holds this lock to keep the background from flushing and merging, and from retiring the log.
    #[cfg(test)]
    pub(crate) upkeep_held: tokio::sync::Mutex<()>,
    // Dropped last, so that no other process can open the folder while the database is still being closed.
    folder: Arc<Folder>,
}

impl EmbeddedState {
    pub(crate) fn new(
        folder: Folder,
        storage: Storage,
        clock: Arc<dyn Clock>,
        catalog: Catalog<StoredTable>,
        properties: AccountProperties,
    ) -> Self {
        Self {
            storage,
            clock,
            recent_reads: RecentReads::new(),
            recent_pages: RecentReads::new(),
            catalog: RwLock::new(catalog),
            properties: RwLock::new(properties),
            closing: Cancellation::default(),
            read_only: OnceLock::new(),
            visible_group: AtomicU64::new(0),
            key_hashes: KeyHashes::default(),
            counts: CommitterCounts::new(),
            merges: MergeCounts::default(),
            #[cfg(test)]
            purges_held: tokio::sync::Mutex::default(),
            #[cfg(test)]
            builds_held: tokio::sync::Mutex::default(),
            #[cfg(test)]
            upkeep_held: tokio::sync::Mutex::default(),
            folder: Arc::new(folder),
        }
    }

    pub(crate) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Makes writes possible again after a failure. Everything that was visible stays visible.
    pub(crate) fn resume(&self) -> Result<(), StorageError> {
        self.storage.resume()?;
        if !self.storage.tree.wait_for_room() {
            return Err(StorageError::NO_ROOM);
        }
        // It is now known which part of the failed write counts.
        self.reload()
    }

    /// Reads the tables and the service properties again.
    pub(crate) fn reload(&self) -> Result<(), StorageError> {
        let Recovered { catalog, properties, .. } = self.storage.recover()?;
        *self.catalog.write() = catalog;
        self.properties.write().replace_all(properties);
        Ok(())
    }

    /// Checks whether requests may write.
    pub(crate) fn check_writable(&self) -> Result<(), Fault> {
        self.check_open()?;
        self.read_only.get().map_or(Ok(()), |reason| Err(Fault::ReadOnly(reason)))
    }

    pub(crate) fn check_open(&self) -> Result<(), Fault> {
        if self.closing.is_cancelled() { Err(Fault::Closed) } else { Ok(()) }
    }

    /// Runs a read of one entity, and records its duration if it may have waited for the disk.
    pub(crate) fn timed<T, E>(&self, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let tree = &self.storage.tree;
        let (timer, loaded) = (ReadTimer::start(self.recent_reads.are_watched()), tree.blocks_loaded());
        let result = read();
        // A block that cannot be read is not counted as loaded.
        self.recent_reads.end(&timer, result.is_err() || tree.blocks_loaded() != loaded);
        result
    }

    /// Returns whether the first part of a small page, which is about to begin, must not run on the thread of its
    /// request.
    pub(crate) fn begin_page(&self) -> bool {
        self.recent_reads.count(1, self.recent_reads.are_moved() || self.recent_pages.are_moved())
    }

    /// Records the time that the first part of a small page took to read its entities. If it took long but loaded no
    /// block, it stepped over many tombstones or old versions.
    pub(crate) fn record_page(&self, time: Duration, has_loaded: bool) {
        let (reads, pages, now) = (&self.recent_reads, &self.recent_pages, monotonic::now());
        if has_loaded || reads.are_watched() {
            reads.record(has_loaded.then_some(time), now);
        }
        if pages.are_watched() || (!has_loaded && time >= SLOW_READ) {
            pages.record((!has_loaded).then_some(time), now);
        }
    }

    /// Returns the record of an entity. While [`RecentReads::are_moved`] returns true, this method must not be called
    /// on a thread that also runs other tasks.
    pub(crate) fn get(&self, view: &View, table: &TableKey, key: &EntityKey) -> Result<Option<Record>, ReadError> {
        let (stored, expiry) = view.table(self, table, Visibility::Live)?;
        let full_key = layout::key_of_entity(stored.id, key);
        let value = self.timed(|| view.snapshot.get(&full_key)).map_err(|error| read_fault(error, &full_key))?;
        let Some(value) = value else { return Ok(None) };
        let record = Record::from_bytes(value.to_vec());
        let is_visible = match record.view() {
            Ok(view) => expiry.sees(view),
            Err(_) => return Err(ReadError::Fault(damaged(&full_key))),
        };
        Ok(is_visible.then_some(record))
    }

    pub(crate) fn has_indexes(&self, table: &TableKey) -> bool {
        self.catalog.read().get(table).is_some_and(|listed| !listed.table.indexes().is_empty())
    }

    /// Returns which entities an operation sees that begins now. Without a retention, the time is not read.
    pub(crate) fn expiry(&self, retention: Option<&Retention>, visible: Visibility) -> Expiry {
        let now = if retention.is_some() { self.clock.now() } else { DateTime::MIN };
        Expiry::new(retention, visible, now)
    }

    pub(crate) fn view(&self) -> View {
        // Read the time first: an entity that expires between the two is shown, and one that is renewed in time is
        // never missing.
        let now = self.clock.now();
        View { now, snapshot: self.storage.tree.snapshot() }
    }
}

/// A snapshot of the tree, and the time that decides which entities in it have expired.
pub(crate) struct View {
    now: DateTime,
    pub(crate) snapshot: Snapshot,
}

impl View {
    /// The snapshot was taken before this lookup, so a table that still exists had not been purged when the snapshot
    /// was taken.
    pub(crate) fn table(
        &self,
        shared: &EmbeddedState,
        table: &TableKey,
        visible: Visibility,
    ) -> Result<(StoredTable, Expiry), ReadError> {
        let catalog = shared.catalog.read();
        let listed = catalog.get(table).ok_or(ReadError::TableNotFound)?;
        Ok((listed.table.clone(), Expiry::new(listed.settings.retention.as_ref(), visible, self.now)))
    }
}

/// Keys are user data, so they appear only in the log, not in the fault.
pub(crate) fn read_fault(error: TreeError, key: &[u8]) -> ReadError {
    tracing::error!(%error, at_or_after_key = %key.escape_ascii(), "the database could not be read");
    ReadError::Fault(storage_fault(error))
}
