//! The only thread that changes the database on behalf of requests.
//!
//! Every change passes through the committer's queue, which determines its position in a single serial order. The
//! committer takes a group of waiting requests, chosen by `fair_queue`, and applies them in that order to the latest
//! state. It then writes one group to the log, syncs once, and responds to all of them.
//!
//! Invariants:
//!
//! 1. No request gets a response before the group is as durable as the engine is configured to make it. Refusals wait
//!    as well, because an earlier transaction of the same group may be their cause.
//! 2. The last issued stamp becomes durable and visible with the entities that carry it.
//! 3. After a failed write, nothing is written until the log has recovered (`outage`).
//! 4. Whatever happens, every request gets a response or its channel is dropped, so no caller waits forever.

use crate::counts::{Phase, PhaseTimer};
use crate::disk::guard::{Panicked, guarded};
use crate::disk::layout::{self, CatalogEntry, DeletedTable, TableId};
use crate::disk::payload::{Operations, Origin};
use crate::disk::space::FreeSpace;
use crate::disk::storage::storage_fault;
use crate::disk::storage_error::StorageError;
use crate::state::EmbeddedState;
use crate::sync::now;
use crate::writing::fair_queue::{FairQueue, GroupLimits, LaneKey, Next, QueuedRequest};
use crate::writing::group::Group;
use crate::writing::group::{IndexRequest, IndexStep};
use crate::writing::prepared::{Prepared, RecentWrites, Submitted};
use crate::writing::queue_memory::MemoryShare;
use engine::changes::ChangesEnd;
use engine::parts::properties_value;
use engine::parts::stamp::Stamps;
use engine::{CatalogError, CommitError, Fault, TableKey};
use model::{
    AccountName, Mutation, MutationResult, ServicePropertiesUpdate, StoredAccessPolicies, TableSettingsUpdate,
    Transaction,
};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use std::vec;
use tokio::sync::oneshot;

/// The maximum memory used by requests that wait for the committer or are being processed, in bytes.
pub(crate) const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The size at which a group accepts no more transactions, in bytes. A transaction that arrives later waits for the
/// whole group, so preparing and writing one should not take much longer than a sync.
const GROUP_BYTES_MAX: usize = 1024 * 1024;
/// The maximum size of a transaction that uses up one turn of its lane, in bytes. If each of several accounts sends a
/// transaction of this size, writing the group takes little more time than a sync.
const TURN_BYTES: usize = 256 * 1024;
/// The maximum size of a small transaction, in bytes: a single write, or a few.
const SMALL_BYTES: usize = 16 * 1024;
pub(crate) const GROUP_LIMITS: GroupLimits = GroupLimits {
    small_bytes: SMALL_BYTES,
    turn_bytes: TURN_BYTES,
    group_bytes: GROUP_BYTES_MAX,
    group_requests: 1024,
};
/// The interval at which the committer checks whether large transactions still have to wait.
const HOLD_PAUSE: Duration = Duration::from_millis(2);

pub(crate) enum Request {
    Commit(CommitRequest),
    Catalog(CatalogChange, MemoryShare),
    /// Its memory is not part of the queue's: there is only one at a time.
    Index(IndexRequest),
}

pub(crate) enum CatalogChange {
    CreateTable(TableKey, oneshot::Sender<Result<(), CatalogError>>),
    DeleteTable(TableKey, oneshot::Sender<Result<(), CatalogError>>),
    SetPolicies(TableKey, StoredAccessPolicies, oneshot::Sender<Result<(), CatalogError>>),
    UpdateSettings(TableKey, TableSettingsUpdate, oneshot::Sender<Result<(), CatalogError>>),
    UpdateProperties(AccountName, Box<ServicePropertiesUpdate>, oneshot::Sender<Result<(), Fault>>),
    /// Changes nothing. Later transactions follow the returned position, and have later stamps than the returned one.
    End(oneshot::Sender<ChangesEnd>),
}

pub(crate) struct CommitRequest {
    /// Shared with the caller, which usually outlives the request and therefore frees the memory.
    pub(crate) submitted: Arc<Submitted>,
    pub(crate) prepared: Option<Prepared>,
    pub(crate) bytes: usize,
    pub(crate) answer: oneshot::Sender<Result<Vec<MutationResult>, CommitError>>,
    pub(crate) memory: MemoryShare,
}

impl CommitRequest {
    /// Returns about how many bytes it writes. Merging a few bytes into a large entity creates a large value.
    fn stored_bytes(&self) -> usize {
        self.bytes.max(self.prepared.as_ref().map_or(0, |prepared| prepared.bytes))
    }
}

impl QueuedRequest for Request {
    fn account(&self) -> &AccountName {
        match self {
            Self::Commit(request) => request.memory.account(),
            Self::Catalog(_, memory) => memory.account(),
            Self::Index(request) => &request.table.account,
        }
    }

    fn cost_bytes(&self) -> usize {
        match self {
            Self::Commit(request) => request.stored_bytes(),
            // They are written separately.
            Self::Catalog(..) | Self::Index(_) => TURN_BYTES,
        }
    }

    fn ends_group(&self) -> bool {
        matches!(self, Self::Catalog(..) | Self::Index(_))
    }
}

pub(crate) struct Committer {
    pub(crate) shared: Arc<EmbeddedState>,
    pub(crate) queue: Arc<FairQueue<Request>>,
    pub(crate) stamps: Stamps,
    pub(crate) next_table_id: TableId,
    pub(crate) purges: Sender<()>,
    /// Wakes the thread that builds indexes.
    pub(crate) builds: Sender<()>,
    pub(crate) space: FreeSpace,
    pub(crate) recent: RecentWrites,
    pub(crate) outage: Option<Outage>,
    /// Whether the log is kept for the change feed.
    pub(crate) keeps_changes: bool,
}

impl Committer {
    /// Processes requests until the queue is closed and empty. During an outage, it tries to end the outage between
    /// requests.
    pub(crate) fn run(mut self) {
        loop {
            // During an outage, all requests get an error at once.
            let holds_large = self.outage.is_none() && self.shared.storage.tree.must_hold_large();
            let hold_large_until = holds_large.then(|| now() + HOLD_PAUSE);
            let mut timer = PhaseTimer::begin();
            let next = self.queue.take(self.outage.as_ref().map(Outage::next_attempt), hold_large_until);
            if holds_large && matches!(next, Next::Elapsed) {
                timer.end(&self.shared.counts, Phase::Room);
            }
            // A panic drops the channels of the current group, so its callers get a fault. No change of the group is
            // visible: either nothing was written, or `Storage::refuses_writes` is true from now on.
            let served = match next {
                Next::Group(requests) => guarded(|| self.serve(requests)),
                // If the outage continues, another attempt is made later.
                Next::Elapsed => guarded(|| drop(self.wait_until_writable())),
                Next::Closed => return,
            };
            if let Err(Panicked) = served {
                tracing::error!(
                    "the committer panicked; the requests of the current group fail, and processing continues with the next group"
                );
            }
        }
    }

    /// Waits for room in memory. After a failure, tries to end the outage if the next attempt is due.
    fn wait_until_writable(&mut self) -> Result<(), Fault> {
        if self.outage.is_none() {
            let storage = &self.shared.storage;
            let has_room = storage.tree.wait_for_room();
            if has_room && !storage.refuses_writes() {
                return Ok(());
            }
            self.begin_outage(if has_room {
                &"an earlier write or sync failed"
            } else {
                &"sorted files could not be written or merged"
            });
        }
        if !self.outage.as_mut().is_some_and(|outage| outage.try_to_end(&self.shared)) {
            return Err(Fault::Suspended);
        }
        self.outage = None;
        self.recent.record_all();
        self.shared.counts.is_in_outage.store(false, Ordering::Relaxed);
        // Resume what was interrupted.
        let _no_purger = self.purges.send(());
        let _no_indexer = self.builds.send(());
        Ok(())
    }

    /// Like [`Self::wait_until_writable`], but for writes other than deletions.
    fn wait_until_writable_with_space(&mut self) -> Result<(), Fault> {
        if self.is_space_low(0) { Err(Fault::Full) } else { self.wait_until_writable() }
    }

    fn is_space_low(&mut self, bytes: usize) -> bool {
        self.space.is_low(self.shared.storage.tree.unflushed_bytes(), bytes as u64)
    }

    /// Tables change rarely, so the change is synced immediately, regardless of the durability of transactions.
    fn write_synced(&mut self, operations: Operations) -> Result<(), Fault> {
        let mut transaction = operations.into_transaction(Origin::Catalog);
        if self.keeps_changes {
            // Readers of the change feed find transactions by their time.
            let stamp = self.stamps.propose();
            self.stamps.issue(stamp);
            transaction.stamp = Some(stamp);
        }
        let last_stamp = transaction.stamp;
        let written = self.shared.storage.write(vec![transaction], last_stamp, true);
        written.map_err(|error| self.write_failed(&error))
    }

    /// Returns the fault to report to the callers whose write failed.
    fn write_failed(&mut self, error: &StorageError) -> Fault {
        self.begin_outage(error);
        if error.is_refusal() { Fault::Suspended } else { Fault::Interrupted }
    }

    fn begin_outage(&mut self, reason: &dyn Display) {
        self.outage = Some(Outage::begin(reason));
        self.shared.counts.is_in_outage.store(true, Ordering::Relaxed);
        self.shared.counts.outages.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that do not fit into the group are put back into the queue.
    fn serve(&mut self, requests: Vec<Request>) {
        let mut commits = Vec::with_capacity(requests.len());
        let mut last = None;
        for request in requests {
            match request {
                Request::Commit(request) => commits.push(request),
                // In the queue, such a request is always the last one of its group.
                Request::Catalog(..) | Request::Index(_) => last = Some(request),
            }
        }
        let mut commits = commits.into_iter();
        let filled_by = self.commit_group(&mut commits);
        if let Some(filled_by) = filled_by.filter(|_| commits.len() > 0) {
            self.queue.put_back(commits.map(Request::Commit).chain(last), &filled_by);
            return;
        }
        match last {
            Some(Request::Catalog(change, _memory)) => self.change_catalog(change),
            Some(Request::Index(request)) => {
                let result = self.build_index(&request);
                drop(request.answer.send(result));
            }
            Some(Request::Commit(_)) | None => {}
        }
    }

    fn change_catalog(&mut self, change: CatalogChange) {
        match change {
            CatalogChange::CreateTable(table, answer) => drop(answer.send(self.create_table(&table))),
            CatalogChange::DeleteTable(table, answer) => drop(answer.send(self.delete_table(&table))),
            CatalogChange::SetPolicies(table, policies, answer) => {
                let change = |entry: &mut CatalogEntry, _: &mut TableId| {
                    entry.policies = policies;
                    Vec::new()
                };
                drop(answer.send(self.change_table(&table, change)));
            }
            CatalogChange::UpdateSettings(table, update, answer) => {
                let change = |entry: &mut CatalogEntry, next_id: &mut TableId| {
                    entry.set_settings(entry.settings.clone().updated(update), next_id)
                };
                drop(answer.send(self.change_table(&table, change)));
            }
            CatalogChange::UpdateProperties(account, update, answer) => {
                drop(answer.send(self.update_properties(&account, *update)));
            }
            CatalogChange::End(answer) => {
                let stamp = self.stamps.propose();
                self.stamps.issue(stamp);
                let next = self.shared.storage.next_sequence().get();
                let _abandoned = answer.send(ChangesEnd { next, time: stamp });
            }
        }
    }

    /// If the group becomes full, returns the lane whose transaction filled it.
    fn commit_group(&mut self, requests: &mut vec::IntoIter<CommitRequest>) -> Option<LaneKey> {
        if requests.len() == 0 {
            return None;
        }
        let mut timer = PhaseTimer::begin();
        if self.wait_until_writable().is_err() {
            for request in requests {
                drop(request.answer.send(Err(CommitError::Fault(Fault::Suspended))));
            }
            return None;
        }
        let is_low = self.is_space_low(requests.as_slice().iter().map(CommitRequest::stored_bytes).sum());
        let shared = Arc::clone(&self.shared);
        let counts = &shared.counts;
        timer.end(counts, Phase::Room);
        let mut group = Group::new(&shared, &mut self.recent, requests.len());
        let mut outcomes = Vec::with_capacity(requests.len());
        // Release the shares together: callers that have received their response compete for the lock with their next
        // requests.
        let mut shares: Vec<MemoryShare> = Vec::new();
        let mut filled_by = None;
        for request in requests {
            let cost_bytes = request.stored_bytes();
            let CommitRequest { submitted, prepared, answer, memory, .. } = request;
            let result = if is_low && !contains_only_deletions(&submitted.transaction) {
                Err(CommitError::Fault(Fault::Full))
            } else {
                group.apply(&submitted, prepared, &mut self.stamps)
            };
            outcomes.push((answer, result));
            match shares.last_mut().filter(|share| share.account() == memory.account()) {
                Some(share) => share.merge(memory),
                None => shares.push(memory),
            }
            // Prepared data may be outdated, and the entity may have grown since.
            if group.stored_bytes() >= self.queue.limits.group_bytes {
                filled_by = Some(self.queue.lane(&submitted.table.account, cost_bytes));
                break;
            }
        }
        let transactions = outcomes.iter().filter(|(_, result)| result.is_ok()).count();
        let (entities, stored_bytes) = (group.entities(), group.stored_bytes());
        timer.end(counts, Phase::Apply);
        let failed = group.write(self.stamps.last()).map_err(|error| self.write_failed(&error)).err();
        let write_time = timer.end(counts, Phase::Write);
        if failed.is_none() && transactions > 0 {
            self.count(transactions, entities, stored_bytes, write_time);
        }
        for (answer, result) in outcomes {
            let result = match (&failed, result) {
                (None, result) => result,
                // These failed before the write.
                (Some(_), Err(CommitError::Fault(fault))) => Err(CommitError::Fault(fault)),
                (Some(Fault::Suspended), _) => Err(CommitError::Fault(Fault::Suspended)),
                // A refusal may be due to an earlier transaction of the group.
                (Some(_), _) => Err(CommitError::Fault(Fault::Interrupted)),
            };
            drop(answer.send(result));
        }
        drop(shares);
        timer.end(counts, Phase::Answer);
        filled_by
    }

    fn count(&self, transactions: usize, entities: usize, stored_bytes: usize, time: Duration) {
        let counts = &self.shared.counts;
        counts.group_transactions.record(transactions as u64);
        counts.group_entities.record(entities as u64);
        counts.write_time.record_time(time);
        counts.transactions.fetch_add(transactions as u64, Ordering::Relaxed);
        counts.stored_bytes.fetch_add(stored_bytes as u64, Ordering::Relaxed);
    }

    fn create_table(&mut self, table: &TableKey) -> Result<(), CatalogError> {
        let (writable, id) = (self.wait_until_writable_with_space(), self.next_table_id);
        // During an outage, it is unknown what the failed write changed until the outage has ended, so read the catalog
        // only then.
        if self.shared.catalog.read().get(table).is_some() {
            return Err(CatalogError::AlreadyExists);
        }
        writable.map_err(CatalogError::Fault)?;
        let mut operations = Operations::default();
        let entry = CatalogEntry::new(table.clone(), id, self.stamps.now());
        operations.put(layout::catalog_key(table), entry.value());
        operations.put(layout::NEXT_TABLE_ID, id.next().to_bytes());
        // Even if the write fails, the ID may have been used, so do not issue it again.
        self.next_table_id = id.next();
        self.write_synced(operations).map_err(CatalogError::Fault)?;
        self.shared.catalog.write().insert(table, entry.stored());
        Ok(())
    }

    /// Changes the policies or the settings of a table, or the state of its indexes. `change` receives the next ID to
    /// issue, and returns the IDs of the indexes that it removes.
    fn change_table(
        &mut self,
        table: &TableKey,
        change: impl FnOnce(&mut CatalogEntry, &mut TableId) -> Vec<TableId>,
    ) -> Result<(), CatalogError> {
        let (writable, key) = (self.wait_until_writable_with_space(), layout::catalog_key(table));
        if self.shared.catalog.read().get(table).is_none() {
            return Err(CatalogError::NotFound);
        }
        writable.map_err(CatalogError::Fault)?;
        let value = self.shared.storage.tree.latest(&key);
        let value = value.map_err(|error| CatalogError::Fault(storage_fault(error)))?;
        let entry = value.and_then(|value| layout::decode_catalog_entry(&key, &value));
        let damaged = || CatalogError::Fault(Fault::Damaged("the catalog entry of a table cannot be read".to_owned()));
        let mut entry = entry.ok_or_else(damaged)?;
        let mut next_id = self.next_table_id;
        let removed = change(&mut entry, &mut next_id);
        let mut operations = Operations::default();
        operations.put(key, entry.value());
        if next_id != self.next_table_id {
            operations.put(layout::NEXT_TABLE_ID, next_id.to_bytes());
            // As in `create_table`.
            self.next_table_id = next_id;
        }
        for id in &removed {
            operations.put(layout::purge_key(*id), layout::PURGE_VALUE);
        }
        self.write_synced(operations).map_err(CatalogError::Fault)?;
        let has_unfinished = entry.indexes.iter().any(|index| !index.is_ready);
        let mut catalog = self.shared.catalog.write();
        let listed = catalog.get_mut(table).ok_or(CatalogError::NotFound)?;
        listed.table = entry.stored();
        (listed.policies, listed.settings) = (entry.policies, Arc::new(entry.settings));
        drop(catalog);
        // If these threads have ended, the work remains until the next startup.
        if !removed.is_empty() {
            let _no_purger = self.purges.send(());
        }
        if has_unfinished {
            let _no_indexer = self.builds.send(());
        }
        Ok(())
    }

    fn delete_table(&mut self, table: &TableKey) -> Result<(), CatalogError> {
        self.wait_until_writable().map_err(CatalogError::Fault)?;
        // As in `create_table`, read the catalog only after an outage has ended.
        let catalog = self.shared.catalog.read();
        let listed = catalog.get(table).ok_or(CatalogError::NotFound)?;
        let (stored, name) = (listed.table.clone(), listed.name.clone());
        drop(catalog);
        let mut operations = Operations::default();
        operations.delete(layout::catalog_key(table));
        if self.keeps_changes {
            // Earlier changes of the table can still be read.
            let table = TableKey { account: table.account.clone(), name };
            let deleted = DeletedTable { id: stored.id, table, deleted: self.stamps.propose() };
            operations.put(DeletedTable::key(stored.id), deleted.value());
        }
        for id in stored.indexes().iter().map(|index| index.id).chain([stored.id]) {
            operations.put(layout::purge_key(id), layout::PURGE_VALUE);
        }
        self.write_synced(operations).map_err(CatalogError::Fault)?;
        self.shared.catalog.write().remove(table);
        // If there is no purger, the marker remains until the next startup.
        let _no_purger = self.purges.send(());
        Ok(())
    }

    /// Makes a step of the construction of indexes, unless the table was deleted.
    fn build_index(&mut self, request: &IndexRequest) -> Result<(), Fault> {
        self.wait_until_writable_with_space()?;
        let stored = self.shared.catalog.read().get(&request.table).map(|listed| listed.table.clone());
        let Some(stored) = stored.filter(|stored| stored.id == request.id) else { return Ok(()) };
        if matches!(request.step, IndexStep::Finish) {
            let finish = |entry: &mut CatalogEntry, _: &mut TableId| {
                for index in entry.indexes.iter_mut().filter(|index| request.indexes.contains(&index.id)) {
                    index.is_ready = true;
                }
                Vec::new()
            };
            return self.change_table(&request.table, finish).map_err(|error| match error {
                CatalogError::Fault(fault) => fault,
                // The table exists.
                CatalogError::NotFound | CatalogError::AlreadyExists | CatalogError::BeingDeleted => Fault::Suspended,
            });
        }
        let operations = request.operations(&self.shared, &self.recent, &stored).map_err(storage_fault)?;
        if operations.is_empty() {
            return Ok(());
        }
        let written = self.shared.storage.write(vec![operations.into_transaction(Origin::Index)], None, false);
        written.map_err(|error| self.write_failed(&error))
    }

    fn update_properties(&mut self, account: &AccountName, update: ServicePropertiesUpdate) -> Result<(), Fault> {
        self.wait_until_writable_with_space()?;
        let properties = self.shared.properties.read().get(account).updated(update);
        let mut operations = Operations::default();
        operations.put(layout::service_properties_key(account), properties_value::encode(&properties));
        self.write_synced(operations)?;
        self.shared.properties.write().insert(account, properties);
        Ok(())
    }
}

/// An operator may need deletions to free space on a full disk.
fn contains_only_deletions(transaction: &Transaction) -> bool {
    transaction.mutations().iter().all(|mutation| matches!(mutation, Mutation::Delete { .. }))
}

const ATTEMPT_PAUSE: Duration = Duration::from_millis(250);
/// The maximum pause after attempts that failed although the disk accepts writes. Each of them may have left a file.
const ATTEMPT_PAUSE_MAX: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(crate) struct Outage {
    began: Instant,
    next_attempt: Instant,
    pause: Duration,
    /// The error of the last attempt, so that an unchanged error is logged only once.
    last_error: String,
}

impl Outage {
    pub(crate) fn begin(reason: &dyn Display) -> Self {
        tracing::error!(%reason, "the data folder accepts no writes because a write failed; reads continue, and writes resume when the disk works again");
        let began = now();
        Self { began, next_attempt: began, pause: ATTEMPT_PAUSE, last_error: String::new() }
    }

    pub(crate) fn next_attempt(&self) -> Instant {
        self.next_attempt
    }

    /// Returns true if the outage is over.
    pub(crate) fn try_to_end(&mut self, shared: &EmbeddedState) -> bool {
        if now() < self.next_attempt {
            return false;
        }
        // Set the time before the attempt as well, so that the next attempt is made after a pause even if the attempt
        // panics.
        self.next_attempt = now() + ATTEMPT_PAUSE;
        if shared.storage.is_unconfirmed() {
            return false;
        }
        let attempt = match shared.folder().probe() {
            Ok(()) => {
                self.pause = ATTEMPT_PAUSE_MAX.min(2 * self.pause);
                shared.resume().map_err(|error| error.to_string())
            }
            Err(error) => {
                self.pause = ATTEMPT_PAUSE;
                Err(format!("the disk does not accept writes: {error}"))
            }
        };
        self.next_attempt = now() + self.pause;
        match attempt {
            Ok(()) => {
                let seconds = self.began.elapsed().as_secs_f32();
                tracing::info!(seconds, "the data folder accepts writes again");
                true
            }
            Err(error) => {
                if error != self.last_error {
                    tracing::warn!(error, "the data folder does not accept writes yet; retrying");
                    self.last_error = error;
                }
                false
            }
        }
    }
}
