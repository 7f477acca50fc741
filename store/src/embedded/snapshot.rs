//! Snapshots of everything, for backups: taken at one instant, read for as long as it takes, while writers go on.
//!
//! Invariants:
//!
//! 1. A snapshot shows all of each transaction that was acknowledged before it was taken, and nothing of a transaction
//!    in part. Tables, policies, properties and entities are of the same instant.
//! 2. Whoever reads a snapshot stops soon when the engine closes or must open its database again.

use super::group::storage_fault;
use super::layout::{self, TableId};
use super::shared::Shared;
use super::storage::Storage;
use crate::cancellation::Cancellation;
use crate::engine::Fault;
use crate::page::damaged;
use crate::properties_value;
use crate::snapshot::{SnapshotContents, SnapshotError, SnapshotTable};
use fjall::Readable;
use model::{DateTime, EntityView};
use std::io;
use std::sync::Arc;

/// How many entities are read between two looks at whether reading must end.
const ENTITIES_BETWEEN_CHECKS: u64 = 64;

/// Takes snapshots of an engine.
#[derive(Clone)]
pub struct Snapshots {
    shared: Arc<Shared>,
}

impl Snapshots {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Takes a snapshot, and reads all of it but the entities.
    pub fn take(&self) -> Result<EmbeddedSnapshot, Fault> {
        self.shared.check_open()?;
        let storage = self.shared.storage()?;
        let snapshot = storage.db.snapshot();
        let closing = self.shared.closing.clone();
        let (contents, ids) = contents(&storage, &snapshot)?;
        Ok(EmbeddedSnapshot { contents, ids, snapshot, storage, closing })
    }
}

/// Everything that the engine held at one instant. It keeps what it shows from being removed from disk.
pub struct EmbeddedSnapshot {
    contents: SnapshotContents,
    /// Those of the tables, in their order.
    ids: Vec<TableId>,
    // Dropped before the database that it belongs to.
    snapshot: fjall::Snapshot,
    storage: Arc<Storage>,
    closing: Cancellation,
}

impl EmbeddedSnapshot {
    /// Everything but the entities.
    pub fn contents(&self) -> &SnapshotContents {
        &self.contents
    }

    /// Why reading must end; `Ok` if it need not. Whoever waits for others between two entities asks from time to time.
    pub fn check(&self) -> Result<(), Fault> {
        if self.closing.is_cancelled() {
            return Err(Fault::Closed);
        }
        if self.storage.retired.is_cancelled() { Err(Fault::Suspended) } else { Ok(()) }
    }

    /// Gives the entities of the table at an index to the sink, in order: key bytes inside the table, record bytes.
    pub fn entities(
        &self,
        table: usize,
        mut sink: impl FnMut(&[u8], &[u8]) -> io::Result<()>,
    ) -> Result<(), SnapshotError> {
        let Some(id) = self.ids.get(table) else { return Ok(()) };
        let range = id.to_bytes()..id.next().to_bytes();
        self.check().map_err(SnapshotError::Fault)?;
        for (entry, count) in self.snapshot.range(&self.storage.data, range).zip(1_u64..) {
            let (key, record) = entry.into_inner().map_err(|error| SnapshotError::Fault(storage_fault(error)))?;
            let key = layout::key_in_table(&key).unwrap_or_default();
            EntityView::new(key, &record).map_err(|_| SnapshotError::Fault(damaged(key)))?;
            sink(key, &record).map_err(SnapshotError::Sink)?;
            if count.is_multiple_of(ENTITIES_BETWEEN_CHECKS) {
                self.check().map_err(SnapshotError::Fault)?;
            }
        }
        Ok(())
    }
}

fn contents(storage: &Storage, snapshot: &fjall::Snapshot) -> Result<(SnapshotContents, Vec<TableId>), Fault> {
    let (mut tables, mut ids) = (Vec::new(), Vec::new());
    for entry in snapshot.prefix(&storage.data, layout::CATALOG_PREFIX) {
        let (key, value) = entry.into_inner().map_err(storage_fault)?;
        let entry = layout::decode_catalog_entry(&key, &value).ok_or_else(|| cannot_read("the entry of a table"))?;
        tables.push(SnapshotTable { table: entry.table, created: entry.created, policies: entry.policies });
        ids.push(entry.id);
    }
    let mut properties = Vec::new();
    for entry in snapshot.prefix(&storage.data, layout::SERVICE_PROPERTIES_PREFIX) {
        let (key, value) = entry.into_inner().map_err(storage_fault)?;
        let decoded = layout::decode_service_properties_key(&key).zip(properties_value::decode(&value));
        properties.push(decoded.ok_or_else(|| cannot_read("the service properties of an account"))?);
    }
    let last_stamp = match snapshot.get(&storage.data, layout::LAST_STAMP).map_err(storage_fault)? {
        Some(bytes) => layout::decode_stamp(&bytes).ok_or_else(|| cannot_read("the highest Timestamp given out"))?,
        None => DateTime::MIN,
    };
    Ok((SnapshotContents { last_stamp, properties, tables }, ids))
}

fn cannot_read(what: &str) -> Fault {
    Fault::Damaged(format!("{what} cannot be read"))
}
