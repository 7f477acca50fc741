//! The one thread that changes the database on behalf of requests.
//!
//! Every change passes through its queue and so has its place in one serial order. The committer takes the waiting
//! requests, applies them in that order to the latest state, writes one batch, syncs once, and answers them all.
//!
//! Invariants:
//!
//! 1. No request is answered before the batch is as durable as the engine was configured for. That holds for refusals
//!    too, since an earlier transaction of the same group may be their reason.
//! 2. The highest stamp is written in the same batch as the entities that carry it.
//! 3. After a write has failed, nothing is written before the database was opened again (`outage`).
//! 4. Whatever happens, every request is answered or its channel is dropped, so that no caller waits for ever.

use super::counts::{Phase, PhaseTimer};
use super::group::Group;
use super::guard::{Panicked, guarded};
use super::layout::{self, TableId};
use super::outage::Outage;
use super::prepared::{Prepared, RecentWrites};
use super::space::FreeSpace;
use super::state::EmbeddedState;
use super::storage::Storage;
use crate::engine::{CatalogError, CommitError, Fault, TableKey};
use crate::properties_value;
use crate::stamp::Stamps;
use fjall::{OwnedWriteBatch, PersistMode};
use model::{AccountName, Clock, Mutation, ServicePropertiesUpdate, StoredAccessPolicies, Transaction, Written};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;
use std::vec;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout_at;

/// Most requests that wait for the committer; more wait outside its queue.
pub(super) const QUEUE_REQUESTS_MAX: usize = 4096;
/// The unit in which the memory of the queue is counted, in bytes.
pub(super) const QUEUE_MEMORY_UNIT_BYTES: usize = 1024;
/// Most memory of the transactions that wait for the committer, in units of 1 KiB: 64 MiB.
pub(super) const QUEUE_MEMORY_UNITS_MAX: u32 = 64 * 1024;
/// Most transactions of one group.
const GROUP_TRANSACTIONS_MAX: usize = 1024;
/// A group takes no more transactions once they have this many bytes.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A request to the committer.
pub(super) enum Request {
    Commit(CommitRequest),
    CreateTable(TableKey, oneshot::Sender<Result<(), CatalogError>>),
    DeleteTable(TableKey, oneshot::Sender<Result<(), CatalogError>>),
    SetPolicies(TableKey, StoredAccessPolicies, oneshot::Sender<Result<(), CatalogError>>),
    UpdateProperties(AccountName, Box<ServicePropertiesUpdate>, oneshot::Sender<Result<(), Fault>>),
    /// Serve what is already in the queue, accept nothing new, and end.
    Stop,
}

/// A transaction and its table.
pub(super) struct Submitted {
    pub(super) table: TableKey,
    pub(super) transaction: Transaction,
}

/// A transaction to commit.
pub(super) struct CommitRequest {
    /// Shared with the caller, which outlives the request as a rule and so frees the memory.
    pub(super) submitted: Arc<Submitted>,
    /// What the caller could do beforehand.
    pub(super) prepared: Option<Prepared>,
    /// About how much memory the transaction takes.
    pub(super) bytes: usize,
    pub(super) answer: oneshot::Sender<Result<Vec<Written>, CommitError>>,
    /// The transaction's part of the queue's memory, released with the answer.
    pub(super) memory: OwnedSemaphorePermit,
}

/// The state of the committer thread.
pub(super) struct Committer<C> {
    pub(super) shared: Arc<EmbeddedState>,
    pub(super) requests: mpsc::Receiver<Request>,
    pub(super) stamps: Stamps<C>,
    pub(super) next_table_id: TableId,
    /// Wakes the purger.
    pub(super) purges: Sender<()>,
    /// How durable a group of transactions is before it is acknowledged.
    pub(super) persist_mode: PersistMode,
    pub(super) space: FreeSpace,
    pub(super) recent: RecentWrites,
    /// Why nothing can be written; `None` while no write has failed.
    pub(super) outage: Option<Outage>,
    /// Bounds the wait for a request during an outage.
    pub(super) timer: Runtime,
}

impl<C: Clock> Committer<C> {
    /// Serves requests until there can be no more.
    pub(super) fn run(mut self) {
        loop {
            // A panic drops the channels of the current group, so its callers get a fault. Nothing of the group is visible:
            // it was not written, or the library refuses all further writes.
            match guarded(|| self.next_request().map(|request| self.serve(request))) {
                Ok(Some(())) => {}
                Ok(None) => break,
                Err(Panicked) => {
                    tracing::error!(
                        "the committer panicked; the requests of the current group get a fault, and it goes on with the next"
                    );
                }
            }
        }
    }

    /// Waits for a request. During an outage it tries to end it in between.
    fn next_request(&mut self) -> Option<Request> {
        while let Some(outage) = &self.outage {
            let next_attempt = outage.next_attempt().into();
            match self.timer.block_on(async { timeout_at(next_attempt, self.requests.recv()).await }) {
                Ok(request) => return request,
                // If the outage goes on, there is a later attempt.
                Err(_elapsed) => drop(self.writable()),
            }
        }
        self.requests.blocking_recv()
    }

    /// The database, if it accepts writes. Opens it again if a write has failed and the next attempt is due.
    fn writable(&mut self) -> Result<Arc<Storage>, Fault> {
        if self.outage.is_none() {
            let storage = self.shared.storage()?;
            storage.wait_for_room();
            if !storage.refuses_writes() {
                return Ok(storage);
            }
            self.begin_outage(&"the storage library refuses writes because one has failed");
        }
        if !self.outage.as_mut().is_some_and(|outage| outage.try_to_end(&self.shared)) {
            return Err(Fault::Suspended);
        }
        self.outage = None;
        self.recent.note_all();
        self.shared.counts.is_out.store(false, Ordering::Relaxed);
        // A purge that was interrupted goes on.
        let _no_purger = self.purges.send(());
        self.shared.storage()
    }

    /// The database, if it accepts more than deletions.
    fn with_space(&mut self) -> Result<Arc<Storage>, Fault> {
        if self.space.is_low() { Err(Fault::Full) } else { self.writable() }
    }

    /// Writes a batch of the catalog. Tables change rarely, so it is synced at once whatever the durability of
    /// transactions.
    fn write_synced(&mut self, storage: &Storage, batch: OwnedWriteBatch) -> Result<(), Fault> {
        let written = storage.write(batch.durability(Some(PersistMode::SyncData)));
        written.map_err(|error| self.write_failed(&error))
    }

    /// Begins an outage; returns the fault for the callers of the write that failed.
    fn write_failed(&mut self, error: &fjall::Error) -> Fault {
        self.begin_outage(error);
        Fault::Interrupted
    }

    fn begin_outage(&mut self, reason: &dyn Display) {
        self.outage = Some(Outage::begin(reason));
        self.shared.counts.is_out.store(true, Ordering::Relaxed);
        self.shared.counts.outages.fetch_add(1, Ordering::Relaxed);
    }

    /// Serves one request together with those that wait after it.
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
                    // They do not depend on each other, but a group that went on would wait for one sync after the other
                    // while a client sets properties again and again.
                    self.commit(std::mem::take(&mut group));
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

    /// Commits requests, in as many groups as their size asks for.
    fn commit(&mut self, requests: Vec<CommitRequest>) {
        let mut requests = requests.into_iter();
        while requests.len() > 0 {
            self.commit_group(&mut requests);
        }
    }

    /// Commits the next requests as one group.
    fn commit_group(&mut self, requests: &mut vec::IntoIter<CommitRequest>) {
        let mut timer = PhaseTimer::begin();
        let Ok(storage) = self.writable() else {
            for request in requests {
                drop(request.answer.send(Err(CommitError::Fault(Fault::Suspended))));
            }
            return;
        };
        let is_low = self.space.is_low();
        let shared = Arc::clone(&self.shared);
        let counts = &shared.counts;
        timer.end(counts, Phase::Room);
        let mut group = Group::new(&shared, &storage, &mut self.recent, requests.len() > 1);
        let mut outcomes = Vec::with_capacity(requests.len());
        for CommitRequest { submitted, prepared, answer, memory, .. } in requests {
            let result = if is_low && !makes_room(&submitted.transaction) {
                Err(CommitError::Fault(Fault::Full))
            } else {
                group.apply(&submitted, prepared, &mut self.stamps)
            };
            outcomes.push((answer, memory, result));
            // A few bytes that are merged into a large entity make a large value.
            if group.stored_bytes() >= GROUP_BYTES_MAX {
                break;
            }
        }
        let transactions = outcomes.iter().filter(|(_, _, result)| result.is_ok()).count();
        let (entities, stored_bytes) = (group.entities(), group.stored_bytes());
        timer.end(counts, Phase::Apply);
        let written = group.write(self.stamps.last(), self.persist_mode).map_err(|error| self.write_failed(&error));
        let write_time = timer.end(counts, Phase::Write);
        if written.is_ok() && transactions > 0 {
            self.count(transactions, entities, stored_bytes, write_time);
        }
        for (answer, _memory, result) in outcomes {
            let result = match &written {
                Ok(()) => result,
                Err(_) => Err(CommitError::Fault(Fault::Interrupted)),
            };
            // A caller may have gone away.
            drop(answer.send(result));
        }
        timer.end(counts, Phase::Answer);
    }

    /// Counts a group that was written.
    fn count(&self, transactions: usize, entities: usize, stored_bytes: usize, time: Duration) {
        let counts = &self.shared.counts;
        counts.group_transactions.record(transactions as u64);
        counts.group_entities.record(entities as u64);
        counts.write_time.record_time(time);
        counts.transactions.fetch_add(transactions as u64, Ordering::Relaxed);
        counts.stored_bytes.fetch_add(stored_bytes as u64, Ordering::Relaxed);
    }

    fn create_table(&mut self, table: &TableKey) -> Result<(), CatalogError> {
        let (storage, id) = (self.with_space(), self.next_table_id);
        // After an outage, only `writable` knows what became of the write that failed, so the catalog is read after it.
        if self.shared.catalog().get(table).is_some() {
            return Err(CatalogError::AlreadyExists);
        }
        let storage = storage.map_err(CatalogError::Fault)?;
        let mut batch = storage.db.batch();
        batch.insert(
            &storage.data,
            layout::catalog_key(table),
            layout::catalog_value(table, id, self.stamps.now(), &StoredAccessPolicies::default()),
        );
        batch.insert(&storage.data, layout::NEXT_TABLE_ID, id.next().to_bytes());
        // If the write fails, the id may have been given out all the same, so it is not given out again.
        self.next_table_id = id.next();
        self.write_synced(&storage, batch).map_err(CatalogError::Fault)?;
        self.shared.catalog_mut().insert(table, id);
        Ok(())
    }

    fn set_policies(&mut self, table: &TableKey, policies: StoredAccessPolicies) -> Result<(), CatalogError> {
        let (storage, key) = (self.with_space(), layout::catalog_key(table));
        if self.shared.catalog().get(table).is_none() {
            return Err(CatalogError::NotFound);
        }
        let storage = storage.map_err(CatalogError::Fault)?;
        let value = storage.data.get(&key).map_err(|error| CatalogError::Fault(Fault::Storage(Box::new(error))))?;
        let entry = value.and_then(|value| layout::decode_catalog_entry(&key, &value));
        let damaged = || CatalogError::Fault(Fault::Damaged("the catalog entry of a table cannot be read".to_owned()));
        let entry = entry.ok_or_else(damaged)?;
        let value = layout::catalog_value(&entry.table, entry.id, entry.created, &policies);
        let mut batch = storage.db.batch();
        batch.insert(&storage.data, key, value);
        self.write_synced(&storage, batch).map_err(CatalogError::Fault)?;
        self.shared.catalog_mut().set_policies(table, policies).ok_or(CatalogError::NotFound)
    }

    fn delete_table(&mut self, table: &TableKey) -> Result<(), CatalogError> {
        let storage = self.writable().map_err(CatalogError::Fault)?;
        // After an outage, only `writable` knows what became of the write that failed, so the catalog is read after it.
        let id = self.shared.catalog().get(table).ok_or(CatalogError::NotFound)?.table;
        let mut batch = storage.db.batch();
        batch.remove(&storage.data, layout::catalog_key(table));
        batch.insert(&storage.data, layout::purge_key(id), layout::PURGE_VALUE);
        self.write_synced(&storage, batch).map_err(CatalogError::Fault)?;
        self.shared.catalog_mut().remove(table);
        // Without a purger the marker waits for the next start.
        let _no_purger = self.purges.send(());
        Ok(())
    }

    fn update_properties(&mut self, account: &AccountName, update: ServicePropertiesUpdate) -> Result<(), Fault> {
        let storage = self.with_space()?;
        let properties = self.shared.properties().get(account).updated(update);
        let mut batch = storage.db.batch();
        let value = properties_value::encode(&properties);
        batch.insert(&storage.data, layout::service_properties_key(account), value);
        self.write_synced(&storage, batch)?;
        self.shared.properties_mut().insert(account, properties);
        Ok(())
    }
}

/// Whether a transaction only deletes, as an operator does to make room on a full disk.
fn makes_room(transaction: &Transaction) -> bool {
    transaction.mutations().iter().all(|mutation| matches!(mutation, Mutation::Delete { .. }))
}
