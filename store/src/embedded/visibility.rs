//! Snapshots that show each batch whole or not at all.
//!
//! The library gives a batch its sequence number, syncs it, enters its items into the memtable one by one, and then makes
//! the number visible. When it has written out a memtable or merged files meanwhile, it takes a later number for the new list
//! of files and makes that visible, and with it the part of the batch that was entered so far: a snapshot taken then shows
//! more and more of the batch. So the committer announces its batches here, and a snapshot is used only if it cannot contain
//! a number of the batch that is being written. `docs/upstream.md` names the change that would make this unnecessary.
//!
//! Invariant: the numbers that a snapshot may contain are below the floor of every batch that was being written when the
//! snapshot was taken, or such a batch had been written entirely when the floor was compared.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// The floor while no batch is being written.
const NO_BATCH: u64 = u64::MAX;

/// The batch that is being written by the committer. The batches of the purger need not be announced: nobody can read the
/// entities of a deleted table.
#[derive(Debug)]
pub(super) struct Visibility {
    /// The lowest sequence number that the batch may have.
    floor: AtomicU64,
    /// How many readers wait for the end of the batch.
    waiting: AtomicUsize,
    lock: Mutex<()>,
    ended: Condvar,
}

impl Visibility {
    pub(super) fn new() -> Self {
        Self {
            floor: AtomicU64::new(NO_BATCH),
            waiting: AtomicUsize::new(0),
            lock: Mutex::new(()),
            ended: Condvar::new(),
        }
    }

    /// Writes a batch. `next_number` is called first, and gives the lowest sequence number that the batch may have.
    pub(super) fn write<T>(&self, next_number: impl FnOnce() -> u64, write: impl FnOnce() -> T) -> T {
        /// Ends the batch also if writing it panics.
        struct End<'a>(&'a Visibility);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.floor.store(NO_BATCH, Ordering::SeqCst);
                if self.0.waiting.load(Ordering::SeqCst) > 0 {
                    // A reader is either before its look at the floor, or waits.
                    drop(self.0.lock.lock().unwrap_or_else(PoisonError::into_inner));
                    self.0.ended.notify_all();
                }
            }
        }
        self.floor.store(next_number(), Ordering::SeqCst);
        let _end = End(self);
        write()
    }

    /// A snapshot, unless it may show a part of a batch. `visible` gives the number below which everything is visible.
    pub(super) fn snapshot<S>(&self, take: impl FnOnce() -> S, visible: impl FnOnce() -> u64) -> Option<S> {
        let snapshot = take();
        // It is read after the snapshot was taken, so the snapshot shows at most as much.
        let visible = visible();
        (visible <= self.floor.load(Ordering::SeqCst)).then_some(snapshot)
    }

    /// Waits until the batch that is being written is visible as a whole.
    pub(super) fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let floor = self.floor.load(Ordering::SeqCst);
        // A later batch has a higher floor, and need not be waited for.
        while floor != NO_BATCH && self.floor.load(Ordering::SeqCst) == floor {
            guard = self.ended.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::tests::{key, scan_all, table};
    use crate::embedded::{Embedded, EmbeddedOptions};
    use crate::engine::{Engine, EntitySink, Intake};
    use fjall::AbstractTree;
    use lsm_tree::compaction::MoveDown;
    use model::clock::SystemClock;
    use model::{EdmValue, EntityView, Mutation, RecordBuilder, RecordView, Transaction};
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, mpsc};

    #[test]
    fn a_snapshot_is_refused_while_it_may_show_a_part_of_a_batch() {
        let visibility = Visibility::new();
        let snapshot = |visible| visibility.snapshot(|| (), || visible).is_some();
        assert!(snapshot(10));
        visibility.write(
            || 10,
            || {
                assert!(snapshot(10), "everything below 10 is visible, and the batch has 10 or more");
                assert!(!snapshot(11));
            },
        );
        assert!(snapshot(11));
        assert!(std::panic::catch_unwind(|| Visibility::new().write(|| 1, || panic!("the write panics"))).is_err());
    }

    #[test]
    fn a_reader_waits_for_the_end_of_the_batch() {
        let visibility = Visibility::new();
        visibility.wait();
        let (ended, end) = mpsc::channel();
        std::thread::scope(|scope| {
            visibility.write(
                || 10,
                || {
                    let visibility = &visibility;
                    scope.spawn(move || {
                        visibility.wait();
                        ended.send(visibility.floor.load(Ordering::SeqCst)).unwrap();
                    });
                    while visibility.waiting.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    assert!(end.try_recv().is_err());
                },
            );
            assert_eq!(end.recv().unwrap(), NO_BATCH);
        });
    }

    /// Sets all entities to a value.
    fn transaction(value: i32) -> Transaction {
        let upsert = |number| {
            let mut properties = RecordBuilder::default();
            properties.push("value", EdmValue::Int32(value));
            Mutation::InsertOrReplace { key: key(number), properties }
        };
        Transaction::new((0..ENTITIES).map(upsert).collect()).unwrap()
    }

    fn value(record: RecordView<'_>) -> i32 {
        match record.properties().next().unwrap().unwrap().value().unwrap() {
            EdmValue::Int32(value) => value,
            other => panic!("{other:?}"),
        }
    }

    /// Keeps the value of each entity.
    struct Values(Vec<i32>);

    impl EntitySink for Values {
        fn entity(&mut self, entity: &EntityView<'_>) -> Intake {
            self.0.push(value(entity.record));
            Intake::Taken
        }
    }

    const ENTITIES: usize = 50;

    /// Whenever the library has a new list of files, a part of what is being written would be visible.
    #[tokio::test(flavor = "multi_thread")]
    async fn no_page_shows_a_part_of_a_transaction_while_files_are_merged() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(Embedded::open(folder.path(), &EmbeddedOptions::default(), SystemClock).unwrap());
        engine.create_table(&table()).await.unwrap();
        engine.commit(&table(), transaction(0)).await.unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn({
            let (engine, is_over) = (Arc::clone(&engine), Arc::clone(&is_over));
            async move {
                for value in 1.. {
                    engine.commit(&table(), transaction(value)).await.unwrap();
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                }
            }
        });
        let merger = std::thread::spawn({
            let (storage, is_over) = (engine.shared.storage().unwrap(), Arc::clone(&is_over));
            move || {
                while !is_over.load(Ordering::SeqCst) {
                    storage.data.tree.compact(Arc::new(MoveDown(3, 3)), 0).unwrap();
                }
            }
        });
        for _ in 0..300 {
            let (Values(values), _) = engine.scan(&table(), scan_all(), Values(Vec::new())).await.unwrap();
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            let (first, last) = (engine.get(&table(), &key(0)).await, engine.get(&table(), &key(ENTITIES - 1)).await);
            let [first, last] = [first, last].map(|record| value(record.unwrap().unwrap().view().unwrap()));
            assert!(values[0] <= first && first <= last, "{first} was there before {last}");
        }
        is_over.store(true, Ordering::SeqCst);
        writer.await.unwrap();
        merger.join().unwrap();
    }
}
