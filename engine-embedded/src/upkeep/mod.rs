//! Work that no request waits for: flushes, merges, the removal of deleted tables, the construction of indexes, the
//! preparation of segments of the log, and regular syncs; and checks and restored folders.

pub(crate) mod background;
pub(crate) mod check;
pub(crate) mod compaction;
pub(crate) mod restore;
