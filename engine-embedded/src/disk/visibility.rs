//! Snapshots that show either all of each batch or none of it.
//!
//! The library assigns a sequence number to a batch, syncs the batch, adds its items to the memtable one by one, and
//! then makes the number visible. If the library flushes a memtable or merges files before that, it takes a later
//! number for the new list of files and makes that number visible. The items of the batch that have been added so far
//! then become visible too, and a snapshot taken at that time shows more and more of the batch. The committer therefore
//! announces its batches here. A snapshot is used only if it cannot show the sequence number of the current batch.
//! `docs/upstream.md` describes the change to the library that would make this unnecessary.
//!
//! Invariant: a snapshot shows only sequence numbers below the floor of every batch that was being written when it was
//! taken. The exception is a batch that was completely written before the floor was compared.

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, PoisonError};

const NO_BATCH: u64 = u64::MAX;

/// The batch that the committer is writing. The purger need not announce its batches, because no reader can see the
/// entities of a deleted table.
#[derive(Debug)]
pub(crate) struct Visibility {
    /// The lowest sequence number that the batch may have.
    floor: AtomicU64,
    waiting: AtomicUsize,
    lock: Mutex<()>,
    ended: Condvar,
}

impl Visibility {
    pub(crate) fn new() -> Self {
        Self {
            floor: AtomicU64::new(NO_BATCH),
            waiting: AtomicUsize::new(0),
            lock: Mutex::new(()),
            ended: Condvar::new(),
        }
    }

    /// Writes a batch. `next_number` is called first and returns the lowest sequence number that the batch may have.
    pub(crate) fn write<T>(&self, next_number: impl FnOnce() -> u64, write: impl FnOnce() -> T) -> T {
        /// The batch ends even if writing it panics.
        struct End<'a>(&'a Visibility);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.floor.store(NO_BATCH, Ordering::SeqCst);
                if self.0.waiting.load(Ordering::SeqCst) > 0 {
                    // Each reader has either not yet read the floor, or is waiting.
                    drop(self.0.lock.lock().unwrap_or_else(PoisonError::into_inner));
                    self.0.ended.notify_all();
                }
            }
        }
        self.floor.store(next_number(), Ordering::SeqCst);
        let _end = End(self);
        write()
    }

    /// Returns a snapshot, or `None` if it might show only a part of a batch. `visible` returns the number below which
    /// everything is visible.
    pub(crate) fn snapshot<S>(&self, take: impl FnOnce() -> S, visible: impl FnOnce() -> u64) -> Option<S> {
        let snapshot = take();
        // Read the number after taking the snapshot: the snapshot then shows nothing at or above it.
        let visible = visible();
        (visible <= self.floor.load(Ordering::SeqCst)).then_some(snapshot)
    }

    pub(crate) fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let floor = self.floor.load(Ordering::SeqCst);
        // A later batch has a higher floor and need not be awaited.
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
    use crate::tests::{key, table};
    use crate::{Embedded, EmbeddedOptions};
    use engine::{Engine, EntitySink, SinkDecision};
    use engine_contract::support::scan_all;
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
                assert!(snapshot(10), "everything below 10 is visible, and the batch has numbers from 10");
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

    struct Values(Vec<i32>);

    impl EntitySink for Values {
        fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
            self.0.push(value(entity.record));
            SinkDecision::Accepted
        }
    }

    const ENTITIES: usize = 50;

    /// Without the protection, a partial write would become visible whenever the library installs a new list of files.
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
