//! The part of the engine that writers and readers use, on the models of the disk and the library.

use crate::disk::checks::Disk;
use crate::disk::contents::{Contents, is_of_entity};
use crate::disk::folder::Folder;
use crate::disk::layout::{self, CatalogEntry, TableId};
use crate::disk::payload::{Operations, Origin};
use crate::disk::space::{self, FreeSpace};
use crate::disk::storage::{OpenSettings, Storage};
use crate::hardware::Crash;
use crate::log::options::Durability;
use crate::state::EmbeddedState;
use crate::sync::{reset_clock, sleep};
use crate::writing::committer::{CatalogChange, CommitRequest, Committer, GROUP_LIMITS, Request};
use crate::writing::fair_queue::{FairQueue, GroupLimits};
use crate::writing::prepared::{Prepared, RecentWrites, Submitted};
use crate::writing::queue_memory::QueueMemory;
use engine::parts::stamp::Stamps;
use engine::{CatalogError, CommitError, Fault, TableKey};
use model::clock::SystemClock;
use model::{
    AccountName, Clock, DateTime, EdmValue, EntityKey, KeyText, Mutation, MutationResult, RecordBuilder, TableName,
    Transaction,
};
use shuttle::future::block_on;
use shuttle::thread::{self, JoinHandle};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::oneshot;

pub(super) type CommitResult = Result<Vec<MutationResult>, CommitError>;

/// The size of an unprepared transaction in the queue, in bytes.
pub(super) const TRANSACTION_BYTES: usize = 32;
/// The number of transactions in a group, so that a scenario has several groups.
const GROUP_TRANSACTIONS: usize = 4;

/// The first Timestamp that is issued.
const NOW_TICKS: i64 = 1_000_000;

/// A clock that stands still. It panics at the given read, counted from 0.
#[derive(Debug)]
struct TestClock {
    reads: AtomicUsize,
    panics_at: Option<usize>,
}

impl Clock for TestClock {
    fn now(&self) -> DateTime {
        if self.panics_at == Some(self.reads.fetch_add(1, Ordering::Relaxed)) {
            // Unlike `panic!`, this prints nothing.
            resume_unwind(Box::new("the clock panics"));
        }
        DateTime::from_ticks(NOW_TICKS).unwrap()
    }
}

pub(super) struct Settings {
    pub(super) disk: Arc<Disk>,
    pub(super) is_sync: bool,
    pub(super) memory_bytes: usize,
    pub(super) clock_panics_at: Option<usize>,
    /// Whether a thread flushes full memtables.
    pub(super) flushes: bool,
    /// Whether callers prepare their transactions. Otherwise, the queue underestimates the size of a transaction by
    /// half, so that the committer puts some of them back.
    pub(super) prepares: bool,
}

impl Settings {
    pub(super) fn new(disk: &Arc<Disk>) -> Self {
        let disk = Arc::clone(disk);
        Self { disk, is_sync: true, memory_bytes: 64 * 1024, clock_panics_at: None, flushes: false, prepares: true }
    }
}

/// The state that callers use. The methods do the same as the methods of `Embedded`.
#[derive(Clone)]
pub(super) struct Callers {
    pub(super) shared: Arc<EmbeddedState>,
    pub(super) queue: Arc<FairQueue<Request>>,
    pub(super) memory: Arc<QueueMemory>,
    prepares: bool,
}

pub(super) struct Running {
    pub(super) callers: Callers,
    committer: JoinHandle<()>,
    /// Threads that end when the engine closes.
    others: Vec<JoinHandle<()>>,
}

const POLL: Duration = Duration::from_millis(100);

impl Running {
    /// Opens an engine in which each of the tables exists.
    pub(super) fn open(settings: Settings, tables: &[TableKey]) -> Self {
        reset_clock();
        let Settings { disk, is_sync, memory_bytes, clock_panics_at, flushes, prepares } = settings;
        let limits = GroupLimits {
            group_bytes: if prepares { GROUP_LIMITS.group_bytes } else { GROUP_TRANSACTIONS * TRANSACTION_BYTES },
            group_requests: GROUP_TRANSACTIONS,
            ..GROUP_LIMITS
        };
        let mut id = TableId::FIRST;
        let mut operations = Operations::default();
        for table in tables {
            let entry = CatalogEntry::new(table.clone(), id, DateTime::MIN);
            operations.put(layout::catalog_key(table), entry.value());
            id = id.next();
        }
        operations.put(layout::NEXT_TABLE_ID, id.to_bytes());
        let folder = Folder::new(&disk);
        let durability = if is_sync { Durability::Sync } else { Durability::Interval };
        let storage = Storage::create(&folder, OpenSettings { cache_bytes: 0, durability }).unwrap();
        storage.write(vec![operations.into_transaction(Origin::Catalog)], None, true).unwrap();
        let recovered = storage.recover().unwrap();
        let shared =
            EmbeddedState::new(folder, storage, Arc::new(SystemClock), recovered.catalog, recovered.properties);
        disk.hardware.arm();
        let callers = Callers {
            shared: Arc::new(shared),
            queue: Arc::new(FairQueue::new(limits)),
            memory: QueueMemory::new(memory_bytes),
            prepares,
        };
        let committer = Committer {
            shared: Arc::clone(&callers.shared),
            queue: Arc::clone(&callers.queue),
            stamps: Stamps::after(
                DateTime::MIN,
                Arc::new(TestClock { reads: AtomicUsize::new(0), panics_at: clock_panics_at }),
            ),
            next_table_id: id,
            // There is no purger and no indexer.
            purges: mpsc::channel().0,
            builds: mpsc::channel().0,
            space: FreeSpace::new(space::Disk { folder: "/".into(), reserve_bytes: 0, keeper: None }),
            recent: RecentWrites::new(),
            outage: None,
            keeps_changes: false,
        };
        let mut others = Vec::new();
        if flushes {
            others.push(thread::spawn({
                let shared = Arc::clone(&callers.shared);
                move || flush(&shared)
            }));
        }
        if !is_sync {
            others.push(thread::spawn({
                let shared = Arc::clone(&callers.shared);
                move || sync(&shared)
            }));
        }
        Self { callers, committer: thread::spawn(|| committer.run()), others }
    }

    /// Closes the engine, and returns the entities that are certain to be on disk. All callers must have finished.
    pub(super) fn close(self, disk: &Disk) -> Contents {
        self.callers.shared.closing.cancel();
        self.callers.queue.close();
        self.committer.join().unwrap();
        assert_eq!(self.callers.queue.len(), 0, "the committer left a request in the queue");
        assert_eq!(self.callers.memory.held(), 0, "the memory of a request was not released");
        disk.hardware.disarm();
        let storage = &self.callers.shared.storage;
        storage.tree.end_waits();
        for thread in self.others {
            thread.join().unwrap();
        }
        storage.close().unwrap();
        disk.finish();
        let mut survivors = disk.survivors(Crash::Any);
        assert!(survivors.is_clean, "the engine was not shut down cleanly");
        survivors.contents.retain(|key, _| is_of_entity(key));
        survivors.contents
    }
}

/// Flushes memtables that are full, like the engine's flusher, and others, like its compactor. Pauses for no time after
/// a failure.
fn flush(shared: &EmbeddedState) {
    while !shared.closing.is_cancelled() {
        shared.storage.tree.wait_until_full(POLL);
        // The committer tries again when it ends the outage.
        let _ = shared.storage.flush_everything();
        thread::yield_now();
    }
}

/// Syncs the log at intervals.
fn sync(shared: &EmbeddedState) {
    while !shared.closing.is_cancelled() {
        let _ = shared.storage.upkeep.sync();
        sleep(POLL);
    }
}

impl Callers {
    /// Puts a transaction into the queue. The result arrives later.
    pub(super) fn send(&self, table: &TableKey, transaction: Transaction) -> Result<Pending, Fault> {
        let bytes = TRANSACTION_BYTES;
        let mut memory = block_on(self.memory.acquire(&table.account, bytes));
        let submitted = Arc::new(Submitted { table: table.clone(), transaction });
        let before = memory.bytes();
        let reserve = |bytes| memory.try_grow_to(before + bytes);
        let prepare = || Prepared::new(&self.shared, table, &submitted.transaction, reserve);
        let prepared = self.prepares.then(prepare).flatten();
        if prepared.is_none() {
            memory.shrink_to(before);
        }
        let (answer, answered) = oneshot::channel();
        let request = CommitRequest { submitted: Arc::clone(&submitted), prepared, bytes, answer, memory };
        self.request(Request::Commit(request))?;
        Ok(Pending { answered, _submitted: submitted })
    }

    /// A fault of the kind `Storage` means that the committer panicked.
    pub(super) fn commit(&self, table: &TableKey, transaction: Transaction) -> CommitResult {
        self.send(table, transaction).map_err(CommitError::Fault)?.result()
    }

    pub(super) fn change_catalog(
        &self,
        account: &AccountName,
        change: impl FnOnce(oneshot::Sender<Result<(), CatalogError>>) -> CatalogChange,
    ) -> Result<(), CatalogError> {
        let memory = block_on(self.memory.acquire(account, 16));
        let (answer, answered) = oneshot::channel();
        self.request(Request::Catalog(change(answer), memory)).map_err(CatalogError::Fault)?;
        block_on(answered).unwrap_or_else(|_| Err(CatalogError::Fault(panicked())))
    }

    /// Returns the record of an entity.
    pub(super) fn get(&self, table: &TableKey, key: &EntityKey) -> Option<Vec<u8>> {
        let view = self.shared.view();
        self.shared.get(&view, table, key).unwrap().map(|record| record.as_bytes().to_vec())
    }

    fn request(&self, request: Request) -> Result<(), Fault> {
        self.shared.check_open()?;
        self.queue.push(request).map_err(|_| Fault::Closed)
    }
}

/// A transaction in the queue.
pub(super) struct Pending {
    answered: oneshot::Receiver<CommitResult>,
    _submitted: Arc<Submitted>,
}

impl Pending {
    pub(super) fn result(self) -> CommitResult {
        block_on(self.answered).unwrap_or_else(|_| Err(CommitError::Fault(panicked())))
    }
}

fn panicked() -> Fault {
    Fault::Unknown("the committer panicked".into())
}

pub(super) fn table(account: usize) -> TableKey {
    let account = AccountName::new(&format!("account{account}")).unwrap();
    TableKey { account, name: TableName::new("Entities").unwrap() }
}

pub(super) fn key(row: &str) -> EntityKey {
    EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new(row).unwrap() }
}

/// One property with the given name.
pub(super) fn property(name: &str) -> RecordBuilder {
    let mut properties = RecordBuilder::default();
    properties.push(name, EdmValue::Boolean(true));
    properties
}

pub(super) fn merge(row: &str, name: &str) -> Mutation {
    Mutation::InsertOrMerge { key: key(row), properties: property(name) }
}

/// Returns the Timestamp of the first entity that was stored.
pub(super) fn stamp(results: &[MutationResult]) -> DateTime {
    let stored = results.iter().find_map(MutationResult::timestamp);
    stored.expect("each transaction stores an entity")
}
