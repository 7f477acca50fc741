//! The locks, condition variables, atomics, pauses and the monotonic clock of the modules whose schedules are tested.
//!
//! The package in `schedules/` compiles these modules with its own version of this file, in which a scheduler for tests
//! decides which thread continues. Here, the locks have no poison: a panic in a
//! thread does not stop the others.

pub(crate) use engine::parts::monotonic::now;
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
pub(crate) use std::sync::atomic;
