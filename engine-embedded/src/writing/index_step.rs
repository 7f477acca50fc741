//! What the committer does to build an index: it adds entries for existing entities, and at the end marks the index as
//! ready.
//!
//! The indexer (`upkeep::indexer`) reads the entities from a snapshot and computes their entries. Since the index is in
//! the catalog, every commit maintains its entries. A computed entry may therefore be outdated only if its entity was
//! written since the snapshot; the committer then reads the entity again.
//!
//! Invariant: an index never contains an entry that its entity does not have.

use crate::disk::layout::{self, StoredTable, TableId};
use crate::disk::payload::Operations;
use crate::hashed_key::HashedKey;
use crate::state::EmbeddedState;
use crate::tree::{Key, TreeError};
use crate::writing::prepared::RecentWrites;
use engine::parts::index;
use engine::{Fault, TableKey};
use tokio::sync::oneshot;

/// A step of the construction of indexes of one table.
pub(crate) struct IndexRequest {
    pub(crate) table: TableKey,
    pub(crate) id: TableId,
    /// The indexes that are being built.
    pub(crate) indexes: Vec<TableId>,
    pub(crate) step: IndexStep,
    pub(crate) answer: oneshot::Sender<Result<(), Fault>>,
}

pub(crate) enum IndexStep {
    /// Adds the entries of entities.
    Add {
        /// The last group whose writes are guaranteed to be visible in the snapshot.
        seen: u64,
        entities: Vec<IndexedEntity>,
    },
    /// Marks the indexes as ready.
    Finish,
}

pub(crate) struct IndexedEntity {
    pub(crate) key: HashedKey,
    /// The ID of an index, and the key of an entry of it.
    pub(crate) entries: Vec<(TableId, Key)>,
}

impl IndexRequest {
    /// Returns what the step `Add` writes in the latest state of the table.
    pub(crate) fn operations(
        &self,
        shared: &EmbeddedState,
        recent: &RecentWrites,
        table: &StoredTable,
    ) -> Result<Operations, TreeError> {
        let mut operations = Operations::default();
        let IndexStep::Add { seen, entities } = &self.step else { return Ok(operations) };
        // An index that was removed in the meantime must not get entries, because its purge may be over.
        let built: Vec<_> = table.indexes().iter().filter(|index| self.indexes.contains(&index.id)).collect();
        for IndexedEntity { key, entries } in entities {
            if recent.is_unchanged_since(*seen, key) {
                let is_built = |(id, _): &&(TableId, Key)| built.iter().any(|index| index.id == *id);
                for (_, entry) in entries.iter().filter(is_built) {
                    operations.put(entry.clone(), []);
                }
                continue;
            }
            let Some(record) = shared.storage.tree.latest(&key.key)? else { continue };
            let key_in_table = layout::key_in_table(&key.key).unwrap_or_default();
            for index in &built {
                if let Some(entry) = index::entry_of(&index.property, key_in_table, &record) {
                    operations.put(layout::entity_key(index.id, &entry), []);
                }
            }
        }
        Ok(operations)
    }
}
