//! The one thread that changes the database on behalf of requests.
//!
//! Everything that changes data passes through its queue and so has one serial order. The committer takes what is
//! waiting, applies it in that order to the latest state, writes one batch, syncs once, and answers everyone.
//!
//! Invariants:
//!
//! 1. Nobody is answered before the batch is as durable as the engine was configured for. That holds for refusals
//!    too, since an earlier transaction of the same group may be their reason.
//! 2. The highest stamp is written in the same batch as the entities that carry it.
//! 3. Whatever happens, every request is answered or its answer is dropped, so that no caller waits for ever.

use super::group::{Group, storage_fault};
use super::layout::{self, TableId};
use super::shared::Shared;
use crate::engine::{CatalogError, CommitError, Fault, TableKey};
use crate::properties_value;
use crate::stamp::Stamps;
use fjall::PersistMode;
use model::{AccountName, Clock, ServicePropertiesUpdate, StoredAccessPolicies, Transaction, Written};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// Most transactions of one group.
const GROUP_TRANSACTIONS_MAX: usize = 1024;
/// A group takes no more transactions once they have this many bytes.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What the committer is asked to do.
pub(super) enum Request {
    Commit(CommitRequest),
    CreateTable(TableKey, oneshot::Sender<Result<(), CatalogError>>),
    DeleteTable(TableKey, oneshot::Sender<Result<(), CatalogError>>),
    SetPolicies(TableKey, StoredAccessPolicies, oneshot::Sender<Result<(), CatalogError>>),
    UpdateProperties(AccountName, Box<ServicePropertiesUpdate>, oneshot::Sender<Result<(), Fault>>),
    /// Do what is already in the queue, take nothing new, and end.
    Stop,
}

/// A transaction on its way.
pub(super) struct CommitRequest {
    pub(super) table: TableKey,
    pub(super) transaction: Transaction,
    /// About how much memory the transaction takes.
    pub(super) bytes: usize,
    pub(super) answer: oneshot::Sender<Result<Vec<Written>, CommitError>>,
    /// The share of the queue's memory, given back with the answer.
    pub(super) memory: OwnedSemaphorePermit,
}

/// The state of the committer thread.
pub(super) struct Committer<C> {
    pub(super) shared: Arc<Shared>,
    pub(super) requests: mpsc::Receiver<Request>,
    pub(super) stamps: Stamps<C>,
    pub(super) next_table_id: TableId,
    /// Wakes the purger.
    pub(super) purges: Sender<()>,
    /// How durable a group of transactions is before it is acknowledged.
    pub(super) persist_mode: PersistMode,
}

impl<C: Clock> Committer<C> {
    /// Serves requests until there can be no more.
    pub(super) fn run(mut self) {
        while let Some(request) = self.requests.blocking_recv() {
            // A panic drops the answers of the group at hand, which tells their callers. Nothing of the group is
            // visible: it was not written, or the library refuses all further writes.
            if catch_unwind(AssertUnwindSafe(|| self.serve(request))).is_err() {
                tracing::error!("the committer panicked; the requests at hand are answered with a fault");
            }
        }
    }

    /// Serves one request together with those that are waiting behind it.
    fn serve(&mut self, first: Request) {
        let mut group = Vec::new();
        let mut group_bytes = 0;
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                Request::Commit(request) => {
                    group_bytes += request.bytes;
                    group.push(request);
                }
                Request::CreateTable(table, answer) => {
                    self.commit(std::mem::take(&mut group));
                    drop(answer.send(self.create_table(&table)));
                }
                Request::DeleteTable(table, answer) => {
                    self.commit(std::mem::take(&mut group));
                    drop(answer.send(self.delete_table(&table)));
                }
                Request::SetPolicies(table, policies, answer) => {
                    self.commit(std::mem::take(&mut group));
                    drop(answer.send(self.set_policies(&table, policies)));
                }
                Request::UpdateProperties(account, update, answer) => {
                    // Properties and entities do not depend on each other, so the group goes on.
                    drop(answer.send(self.update_properties(&account, *update)));
                }
                Request::Stop => self.requests.close(),
            }
            if group.len() >= GROUP_TRANSACTIONS_MAX || group_bytes >= GROUP_BYTES_MAX {
                break;
            }
            next = self.requests.try_recv().ok();
        }
        self.commit(group);
    }

    fn commit(&mut self, requests: Vec<CommitRequest>) {
        if requests.is_empty() {
            return;
        }
        let mut group = Group::new(&self.shared, requests.len() > 1);
        let mut outcomes = Vec::with_capacity(requests.len());
        for CommitRequest { table, transaction, answer, memory, .. } in requests {
            let result = group.apply(&table, transaction, &mut self.stamps);
            outcomes.push((answer, memory, result));
        }
        let written = group.write(self.stamps.last(), self.persist_mode);
        for (answer, _memory, result) in outcomes {
            let result = match &written {
                Ok(()) => result,
                Err(failure) => Err(CommitError::Fault(failure.fault())),
            };
            // A caller that has gone away does not want the answer.
            drop(answer.send(result));
        }
    }

    fn create_table(&mut self, table: &TableKey) -> Result<(), CatalogError> {
        if self.shared.catalog().get(table).is_some() {
            return Err(CatalogError::AlreadyExists);
        }
        let (storage, id) = (&self.shared.storage, self.next_table_id);
        let mut batch = storage.db.batch();
        batch.insert(
            &storage.data,
            layout::catalog_key(table),
            layout::catalog_value(table, id, self.stamps.now(), &StoredAccessPolicies::default()),
        );
        batch.insert(&storage.data, layout::NEXT_TABLE_ID, id.next().to_bytes());
        // Tables change rarely, so this is synced at once whatever the durability of transactions is.
        batch.durability(Some(PersistMode::SyncData)).commit().map_err(catalog_fault)?;
        self.next_table_id = id.next();
        self.shared.catalog_mut().insert(table, id);
        Ok(())
    }

    fn set_policies(&mut self, table: &TableKey, policies: StoredAccessPolicies) -> Result<(), CatalogError> {
        if self.shared.catalog().get(table).is_none() {
            return Err(CatalogError::NotFound);
        }
        let (storage, key) = (&self.shared.storage, layout::catalog_key(table));
        let value = storage.data.get(&key).map_err(catalog_fault)?;
        let entry = value.and_then(|value| layout::decode_catalog_entry(&key, &value));
        let damaged = || CatalogError::Fault(Fault::Damaged("the catalog entry of a table cannot be read".to_owned()));
        let entry = entry.ok_or_else(damaged)?;
        let value = layout::catalog_value(&entry.table, entry.id, entry.created, &policies);
        let mut batch = storage.db.batch();
        batch.insert(&storage.data, key, value);
        batch.durability(Some(PersistMode::SyncData)).commit().map_err(catalog_fault)?;
        self.shared.catalog_mut().set_policies(table, policies).ok_or(CatalogError::NotFound)
    }

    fn delete_table(&mut self, table: &TableKey) -> Result<(), CatalogError> {
        let id = self.shared.catalog().get(table).ok_or(CatalogError::NotFound)?.table;
        let storage = &self.shared.storage;
        let mut batch = storage.db.batch();
        batch.remove(&storage.data, layout::catalog_key(table));
        batch.insert(&storage.data, layout::purge_key(id), layout::PURGE_VALUE);
        batch.durability(Some(PersistMode::SyncData)).commit().map_err(catalog_fault)?;
        self.shared.catalog_mut().remove(table);
        // Without a purger the marker waits for the next start.
        let _no_purger = self.purges.send(());
        Ok(())
    }

    fn update_properties(&self, account: &AccountName, update: ServicePropertiesUpdate) -> Result<(), Fault> {
        let storage = &self.shared.storage;
        let properties = self.shared.properties().get(account).updated(update);
        let mut batch = storage.db.batch();
        let value = properties_value::encode(&properties);
        batch.insert(&storage.data, layout::service_properties_key(account), value);
        // Synced at once, as tables are.
        batch.durability(Some(PersistMode::SyncData)).commit().map_err(storage_fault)?;
        self.shared.properties_mut().insert(account, properties);
        Ok(())
    }
}

fn catalog_fault(error: fjall::Error) -> CatalogError {
    CatalogError::Fault(storage_fault(error))
}
