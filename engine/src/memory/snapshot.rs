//! Snapshots of the memory engine, which share its entities, and restores into one.

use super::changes::MemoryChanges;
use super::entities::Entities;
use super::{Contents, MemoryState, Table};
use crate::contract::{Fault, TableKey};
use crate::parts::cancellation::Cancellation;
use crate::snapshot::{EntityVisitor, Restore, Snapshot, SnapshotContents, SnapshotError, SnapshotTable, Snapshots};
use model::{AccountName, DateTime, Record, ServiceProperties, TableSettings};
use std::convert::Infallible;
use std::sync::Arc;

const ENTITIES_BETWEEN_CHECKS: usize = 64;

impl Snapshots for MemoryState {
    fn take(&self) -> Result<Box<dyn Snapshot>, Fault> {
        let state = self.read()?;
        let (mut tables, mut entities) = (Vec::new(), Vec::new());
        for (account, listed) in state.catalog.iter() {
            let table = TableKey { account: account.clone(), name: listed.name.clone() };
            let (policies, settings) = (listed.policies.clone(), TableSettings::clone(&listed.settings));
            tables.push(SnapshotTable { table, created: listed.table.created, policies, settings });
            entities.push(listed.table.entities.clone());
        }
        let (last_stamp, properties) = (state.stamps.last(), state.properties.all());
        let position = state.changes.as_ref().map(MemoryChanges::next);
        let contents = SnapshotContents { last_stamp, properties, tables, position };
        Ok(Box::new(MemorySnapshot { contents, entities, closed: self.closed.clone() }))
    }
}

struct MemorySnapshot {
    contents: SnapshotContents,
    /// The entities of each table, in the order of the tables.
    entities: Vec<Entities>,
    closed: Cancellation,
}

impl Snapshot for MemorySnapshot {
    fn contents(&self) -> &SnapshotContents {
        &self.contents
    }

    fn check(&self) -> Result<(), Fault> {
        if self.closed.is_cancelled() { Err(Fault::Closed) } else { Ok(()) }
    }

    fn stored_entities(&self, table: usize, visit: &mut EntityVisitor<'_, SnapshotError>) -> Result<(), SnapshotError> {
        self.check().map_err(SnapshotError::Fault)?;
        for (index, (key, record)) in self.entities.get(table).into_iter().flat_map(Entities::iter).enumerate() {
            if index % ENTITIES_BETWEEN_CHECKS == 0 {
                self.check().map_err(SnapshotError::Fault)?;
            }
            visit(key, record.as_bytes())?;
        }
        Ok(())
    }
}

/// A restore into a memory engine. The data becomes visible when the restore finishes.
pub struct RestoredMemory {
    shared: Arc<MemoryState>,
    properties: Vec<(AccountName, ServiceProperties)>,
    tables: Vec<(SnapshotTable, Entities)>,
}

impl RestoredMemory {
    pub(super) fn new(shared: Arc<MemoryState>) -> Self {
        Self { shared, properties: Vec::new(), tables: Vec::new() }
    }
}

impl Restore for RestoredMemory {
    type Error = Infallible;

    fn properties(&mut self, account: &AccountName, properties: &ServiceProperties) -> Result<(), Infallible> {
        self.properties.push((account.clone(), properties.clone()));
        Ok(())
    }

    fn table(&mut self, table: &SnapshotTable) -> Result<(), Infallible> {
        self.tables.push((table.clone(), Entities::default()));
        Ok(())
    }

    fn entity(&mut self, key: &[u8], record: &[u8]) -> Result<(), Infallible> {
        if let Some((_, entities)) = self.tables.last_mut() {
            entities.insert(key.to_vec(), Record::from_bytes(record.to_vec()));
        }
        Ok(())
    }

    fn finish(self, last_stamp: DateTime) -> Result<(), Infallible> {
        let mut state = self.shared.state.write();
        let Contents { catalog, properties, stamps, changes, .. } = &mut *state;
        for (account, set) in self.properties {
            properties.insert(&account, set);
        }
        for (SnapshotTable { table, created, policies, settings }, entities) in self.tables {
            let mut restored = Table { entities, ..Table::new(created) };
            restored.set_indexes(&settings.indexes);
            catalog.insert(&table, restored);
            catalog.set_policies(&table, policies);
            catalog.set_settings(&table, settings);
        }
        stamps.skip_to(last_stamp);
        if let Some(changes) = changes {
            changes.restart();
        }
        Ok(())
    }
}
