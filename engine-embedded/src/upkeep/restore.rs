//! Fills a new data folder with the contents of a backup.
//!
//! Invariant: until [`Restore::finish`] has returned, only another restore opens the folder.

use crate::disk::folder::Folder;
use crate::disk::layout::{self, TableId};
use crate::disk::open_error::OpenError;
use crate::disk::preflight::IncompleteWrites;
use crate::disk::storage::{OpenSettings, Storage};
use engine::parts::properties_value;
use engine::snapshot::{Restore, SnapshotTable};
use fjall::{OwnedWriteBatch, PersistMode};
use model::{AccountName, DateTime, ServiceProperties};
use std::path::Path;

/// The cache size for a folder that is only written to, in bytes.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// A data folder that is being filled.
pub struct RestoredFolder {
    storage: Storage,
    batch: OwnedWriteBatch,
    batch_bytes: usize,
    next_table_id: TableId,
    // Dropped last, so that no other process can open the folder while the database is still being closed.
    folder: Folder,
}

impl RestoredFolder {
    /// Creates the folder, which must be missing, empty, or left by an interrupted restore.
    pub fn begin(path: &Path) -> Result<Self, OpenError> {
        let folder = Folder::acquire_to_restore(path)?;
        let settings = OpenSettings { cache_bytes: CACHE_BYTES, incomplete_writes: IncompleteWrites::Nothing };
        let storage = Storage::create(&folder, settings)?;
        let batch = storage.db.batch();
        Ok(Self { storage, batch, batch_bytes: 0, next_table_id: TableId::FIRST, folder })
    }

    fn put(&mut self, key: Vec<u8>, value: &[u8]) -> Result<(), OpenError> {
        self.batch_bytes += key.len() + value.len();
        self.batch.insert(&self.storage.data, key, value);
        if self.batch_bytes >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), OpenError> {
        self.storage.wait_for_room();
        let batch = std::mem::replace(&mut self.batch, self.storage.db.batch());
        self.batch_bytes = 0;
        batch.durability(Some(PersistMode::Buffer)).commit().map_err(|source| self.failure(source))
    }

    fn failure(&self, source: fjall::Error) -> OpenError {
        OpenError::Storage { path: self.folder.database(), source }
    }
}

impl Restore for RestoredFolder {
    type Error = OpenError;

    fn properties(&mut self, account: &AccountName, properties: &ServiceProperties) -> Result<(), OpenError> {
        self.put(layout::service_properties_key(account), &properties_value::encode(properties))
    }

    fn table(&mut self, table: &SnapshotTable) -> Result<(), OpenError> {
        let id = self.next_table_id;
        self.next_table_id = id.next();
        let value = layout::catalog_value(&table.table, id, table.created, &table.policies);
        self.put(layout::catalog_key(&table.table), &value)
    }

    fn entity(&mut self, key: &[u8], record: &[u8]) -> Result<(), OpenError> {
        let table = self.next_table_id.before().unwrap_or(TableId::FIRST);
        self.put(layout::entity_key(table, key), record)
    }

    fn finish(mut self, last_stamp: DateTime) -> Result<(), OpenError> {
        self.put(layout::NEXT_TABLE_ID.to_vec(), &self.next_table_id.to_bytes())?;
        self.put(layout::LAST_STAMP.to_vec(), &layout::stamp_value(last_stamp))?;
        self.write()?;
        self.storage.db.persist(PersistMode::SyncAll).map_err(|source| self.failure(source))?;
        let Self { storage, batch, mut folder, .. } = self;
        // Close this first: its threads must not write after the folder is complete.
        drop(batch);
        let record = storage.close(&folder)?;
        folder.complete_restore(&record)
    }
}
