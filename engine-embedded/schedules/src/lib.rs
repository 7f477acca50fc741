//! Runs the threads of the embedded engine in many schedules, to find errors that depend on which thread runs when.
//!
//! The modules under test belong to the engine: this package compiles their files, unchanged, with its own [`sync`]
//! module. Its locks, condition variables and atomics come from the library `shuttle`, which runs all threads on a
//! single one, decides at each access which thread continues, and reports a deadlock if none can. A seed determines the
//! schedules, so a failure can be repeated.
//!
//! Two models take the place of what the engine does not contain: `hardware.rs` of the disk, which fails as disks fail
//! and can be inspected as after a crash, and `tree/library.rs` of the library with the memtables and sorted files. The
//! log, the tree's writer, its flushes, snapshots and reads, and what ties them together are the engine's own.
//! `disk/checks.rs` checks what they write.
//!
//! All schedules are sequentially consistent: each access sees the latest value, whatever its ordering, so an ordering
//! that is too weak is not found. The scheduler does not switch threads at accesses outside of [`sync`]: the channels
//! of `tokio`, the flags that stop the engine and its scans, and the counters.
//!
//! The [`scenarios`] assert the invariants that the modules state in their comments. `tests/schedules.rs` runs them.

// A test build of this library would include the unit tests of the engine's modules, which need real locks.
#![cfg(not(test))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failure is a failed test")]
#![allow(
    clippy::unnecessary_wraps,
    clippy::unused_self,
    reason = "the model of the disk has the interface of the engine's"
)]
#![allow(
    clippy::redundant_closure_for_method_calls,
    reason = "the keys and values of the library's model have methods of which its own have only the dereferenced ones"
)]
#![allow(dead_code, unused_imports, reason = "the scenarios do not use everything in the modules of the engine")]

pub mod scenarios;

#[path = "../../src/counts.rs"]
mod counts;
mod disk;
mod hardware;
#[path = "../../src/hashed_key.rs"]
mod hashed_key;
mod log;
#[path = "../../src/recent_reads.rs"]
mod recent_reads;
#[path = "../../src/sequence.rs"]
mod sequence;
#[path = "../../src/state.rs"]
mod state;
mod sync;
mod tree;
#[path = "../../src/writing/mod.rs"]
mod writing;
