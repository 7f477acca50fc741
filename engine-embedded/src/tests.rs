mod golden;
mod indexes;
mod scans;
mod small_pages;

use super::*;
use crate::disk::layout::{self, TableId};
use crate::disk::payload::{Operations, Origin};
use crate::disk::space::bounded;
use crate::disk::storage::Storage;
use crate::disk::storage_error::StorageError;
use crate::recent_reads::RecentReads;
use crate::upkeep::background::purge_marks;
use engine::figures::Refusal;
use engine::{EngineExt, EntitySink, SinkDecision};
use engine_contract::support::scan_all;
use model::{Condition, DateTime, EdmValue, EntityLimits, EntityView, KeyText, Mutation, MutationError, RecordBuilder};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Instant;
use tempfile::TempDir;
use test_support::TIMEOUT;

#[derive(Debug, Clone, Default)]
struct TestClock(Arc<(AtomicI64, AtomicBool)>);

impl Clock for TestClock {
    fn now(&self) -> DateTime {
        // Readers also need the time.
        let is_committer = std::thread::current().name() == Some("rowhouse committer");
        assert!(!(is_committer && self.0.1.load(Ordering::SeqCst)), "the test makes the clock panic");
        DateTime::from_ticks(self.0.0.load(Ordering::SeqCst)).unwrap()
    }
}

impl TestClock {
    fn at(ticks: i64) -> Self {
        let clock = Self::default();
        clock.0.0.store(ticks, Ordering::SeqCst);
        clock
    }
}

struct Count(usize);

impl EntitySink for Count {
    fn entity(&mut self, _: &EntityView<'_>) -> SinkDecision {
        self.0 += 1;
        SinkDecision::Accepted
    }
}

fn open(folder: &TempDir) -> Embedded {
    Embedded::open(folder.path(), &EmbeddedOptions::default(), TestClock::at(1000)).unwrap()
}

pub(crate) fn table() -> TableKey {
    TableKey { account: AccountName::new("account1").unwrap(), name: TableName::new("Entities").unwrap() }
}

pub(crate) fn key(number: usize) -> EntityKey {
    EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new(&format!("{number:06}")).unwrap() }
}

fn upsert(number: usize) -> Mutation {
    let mut properties = RecordBuilder::default();
    properties.push("value", EdmValue::Int64(1));
    Mutation::InsertOrReplace { key: key(number), properties }
}

fn merge(number: usize) -> Mutation {
    Mutation::Merge { key: key(number), properties: RecordBuilder::default(), condition: Condition::Any }
}

async fn fill(engine: &Embedded, count: usize) {
    engine.create_table(&table()).await.unwrap();
    for first in (0..count).step_by(100) {
        let mutations = (first..count.min(first + 100)).map(upsert).collect();
        engine.commit(&table(), Transaction::new(mutations).unwrap()).await.unwrap();
    }
}

async fn commit(engine: &Embedded, mutation: Mutation) -> Result<Vec<MutationResult>, CommitError> {
    engine.commit(&table(), Transaction::single(mutation)).await
}

fn prepare(engine: &Embedded, mutation: Mutation) -> (Arc<Submitted>, Option<Prepared>) {
    prepare_for(engine, table(), mutation)
}

fn prepare_for(engine: &Embedded, table: TableKey, mutation: Mutation) -> (Arc<Submitted>, Option<Prepared>) {
    let submitted = Arc::new(Submitted { table, transaction: Transaction::single(mutation) });
    let prepared = Prepared::new(&engine.shared, &submitted.table, &submitted.transaction, |_| true);
    (submitted, prepared)
}

async fn send(
    engine: &Embedded,
    (submitted, prepared): (Arc<Submitted>, Option<Prepared>),
) -> oneshot::Receiver<Result<Vec<MutationResult>, CommitError>> {
    let memory = engine.queue_memory.acquire(&submitted.table.account, 1).await;
    let (answer, answered) = oneshot::channel();
    let bytes = memory_bytes(&submitted.transaction);
    let request = CommitRequest { submitted, prepared, bytes, answer, memory };
    engine.request(Request::Commit(request)).unwrap();
    answered
}

/// The lock is held on another thread until the sender releases it. The thread returns whether it was released in time.
fn hold_catalog(engine: &Embedded) -> (JoinHandle<bool>, std_mpsc::Sender<()>) {
    let shared = Arc::clone(&engine.shared);
    let (is_held, held) = std_mpsc::channel();
    let (release, released) = std_mpsc::channel();
    let holder = std::thread::spawn(move || {
        let _held = shared.catalog.write();
        is_held.send(()).unwrap();
        released.recv_timeout(TIMEOUT).is_ok()
    });
    held.recv().unwrap();
    (holder, release)
}

async fn count(engine: &Embedded) -> Result<usize, ReadError> {
    Ok(engine.scan(&table(), scan_all(), Count(0)).await?.0.0)
}

async fn stored_after_purge(engine: &Embedded) -> usize {
    let storage = &engine.shared.storage;
    let began = Instant::now();
    while !purge_marks(storage).unwrap().is_empty() {
        assert!(began.elapsed() < TIMEOUT, "the purge does not finish");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stored(storage)
}

fn stored(storage: &Storage) -> usize {
    storage.tree.snapshot().range(TableId::FIRST.to_bytes()..).count()
}

/// When this returns, the engine has been told to close.
async fn start_closing(engine: &Arc<Embedded>) -> tokio::task::JoinHandle<()> {
    let closing = Arc::clone(engine);
    let closed = tokio::spawn(async move { closing.close().await.unwrap() });
    let began = Instant::now();
    while engine.shared.check_open().is_ok() {
        assert!(began.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    closed
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_drop_without_close() {
    let folder = tempfile::tempdir().unwrap();
    let interval = Durability::Interval(Duration::from_millis(1));
    for (round, durability) in [Durability::Sync, interval, Durability::Sync].into_iter().enumerate() {
        let options = EmbeddedOptions { durability, ..EmbeddedOptions::default() };
        let engine = Embedded::open(folder.path(), &options, TestClock::at(1000)).unwrap();
        if round == 0 {
            fill(&engine, 250).await;
        }
        assert_eq!(count(&engine).await.unwrap(), 250 + round);
        commit(&engine, upsert(250 + round)).await.unwrap();
        drop(engine);
    }
    assert_eq!(count(&open(&folder)).await.unwrap(), 253);
}

#[tokio::test]
async fn timestamps_grow_across_a_restart_with_the_clock_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = DateTime::MIN;
    for ticks in [5_000_000, 4_000_000, 10] {
        let clock = TestClock::at(ticks);
        let engine = Embedded::open(folder.path(), &EmbeddedOptions::default(), clock).unwrap();
        drop(engine.create_table(&table()).await);
        // The last stamped write before the restart is a deletion.
        for mutation in [upsert(1), upsert(2), Mutation::Delete { key: key(2), condition: Condition::Any }] {
            if let [MutationResult::Stored(stamp)] = commit(&engine, mutation).await.unwrap()[..] {
                assert!(stamp > last, "{stamp:?} after {last:?}");
                last = stamp;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entities_of_a_deleted_table_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 5000).await;
    let held = engine.shared.purges_held.lock().await;
    engine.delete_table(&table()).await.unwrap();
    engine.create_table(&table()).await.unwrap();
    commit(&engine, upsert(7)).await.unwrap();
    assert_eq!(
        (stored(&engine.shared.storage), count(&engine).await.unwrap()),
        (5001, 1),
        "deleting a table touches no entity"
    );
    drop(held);
    assert_eq!(stored_after_purge(&engine).await, 1, "the remaining entity belongs to the new table");
    assert_eq!(count(&engine).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_deleted_table_does_not_delay_the_purge_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 20_000).await;
    let small = TableKey { account: AccountName::new("zebra").unwrap(), ..table() };
    engine.create_table(&small).await.unwrap();
    engine.commit(&small, Transaction::single(upsert(1))).await.unwrap();
    let ids = [table(), small.clone()].map(|table| engine.shared.catalog.read().get(&table).unwrap().table.id);
    let left = || {
        let snapshot = engine.shared.storage.tree.snapshot();
        ids.map(|id| snapshot.range(id.to_bytes()..id.next().to_bytes()).count())
    };
    let mut held = engine.shared.purges_held.lock().await;
    engine.delete_table(&table()).await.unwrap();
    engine.delete_table(&small).await.unwrap();
    let began = Instant::now();
    while left()[1] > 0 {
        assert!(began.elapsed() < TIMEOUT, "no step is made");
        // The lock is fair, so each release lets the purger begin one step.
        drop(held);
        held = engine.shared.purges_held.lock().await;
    }
    assert!(left()[0] > 10_000, "the large table was purged first");
    drop(held);
    assert_eq!(stored_after_purge(&engine).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(open(&folder));
    fill(&engine, 5000).await;
    let held = engine.shared.purges_held.lock().await;
    engine.delete_table(&table()).await.unwrap();
    let closing = start_closing(&engine).await;
    drop(held);
    closing.await.unwrap();
    assert!(stored(&engine.shared.storage) >= 5000 - 1024, "close waits only for one step");
    drop(engine);
    let engine = open(&folder);
    assert!(engine.table(&table()).await.unwrap().is_none());
    assert_eq!(stored_after_purge(&engine).await, 0);
}

#[tokio::test]
async fn table_ids_are_not_given_out_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let engine = open(&folder);
        for _ in 0..2 {
            engine.create_table(&table()).await.unwrap();
            ids.push(engine.shared.catalog.read().get(&table()).unwrap().table.id);
            engine.delete_table(&table()).await.unwrap();
        }
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_is_reported_and_never_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 10).await;
    let id = engine.shared.catalog.read().get(&table()).unwrap().table.id;
    let stored_key = layout::entity_key(id, &key(5).encode());
    let mut operations = Operations::default();
    operations.put(stored_key, b"garbage".as_slice());
    engine.shared.storage.write(vec![operations.into_transaction(Origin::Catalog)], None, true).unwrap();
    assert!(matches!(count(&engine).await, Err(ReadError::Fault(Fault::Damaged(_)))));
    assert!(matches!(engine.get(&table(), &key(5)).await, Err(ReadError::Fault(Fault::Damaged(_)))));
    assert!(matches!(commit(&engine, merge(5)).await, Err(CommitError::Fault(Fault::Damaged(_)))));
    // Replacing the entity does not depend on the old one.
    commit(&engine, upsert(5)).await.unwrap();
    assert_eq!(count(&engine).await.unwrap(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_committer_leaves_no_caller_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let clock = TestClock::at(1000);
    let engine = Embedded::open(folder.path(), &EmbeddedOptions::default(), clock.clone()).unwrap();
    fill(&engine, 10).await;
    clock.0.1.store(true, Ordering::SeqCst);
    let (first, second) = tokio::join!(commit(&engine, upsert(1)), commit(&engine, upsert(2)));
    assert!(matches!(first, Err(CommitError::Fault(Fault::Unknown(_)))));
    assert!(matches!(second, Err(CommitError::Fault(Fault::Unknown(_)))));
    assert_eq!(count(&engine).await.unwrap(), 10, "reads continue");
    clock.0.1.store(false, Ordering::SeqCst);
    commit(&engine, upsert(11)).await.unwrap();
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_is_a_fault_until_its_cause_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 10).await;
    // Writing a sorted file fails when its folder is a file. Writes are accepted while there is room in memory.
    let tables = folder.path().join("tree/tables");
    std::fs::remove_dir_all(&tables).unwrap();
    std::fs::write(&tables, "in the way").unwrap();
    let began = Instant::now();
    let answer = loop {
        match commit(&engine, large(1)).await {
            Ok(_) => assert!(began.elapsed() < TIMEOUT, "the failure is never detected"),
            Err(error) => break error,
        }
    };
    assert!(matches!(answer, CommitError::Fault(Fault::Suspended)), "{answer:?}");
    assert_eq!(count(&engine).await.unwrap(), 10, "reads continue");
    let (refused, merged) = tokio::join!(commit(&engine, merge(999)), commit(&engine, merge(2)));
    assert!(matches!(merged, Err(CommitError::Fault(Fault::Suspended))), "{merged:?}");
    assert!(matches!(refused, Err(CommitError::Fault(Fault::Suspended))), "{refused:?}");
    assert!(matches!(engine.delete_table(&table()).await, Err(CatalogError::Fault(Fault::Suspended))));
    let figures = engine.figures();
    assert_eq!(figures.refusal, Some(Refusal::Outage));
    assert!(figures.committer.unwrap().outages > 0);
    std::fs::remove_file(&tables).unwrap();
    std::fs::create_dir(&tables).unwrap();
    // The engine recovers without a request.
    let began = Instant::now();
    while engine.figures().refusal.is_some() {
        assert!(began.elapsed() < TIMEOUT, "the engine does not recover");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(count(&engine).await.unwrap(), 10);
    commit(&engine, merge(2)).await.unwrap();
    engine.delete_table(&table()).await.unwrap();
    assert_eq!(stored_after_purge(&engine).await, 0);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_takes_deletions_only() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 10).await;
    drop(engine);
    let options = EmbeddedOptions { min_free_bytes: u64::MAX, ..EmbeddedOptions::default() };
    let engine = Embedded::open(folder.path(), &options, TestClock::at(1000)).unwrap();
    let mixed = Transaction::new(vec![delete(1), upsert(2)]).unwrap();
    assert!(matches!(engine.commit(&table(), mixed).await, Err(CommitError::Fault(Fault::Full))));
    assert!(matches!(commit(&engine, upsert(1)).await, Err(CommitError::Fault(Fault::Full))));
    let other = TableKey { name: TableName::new("Other").unwrap(), ..table() };
    assert!(matches!(engine.create_table(&other).await, Err(CatalogError::Fault(Fault::Full))));
    let policies = StoredAccessPolicies::default();
    assert!(matches!(engine.set_policies(&table(), policies).await, Err(CatalogError::Fault(Fault::Full))));
    assert_eq!(count(&engine).await.unwrap(), 10, "reads continue");
    commit(&engine, delete(3)).await.unwrap();
    assert_eq!(count(&engine).await.unwrap(), 9);
    engine.delete_table(&table()).await.unwrap();
    assert_eq!(stored_after_purge(&engine).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_properties_does_not_hold_up_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 10).await;
    let (first, second) = (prepare(&engine, upsert(1)), prepare(&engine, upsert(2)));
    // The committer waits for the catalog until the others are in its queue.
    let (holder, release) = hold_catalog(&engine);
    let first = send(&engine, first).await;
    let mut second = send(&engine, second).await;
    let account = table().account;
    let update = engine.update_service_properties(&account, ServicePropertiesUpdate::default());
    let (updated, ()) = tokio::join!(biased; update, async { release.send(()).unwrap() });
    updated.unwrap();
    assert!(second.try_recv().unwrap().is_ok(), "it came first");
    first.await.unwrap().unwrap();
    assert!(holder.join().unwrap());
}

fn insert(number: usize) -> Mutation {
    Mutation::Insert { key: key(number), properties: RecordBuilder::default() }
}

fn delete(number: usize) -> Mutation {
    Mutation::Delete { key: key(number), condition: Condition::Any }
}

fn merge_of(number: usize, name: &str) -> Mutation {
    let mut properties = RecordBuilder::default();
    properties.push(name, EdmValue::Int32(1));
    Mutation::Merge { key: key(number), properties, condition: Condition::Any }
}

async fn names(engine: &Embedded, number: usize) -> Option<Vec<String>> {
    let record = engine.get(&table(), &key(number)).await.unwrap()?;
    let properties = record.view().unwrap().properties();
    Some(properties.map(|property| property.unwrap().name().unwrap().to_owned()).collect())
}

/// Merging a few bytes into a large entity creates a large value.
#[tokio::test]
async fn preparing_ends_where_the_memory_for_it_ends() {
    const VALUE_BYTES: usize = 30_000;
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    engine.create_table(&table()).await.unwrap();
    for number in 0..5 {
        let mut properties = RecordBuilder::default();
        let text = "x".repeat(VALUE_BYTES);
        properties.push("large", EdmValue::String(&text));
        commit(&engine, Mutation::InsertOrReplace { key: key(number), properties }).await.unwrap();
    }
    let transaction = Transaction::new((0..5).map(merge).collect()).unwrap();
    let prepare = |memory| {
        let mut asked = Vec::new();
        let reserve = |bytes| {
            asked.push(bytes);
            bytes <= memory
        };
        let is_prepared = Prepared::new(&engine.shared, &table(), &transaction, reserve).is_some();
        (is_prepared, asked)
    };
    let (is_prepared, asked) = prepare(usize::MAX);
    assert!(is_prepared && asked.len() == 5 && asked[0] > VALUE_BYTES, "{asked:?}");
    assert_eq!(prepare(asked[2]), (false, asked[..4].to_vec()));
}

/// A caller without memory for preparation leaves the work to the committer.
#[tokio::test]
async fn a_full_queue_memory_does_not_stop_a_caller_that_already_has_its_part() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 10).await;
    let other = AccountName::new("other").unwrap();
    // The merge itself needs less than this, but its preparation needs more.
    let all_but_little = engine.queue_memory.acquire(&other, QUEUE_BYTES_MAX - 1024).await;
    commit(&engine, merge_of(4, "b")).await.unwrap();
    drop(all_but_little);
    assert_eq!(names(&engine, 4).await.unwrap(), ["b", "value"]);
    // The committer releases the share after it has responded.
    let all = tokio::time::timeout(TIMEOUT, engine.queue_memory.acquire(&other, QUEUE_BYTES_MAX));
    assert!(all.await.is_ok(), "all memory is released");
}

/// Records reads that a slow disk has delayed, in the future, so that reads stay moved for the whole test.
fn move_reads(recent: &RecentReads) {
    let later = Instant::now() + TIMEOUT;
    while !recent.are_moved() {
        recent.record(Some(Duration::from_millis(5)), later);
    }
}

/// The test runs on a single thread, where a waiting read would block all other tasks.
#[tokio::test]
async fn a_read_that_may_wait_for_the_disk_holds_up_no_task() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 1000).await;
    engine.shared.storage.tree.rotate();
    engine.shared.storage.flush().unwrap();
    move_reads(&engine.shared.recent_reads);
    // The catalog lock, which every read takes, simulates a slow disk.
    let (disk, release) = hold_catalog(&engine);
    let (table, key) = (table(), key(7));
    let (record, ()) = tokio::join!(engine.get(&table, &key), async { release.send(()).unwrap() });
    assert!(record.unwrap().is_some());
    assert!(disk.join().unwrap(), "the read blocked the thread");
    // The lookup for a write is also a read.
    for mutation in [insert(1001), merge(7), delete(8)] {
        let (disk, release) = hold_catalog(&engine);
        let (written, ()) = tokio::join!(commit(&engine, mutation), async { release.send(()).unwrap() });
        written.unwrap();
        assert!(disk.join().unwrap(), "the lookup blocked the thread");
    }
    assert!(matches!(commit(&engine, merge(1002)).await, Err(CommitError::Refused(0, _))));
}

/// Lookups by the committer would delay all writers.
#[tokio::test]
async fn a_load_that_only_writes_finds_out_that_its_look_ups_load_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill(&engine, 1000).await;
    engine.shared.storage.tree.rotate();
    engine.shared.storage.flush().unwrap();
    drop(engine);
    let engine = open(&folder);
    let loaded = || engine.shared.storage.tree.blocks_loaded();
    let before = loaded();
    // The first entities are in the block with the engine's own entries, which has already been loaded.
    commit(&engine, merge(900)).await.unwrap();
    assert!(loaded() > before);
}

fn large(number: usize) -> Mutation {
    let mut properties = RecordBuilder::default();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        properties.push(name, EdmValue::Binary(&vec![0; 64 * 1024]));
    }
    Mutation::InsertOrReplace { key: key(number), properties }
}

async fn wait_until_drained(engine: &Embedded) {
    let began = Instant::now();
    while engine.queue.len() > 0 {
        assert!(began.elapsed() < TIMEOUT, "the committer takes nothing from its queue");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A merge of a few bytes rewrites the whole entity.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_ends_at_the_bytes_that_it_writes() {
    const ENTITIES: usize = 16;
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    engine.create_table(&table()).await.unwrap();
    for number in 0..ENTITIES {
        commit(&engine, large(number)).await.unwrap();
    }
    let groups = |engine: &Embedded| engine.figures().committer.unwrap().group_transactions.counts.iter().sum::<u64>();
    // Without preparation, a mutation is known to be large only when it is applied.
    for is_prepared in [true, false] {
        let before = groups(&engine);
        let prepared: Vec<_> = (0..ENTITIES).map(|number| prepare(&engine, merge(number))).collect();
        // The committer takes the first one and waits; the others arrive together.
        let (holder, release) = hold_catalog(&engine);
        let mut answers = Vec::new();
        for (submitted, prepared) in prepared {
            answers.push(send(&engine, (submitted, prepared.filter(|_| is_prepared))).await);
            if answers.len() == 1 {
                wait_until_drained(&engine).await;
            }
        }
        release.send(()).unwrap();
        assert!(holder.join().unwrap());
        let mut last = DateTime::MIN;
        for answer in answers {
            let MutationResult::Stored(stamp) = answer.await.unwrap().unwrap()[0] else { panic!("a merge stores") };
            assert!(stamp > last, "the order of the account");
            last = stamp;
        }
        // The entities total 8 MiB, and a group has at most 1 MiB and one more entity. If only the size of the requests
        // counted, there would be two groups.
        let groups = groups(&engine) - before;
        assert!((6..=ENTITIES as u64).contains(&groups), "{groups}");
    }
}

/// The log could not contain all that some merges would store.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_stores_no_more_than_the_log_can_contain() {
    const MERGES: usize = 81;
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    engine.create_table(&table()).await.unwrap();
    let wide = || RecordBuilder::within(&EntityLimits::WIDEST, 0);
    let mut large = wide();
    large.push("value", EdmValue::Binary(&vec![0; 2 * 1024 * 1024 - 4096]));
    for number in 0..MERGES {
        let mutation = Mutation::Insert { key: key(number), properties: large.clone() };
        commit(&engine, mutation).await.unwrap();
    }
    let mut other = wide();
    other.push("other", EdmValue::Binary(&[0; 3072]));
    let merge = |number| Mutation::InsertOrMerge { key: key(number), properties: other.clone() };
    let refused = engine.commit(&table(), Transaction::new((0..MERGES).map(merge).collect()).unwrap()).await;
    assert!(matches!(refused, Err(CommitError::Refused(80, MutationError::EntityTooLarge))), "{refused:?}");
    assert_eq!(names(&engine, 0).await.unwrap(), ["value"]);
    let written = engine.commit(&table(), Transaction::new((1..MERGES).map(merge).collect()).unwrap()).await;
    assert_eq!(written.unwrap().len(), MERGES - 1);
    assert_eq!(names(&engine, 80).await.unwrap(), ["other", "value"]);
}

/// The Timestamps show the order of the commits.
#[tokio::test(flavor = "multi_thread")]
async fn large_transactions_of_an_account_do_not_delay_those_of_another() {
    const LARGE: usize = 40;
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    let other_table = TableKey { account: AccountName::new("account2").unwrap(), ..table() };
    for table in [&table(), &other_table] {
        engine.create_table(table).await.unwrap();
    }
    let larges: Vec<_> = (0..LARGE).map(|number| prepare(&engine, large(number))).collect();
    let small = prepare_for(&engine, other_table.clone(), upsert(1));
    let (holder, release) = hold_catalog(&engine);
    let mut answers = Vec::new();
    for large in larges {
        answers.push(send(&engine, large).await);
        if answers.len() == 1 {
            wait_until_drained(&engine).await;
        }
    }
    let small = send(&engine, small).await;
    // A catalog change follows the write that precedes it, and waits no longer than that write.
    let account = other_table.account.clone();
    let update = engine.update_service_properties(&account, ServicePropertiesUpdate::default());
    let (updated, ()) = tokio::join!(biased; update, async { release.send(()).unwrap() });
    updated.unwrap();
    assert!(holder.join().unwrap());
    let mut answered_small = small;
    let MutationResult::Stored(stamp) = answered_small.try_recv().unwrap().unwrap()[0] else {
        panic!("an upsert stores")
    };
    let mut earlier = 0;
    for answer in answers {
        let MutationResult::Stored(of_large) = answer.await.unwrap().unwrap()[0] else { panic!("an upsert stores") };
        earlier += usize::from(of_large < stamp);
    }
    // Only the transaction that was being committed came earlier: the credit of one turn is not enough for the next
    // one.
    assert_eq!(earlier, 1);
    engine.close().await.unwrap();
}

fn write(engine: &Embedded, number: u8) {
    let mut operations = Operations::default();
    operations.put([0, 0, 0, 0, 0, 0, 0, 9, number], [number]);
    engine.shared.storage.write(vec![operations.into_transaction(Origin::Catalog)], None, true).unwrap();
}

#[test]
fn repeated_failures_of_a_flush_seal_no_further_memtable() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    let (storage, files) = (&engine.shared.storage, folder.path().join("tree/tables"));
    std::fs::rename(&files, folder.path().join("moved")).unwrap();
    for number in 0..3 {
        write(&engine, number);
        storage.flush_everything().unwrap_err();
        assert_eq!(storage.tree.state().sealed_memtables, 1);
    }
    std::fs::rename(folder.path().join("moved"), &files).unwrap();
    storage.flush_everything().unwrap();
    assert_eq!((storage.tree.state().sealed_memtables, storage.tree.persisted()), (0, storage.tree.published()));
}

/// No merge is started that might fill the disk. The committer must not wait for one, because it would also hold up
/// the shutdown.
#[tokio::test]
async fn writes_are_refused_if_the_disk_has_no_room_for_a_merge_that_they_need() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { min_free_bytes: u64::MAX / 2, ..EmbeddedOptions::default() };
    let engine = Embedded::open(folder.path(), &options, TestClock::at(1000)).unwrap();
    let storage = &engine.shared.storage;
    for number in 0.. {
        write(&engine, number);
        storage.flush_everything().unwrap();
        if !storage.tree.wait_for_room() {
            break;
        }
    }
    assert!(storage.tree.sorted_files().len() > 20);
    assert_eq!(engine.shared.resume().unwrap_err().to_string(), StorageError::NO_ROOM.to_string());
    engine.close().await.unwrap();
    drop(engine);
    // With room, the files are merged.
    let engine = open(&folder);
    engine.create_table(&table()).await.unwrap();
    assert!(engine.shared.storage.tree.sorted_files().len() < 20);
}

/// What is in memory when the disk is almost full is flushed later, and must leave room for deletions.
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_does_not_use_up_the_space_that_is_left_for_deletions() {
    const DISK_BYTES: u64 = 100 << 20;
    const RESERVE_BYTES: u64 = 16 << 20;
    let folder = tempfile::tempdir().unwrap();
    bounded::limit(folder.path(), DISK_BYTES);
    let options = EmbeddedOptions { min_free_bytes: RESERVE_BYTES, ..EmbeddedOptions::default() };
    let engine = Embedded::open(folder.path(), &options, TestClock::at(1000)).unwrap();
    engine.create_table(&table()).await.unwrap();
    let value = vec![7; 60_000];
    let mut stored = 0;
    let refused = loop {
        let mut properties = RecordBuilder::default();
        for name in ["A", "B", "C", "D", "E", "F"] {
            properties.push(name, EdmValue::Binary(&value));
        }
        match commit(&engine, Mutation::InsertOrReplace { key: key(stored), properties }).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1000, "the disk is never full");
    };
    assert!(matches!(refused, CommitError::Fault(Fault::Full)), "{refused:?}");
    engine.shared.storage.flush_everything().unwrap();
    // Background work may hold more for a moment: a segment that is being prepared, and files that are being merged.
    let sorted = engine.shared.storage.tree.sorted_files();
    let sorted = sorted.iter().map(|name| bounded::used_bytes(&folder.path().join("tree/tables").join(name)));
    let log = std::fs::read_dir(folder.path().join("log")).unwrap().map(|entry| entry.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    let used = sorted.sum::<u64>() + log.map(|path| bounded::used_bytes(&path)).sum::<u64>();
    assert!(used + RESERVE_BYTES <= DISK_BYTES, "{used} bytes are used");
    for number in 0..stored {
        commit(&engine, Mutation::Delete { key: key(number), condition: Condition::Any }).await.unwrap();
    }
    engine.close().await.unwrap();
}
