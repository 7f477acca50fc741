//! Fills a new data folder with the contents of a backup.
//!
//! Invariant: until [`Restore::finish`] has returned, only another restore opens the folder.

use crate::disk::folder::Folder;
use crate::disk::layout::{self, CatalogEntry, TableId};
use crate::disk::open_error::OpenError;
use crate::disk::payload::{Operations, Origin};
use crate::disk::storage::{OpenSettings, SMALL_CACHE_BYTES, Storage};
use crate::disk::storage_error::StorageError;
use crate::log::options::Durability;
use crate::tree::Merge;
use engine::parts::properties_value;
use engine::snapshot::{Restore, SnapshotTable};
use model::{AccountName, DateTime, ServiceProperties};
use std::path::Path;
use std::time::Duration;

const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// A data folder that is being filled.
pub struct RestoredFolder {
    storage: Storage,
    operations: Operations,
    operation_bytes: usize,
    /// The most recently added table.
    table: TableId,
    next_table_id: TableId,
    // Dropped last, so that no other process can open the folder while the database is still being closed.
    folder: Folder,
}

impl RestoredFolder {
    /// Creates the folder, which must be missing, empty, or left by an interrupted restore.
    pub fn begin(path: &Path) -> Result<Self, OpenError> {
        let folder = Folder::acquire_to_restore(path)?;
        let settings = OpenSettings { cache_bytes: SMALL_CACHE_BYTES, durability: Durability::Interval };
        let storage = Storage::create(&folder, settings)?;
        let operations = Operations::default();
        Ok(Self {
            storage,
            operations,
            operation_bytes: 0,
            table: TableId::FIRST,
            next_table_id: TableId::FIRST,
            folder,
        })
    }

    fn put(&mut self, key: Vec<u8>, value: &[u8]) -> Result<(), OpenError> {
        self.operation_bytes += key.len() + value.len();
        self.operations.put(key, value);
        if self.operation_bytes >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), OpenError> {
        let operations = std::mem::take(&mut self.operations);
        self.operation_bytes = 0;
        let written = self.storage.write(vec![operations.into_transaction(Origin::Catalog)], None, false);
        written.map_err(|error| self.failure(error))?;
        // No other thread flushes and merges.
        if self.storage.tree.wait_until_full(Duration::ZERO) {
            self.storage.flush_everything().map_err(|error| self.failure(error))?;
            self.storage.tree.merge(Merge::Overfull).map_err(|error| self.failure(error.into()))?;
        }
        Ok(())
    }

    fn failure(&self, source: StorageError) -> OpenError {
        OpenError::Storage { path: self.folder.path().to_owned(), source }
    }
}

impl Restore for RestoredFolder {
    type Error = OpenError;

    fn properties(&mut self, account: &AccountName, properties: &ServiceProperties) -> Result<(), OpenError> {
        self.put(layout::service_properties_key(account), &properties_value::encode(properties))
    }

    fn table(&mut self, table: &SnapshotTable) -> Result<(), OpenError> {
        let entry = CatalogEntry::from_snapshot(table, &mut self.next_table_id);
        self.table = entry.id;
        self.put(layout::catalog_key(&table.table), &entry.value())
    }

    fn entity(&mut self, key: &[u8], record: &[u8]) -> Result<(), OpenError> {
        self.put(layout::entity_key(self.table, key), record)
    }

    fn finish(mut self, last_stamp: DateTime) -> Result<(), OpenError> {
        self.put(layout::NEXT_TABLE_ID.to_vec(), &self.next_table_id.to_bytes())?;
        self.put(layout::LAST_STAMP.to_vec(), &layout::stamp_value(last_stamp))?;
        self.write()?;
        self.storage.close().map_err(|error| self.failure(error))?;
        let Self { storage, mut folder, .. } = self;
        drop(storage);
        folder.complete_restore()
    }
}
