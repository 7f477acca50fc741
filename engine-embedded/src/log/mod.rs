//! The commit log: numbered transactions in segments, and the rules that decide what a crash left of them.
//!
//! The log stores opaque payloads. It must not know entities, keys or the tree, and it reaches the disk only through
//! the trait [`disk::Disk`], so that tests can simulate every failure of a disk. The module `format` describes the
//! bytes.
//!
//! Invariants:
//!
//! 1. The names of live segments have no gap, on disk too: a segment becomes live, or ceases to be, in a step that is
//!    synced before the next one.
//! 2. The header of a segment names the end of the previous segment. Everything before that end was synced before the
//!    header was written, and nothing after it counts, even if it looks valid.
//! 3. Only the last segment has a tail that a crash may have damaged. An unreadable place in it is damage exactly if a
//!    later group header proves that the missing transactions had been synced. Otherwise, the log ends there.
//! 4. A file is never written or synced again after a write or sync of it failed, and nothing is appended after a
//!    crash: in both cases a new segment continues, and what may not be on disk is written again into it, before it
//!    becomes live.
//! 5. Recovery changes nothing before it has judged every segment to be good.
//! 6. The numbers of transactions increase, and have gaps only before a segment. The header of the segment names the
//!    length of the gap. The segment before a gap is released only if a transaction after the gap is persisted.
//!
//! A clean shutdown therefore needs no separate record. It begins a new segment, whose header names the end of the
//! previous one: from then on, any loss there is damage.

pub(crate) mod archive;
pub(crate) mod disk;
pub(crate) mod errors;
pub(crate) mod format;
pub(crate) mod group;
pub(crate) mod holds;
pub(crate) mod options;
pub(crate) mod reader;
pub(crate) mod real_disk;
pub(crate) mod recovery;
pub(crate) mod segments;
pub(crate) mod upkeep;
pub(crate) mod writer;

mod segment_reader;
mod tail;
#[cfg(test)]
mod tests;
