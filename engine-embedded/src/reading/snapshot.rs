//! Snapshots of the embedded engine.
//!
//! Invariant beyond those of [`engine::snapshot`]: a reader of a snapshot stops soon when the engine closes, which
//! is not possible while it reads.

use crate::disk::folder::Folder;
use crate::disk::layout::{self, EngineEntry, EngineEntryError, TableId};
use crate::disk::storage::{Storage, storage_fault};
use crate::state::EmbeddedState;
use crate::tree;
use engine::Fault;
use engine::parts::cancellation::Cancellation;
use engine::snapshot::{EntityVisitor, Snapshot, SnapshotContents, SnapshotError, Snapshots};
use model::DateTime;
use std::sync::Arc;

const ENTITIES_BETWEEN_CHECKS: usize = 64;

impl Snapshots for EmbeddedState {
    fn take(&self) -> Result<Box<dyn Snapshot>, Fault> {
        self.check_open()?;
        let snapshot = self.storage.tree.snapshot();
        let (contents, ids) = contents(&snapshot)?;
        let (closing, folder) = (self.closing.clone(), Some(Arc::clone(self.folder())));
        Ok(Box::new(EmbeddedSnapshot { contents, ids, snapshot, closing, _folder: folder }))
    }
}

/// While the snapshot exists, its contents are not removed from disk.
pub(crate) struct EmbeddedSnapshot {
    pub(crate) contents: SnapshotContents,
    /// The IDs of the tables, in the order of the tables.
    pub(crate) ids: Vec<TableId>,
    pub(crate) snapshot: tree::Snapshot,
    pub(crate) closing: Cancellation,
    // Dropped last, so that no other process can open the folder while the tree is still open.
    pub(crate) _folder: Option<Arc<Folder>>,
}

impl Snapshot for EmbeddedSnapshot {
    fn contents(&self) -> &SnapshotContents {
        &self.contents
    }

    fn check(&self) -> Result<(), Fault> {
        if self.closing.is_cancelled() { Err(Fault::Closed) } else { Ok(()) }
    }

    fn stored_entities(&self, table: usize, visit: &mut EntityVisitor<'_, SnapshotError>) -> Result<(), SnapshotError> {
        self.check().map_err(SnapshotError::Fault)?;
        let Some(id) = self.ids.get(table) else { return Ok(()) };
        let entries = self.snapshot.range(id.to_bytes()..id.next().to_bytes());
        for (index, entry) in entries.enumerate() {
            if index % ENTITIES_BETWEEN_CHECKS == 0 {
                self.check().map_err(SnapshotError::Fault)?;
            }
            let (key, record) = entry.map_err(|error| SnapshotError::Fault(storage_fault(error)))?;
            visit(layout::key_in_table(&key).unwrap_or_default(), &record)?;
        }
        Ok(())
    }
}

fn contents(snapshot: &tree::Snapshot) -> Result<(SnapshotContents, Vec<TableId>), Fault> {
    let position = Some(snapshot.sequence().next().get());
    let mut contents =
        SnapshotContents { last_stamp: DateTime::MIN, properties: Vec::new(), tables: Vec::new(), position };
    let mut ids = Vec::new();
    for entry in Storage::own_entries(snapshot) {
        let (key, value) = entry.map_err(storage_fault)?;
        match layout::decode_engine_entry(&key, &value) {
            Ok(EngineEntry::LastStamp(stamp)) => contents.last_stamp = stamp,
            Ok(EngineEntry::Table(entry)) => {
                ids.push(entry.id);
                contents.tables.push(entry.into_snapshot());
            }
            Ok(EngineEntry::ServiceProperties(account, properties)) => contents.properties.push((account, *properties)),
            Ok(EngineEntry::NextTableId(_) | EngineEntry::Purge(_) | EngineEntry::Deleted(_))
            | Err(EngineEntryError::UnknownKind) => {}
            Err(EngineEntryError::Damaged(what)) => return Err(Fault::Damaged(what.to_owned())),
        }
    }
    Ok((contents, ids))
}
