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
    use std::sync::mpsc;

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
}
