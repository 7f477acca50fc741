//! A second thread for work of which one request has so much that it is worth waking one.

use rayon_core::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::available_parallelism;

/// The thread, which works for one request at a time.
#[derive(Debug)]
pub(crate) struct SecondThread {
    /// `None` if there is no processor for it.
    thread: Option<ThreadPool>,
    is_taken: Mutex<()>,
}

impl SecondThread {
    /// A thread, if there is a second processor.
    pub(crate) fn new() -> Self {
        let has_processor = available_parallelism().is_ok_and(|processors| processors > NonZero::<usize>::MIN);
        let thread = ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "rowhouse second".to_owned());
        // It can be done without.
        Self { thread: has_processor.then(|| thread.build().ok()).flatten(), is_taken: Mutex::default() }
    }

    /// Wakes the thread for work that will soon be shared, since it takes a while to wake.
    pub(crate) fn wake(&self) {
        if let Some((thread, _taken)) = self.take() {
            thread.spawn(|| {});
        }
    }

    /// Runs the work here and, if nobody else uses the thread, there at the same time. What is to be done must be shared out by
    /// the work itself. Waits until both are done, and so for the thread to wake; it is for a server that has not much else
    /// to do.
    pub(crate) fn share(&self, work: impl Fn() + Sync) {
        match self.take() {
            Some((thread, _taken)) => thread.in_place_scope(|scope| {
                scope.spawn(|_| work());
                work();
            }),
            None => work(),
        }
    }

    /// The thread, if there is one and nobody uses it.
    fn take(&self) -> Option<(&ThreadPool, MutexGuard<'_, ()>)> {
        let taken = match self.is_taken.try_lock() {
            Err(TryLockError::WouldBlock) => return None,
            Ok(taken) => taken,
            // Somebody's work panicked, which tells nothing about the thread.
            Err(TryLockError::Poisoned(taken)) => taken.into_inner(),
        };
        Some((self.thread.as_ref()?, taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_work_is_done_once_whoever_does_it() {
        let second = SecondThread::new();
        for count in [0, 1, 1000] {
            let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
            second.share(|| {
                loop {
                    let taken = next.fetch_add(1, Ordering::Relaxed);
                    if taken >= count {
                        break;
                    }
                    done.lock().unwrap().push(taken);
                }
            });
            let mut done = done.into_inner().unwrap();
            done.sort_unstable();
            assert!(done.into_iter().eq(0..count));
        }
    }

    #[test]
    fn a_thread_that_was_woken_for_nothing_helps_later() {
        let second = SecondThread::new();
        second.wake();
        let runs = AtomicUsize::new(0);
        second.share(|| {
            runs.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(runs.into_inner(), 1 + usize::from(second.thread.is_some()));
    }

    #[test]
    fn whoever_comes_while_the_thread_is_taken_works_alone() {
        let second = SecondThread::new();
        let runs = AtomicUsize::new(0);
        let _taken = second.is_taken.lock().unwrap();
        second.share(|| {
            runs.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(runs.into_inner(), 1);
    }

    #[test]
    fn a_panic_is_that_of_the_request_and_the_thread_goes_on() {
        let second = SecondThread::new();
        assert!(catch_unwind(AssertUnwindSafe(|| second.share(|| panic!("as told")))).is_err());
        second.wake();
        let runs = AtomicUsize::new(0);
        second.share(|| {
            runs.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(runs.into_inner(), 1 + usize::from(second.thread.is_some()));
    }
}
