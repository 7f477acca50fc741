//! Replaces the engine's `sync` module: locks, condition variables and atomics at whose accesses the scheduler may
//! continue with another thread, and a clock that advances only while threads wait.

pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
pub(crate) use std::sync::PoisonError;

use std::cell::Cell;
use std::sync::{Arc, LockResult, OnceLock};
use std::time::{Duration, Instant};

thread_local! {
    /// The time on the clock. The scheduler runs all threads of a schedule on one thread of the system.
    static ELAPSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

pub(crate) fn now() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now) + ELAPSED.get()
}

pub(crate) fn sleep(duration: Duration) {
    advance(duration);
    shuttle::thread::yield_now();
}

pub(crate) fn reset_clock() {
    ELAPSED.set(Duration::ZERO);
}

fn advance(duration: Duration) {
    ELAPSED.set(ELAPSED.get() + duration);
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(Arc<shuttle::sync::Condvar>);

/// Replaces the result that tells whether the wait timed out, which the engine ignores.
pub(crate) struct Woken;

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(Arc::new(shuttle::sync::Condvar::new()))
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// Waits until it is notified or until another thread, which the scheduler runs at any time, ends the wait as a
    /// timeout would. The library's own method never times out.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, Woken)> {
        let is_over = Arc::new(atomic::AtomicBool::new(false));
        let (condvar, has_ended) = (Arc::clone(&self.0), Arc::clone(&is_over));
        shuttle::thread::spawn(move || {
            advance(duration);
            // It may run before the other thread waits.
            while !has_ended.load(atomic::Ordering::SeqCst) {
                condvar.notify_all();
                shuttle::thread::yield_now();
            }
        });
        let woken = self.0.wait(guard);
        is_over.store(true, atomic::Ordering::SeqCst);
        match woken {
            Ok(guard) => Ok((guard, Woken)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), Woken))),
        }
    }

    /// Like [`Self::wait_timeout`], but returns at once if the duration is zero or the condition is false. A
    /// notification may end the wait like a timeout, whether or not the condition has changed.
    pub(crate) fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        duration: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, Woken)> {
        if !duration.is_zero() && condition(&mut guard) {
            self.wait_timeout(guard, duration)
        } else {
            Ok((guard, Woken))
        }
    }
}
