//! The sorted store: a tree of memtables and sorted files, which the library `lsm-tree` provides.
//!
//! This is the only module that names the library. It must not depend on the log, on requests, or on the meaning of
//! keys and values. It starts no threads: the caller applies transactions, seals and flushes memtables, and merges
//! files, each on a thread of its choice. What is not flushed is lost when the process ends; the caller applies it
//! again from its log ([`Tree::persisted`]).
//!
//! Snapshots depend on lists of files. A list names memtables and files; flushing and merging install a new list. A
//! snapshot reads from the newest list whose number is below its own ([`sequence`]). Older lists exist until no open
//! snapshot needs them. Invariants:
//!
//! 1. **A list gets a number of the sequence that is published when the list is installed, or that is just being
//!    published.** Therefore, every snapshot of a later publication uses this list or a newer one, and finds what is
//!    applied after the installation. A publication raises the counter for lists to the first number of its sequence,
//!    and `Store::check_list_numbers` refuses a flush or merge when the numbers of the sequence are nearly used up.
//! 2. **The files of a list contain only items of the sequences up to the one that owns the list's number.** Therefore,
//!    every snapshot that uses the list sees the newest version of each key in its files, and it does no harm that
//!    merges drop older versions. Two rules ensure this. The writer changes to a new memtable only when everything that
//!    it applied is published, and a memtable is flushed only after this change. A publication first raises the counter
//!    for lists and then the published sequence.
//! 3. **A list is released only if no open or future snapshot uses it.** Snapshots are registered while they are open
//!    ([`registry`]), and a read without a snapshot ([`Tree::latest`]) always uses the newest list. The library panics
//!    if a read finds no list.
//! 4. **Every list contains all applied items**, except versions that no snapshot of that list can see. The writer
//!    inserts into a memtable that was active in the newest list; if it has been sealed since, it is still in the list.
//!
//! After opening, invariants 1 and 2 hold for all snapshots: the only list has the number 0, and the published sequence
//! is the last one in the files.

mod config;
mod error;
mod flushing;
mod library;
mod reading;
mod registry;
mod room;
mod sequence;
mod shape;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use config::TreeSettings;
pub(crate) use error::TreeError;
pub(crate) use reading::{Range, Snapshot};
pub(crate) use shape::{Merge, Shape, TreeState, WHOLE_LEVELS_BYTES_MAX, Work};
pub(crate) use store::{Key, Tree, Value};
