//! The path of a write: the memory of waiting writes, their queue, their preparation, and the committer; and what the
//! committer does to build indexes.
//!
//! This folder must not know files: it reaches the disk through the folder `disk`.

pub(crate) mod committer;
pub(crate) mod fair_queue;
pub(crate) mod group;
pub(crate) mod prepared;
pub(crate) mod queue_memory;
