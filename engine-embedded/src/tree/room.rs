//! Room in memory and in the uppermost level: lets the writer wait for the threads that flush and merge, and the
//! flushing thread wait for a full memtable.
//!
//! A flush takes a good part of a second on a busy disk, and a merge several. The writer therefore holds large
//! transactions back before there is no room left, so that single writes find some.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex};
use std::time::Duration;

/// The number of runs in the uppermost level at which the writer holds large transactions back until a merge has ended.
/// Every read searches each of them.
const UPPERMOST_RUNS_LARGE_MAX: usize = 28;
/// The number of runs at which the writer waits for a merge. What lies between has room for 128 MiB of small
/// transactions, more than are usually written during a merge.
const UPPERMOST_RUNS_MAX: usize = 36;

#[derive(Default)]
pub(super) struct Room {
    /// Mirror `state`, so that the writer needs no lock while there is room.
    must_wait: AtomicBool,
    must_hold_large: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    memtable: Fill,
    sealed_memtables: usize,
    uppermost_runs: usize,
    flush_failed: bool,
    merge_failed: bool,
    is_closing: bool,
}

/// How full the active memtable is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fill {
    #[default]
    Partly,
    /// It is to be sealed. The writer continues, but holds large transactions back if an earlier memtable is still
    /// waiting to be flushed.
    Full,
    /// The flushing thread is late, and the writer waits for it.
    Overfull,
}

impl State {
    fn waits_for_flush(&self) -> bool {
        self.memtable == Fill::Overfull
    }

    fn waits_for_merge(&self) -> bool {
        self.uppermost_runs >= UPPERMOST_RUNS_MAX
    }

    /// Does not hold them back for what has failed: the writer then reaches the state in which it gives up.
    fn must_hold_large(&self) -> bool {
        let for_flush = self.memtable >= Fill::Full && self.sealed_memtables > 0 && !self.flush_failed;
        let for_merge = self.uppermost_runs >= UPPERMOST_RUNS_LARGE_MAX && !self.merge_failed;
        (for_flush || for_merge) && !self.is_closing
    }

    fn must_wait(&self) -> bool {
        self.waits_for_flush() || self.waits_for_merge()
    }

    fn is_waiting_futile(&self) -> bool {
        self.is_closing || self.waits_for_flush() && self.flush_failed || self.waits_for_merge() && self.merge_failed
    }
}

impl Room {
    /// Waits until there is room for another transaction. Returns false if there is none and waiting would not help:
    /// the last flush or merge failed, or the tree is about to be closed.
    pub(super) fn wait(&self) -> bool {
        if !self.must_wait.load(Ordering::Acquire) {
            return true;
        }
        let mut state = self.state.lock();
        while state.must_wait() {
            if state.is_waiting_futile() {
                return false;
            }
            self.changed.wait(&mut state);
        }
        true
    }

    /// Whether only small transactions may be written, because a flush or a merge is late.
    pub(super) fn must_hold_large(&self) -> bool {
        self.must_hold_large.load(Ordering::Acquire)
    }

    /// Like [`Self::wait`], for large transactions.
    pub(super) fn wait_for_large(&self) -> bool {
        if self.must_hold_large() {
            let mut state = self.state.lock();
            while state.must_hold_large() {
                self.changed.wait(&mut state);
            }
        }
        self.wait()
    }

    /// Waits until the active memtable is full, for at most `timeout`. Returns whether it is full.
    pub(super) fn wait_until_full(&self, timeout: Duration) -> bool {
        let is_waiting = |state: &mut State| state.memtable == Fill::Partly && !state.is_closing;
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, is_waiting, timeout);
        state.memtable != Fill::Partly
    }

    pub(super) fn is_closing(&self) -> bool {
        self.state.lock().is_closing
    }

    pub(super) fn close(&self) {
        self.change(|state| state.is_closing = true);
    }

    pub(super) fn memtable_is(&self, fill: Fill) {
        self.change(|state| state.memtable = fill);
    }

    pub(super) fn memtable_was_sealed(&self) {
        self.change(|state| {
            state.memtable = Fill::Partly;
            state.sealed_memtables += 1;
        });
    }

    pub(super) fn flush_ended(&self, has_failed: bool, sealed_memtables: usize, uppermost_runs: usize) {
        self.change(|state| {
            state.flush_failed = has_failed;
            state.sealed_memtables = sealed_memtables;
            state.uppermost_runs = uppermost_runs;
        });
    }

    /// The writer waits for the result of this merge, even if an earlier one failed.
    pub(super) fn merge_began(&self) {
        self.change(|state| state.merge_failed = false);
    }

    pub(super) fn merge_ended(&self, has_failed: bool, uppermost_runs: usize) {
        self.change(|state| {
            state.merge_failed = has_failed;
            state.uppermost_runs = uppermost_runs;
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        self.must_wait.store(state.must_wait(), Ordering::Release);
        self.must_hold_large.store(state.must_hold_large(), Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_transactions_are_written_to_a_full_memtable_behind_a_sealed_one() {
        let room = Room::default();
        assert!(room.wait() && !room.wait_until_full(Duration::ZERO));
        room.memtable_is(Fill::Full);
        assert!(room.wait() && room.wait_until_full(Duration::MAX) && !room.must_hold_large());
        room.memtable_was_sealed();
        assert!(room.wait() && !room.wait_until_full(Duration::ZERO) && !room.must_hold_large());
        room.memtable_is(Fill::Full);
        assert!(room.wait() && room.must_hold_large());
        room.flush_ended(false, 0, 1);
        assert!(room.wait() && !room.must_hold_large());
    }

    #[test]
    fn large_transactions_are_held_before_a_writer_waits_for_a_merge() {
        let room = Room::default();
        for (runs, holds_large, waits) in [
            (UPPERMOST_RUNS_LARGE_MAX - 1, false, false),
            (UPPERMOST_RUNS_LARGE_MAX, true, false),
            (UPPERMOST_RUNS_MAX - 1, true, false),
            (UPPERMOST_RUNS_MAX, true, true),
        ] {
            room.merge_ended(false, runs);
            let state = room.state.lock();
            assert_eq!((state.must_hold_large(), state.must_wait()), (holds_large, waits), "{runs}");
        }
        // A merge that has failed is not waited for. The engine then refuses writes when there is no room left.
        room.merge_ended(true, UPPERMOST_RUNS_LARGE_MAX);
        assert!(room.wait() && !room.must_hold_large());
    }

    #[test]
    fn a_writer_waits_with_an_overfull_memtable_until_it_is_sealed() {
        let room = Room::default();
        room.memtable_is(Fill::Overfull);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| room.wait());
            assert!(room.wait_until_full(Duration::MAX));
            room.memtable_was_sealed();
            assert!(writer.join().unwrap());
        });
        room.memtable_is(Fill::Overfull);
        room.close();
        assert!(!room.wait());
    }

    #[test]
    fn a_writer_does_not_wait_for_a_flush_or_a_merge_that_failed() {
        let room = Room::default();
        room.memtable_was_sealed();
        room.flush_ended(true, 1, 0);
        assert!(room.wait(), "the active memtable has room");
        room.memtable_is(Fill::Overfull);
        assert!(!room.wait() && !room.must_hold_large());
        room.memtable_is(Fill::Full);
        room.flush_ended(false, 0, UPPERMOST_RUNS_MAX);
        room.merge_ended(true, UPPERMOST_RUNS_MAX);
        assert!(!room.wait());
        room.merge_ended(false, UPPERMOST_RUNS_MAX - 1);
        assert!(room.wait());
        room.merge_ended(false, UPPERMOST_RUNS_MAX);
        room.close();
        assert!(!room.wait() && room.wait_until_full(Duration::MAX), "the memtable is still full");
        assert!(!room.must_hold_large());
    }
}
