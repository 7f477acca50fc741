//! The locks, condition variables, atomics, pauses and the monotonic clock of the modules whose schedules are tested.
//!
//! The package in `schedules/` compiles these modules with its own version of this file, in which a scheduler for tests
//! decides which thread continues. Here, every name is a name of the standard library.

pub(crate) use engine::parts::monotonic::now;
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};
