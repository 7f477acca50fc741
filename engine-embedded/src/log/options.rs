//! The settings of a log.

/// The segment size of a real log, in bytes.
pub(crate) const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// The number of bytes that are read from a real log at a time.
pub(crate) const READ_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A group counts once it is synced. At most one group is unsynced.
    Sync,
    /// A group counts once it is written. Groups that are not synced yet are kept in memory, so that they can be
    /// written again if a sync fails.
    Interval,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) durability: Durability,
    /// A group that would extend a segment beyond this size begins the next one. A single larger group is written into
    /// a segment that exceeds it.
    pub(crate) segment_bytes: u64,
    /// The size that the current segment must reach before the next one is prepared, in bytes. A log that is hardly
    /// written therefore never takes the disk space of a whole segment.
    pub(crate) prepare_after_bytes: u64,
    /// The size of the writes that prepare a segment, in bytes.
    pub(crate) prepare_chunk_bytes: usize,
    /// The rate at which a segment is prepared. Faster writes would delay the syncs of groups.
    pub(crate) prepare_bytes_per_second: u64,
    /// The maximum number of files that wait for reuse.
    pub(crate) spares_max: usize,
    /// With [`Durability::Interval`], groups of at most this total size are kept until they are synced, in bytes. When
    /// it is reached, a sync precedes the next group.
    pub(crate) unsynced_bytes_max: usize,
    /// The number of bytes that recovery reads at a time.
    pub(crate) read_bytes: usize,
}

impl Options {
    pub(crate) const fn new(durability: Durability) -> Self {
        Self {
            durability,
            segment_bytes: SEGMENT_BYTES,
            prepare_after_bytes: 1024 * 1024,
            prepare_chunk_bytes: 256 * 1024,
            prepare_bytes_per_second: 64 * 1024 * 1024,
            spares_max: 2,
            unsynced_bytes_max: 8 * 1024 * 1024,
            read_bytes: READ_BYTES,
        }
    }
}
