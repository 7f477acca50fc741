//! The background thread that builds new indexes, for all indexes of a table at once.
//!
//! It walks the table in steps. Each step reads entities from a new snapshot, and sends their entries to the
//! committer (`writing::index_step`). After a crash or a restart, it begins again. Adding an entry
//! twice changes nothing.
//!
//! Invariants:
//!
//! 1. An index is marked as ready after the entries of all entities are in it.
//! 2. Steps are short, and after each step the thread checks whether the engine is closing.

use crate::disk::layout::{self, TableId, TableIndex};
use crate::disk::storage::storage_fault;
use crate::state::EmbeddedState;
use crate::upkeep::background::work_when_woken;
use crate::writing::committer::Request;
use crate::writing::fair_queue::FairQueue;
use crate::writing::index_step::{IndexRequest, IndexStep, IndexedEntity};
use engine::parts::{index, monotonic};
use engine::{Fault, TableKey};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use tokio::sync::oneshot;

/// The maximum number of entities that a step reads. The committer needs about 0.2 ms for their entries.
const STEP_ENTITIES: usize = 256;
/// The size of the records at which a step ends, in bytes.
const STEP_BYTES: usize = 1024 * 1024;

/// Builds indexes: first those left over from the previous run, then whenever it is woken.
pub(crate) fn build_indexes(shared: &EmbeddedState, committer: &FairQueue<Request>, wakes: &Receiver<()>) {
    let failure = "an index could not be built; the construction will be retried";
    work_when_woken(shared, wakes, failure, || build_all(shared, committer));
}

fn build_all(shared: &EmbeddedState, committer: &FairQueue<Request>) -> Result<(), Fault> {
    while let Some(build) = Build::next(shared, committer) {
        let mut from = Some(build.id.to_bytes().to_vec());
        while let Some(start) = from {
            if shared.closing.is_cancelled() {
                return Ok(());
            }
            #[cfg(test)]
            drop(shared.builds_held.blocking_lock());
            let began = monotonic::now();
            from = build.step(start)?;
            // Leave half of the time to writers that wait for the committer.
            std::thread::sleep(began.elapsed());
        }
        build.send(IndexStep::Finish)?;
    }
    Ok(())
}

/// The construction of the unfinished indexes of a table.
struct Build<'a> {
    shared: &'a EmbeddedState,
    committer: &'a FairQueue<Request>,
    table: TableKey,
    id: TableId,
    indexes: Vec<TableIndex>,
}

impl<'a> Build<'a> {
    fn next(shared: &'a EmbeddedState, committer: &'a FairQueue<Request>) -> Option<Self> {
        let catalog = shared.catalog();
        catalog.iter().find_map(|(account, listed)| {
            let indexes: Vec<_> = listed.table.indexes().iter().filter(|index| !index.is_ready).cloned().collect();
            if indexes.is_empty() {
                return None;
            }
            let table = TableKey { account: account.clone(), name: listed.name.clone() };
            Some(Self { shared, committer, table, id: listed.table.id, indexes })
        })
    }

    /// Returns the key to continue from, or `None` if there are no more entities.
    fn step(&self, from: Vec<u8>) -> Result<Option<Vec<u8>>, Fault> {
        // As in a preparation: the snapshot may show more than this group's writes, but never less.
        let seen = self.shared.visible_group.load(Ordering::Acquire);
        let snapshot = self.shared.storage.tree.snapshot();
        let (mut entities, mut next, mut bytes) = (Vec::new(), None, 0);
        for (count, entity) in snapshot.range(from..self.id.next().to_bytes().to_vec()).enumerate() {
            let (key, record) = entity.map_err(storage_fault)?;
            if count == STEP_ENTITIES || bytes >= STEP_BYTES {
                next = Some(key.to_vec());
                break;
            }
            bytes += record.len();
            let key_in_table = layout::key_in_table(&key).unwrap_or_default();
            let entry = |index: &TableIndex| {
                let entry = index::entry_of(&index.property, key_in_table, &record)?;
                Some((index.id, layout::entity_key(index.id, &entry).into()))
            };
            let entries: Vec<_> = self.indexes.iter().filter_map(entry).collect();
            // An entity that gets the property later gets its entry from the commit.
            if !entries.is_empty() {
                entities.push(IndexedEntity { key: self.shared.key_hashes.key(key.to_vec()), entries });
            }
        }
        drop(snapshot);
        if !entities.is_empty() {
            self.send(IndexStep::Add { seen, entities })?;
        }
        Ok(next)
    }

    fn send(&self, step: IndexStep) -> Result<(), Fault> {
        let (answer, answered) = oneshot::channel();
        let indexes = self.indexes.iter().map(|index| index.id).collect();
        let request = IndexRequest { table: self.table.clone(), id: self.id, indexes, step, answer };
        self.committer.push(Request::Index(request)).map_err(|_| Fault::Closed)?;
        answered.blocking_recv().unwrap_or(Err(Fault::Interrupted))
    }
}
