//! Snapshots of the embedded engine.
//!
//! Invariant beyond those of [`engine::snapshot`]: a reader of a snapshot stops soon when the engine closes or must
//! reopen its database, because neither is possible while it reads.

use crate::disk::layout::{self, EngineEntry, EngineEntryError, TableId};
use crate::disk::storage::{Storage, storage_fault};
use crate::state::{EmbeddedState, View};
use engine::Fault;
use engine::parts::cancellation::Cancellation;
use engine::snapshot::{EntityVisitor, Snapshot, SnapshotContents, SnapshotError, Snapshots};
use fjall::Readable;
use model::DateTime;
use std::sync::Arc;

const ENTITIES_BETWEEN_CHECKS: usize = 64;

impl Snapshots for EmbeddedState {
    fn take(&self) -> Result<Box<dyn Snapshot>, Fault> {
        self.check_open()?;
        let View { snapshot, storage } = self.view()?;
        let (contents, ids) = contents(&storage, &snapshot)?;
        Ok(Box::new(EmbeddedSnapshot { contents, ids, snapshot, storage, closing: self.closing.clone() }))
    }
}

/// While the snapshot exists, its contents are not removed from disk.
pub(crate) struct EmbeddedSnapshot {
    pub(crate) contents: SnapshotContents,
    /// The IDs of the tables, in the order of the tables.
    pub(crate) ids: Vec<TableId>,
    // Dropped before the database to which it belongs.
    pub(crate) snapshot: fjall::Snapshot,
    pub(crate) storage: Arc<Storage>,
    pub(crate) closing: Cancellation,
}

impl Snapshot for EmbeddedSnapshot {
    fn contents(&self) -> &SnapshotContents {
        &self.contents
    }

    fn check(&self) -> Result<(), Fault> {
        if self.closing.is_cancelled() {
            return Err(Fault::Closed);
        }
        if self.storage.retired.is_cancelled() { Err(Fault::Suspended) } else { Ok(()) }
    }

    fn stored_entities(&self, table: usize, visit: &mut EntityVisitor<'_, SnapshotError>) -> Result<(), SnapshotError> {
        self.check().map_err(SnapshotError::Fault)?;
        let Some(id) = self.ids.get(table) else { return Ok(()) };
        let entries = self.snapshot.range(&self.storage.data, id.to_bytes()..id.next().to_bytes());
        for (index, entry) in entries.enumerate() {
            if index % ENTITIES_BETWEEN_CHECKS == 0 {
                self.check().map_err(SnapshotError::Fault)?;
            }
            let (key, record) = entry.into_inner().map_err(|error| SnapshotError::Fault(storage_fault(error)))?;
            visit(layout::key_in_table(&key).unwrap_or_default(), &record)?;
        }
        Ok(())
    }
}

fn contents(storage: &Storage, snapshot: &fjall::Snapshot) -> Result<(SnapshotContents, Vec<TableId>), Fault> {
    let mut contents = SnapshotContents { last_stamp: DateTime::MIN, properties: Vec::new(), tables: Vec::new() };
    let mut ids = Vec::new();
    for entry in storage.own_entries(snapshot) {
        let (key, value) = entry.into_inner().map_err(storage_fault)?;
        match layout::decode_engine_entry(&key, &value) {
            Ok(EngineEntry::LastStamp(stamp)) => contents.last_stamp = stamp,
            Ok(EngineEntry::Table(entry)) => {
                ids.push(entry.id);
                contents.tables.push(entry.into_snapshot());
            }
            Ok(EngineEntry::ServiceProperties(account, properties)) => contents.properties.push((account, *properties)),
            Ok(EngineEntry::NextTableId(_) | EngineEntry::Purge(_)) | Err(EngineEntryError::UnknownKind) => {}
            Err(EngineEntryError::Damaged(what)) => return Err(Fault::Damaged(what.to_owned())),
        }
    }
    Ok((contents, ids))
}
