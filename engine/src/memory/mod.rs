//! The reference engine: ordered maps in memory under one lock, without persistence.
//!
//! It is as simple as the contract allows, so that it is obviously correct; the other engines are compared with it.
//! Isolation comes from the lock. A transaction holds the lock while it runs. A page holds the lock only until it has
//! copied the table; the copy shares the entities. Nothing here waits for I/O, so calls that are likely to run in a
//! loop yield explicitly. Only the first part of a small page is read on the caller's thread.

mod changes;
mod checkpoint;
mod entities;
mod snapshot;
mod stamps;

pub use checkpoint::{MemoryCheckpoint, MemoryCheckpoints};
pub use snapshot::RestoredMemory;

use crate::changes::{ChangeEffect, ChangeLog, DatedChangeLog, KeepChanges, first_position};
use crate::contract::TableKey;
use crate::contract::{
    BoxedSink, CatalogError, CommitError, Engine, EntitySink, Fault, IndexState, Order, ReadError, Scan, ScanEnd,
};
use crate::figures::{Figures, Refusal};
use crate::parts::cancellation::Cancellation;
use crate::parts::catalog::{Catalog, CatalogTable};
use crate::parts::index::{self, OrderedEntries};
use crate::parts::page::{FIRST_PART_WORK_MAX, PageBuilder, has_few_entities, has_few_keys};
use crate::parts::page::{ranges_to_visit, work_of};
use crate::parts::properties::AccountProperties;
use crate::snapshot::Snapshots;
use async_trait::async_trait;
use changes::MemoryChanges;
use entities::Entities;
use model::mutation::Effect;
use model::{AccountName, Clock, DateTime, EntityKey, Expiry, IndexedProperty, KeyRange, Position};
use model::{
    MutationResult, Record, Retention, StoredAccessPolicies, TableName, TableSettings, TableSettingsUpdate, Transaction,
};
use model::{ServiceProperties, ServicePropertiesUpdate, Visibility};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use stamps::MemoryStamps;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::task::coop::consume_budget;

/// An engine that loses all data when it is dropped.
#[derive(Debug)]
pub struct Memory {
    shared: Arc<MemoryState>,
}

#[derive(Debug)]
struct MemoryState {
    state: RwLock<Contents>,
    closed: Cancellation,
}

#[derive(Debug)]
struct Contents {
    clock: Arc<dyn Clock>,
    catalog: Catalog<Table>,
    properties: AccountProperties,
    stamps: MemoryStamps,
    /// `None` if no changes are kept.
    changes: Option<MemoryChanges>,
}

#[derive(Debug, Clone)]
struct Table {
    created: DateTime,
    entities: Entities,
    /// The entries of each index, in order. They are kept like entities whose records are empty.
    indexes: Vec<(IndexedProperty, Entities)>,
}

impl Table {
    fn new(created: DateTime) -> Self {
        Self { created, entities: Entities::default(), indexes: Vec::new() }
    }

    fn put(&mut self, key: Vec<u8>, record: Option<Record>) {
        for (property, entries) in &mut self.indexes {
            let old = self.entities.get(&key).map(Record::as_bytes);
            let change = index::change(property, &key, old, record.as_ref().map(Record::as_bytes));
            if let Some(entry) = change.removed {
                entries.remove(&entry);
            }
            if let Some(entry) = change.added {
                entries.insert(entry, Record::from_bytes(Vec::new()));
            }
        }
        match record {
            Some(record) => self.entities.insert(key, record),
            None => self.entities.remove(&key),
        }
    }

    /// Keeps the indexes of the given properties, and builds those that do not exist yet.
    fn set_indexes(&mut self, properties: &[IndexedProperty]) {
        let mut indexes = Vec::new();
        for property in properties {
            let mut entries = Entities::default();
            if let Some((_, existing)) = self.indexes.iter().find(|(known, _)| known == property) {
                entries = existing.clone();
            } else {
                for (key, record) in self.entities.iter() {
                    if let Some(entry) = index::entry_of(property, key, record.as_bytes()) {
                        entries.insert(entry, Record::from_bytes(Vec::new()));
                    }
                }
            }
            indexes.push((property.clone(), entries));
        }
        self.indexes = indexes;
    }
}

impl Memory {
    /// Creates an engine without tables.
    pub fn new(clock: impl Clock) -> Self {
        Self::with_stamps(Arc::new(clock), MemoryStamps::one_sequence())
    }

    /// Creates an engine without tables, with a clock that tests can set. Each account has its own sequence of
    /// Timestamps. If one test sets the clock back, Timestamps in other accounts are therefore not ahead of the clock.
    pub fn for_tests(clock: impl Clock) -> Self {
        Self::with_stamps(Arc::new(clock), MemoryStamps::by_account())
    }

    fn with_stamps(clock: Arc<dyn Clock>, stamps: MemoryStamps) -> Self {
        let (catalog, properties) = (Catalog::default(), AccountProperties::default());
        let state = RwLock::new(Contents { clock, catalog, properties, stamps, changes: None });
        Self { shared: Arc::new(MemoryState { state, closed: Cancellation::default() }) }
    }

    /// Keeps a log from now on. Its first position is 1.
    #[must_use]
    pub fn keep_changes(self, keep: KeepChanges) -> Self {
        self.keep_changes_from(keep, 1)
    }

    /// Keeps a log from now on that continues no other one ([`first_position`](crate::changes::first_position)).
    #[must_use]
    pub fn keep_new_changes(self, keep: KeepChanges) -> Self {
        let now = self.shared.state.read().clock.now();
        self.keep_changes_from(keep, first_position(now))
    }

    fn keep_changes_from(self, keep: KeepChanges, first: u64) -> Self {
        let mut state = self.shared.state.write();
        state.changes = Some(MemoryChanges::new(keep, first));
        drop(state);
        self
    }

    /// Returns the log, or `None` if no changes are kept.
    pub fn change_log(&self) -> Option<Arc<dyn ChangeLog>> {
        let state = self.shared.state.read();
        state.changes.as_ref().map(|_| Arc::clone(&self.shared) as _)
    }

    /// Returns the log as a backup reads it, or `None` if no changes are kept.
    pub fn dated_change_log(&self) -> Option<Arc<dyn DatedChangeLog>> {
        let state = self.shared.state.read();
        state.changes.as_ref().map(|_| Arc::clone(&self.shared) as _)
    }

    /// Returns a handle that takes snapshots of this engine while the engine is open.
    pub fn snapshots(&self) -> Arc<dyn Snapshots> {
        Arc::clone(&self.shared) as _
    }

    /// Returns a handle that saves states of this engine and returns to them.
    pub fn checkpoints(&self) -> MemoryCheckpoints {
        MemoryCheckpoints::new(Arc::clone(&self.shared))
    }

    /// Starts a restore into this engine, which must not contain tables.
    pub fn restore(&self) -> RestoredMemory {
        RestoredMemory::new(Arc::clone(&self.shared))
    }
}

impl Contents {
    fn expiry(&self, settings: &TableSettings, visible: Visibility) -> Expiry {
        match &settings.retention {
            None => Expiry::new(None, visible, DateTime::MIN),
            retention => Expiry::new(retention.as_ref(), visible, self.clock.now()),
        }
    }

    /// Appends a change that no Timestamp belongs to.
    fn log(&mut self, effect: impl FnOnce(&Self) -> Option<ChangeEffect>) {
        if self.changes.is_none() {
            return;
        }
        let (effect, now) = (effect(self), self.clock.now());
        if let Some(changes) = &mut self.changes {
            changes.append(now, now, effect);
        }
    }

    fn log_settings(&mut self, table: &TableKey) {
        self.log(|state| {
            let CatalogTable { name, policies, settings, .. } = state.catalog.get(table)?;
            let table = Arc::new(TableKey { account: table.account.clone(), name: name.clone() });
            let (policies, settings) = (policies.clone(), TableSettings::clone(settings));
            Some(ChangeEffect::SetTable { table, policies, settings })
        });
    }
}

impl MemoryState {
    fn check_open(&self) -> Result<(), Fault> {
        if self.closed.is_cancelled() { Err(Fault::Closed) } else { Ok(()) }
    }

    fn read(&self) -> Result<RwLockReadGuard<'_, Contents>, Fault> {
        let state = self.state.read();
        self.check_open().map(|()| state)
    }

    fn write(&self) -> Result<RwLockWriteGuard<'_, Contents>, Fault> {
        let state = self.state.write();
        self.check_open().map(|()| state)
    }
}

#[async_trait]
impl Engine for Memory {
    async fn create_table(&self, table: &TableKey) -> Result<(), CatalogError> {
        let mut state = self.shared.write().map_err(CatalogError::Fault)?;
        if state.catalog.get(table).is_some() {
            return Err(CatalogError::AlreadyExists);
        }
        let created = state.clock.now();
        state.catalog.insert(table, Table::new(created));
        state.log(|_| Some(ChangeEffect::CreateTable { table: Arc::new(table.clone()), created }));
        Ok(())
    }

    async fn delete_table(&self, table: &TableKey) -> Result<(), CatalogError> {
        let mut state = self.shared.write().map_err(CatalogError::Fault)?;
        let name = state.catalog.get(table).ok_or(CatalogError::NotFound)?.name.clone();
        let removed = state.catalog.remove(table);
        let key = TableKey { account: table.account.clone(), name };
        state.log(|_| Some(ChangeEffect::DeleteTable { table: Arc::new(key) }));
        drop(state);
        // Freeing a large table takes a while, so do it outside the lock and without delaying the caller.
        drop(tokio::task::spawn_blocking(move || drop(removed)));
        Ok(())
    }

    async fn table(&self, table: &TableKey) -> Result<Option<TableName>, Fault> {
        Ok(self.shared.read()?.catalog.get(table).map(|listed| listed.name.clone()))
    }

    async fn accounts(&self) -> Result<Vec<AccountName>, Fault> {
        let state = self.shared.read()?;
        Ok(state.properties.accounts_and(state.catalog.accounts()))
    }

    async fn count_tables(&self, account: &AccountName) -> Result<u64, Fault> {
        Ok(self.shared.read()?.catalog.count_of(account) as u64)
    }

    async fn list_tables(&self, account: &AccountName, from: &str, limit: usize) -> Result<Vec<TableName>, Fault> {
        Ok(self.shared.read()?.catalog.list(account, from, limit))
    }

    async fn policies(&self, table: &TableKey) -> Result<StoredAccessPolicies, ReadError> {
        let state = self.shared.read().map_err(ReadError::Fault)?;
        Ok(state.catalog.get(table).ok_or(ReadError::TableNotFound)?.policies.clone())
    }

    async fn set_policies(&self, table: &TableKey, policies: StoredAccessPolicies) -> Result<(), CatalogError> {
        let mut state = self.shared.write().map_err(CatalogError::Fault)?;
        state.catalog.set_policies(table, policies).ok_or(CatalogError::NotFound)?;
        state.log_settings(table);
        Ok(())
    }

    async fn settings(&self, table: &TableKey) -> Result<TableSettings, ReadError> {
        let state = self.shared.read().map_err(ReadError::Fault)?;
        Ok(TableSettings::clone(&state.catalog.get(table).ok_or(ReadError::TableNotFound)?.settings))
    }

    async fn update_settings(&self, table: &TableKey, update: TableSettingsUpdate) -> Result<(), CatalogError> {
        let mut state = self.shared.write().map_err(CatalogError::Fault)?;
        let listed = state.catalog.get_mut(table).ok_or(CatalogError::NotFound)?;
        let settings = TableSettings::clone(&listed.settings).updated(update);
        listed.table.set_indexes(&settings.indexes);
        listed.settings = Arc::new(settings);
        state.log_settings(table);
        Ok(())
    }

    async fn tables_to_sweep(&self) -> Result<Vec<(TableKey, Retention)>, Fault> {
        Ok(self.shared.read()?.catalog.with_retention())
    }

    async fn indexes(&self, table: &TableKey) -> Result<Vec<IndexState>, ReadError> {
        let state = self.shared.read().map_err(ReadError::Fault)?;
        let listed = state.catalog.get(table).ok_or(ReadError::TableNotFound)?;
        let ready = |property: &IndexedProperty| IndexState { property: property.clone(), is_ready: true };
        Ok(listed.settings.indexes.iter().map(ready).collect())
    }

    async fn get(&self, table: &TableKey, key: &EntityKey) -> Result<Option<Record>, ReadError> {
        consume_budget().await;
        let state = self.shared.read().map_err(ReadError::Fault)?;
        let listed = state.catalog.get(table).ok_or(ReadError::TableNotFound)?;
        let Some(record) = listed.table.entities.get(&key.encode()) else { return Ok(None) };
        let expiry = state.expiry(&listed.settings, Visibility::Live);
        Ok(record.view().map_or(true, |view| expiry.sees(view)).then(|| record.clone()))
    }

    async fn scan_boxed(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: BoxedSink,
    ) -> Result<(BoxedSink, ScanEnd), ReadError> {
        consume_budget().await;
        let (table, expiry) = {
            let state = self.shared.read().map_err(ReadError::Fault)?;
            let listed = state.catalog.get(table).ok_or(ReadError::TableNotFound)?;
            (listed.table.clone(), state.expiry(&listed.settings, scan.visible))
        };
        if has_few_keys(&scan) || has_few_entities(&scan, || !table.indexes.is_empty()) {
            let (ranges, is_descending) = (ranges_to_visit(&scan), scan.order.is_descending());
            let mut page = PageBuilder::new(scan, expiry, sink, Vec::new());
            let rest = visit(&table.entities, ranges, is_descending, &mut page, FIRST_PART_WORK_MAX)
                .map_err(ReadError::Fault)?;
            if rest.is_empty() {
                return Ok(page.finish());
            }
            return on_blocking_thread(move || {
                visit(&table.entities, rest, is_descending, &mut page, usize::MAX).map_err(ReadError::Fault)?;
                Ok(page.finish())
            })
            .await;
        }
        on_blocking_thread(move || page(&table, scan, expiry, sink)).await
    }

    async fn commit(&self, table: &TableKey, transaction: Transaction) -> Result<Vec<MutationResult>, CommitError> {
        consume_budget().await;
        let mut state = self.shared.write().map_err(CommitError::Fault)?;
        let Contents { clock, catalog, stamps, changes, .. } = &mut *state;
        let CatalogTable { name, settings, table: listed, .. } =
            catalog.get_mut(table).ok_or(CommitError::TableNotFound)?;
        let keys: Vec<_> = transaction.mutations().iter().map(|mutation| mutation.key().encode()).collect();
        let existing = keys.iter().map(|key| listed.entities.get(key).map(Record::as_bytes));
        let now = clock.now();
        let (stamp, retention) = (stamps.propose(&table.account, now), settings.retention.as_ref());
        let expiry = Expiry::new(retention, transaction.visible(), now);
        let refused = |(index, error)| CommitError::Refused(index, error);
        let effects = transaction.apply(stamp, &expiry, existing).map_err(refused)?;
        stamps.issue(&table.account, stamp);
        let written = transaction.results(&effects);
        if let Some(changes) = changes {
            let table = Arc::new(TableKey { account: table.account.clone(), name: name.clone() });
            let is_expired = transaction.visible() == Visibility::Expired;
            let logged = keys.iter().zip(&effects).map(|(key, effect)| {
                let (table, key) = (Arc::clone(&table), key.clone());
                match effect {
                    Effect::Put(record) => ChangeEffect::Put { table, key, record: record.clone() },
                    Effect::Delete => ChangeEffect::Delete { table, key, is_expired },
                }
            });
            changes.append(stamp, now, logged);
        }
        for (key, effect) in keys.into_iter().zip(effects) {
            let record = match effect {
                Effect::Put(record) => Some(record),
                Effect::Delete => None,
            };
            listed.put(key, record);
        }
        Ok(written)
    }

    fn service_properties(&self, account: &AccountName) -> Result<Arc<ServiceProperties>, Fault> {
        Ok(self.shared.read()?.properties.get(account))
    }

    fn set_default_properties(&self, defaults: ServiceProperties) {
        self.shared.state.write().properties.set_defaults(Arc::new(defaults));
    }

    async fn update_service_properties(
        &self,
        account: &AccountName,
        update: ServicePropertiesUpdate,
    ) -> Result<(), Fault> {
        let mut state = self.shared.write()?;
        let updated = state.properties.get(account).updated(update);
        state.properties.insert(account, updated.clone());
        state.log(|_| Some(ChangeEffect::SetProperties { account: account.clone(), properties: Box::new(updated) }));
        Ok(())
    }

    fn figures(&self) -> Figures {
        let Ok(state) = self.shared.read() else {
            return Figures { refusal: Some(Refusal::Closed), ..Figures::default() };
        };
        Figures { tables: Some(state.catalog.count() as u64), purge_backlog: Some(0), ..Figures::default() }
    }

    async fn close(&self) -> Result<(), Fault> {
        // Take the lock to ensure that no transaction is in progress when this method returns.
        let _state = self.shared.write()?;
        self.shared.closed.cancel();
        Ok(())
    }
}

fn page<S: EntitySink>(table: &Table, scan: Scan, expiry: Expiry, sink: S) -> Result<(S, ScanEnd), ReadError> {
    match scan.order.clone() {
        Order::Key { is_descending } => page_by_key(table, is_descending, scan, expiry, sink).map_err(ReadError::Fault),
        Order::Value { property, is_descending } => {
            let found = table.indexes.iter().find(|(known, _)| *known == property);
            let (_, entries) = found.ok_or(ReadError::IndexNotFound)?;
            page_by_value(&table.entities, &property, entries, is_descending, scan, expiry, sink)
                .map_err(ReadError::Fault)
        }
    }
}

fn page_by_key<S: EntitySink>(
    table: &Table,
    is_descending: bool,
    scan: Scan,
    expiry: Expiry,
    sink: S,
) -> Result<(S, ScanEnd), Fault> {
    let ranges = ranges_to_visit(&scan);
    let plan = index::plan(&scan, table.indexes.iter().map(|(property, _)| property));
    let hits = plan.and_then(|plan| {
        let (property, entries) = table.indexes.iter().find(|(property, _)| *property == plan.property)?;
        let entries =
            plan.ranges.into_iter().flat_map(|range| entries.range(range)).map(|(entry, _)| Ok::<_, Fault>(entry));
        Some((property.clone(), index::hits(entries, &ranges, is_descending).transpose()?))
    });
    let mut page = PageBuilder::new(scan, expiry, sink, Vec::new());
    if let Some((property, hits)) = hits {
        page = page.from_index(property);
        for key in hits? {
            let Some(record) = table.entities.get(&key) else { continue };
            if page.visit(&key, record.as_bytes())?.is_break() {
                break;
            }
        }
        return Ok(page.finish());
    }
    visit(&table.entities, ranges, is_descending, &mut page, usize::MAX)?;
    Ok(page.finish())
}

/// Visits the entities in ascending ranges, in either direction, until the page ends. Returns the ranges that are left
/// because the work would exceed a maximum. The first entity is always visited.
fn visit<S: EntitySink>(
    entities: &Entities,
    ranges: Vec<KeyRange>,
    is_descending: bool,
    page: &mut PageBuilder<S>,
    work_max: usize,
) -> Result<Vec<KeyRange>, Fault> {
    let (mut ranges, mut work) = (VecDeque::from(ranges), 0_usize);
    while let Some(range) = if is_descending { ranges.pop_back() } else { ranges.pop_front() } {
        let mut entries = entities.range(range.clone());
        while let Some((key, record)) = if is_descending { entries.next_back() } else { entries.next() } {
            let is_first = work == 0;
            work += work_of(record.as_bytes());
            if !is_first && work > work_max {
                let position = Position::from_bytes(key.to_vec());
                if is_descending {
                    ranges.push_back(range.up_to_position(&position));
                } else {
                    ranges.push_front(range.from_position(&position));
                }
                return Ok(ranges.into());
            }
            if page.visit(key, record.as_bytes())?.is_break() {
                return Ok(Vec::new());
            }
        }
    }
    Ok(Vec::new())
}

async fn on_blocking_thread<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    let run = tokio::task::spawn_blocking(run);
    run.await.map_err(|error| ReadError::Fault(Fault::Storage(Box::new(error))))?
}

fn page_by_value<S: EntitySink>(
    entities: &Entities,
    property: &IndexedProperty,
    entries: &Entities,
    is_descending: bool,
    scan: Scan,
    expiry: Expiry,
    sink: S,
) -> Result<(S, ScanEnd), Fault> {
    let mut ordered = OrderedEntries::new(&scan, property, is_descending);
    let open = |range: KeyRange| -> Box<dyn Iterator<Item = Result<Vec<u8>, Fault>> + '_> {
        let entries = entries.range(range).map(|(entry, _)| Ok(entry.to_vec()));
        if is_descending { Box::new(entries.rev()) } else { Box::new(entries) }
    };
    let ranges = scan.ranges.clone();
    let mut page = PageBuilder::new(scan, expiry, sink, Vec::new()).from_index(property.clone());
    while let Some(entry) = ordered.next(&open)? {
        let Some((key, record)) = index::key_of_entry(&entry).and_then(|key| Some((key, entities.get(key)?))) else {
            continue;
        };
        let is_inside = KeyRange::any_contains(&ranges, key);
        let next = if is_inside { page.visit_at(&entry, key, record.as_bytes())? } else { page.pass(&entry) };
        if next.is_break() {
            break;
        }
    }
    Ok(page.finish())
}
