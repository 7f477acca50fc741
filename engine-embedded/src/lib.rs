//! The default engine: entities on the local disk, in an LSM tree.
//!
//! Writers pass their transactions to one committer thread, which writes and syncs them in groups to a log, and then
//! applies them to a tree of memtables and sorted files. Readers read from snapshots of the tree and never wait for the
//! committer. `docs/embedded-engine.md` describes the data on disk.
//!
//! Invariants beyond those of [`engine::contract`]:
//!
//! 1. A data folder is owned by one engine at a time, and a folder that cannot be opened is not changed.
//! 2. Memory is bounded, whatever the load: the options and constants limit the cache, the committer's queue and the
//!    number of running scans. The caller bounds the memory of waiting scans by limiting their number.

mod counts;
mod disk;
mod feed;
mod figures;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hashed_key;
mod log;
mod reading;
mod recent_reads;
mod sequence;
mod shipping;
mod state;
mod sync;
#[cfg(test)]
mod tests;
mod tree;
mod upkeep;
mod writing;

pub use disk::folder::lineage as lineage_of;
pub use disk::lineage::{Awaited, Epoch, Identity, Lineage, Role};
pub use disk::open_error::OpenError;
pub use disk::storage_error::StorageError;
pub use shipping::{
    AppendError, BaseCopy, FrameError, KeptForStandby, PrimaryLog, PromotableFolder, ReadRecordsError, RecordBatch,
    StandbyFolder, StandbyLog,
};
pub use upkeep::check::check_folder;
pub use upkeep::restore::RestoredFolder;

use async_trait::async_trait;
use disk::confirmations::Confirmations;
use disk::folder::Folder;
use disk::layout::TableIndex;
use disk::opening;
use disk::space::{Disk, FreeSpace};
use disk::storage::{OpenSettings, storage_fault};
use engine::changes::{DatedChangeLog, first_position};
use engine::figures::Figures;
use engine::parts::cancellation::Cancellation;
use engine::parts::stamp::Stamps;
use engine::snapshot::Snapshots;
use engine::{BoxedSink, CatalogError, ChangeLog, CommitError, Engine, Fault, IndexState, KeepChanges, ReadError};
use engine::{Scan, ScanEnd, TableKey};
use feed::EmbeddedFeed;
use model::{
    AccountName, Clock, EntityKey, Mutation, Record, RecordBuilder, Retention, ServiceProperties,
    ServicePropertiesUpdate,
};
use model::{MutationResult, StoredAccessPolicies, TableName, TableSettings, TableSettingsUpdate, Transaction};
use parking_lot::Mutex;
use reading::{RunningPage, Scans, Step, is_small};
use sequence::Sequence;
use state::EmbeddedState;
use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::coop::consume_budget;
use writing::committer::{CatalogChange, CommitRequest, Committer, GROUP_LIMITS, QUEUE_BYTES_MAX, Request};
use writing::fair_queue::FairQueue;
use writing::prepared::{Prepared, RecentWrites, Submitted};
use writing::queue_memory::{MemoryShare, QueueMemory};

/// The format of the data folder that this version writes and reads.
pub const FOLDER_FORMAT: u32 = disk::layout::FORMAT;

/// Determines when a write is on disk, relative to its acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A write is on disk before it is acknowledged. No acknowledged write is ever lost.
    Sync,
    /// A write is on disk at most this interval after it is acknowledged. If the process crashes, nothing is lost. If
    /// the operating system crashes or the power fails, at most the writes acknowledged in the last interval are lost:
    /// always the latest transactions, and each as a whole. Creating and deleting tables is synced immediately.
    Interval(Duration),
}

/// The minimum number of concurrent scans, even with one processor: while one scan waits for the disk, another can use
/// the processor.
const CONCURRENT_SCANS_MIN: usize = 2;

/// The amount of the queue's memory charged to a catalog change, in bytes. It exceeds the maximum size of policies,
/// settings or properties.
const CATALOG_CHANGE_BYTES: usize = 16 * 1024;

/// The options of the engine. No option changes the format of the data folder.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// When an acknowledged write is on disk.
    pub durability: Durability,
    /// The maximum size of the cache for blocks read from disk, in bytes. The memory is allocated as needed.
    pub cache_bytes: u64,
    /// The maximum number of concurrent scans; each occupies a thread. Other scans wait, and long-running scans take
    /// turns with them.
    pub concurrent_scans: usize,
    /// The free space of the data folder's file system, in bytes, below which only deletions are accepted. It reserves
    /// room for the engine's own background writes. With 0, writes are accepted until the disk is full.
    pub min_free_bytes: u64,
    /// Which part of the log is kept for readers.
    pub kept_log: KeptLog,
    /// If it is set, a write is acknowledged only after a standby has it on disk too, and the durability is always
    /// [`Durability::Sync`]. If a standby takes longer, writes are refused until it has confirmed.
    pub confirmation_timeout: Option<Duration>,
}

/// The part of the log that is kept for readers of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptLog {
    /// Nothing is kept, and what was kept before is removed.
    Nothing,
    /// What was kept before stays, and what follows is kept as well. If nothing was kept, nothing is.
    AsBefore,
    /// Changes are kept within these bounds.
    Within(KeepChanges),
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            cache_bytes: 256 * 1024 * 1024,
            concurrent_scans: std::thread::available_parallelism()
                .map_or(CONCURRENT_SCANS_MIN, usize::from)
                .max(CONCURRENT_SCANS_MIN),
            min_free_bytes: 256 * 1024 * 1024,
            kept_log: KeptLog::AsBefore,
            confirmation_timeout: None,
        }
    }
}

/// An engine on a data folder. Dropping it blocks until its threads have exited. Unlike [`Engine::close`], that does
/// not sync the log, which matters with [`Durability::Interval`].
pub struct Embedded {
    shared: Arc<EmbeddedState>,
    queue: Arc<FairQueue<Request>>,
    queue_memory: Arc<QueueMemory>,
    scans: Scans,
    disk: Disk,
    feed: Option<EmbeddedFeed>,
    confirmations: Option<Arc<Confirmations>>,
    threads: Arc<Mutex<Threads>>,
}

/// The threads of the engine, and the channels that stop them. The committer stops when its queue is closed and empty.
struct Threads {
    committer: Option<JoinHandle<()>>,
    others: Vec<(std_mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Embedded {
    /// Opens a data folder. A missing or empty folder becomes a new data folder. Blocks while data is read from disk.
    pub fn open(path: &Path, options: &EmbeddedOptions, clock: impl Clock) -> Result<Self, OpenError> {
        let folder = Folder::acquire(path)?;
        match folder.lineage()?.map(|lineage| lineage.role) {
            None | Some(Role::Primary { .. }) => Self::open_folder(folder, options, Arc::new(clock), false),
            Some(Role::Standby { .. }) => Err(OpenError::Standby { folder: path.to_owned() }),
            Some(Role::Fenced { by, .. }) => Err(OpenError::Fenced { folder: path.to_owned(), by }),
        }
    }

    /// Opens the folder of a standby. Only the returned log writes to it. Blocks while data is read from disk.
    pub fn open_standby(
        path: &Path,
        options: &EmbeddedOptions,
        clock: impl Clock,
    ) -> Result<(Self, StandbyLog), OpenError> {
        let (folder, lineage, id) = Folder::acquire_standby(path)?;
        let options = EmbeddedOptions { durability: Durability::Sync, confirmation_timeout: None, ..options.clone() };
        let engine = Self::open_folder(folder, &options, Arc::new(clock), true)?;
        let log = StandbyLog::new(Arc::clone(&engine.shared), engine.disk.clone(), (lineage, id));
        Ok((engine, log))
    }

    fn open_folder(
        mut folder: Folder,
        options: &EmbeddedOptions,
        clock: Arc<dyn Clock>,
        is_standby: bool,
    ) -> Result<Self, OpenError> {
        let path = &folder.path().to_owned();
        let interval = match options.durability {
            Durability::Interval(interval) if options.confirmation_timeout.is_none() => Some(interval),
            Durability::Interval(_) | Durability::Sync => None,
        };
        let durability = interval.map_or(log::options::Durability::Sync, |_| log::options::Durability::Interval);
        let storage = opening::open(&mut folder, OpenSettings { cache_bytes: options.cache_bytes, durability })?;
        let recovered = storage.recover().map_err(|error| OpenError::storage(path, error))?;
        let first = Sequence::new(first_position(clock.now().max(recovered.last_stamp)));
        let lineage = folder.lineage()?;
        let bounds = match options.kept_log {
            KeptLog::Within(bounds) => Some(bounds),
            KeptLog::AsBefore => folder.has_archive().then_some(KeepChanges { age: Duration::MAX, bytes: u64::MAX }),
            KeptLog::Nothing => None,
        };
        match bounds {
            Some(_) => {
                // A standby, and a primary that has some, have the same positions.
                let first = if lineage.is_some() { Sequence::ZERO } else { first };
                storage.keep_log(&folder.create_archive()?, first)?;
            }
            None => folder.remove_archive()?,
        }
        // The former primary of a promoted standby may have shown transactions that the standby does not have. Their
        // positions are skipped, so that their readers notice.
        if let Some(Lineage { epochs, role: Role::Primary { .. }, .. }) = &lineage
            && let [.., _, Epoch { first: next, .. }] = epochs[..]
            && next == storage.next_sequence().get()
        {
            storage.skip_to(first).map_err(|error| OpenError::storage(path, error))?;
        }
        let confirmations = options.confirmation_timeout.map(|timeout| Arc::new(Confirmations::new(timeout)));
        if let Some(confirmations) = &confirmations {
            storage.wait_for_confirmations(Arc::clone(confirmations));
        }
        let state = EmbeddedState::new(folder, storage, Arc::clone(&clock), recovered.catalog, recovered.properties);
        let shared = Arc::new(state);
        shared.storage.tree.count_tombstones();
        let thread_error = |error| OpenError::io("start a thread for", path, error);

        let (keeper, requests) = std_mpsc::channel();
        let keeper = bounds.map(|_| keeper);
        let disk = Disk { folder: path.to_owned(), reserve_bytes: options.min_free_bytes, keeper };
        let mut threads = Threads { committer: None, others: Vec::new() };
        let compacted = disk.clone();
        let compact = move |shared: &EmbeddedState, stop: &_| upkeep::compaction::compact(shared, &compacted, stop);
        threads.begin("compactor", &shared, compact).map_err(thread_error)?;
        threads.begin("flusher", &shared, upkeep::background::flush).map_err(thread_error)?;
        if let Some(bounds) = bounds {
            let kept = disk.clone();
            let keep = move |shared: &EmbeddedState, stop: &_| {
                upkeep::retention::keep(shared, bounds, &kept, is_standby, (&requests, stop));
            };
            threads.begin("log keeper", &shared, keep).map_err(thread_error)?;
        }
        let queue = Arc::new(FairQueue::new(GROUP_LIMITS));
        let (interrupted, filled) = (Arc::clone(&queue), disk.clone());
        let watch_log = move |shared: &EmbeddedState, stop: &_| {
            upkeep::background::watch_log(shared, &interrupted, &filled, stop);
        };
        threads.begin("log", &shared, watch_log).map_err(thread_error)?;
        if let Some(interval) = interval {
            let sync =
                move |shared: &EmbeddedState, stop: &_| upkeep::background::sync_at_intervals(shared, interval, stop);
            threads.begin("syncer", &shared, sync).map_err(thread_error)?;
        }
        // A standby writes only what its primary wrote, which includes the removal of entities and the indexes.
        if !is_standby {
            let purges = threads.begin("purger", &shared, upkeep::background::purge).map_err(thread_error)?;
            let indexed = Arc::clone(&queue);
            let build =
                move |shared: &EmbeddedState, wakes: &_| upkeep::background::build_indexes(shared, &indexed, wakes);
            let builds = threads.begin("indexer", &shared, build).map_err(thread_error)?;
            let committer = Committer {
                shared: Arc::clone(&shared),
                queue: Arc::clone(&queue),
                stamps: Stamps::after(recovered.last_stamp, clock),
                next_table_id: recovered.next_table_id,
                purges,
                builds,
                space: FreeSpace::new(disk.clone()),
                recent: RecentWrites::new(),
                outage: None,
                keeps_changes: bounds.is_some(),
            };
            threads.committer = Some(spawn("committer", &shared, |_| committer.run()).map_err(thread_error)?);
        }
        let queue_memory = QueueMemory::new(QUEUE_BYTES_MAX);
        let committer = (!is_standby).then(|| (Arc::clone(&queue), Arc::clone(&queue_memory)));
        let feed = bounds.map(|_| EmbeddedFeed::new(Arc::clone(&shared), committer));
        Ok(Self {
            queue,
            queue_memory,
            scans: Scans::new(options.concurrent_scans),
            disk,
            feed,
            confirmations,
            shared,
            threads: Arc::new(Mutex::new(threads)),
        })
    }

    /// Returns a handle that takes snapshots of this engine while the engine is open.
    pub fn snapshots(&self) -> Arc<dyn Snapshots> {
        Arc::clone(&self.shared) as _
    }

    /// Returns the change feed, if the engine keeps the log.
    pub fn change_log(&self) -> Option<Arc<dyn ChangeLog>> {
        self.feed.clone().map(|feed| Arc::new(feed) as _)
    }

    /// Returns the change feed as a backup reads it, if the engine keeps the log.
    pub fn dated_change_log(&self) -> Option<Arc<dyn DatedChangeLog>> {
        self.feed.clone().map(|feed| Arc::new(feed) as _)
    }

    /// Returns the log for standbys, and its lineage. It is called at most once, because only one caller may change the
    /// lineage.
    pub fn primary_log(&self) -> Result<(PrimaryLog, Lineage), OpenError> {
        PrimaryLog::new(Arc::clone(&self.shared), self.confirmations.clone())
    }

    fn request(&self, request: Request) -> Result<(), Fault> {
        self.shared.check_writable()?;
        self.queue.push(request).map_err(|_| Fault::Closed)
    }

    /// The closure may wait for the disk, which must not block other tasks.
    async fn on_blocking_thread<T: Send + 'static>(
        &self,
        run: impl FnOnce(Arc<EmbeddedState>) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || run(shared)).await.map_err(|error| Fault::Storage(Box::new(error)))
    }

    /// Does the part of the commit that does not depend on the serial order. Reduces the work of the committer, for
    /// which every writer waits. The memory used is charged to the transaction's share.
    async fn prepare(
        &self,
        submitted: &Arc<Submitted>,
        mut memory: MemoryShare,
    ) -> Result<(Option<Prepared>, MemoryShare), Fault> {
        let mutations = submitted.transaction.mutations();
        let mut look_ups = mutations.iter().filter(|mutation| mutation.expectation().depends_on_entity()).count();
        if look_ups < mutations.len() && self.shared.has_indexes(&submitted.table) {
            look_ups = mutations.len();
        }
        if look_ups == 0 || !self.shared.recent_reads.begin(look_ups as u64) {
            // A transaction has many lookups, so stop as soon as the disk turns out to be slow.
            let is_fast = || look_ups == 0 || !self.shared.recent_reads.are_moved();
            let prepared = prepare(&self.shared, submitted, &mut memory, is_fast);
            if prepared.is_some() || is_fast() {
                return Ok((prepared, memory));
            }
        }
        let submitted = Arc::clone(submitted);
        // If the caller stops waiting, the memory stays charged until the closure has finished.
        let prepare = move |shared: Arc<EmbeddedState>| (prepare(&shared, &submitted, &mut memory, || true), memory);
        self.on_blocking_thread(prepare).await
    }

    async fn change_catalog(
        &self,
        account: &AccountName,
        change: impl FnOnce(oneshot::Sender<Result<(), CatalogError>>) -> CatalogChange,
    ) -> Result<(), CatalogError> {
        let memory = self.queue_memory.acquire(account, CATALOG_CHANGE_BYTES).await;
        let (answer, answered) = oneshot::channel();
        self.request(Request::Catalog(change(answer), memory)).map_err(CatalogError::Fault)?;
        answered.await.unwrap_or_else(|_| Err(CatalogError::Fault(no_response_fault())))
    }
}

#[async_trait]
impl Engine for Embedded {
    async fn create_table(&self, table: &TableKey) -> Result<(), CatalogError> {
        self.change_catalog(&table.account, |answer| CatalogChange::CreateTable(table.clone(), answer)).await
    }

    async fn delete_table(&self, table: &TableKey) -> Result<(), CatalogError> {
        self.change_catalog(&table.account, |answer| CatalogChange::DeleteTable(table.clone(), answer)).await
    }

    async fn table(&self, table: &TableKey) -> Result<Option<TableName>, Fault> {
        self.shared.check_open()?;
        Ok(self.shared.catalog.read().get(table).map(|listed| listed.name.clone()))
    }

    async fn accounts(&self) -> Result<Vec<AccountName>, Fault> {
        self.shared.check_open()?;
        Ok(self.shared.properties.read().accounts_and(self.shared.catalog.read().accounts()))
    }

    async fn list_tables(&self, account: &AccountName, from: &str, limit: usize) -> Result<Vec<TableName>, Fault> {
        self.shared.check_open()?;
        Ok(self.shared.catalog.read().list(account, from, limit))
    }

    async fn count_tables(&self, account: &AccountName) -> Result<u64, Fault> {
        self.shared.check_open()?;
        Ok(self.shared.catalog.read().count_of(account) as u64)
    }

    async fn policies(&self, table: &TableKey) -> Result<StoredAccessPolicies, ReadError> {
        self.shared.check_open().map_err(ReadError::Fault)?;
        Ok(self.shared.catalog.read().get(table).ok_or(ReadError::TableNotFound)?.policies.clone())
    }

    async fn set_policies(&self, table: &TableKey, policies: StoredAccessPolicies) -> Result<(), CatalogError> {
        self.change_catalog(&table.account, |answer| CatalogChange::SetPolicies(table.clone(), policies, answer)).await
    }

    async fn settings(&self, table: &TableKey) -> Result<TableSettings, ReadError> {
        self.shared.check_open().map_err(ReadError::Fault)?;
        Ok(TableSettings::clone(&self.shared.catalog.read().get(table).ok_or(ReadError::TableNotFound)?.settings))
    }

    async fn update_settings(&self, table: &TableKey, update: TableSettingsUpdate) -> Result<(), CatalogError> {
        self.change_catalog(&table.account, |answer| CatalogChange::UpdateSettings(table.clone(), update, answer)).await
    }

    async fn tables_to_sweep(&self) -> Result<Vec<(TableKey, Retention)>, Fault> {
        self.shared.check_open()?;
        // A standby receives the deletions from its primary.
        let is_read_only = self.shared.read_only.get().is_some();
        Ok(if is_read_only { Vec::new() } else { self.shared.catalog.read().with_retention() })
    }

    async fn indexes(&self, table: &TableKey) -> Result<Vec<IndexState>, ReadError> {
        self.shared.check_open().map_err(ReadError::Fault)?;
        let catalog = self.shared.catalog.read();
        let indexes = catalog.get(table).ok_or(ReadError::TableNotFound)?.table.indexes();
        let state = |index: &TableIndex| IndexState { property: index.property.clone(), is_ready: index.is_ready };
        Ok(indexes.iter().map(state).collect())
    }

    async fn get(&self, table: &TableKey, key: &EntityKey) -> Result<Option<Record>, ReadError> {
        // Reads do not wait, so yield here in case a task reads in a loop.
        consume_budget().await;
        self.shared.check_open().map_err(ReadError::Fault)?;
        if !self.shared.recent_reads.begin(1) {
            return self.shared.get(&self.shared.view(), table, key);
        }
        let (table, key) = (table.clone(), key.clone());
        let get = move |shared: Arc<EmbeddedState>| shared.get(&shared.view(), &table, &key);
        self.on_blocking_thread(get).await.map_err(ReadError::Fault)?
    }

    async fn scan_boxed(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: BoxedSink,
    ) -> Result<(BoxedSink, ScanEnd), ReadError> {
        // Small pages do not wait, so yield here in case a task reads them in a loop.
        consume_budget().await;
        self.shared.check_open().map_err(ReadError::Fault)?;
        let abandoned = CancelOnDrop(Cancellation::default());
        let abandonment = abandoned.0.clone();
        let is_small = is_small(&self.shared, table, &scan);
        let mut step = if is_small && !self.shared.begin_page() {
            let page = RunningPage::begin(Arc::clone(&self.shared), table, scan, sink, abandonment)?;
            match page.run_first_part()? {
                // The page has not had a slot, so it waits for one as a page that begins.
                Step::Paused(page) => {
                    let slot = self.scans.begin().await.map_err(ReadError::Fault)?;
                    self.on_blocking_thread(move |_| page.run(&slot)).await.map_err(ReadError::Fault)??
                }
                finished @ Step::Finished(..) => finished,
            }
        } else {
            let slot = self.scans.begin().await.map_err(ReadError::Fault)?;
            let table = table.clone();
            let begin = move |shared| {
                let page = RunningPage::begin(shared, &table, scan, sink, abandonment)?;
                match if is_small { page.run_first_part()? } else { Step::Paused(Box::new(page)) } {
                    Step::Paused(page) => page.run(&slot),
                    finished @ Step::Finished(..) => Ok(finished),
                }
            };
            self.on_blocking_thread(begin).await.map_err(ReadError::Fault)??
        };
        loop {
            let page = match step {
                Step::Finished(sink, end) => return Ok((sink, end)),
                Step::Paused(page) => page,
            };
            let slot = self.scans.resume(page.deadline()).await.map_err(ReadError::Fault)?;
            let Some(slot) = slot else { return page.end() };
            step = self.on_blocking_thread(move |_| page.run(&slot)).await.map_err(ReadError::Fault)??;
        }
    }

    async fn commit(&self, table: &TableKey, transaction: Transaction) -> Result<Vec<MutationResult>, CommitError> {
        self.shared.check_writable().map_err(CommitError::Fault)?;
        let bytes = memory_bytes(&transaction);
        let memory = self.queue_memory.acquire(&table.account, bytes).await;
        let submitted = Arc::new(Submitted { table: table.clone(), transaction });
        let (prepared, memory) = self.prepare(&submitted, memory).await.map_err(CommitError::Fault)?;
        let (answer, answered) = oneshot::channel();
        let request = CommitRequest { submitted: Arc::clone(&submitted), prepared, bytes, answer, memory };
        self.request(Request::Commit(request)).map_err(CommitError::Fault)?;
        answered.await.unwrap_or_else(|_| Err(CommitError::Fault(no_response_fault())))
    }

    fn service_properties(&self, account: &AccountName) -> Result<Arc<ServiceProperties>, Fault> {
        self.shared.check_open()?;
        Ok(self.shared.properties.read().get(account))
    }

    fn set_default_properties(&self, defaults: ServiceProperties) {
        self.shared.properties.write().set_defaults(Arc::new(defaults));
    }

    async fn update_service_properties(
        &self,
        account: &AccountName,
        update: ServicePropertiesUpdate,
    ) -> Result<(), Fault> {
        let memory = self.queue_memory.acquire(account, CATALOG_CHANGE_BYTES).await;
        let (answer, answered) = oneshot::channel();
        let change = CatalogChange::UpdateProperties(account.clone(), Box::new(update), answer);
        self.request(Request::Catalog(change, memory))?;
        answered.await.unwrap_or_else(|_| Err(no_response_fault()))
    }

    fn figures(&self) -> Figures {
        figures::figures(&self.shared, &self.disk, &self.queue, &self.queue_memory, &self.scans, self.feed.as_ref())
    }

    async fn close(&self) -> Result<(), Fault> {
        self.shared.check_open()?;
        self.shared.closing.cancel();
        // Requests that are already queued still get a response.
        self.queue.close();
        let (threads, shared) = (Arc::clone(&self.threads), Arc::clone(&self.shared));
        let ended = tokio::task::spawn_blocking(move || {
            threads.lock().join(&shared);
            shared.storage.close().map_err(storage_fault)
        });
        ended.await.map_err(|error| Fault::Storage(Box::new(error)))?
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shared.closing.cancel();
        self.queue.close();
        self.threads.lock().join(&self.shared);
    }
}

impl Threads {
    /// Starts a background thread, which the returned sender wakes. If the thread exits prematurely, the others
    /// continue.
    fn begin(
        &mut self,
        name: &str,
        shared: &Arc<EmbeddedState>,
        run: impl FnOnce(&EmbeddedState, &std_mpsc::Receiver<()>) + Send + 'static,
    ) -> io::Result<std_mpsc::Sender<()>> {
        let (wake, woken) = std_mpsc::channel();
        let thread = spawn(name, shared, move |shared| run(shared, &woken))?;
        self.others.push((wake.clone(), thread));
        Ok(wake)
    }

    /// The caller has already closed the committer's queue, so the committer stops.
    fn join(&mut self, shared: &EmbeddedState) {
        let stop = |(wake, thread): (std_mpsc::Sender<()>, JoinHandle<()>)| {
            let _already_ended = wake.send(());
            drop(wake);
            thread
        };
        let join = |thread: JoinHandle<()>| {
            if thread.join().is_err() {
                tracing::error!("an engine thread panicked");
            }
        };
        // The committer wakes the purger, and waits for the flusher, so it must stop first.
        self.committer.take().map(join);
        // The flusher is about to stop, so the purger must not wait for it.
        shared.storage.tree.end_waits();
        let others: Vec<_> = std::mem::take(&mut self.others).into_iter().map(stop).collect();
        others.into_iter().for_each(join);
    }
}

/// Prepares a transaction while `may_continue` returns true. The memory used is added to the transaction's share.
fn prepare(
    shared: &EmbeddedState,
    Submitted { table, transaction }: &Submitted,
    memory: &mut MemoryShare,
    may_continue: impl Fn() -> bool,
) -> Option<Prepared> {
    let before = memory.bytes();
    // Waiting for more memory while holding some could deadlock, so leave the work to the committer.
    let go_on = |bytes| memory.try_grow_to(before + bytes) && may_continue();
    let prepared = Prepared::new(shared, table, transaction, go_on);
    if prepared.is_none() {
        memory.shrink_to(before);
    }
    prepared
}

struct CancelOnDrop(Cancellation);

/// Returns the fault of a write whose response was lost: the committer panicked, perhaps after it had written.
fn no_response_fault() -> Fault {
    Fault::Unknown("the committer failed while it processed the request; see the log for the reason".into())
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn spawn(
    name: &str,
    shared: &Arc<EmbeddedState>,
    run: impl FnOnce(&EmbeddedState) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name(format!("rowhouse {name}")).spawn(move || run(&shared))
}

fn memory_bytes(transaction: &Transaction) -> usize {
    /// The memory that a mutation uses apart from its keys and properties, in bytes.
    const MUTATION_BYTES: usize = 256;
    let bytes = |mutation: &Mutation| {
        let key = mutation.key();
        let properties = mutation.properties().map_or(0, RecordBuilder::formula_bytes);
        MUTATION_BYTES + key.partition.as_str().len() + key.row.as_str().len() + properties
    };
    transaction.mutations().iter().map(bytes).sum()
}
