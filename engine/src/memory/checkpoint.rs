//! Checkpoints: saved states to which a test can return the engine.
//!
//! The time to save or restore a state is proportional to the number of tables, not of entities, because states share
//! their entities.
//!
//! Invariants:
//!
//! 1. A call to the engine sees the state before or after a return, never a mixture. A transaction committed before the
//!    return is lost as a whole; one committed after it applies to the checkpoint's state.
//! 2. After a return, stamps continue after the last issued one, so that no earlier ETag is repeated. Stamps restart
//!    only when a test restarts.

use super::stamps::MemoryStamps;
use super::{Contents, MemoryState, Table};
use crate::parts::catalog::Catalog;
use crate::parts::properties::AccountProperties;
use model::AccountName;
use std::sync::Arc;

/// The engine's contents at one instant: tables, entities, policies, settings and service properties of all accounts.
#[derive(Debug, Clone)]
pub struct MemoryCheckpoint {
    catalog: Catalog<Table>,
    properties: AccountProperties,
    stamps: MemoryStamps,
}

impl MemoryCheckpoint {
    /// Removes all data of an account.
    pub fn clear_account(&mut self, account: &AccountName) {
        let Self { catalog, properties, stamps } = self;
        drop(catalog.remove_account(account));
        properties.remove(account);
        stamps.forget(account);
    }
}

/// A handle that saves states of a memory engine and returns the engine to them.
#[derive(Debug, Clone)]
pub struct MemoryCheckpoints(Arc<MemoryState>);

impl MemoryCheckpoints {
    pub(super) fn new(shared: Arc<MemoryState>) -> Self {
        Self(shared)
    }

    /// Saves the current state.
    pub fn take(&self) -> MemoryCheckpoint {
        let Contents { catalog, properties, stamps, .. } = &*self.0.state.read();
        MemoryCheckpoint { catalog: catalog.clone(), properties: properties.clone(), stamps: stamps.clone() }
    }

    /// Returns the engine to a state, which may come from another engine. Timestamps continue after the last issued
    /// one.
    pub fn restore(&self, checkpoint: &MemoryCheckpoint) {
        drop(self.replace(checkpoint.clone(), false));
    }

    /// Returns the engine to a state as if nothing had happened since the state was saved. Timestamps continue from
    /// that state.
    pub fn reset_to(&self, checkpoint: &MemoryCheckpoint) {
        drop(self.replace(checkpoint.clone(), true));
    }

    /// Removes all data of an account.
    pub fn clear_account(&self, account: &AccountName) {
        let mut state = self.0.state.write();
        let removed = state.catalog.remove_account(account);
        state.properties.remove(account);
        state.stamps.forget(account);
        if let Some(changes) = &mut state.changes {
            changes.clear_account(account);
        }
        // Free the table outside the lock, because this can take a while.
        drop(state);
        drop(removed);
    }

    /// Returns the previous tables, so that they can be freed outside the lock.
    fn replace(&self, checkpoint: MemoryCheckpoint, with_stamps: bool) -> Catalog<Table> {
        let mut state = self.0.state.write();
        state.properties.replace_all(checkpoint.properties);
        if with_stamps {
            state.stamps = checkpoint.stamps;
        } else {
            // The state may come from another engine, or contain an account that has been removed since.
            state.stamps.skip_past(&checkpoint.stamps);
        }
        if let Some(changes) = &mut state.changes {
            changes.restart();
        }
        std::mem::replace(&mut state.catalog, checkpoint.catalog)
    }

    // The engine may be closed. In that case, no one sees the changes made here.
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use crate::contract::TableKey;
    use model::clock::SystemClock;
    use model::{Record, TableName};

    #[test]
    fn neither_a_checkpoint_nor_a_return_copies_entities() {
        let engine = Memory::for_tests(SystemClock);
        let table = TableKey { account: AccountName::new("orchard").unwrap(), name: TableName::new("trees").unwrap() };
        let mut entities = crate::memory::entities::Entities::default();
        for number in 0..100_000_u32 {
            entities.insert(number.to_be_bytes().to_vec(), Record::from_bytes(vec![1]));
        }
        let checkpoints = engine.checkpoints();
        let created = model::DateTime::MIN;
        checkpoints.0.state.write().catalog.insert(&table, Table { entities: entities.clone(), ..Table::new(created) });
        let is_shared =
            |catalog: &Catalog<Table>| catalog.get(&table).unwrap().table.entities.is_shared_with(&entities);
        let checkpoint = checkpoints.take();
        assert!(is_shared(&checkpoint.catalog) && is_shared(&checkpoints.0.state.read().catalog));
        let change = |key: u32| {
            let mut state = checkpoints.0.state.write();
            let entities = &mut state.catalog.get_mut(&table).unwrap().table.entities;
            entities.insert(key.to_be_bytes().to_vec(), Record::from_bytes(vec![2]));
        };
        for number in 0..3 {
            change(number);
            assert!(is_shared(&checkpoint.catalog) && !is_shared(&checkpoints.0.state.read().catalog));
            checkpoints.restore(&checkpoint);
            assert!(is_shared(&checkpoints.0.state.read().catalog));
        }
        checkpoints.clear_account(&table.account);
        assert!(checkpoints.0.state.read().catalog.get(&table).is_none() && is_shared(&checkpoint.catalog));
        checkpoints.reset_to(&checkpoint);
        assert!(is_shared(&checkpoints.0.state.read().catalog));
    }
}
