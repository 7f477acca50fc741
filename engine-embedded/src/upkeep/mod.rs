//! What nothing waits for: merging, the removal of deleted tables, regular syncs; and checks and restored folders.

pub(crate) mod background;
pub(crate) mod check;
pub(crate) mod compaction;
pub(crate) mod restore;
pub(crate) mod walk;
