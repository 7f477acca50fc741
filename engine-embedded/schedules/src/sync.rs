//! Replaces the engine's `sync` module: locks, condition variables and atomics at whose accesses the scheduler may
//! continue with another thread, and a clock that advances only while threads wait.

pub(crate) use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard, atomic};

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock, PoisonError};
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

/// A lock without poison, like the engine's.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// Contains `None` only while it is waiting for a [`Condvar`].
#[derive(Debug)]
pub(crate) struct MutexGuard<'m, T>(Option<shuttle::sync::MutexGuard<'m, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("the thread does not wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("the thread does not wait")
    }
}

/// A lock without poison, like the engine's.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(Arc<shuttle::sync::Condvar>);

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

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let waiting = guard.0.take().expect("the thread does not wait");
        guard.0 = Some(self.0.wait(waiting).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until it is notified or until another thread, which the scheduler runs at any time, ends the wait as a
    /// timeout would. The library's own method never times out.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, duration: Duration) {
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
        self.wait(guard);
        is_over.store(true, atomic::Ordering::SeqCst);
    }

    /// Like [`Self::wait_for`], but returns at once if the duration is zero or the condition is false. A notification
    /// may end the wait like a timeout, whether or not the condition has changed.
    pub(crate) fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        duration: Duration,
    ) {
        if !duration.is_zero() && condition(guard) {
            self.wait_for(guard, duration);
        }
    }
}
