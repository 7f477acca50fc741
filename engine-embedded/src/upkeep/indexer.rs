//! The background thread that builds new indexes, for all indexes of a table at once. Accounts and tables take turns.
//!
//! It walks each table in steps. Each step reads entities from a new snapshot, and sends their entries to the
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
use crate::upkeep::background::{take_turns, work_when_woken};
use crate::writing::committer::Request;
use crate::writing::fair_queue::FairQueue;
use crate::writing::index_step::{IndexRequest, IndexStep, IndexedEntity};
use engine::parts::index;
use engine::parts::turns::Turns;
use engine::{Fault, TableKey};
use model::AccountName;
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
    let mut turns = Turns::default();
    work_when_woken(shared, wakes, failure, || build_some(shared, wakes, committer, &mut turns));
}

/// Returns whether there may be more tables to build indexes for.
fn build_some(
    shared: &EmbeddedState,
    wakes: &Receiver<()>,
    committer: &FairQueue<Request>,
    turns: &mut Turns<AccountName, TableId, Build>,
) -> Result<bool, Fault> {
    turns.update(unfinished(shared));
    take_turns(shared, wakes, turns, |_, _, build| {
        #[cfg(test)]
        drop(shared.builds_held.blocking_lock());
        let next = build.step(shared, committer)?;
        if next.is_none() {
            build.send(committer, IndexStep::Finish)?;
        }
        Ok(next.map(|from| Build { from, ..build }))
    })
}

/// Returns the tables with unfinished indexes.
fn unfinished(shared: &EmbeddedState) -> Vec<(AccountName, TableId, Build)> {
    let catalog = shared.catalog.read();
    let build = catalog.iter().filter_map(|(account, listed)| {
        let indexes: Vec<_> = listed.table.indexes().iter().filter(|index| !index.is_ready).cloned().collect();
        if indexes.is_empty() {
            return None;
        }
        let (id, table) = (listed.table.id, TableKey { account: account.clone(), name: listed.name.clone() });
        Some((account.clone(), id, Build { table, id, indexes, from: id.to_bytes().to_vec() }))
    });
    build.collect()
}

/// The construction of the unfinished indexes of a table.
struct Build {
    table: TableKey,
    id: TableId,
    indexes: Vec<TableIndex>,
    /// The key of the first entity that has not been read.
    from: Vec<u8>,
}

impl Build {
    /// Returns the key to continue from, or `None` if there are no more entities.
    fn step(&self, shared: &EmbeddedState, committer: &FairQueue<Request>) -> Result<Option<Vec<u8>>, Fault> {
        // As in a preparation: the snapshot may show more than this group's writes, but never less.
        let seen = shared.visible_group.load(Ordering::Acquire);
        let snapshot = shared.storage.tree.snapshot();
        let (mut entities, mut next, mut bytes) = (Vec::new(), None, 0);
        for (count, entity) in snapshot.range(self.from.clone()..self.id.next().to_bytes().to_vec()).enumerate() {
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
                entities.push(IndexedEntity { key: shared.key_hashes.key(key.to_vec()), entries });
            }
        }
        drop(snapshot);
        if !entities.is_empty() {
            self.send(committer, IndexStep::Add { seen, entities })?;
        }
        Ok(next)
    }

    fn send(&self, committer: &FairQueue<Request>, step: IndexStep) -> Result<(), Fault> {
        let (answer, answered) = oneshot::channel();
        let indexes = self.indexes.iter().map(|index| index.id).collect();
        let request = IndexRequest { table: self.table.clone(), id: self.id, indexes, step, answer };
        committer.push(Request::Index(request)).map_err(|_| Fault::Closed)?;
        answered.blocking_recv().unwrap_or(Err(Fault::Interrupted))
    }
}
