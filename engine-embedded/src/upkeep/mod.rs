//! Work that no request waits for: flushes, merges, the removal of deleted tables, the construction of indexes, the
//! preparation of segments of the log, regular syncs, and the retention of the log; and checks and restored folders.

pub(crate) mod background;
pub(crate) mod check;
pub(crate) mod compaction;
pub(crate) mod restore;
pub(crate) mod retention;
