//! What the threads and the callers of the embedded engine share.

use super::group::storage_fault;
use super::layout::{self, TableId};
use super::storage::Storage;
use crate::cancellation::Cancellation;
use crate::catalog::Catalog;
use crate::engine::{EntitySink, Fault, ReadError, Scan, ScanEnd, TableKey};
use crate::page::{PageBuilder, damaged, ranges_to_visit};
use crate::properties::PropertiesOfAccounts;
use fjall::Readable;
use model::{EntityKey, Record};
use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The database and what is known about it in memory.
pub(super) struct Shared {
    pub(super) storage: Storage,
    /// Changed by the committer alone, after the change is durable.
    catalog: RwLock<Catalog<TableId>>,
    /// Changed by the committer alone, after the change is durable.
    properties: RwLock<PropertiesOfAccounts>,
    /// The engine takes no more work; long work stops soon.
    pub(super) closing: Cancellation,
    /// Something acknowledged is not synced yet; only with the durability `Interval`.
    pub(super) is_unsynced: AtomicBool,
}

impl Shared {
    pub(super) fn new(storage: Storage, catalog: Catalog<TableId>, properties: PropertiesOfAccounts) -> Self {
        let (catalog, properties) = (RwLock::new(catalog), RwLock::new(properties));
        Self { storage, catalog, properties, closing: Cancellation::default(), is_unsynced: AtomicBool::new(false) }
    }

    pub(super) fn catalog(&self) -> RwLockReadGuard<'_, Catalog<TableId>> {
        // Nothing can panic between two halves of a change of the catalog, so a poisoned lock is as good as any.
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

    /// The record of one entity.
    pub(super) fn get(&self, table: &TableKey, key: &EntityKey) -> Result<Option<Record>, ReadError> {
        // A snapshot keeps a transaction that is just becoming visible from being seen in part. It is taken before
        // the table is looked up: a table that is still there afterwards was not purged when it was taken.
        let snapshot = self.storage.db.snapshot();
        let id = self.table_id(table)?;
        let full_key = layout::key_of_entity(id, key);
        let value = snapshot.get(&self.storage.data, &full_key).map_err(read_fault)?;
        let Some(value) = value else { return Ok(None) };
        let record = Record::from_bytes(value.to_vec());
        match record.view() {
            Ok(_) => Ok(Some(record)),
            Err(_) => Err(ReadError::Fault(damaged(&full_key))),
        }
    }

    /// A page of entities; runs until the page is done, so it must not run on a thread that serves other tasks.
    pub(super) fn page<S: EntitySink>(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: S,
        abandoned: Cancellation,
    ) -> Result<(S, ScanEnd), ReadError> {
        self.check_open().map_err(ReadError::Fault)?;
        // The snapshot comes before the table for the reason given in `get`.
        let snapshot = self.storage.db.snapshot();
        let id = self.table_id(table)?;
        let ranges = ranges_to_visit(&scan);
        let mut page = PageBuilder::new(scan, sink, vec![abandoned, self.closing.clone()]);
        'page: for range in &ranges {
            let start = layout::entity_key(id, &range.start);
            let end = match &range.end {
                Some(end) => layout::entity_key(id, end),
                None => id.next().to_bytes().to_vec(),
            };
            for entry in snapshot.range(&self.storage.data, start..end) {
                let (full_key, record) = entry.into_inner().map_err(read_fault)?;
                let key = layout::key_in_table(&full_key).unwrap_or_default();
                if page.visit(key, &record).map_err(ReadError::Fault)?.is_break() {
                    break 'page;
                }
            }
        }
        // A page that was cut short because the engine is closing would look like one that ended by itself.
        self.check_open().map_err(ReadError::Fault)?;
        Ok(page.finish())
    }

    fn table_id(&self, table: &TableKey) -> Result<TableId, ReadError> {
        Ok(self.catalog().get(table).ok_or(ReadError::TableNotFound)?.table)
    }
}

fn read_fault(error: fjall::Error) -> ReadError {
    tracing::error!(%error, "the database could not be read");
    ReadError::Fault(storage_fault(error))
}
