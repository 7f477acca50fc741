//! What part of a growing table the operations of a measurement use.

use super::workload::Workload;

/// Each entity may need a separate 16 KiB block, for a total of 64 MiB.
const CACHED_ENTITIES: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A working set that fits into the cache at every size.
    Cached,
    /// All entities, cached or not.
    All,
}

impl Reach {
    pub(crate) fn working_set(self) -> Option<u64> {
        (self == Self::Cached).then_some(CACHED_ENTITIES)
    }

    /// Returns the cell of a table, which is empty if the workload does not read.
    pub(crate) fn cell(self, workload: Workload) -> &'static str {
        match (workload, self) {
            (Workload::Insert | Workload::Upsert | Workload::Load, _) => "",
            (_, Self::Cached) => "cached",
            (_, Self::All) => "all",
        }
    }
}
