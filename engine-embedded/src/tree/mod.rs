//! The sorted store: a tree of memtables and sorted files, which the library `lsm-tree` provides.
//!
//! This is the only module that names the library. It must not depend on the log, on requests, or on the meaning of
//! keys and values. It starts no threads: the caller applies transactions, seals and flushes memtables, and merges
//! files, each on a thread of its choice. What is not flushed is lost when the process ends; the caller applies it
//! again from its log ([`Tree::persisted`]).
//!
//! Snapshots depend on lists. A list names memtables and files; sealing, flushing and merging replace the newest one
//! ([`lists`]). A snapshot takes the list that is the newest one when the snapshot reads the published sequence, and
//! keeps it. Invariants:
//!
//! 1. **Every list contains all items that were applied before it was replaced**, except versions of which it contains
//!    a newer one. The list that replaces it contains the next memtable before the writer changes to it. A snapshot
//!    therefore finds everything up to its sequence in its list.
//! 2. **Files contain only transactions that are published.** The writer changes to a new memtable only when everything
//!    that it applied is published, and a memtable is flushed only after this change. Therefore, a snapshot sees the
//!    newest version of each key in the files of its list, and it does no harm that flushes and merges drop older ones,
//!    and [`Tree::persisted`] covers whole transactions.
//! 3. **A memtable or file exists as long as a list that contains it**, and a list as long as a snapshot that uses it.
//!
//! Snapshots are also registered while they are open ([`registry`]), and flushes and merges keep the versions that they
//! show. No read depends on that, because a snapshot reads only from its own list.

mod config;
mod error;
mod flushing;
mod library;
mod lists;
mod reading;
mod registry;
mod room;
mod sequence;
mod shape;
mod store;
#[cfg(test)]
mod tests;
mod write_out;

pub(crate) use config::TreeSettings;
pub(crate) use error::TreeError;
pub(crate) use reading::{Range, Snapshot};
pub(crate) use shape::{Merge, Shape, TreeState, WHOLE_LEVELS_BYTES_MAX, Work};
pub(crate) use store::{Key, Tree, Value};
