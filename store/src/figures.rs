//! The figures of an engine for operators: numbers at one moment, and distributions of times and sizes.
//!
//! This module must not know who reads the figures, or in which format.

use std::sync::atomic::{AtomicU64, Ordering};

/// The figures of an engine. A figure that the engine does not have, or cannot know without a request, is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Number of tables of all accounts.
    pub tables: Option<u64>,
    /// Deleted tables whose entities are still to be removed.
    pub purge_backlog: Option<u64>,
    /// Why writes are refused at this moment, if they are.
    pub refusal: Option<Refusal>,
    /// The disk that keeps the data.
    pub disk: Option<DiskFigures>,
    /// The thread that commits, of an engine that has one.
    pub committer: Option<CommitterFigures>,
    /// The LSM tree, of an engine that has one; `None` also while it is closed because a write failed.
    pub tree: Option<TreeFigures>,
    /// The database, of an engine that keeps its data in one.
    pub database: Option<DatabaseFigures>,
}

/// Why an engine refuses writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The engine is closing, or closed.
    Closed,
    /// A write failed, and the storage is not restored yet.
    Outage,
    /// The disk has less free space than is to stay free. Deletions are taken.
    DiskFull,
}

/// The disk that keeps the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFigures {
    /// Free space, in bytes, as far as this process may use it.
    pub free_bytes: u64,
    /// Free space below which nothing but deletions is taken, in bytes.
    pub reserve_bytes: u64,
}

/// The thread that commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitterFigures {
    /// Requests that wait for the committer.
    pub queue: u64,
    /// Memory of the transactions that wait for it or are being committed, in bytes.
    pub queue_bytes: u64,
    /// Transactions of each group that was written.
    pub group_transactions: Distributed,
    /// Mutations of each group that was written.
    pub group_entities: Distributed,
    /// How long it took to write each group to the journal and to sync it, in nanoseconds.
    pub write_nanoseconds: Distributed,
    /// How long the thread was busy with groups, in nanoseconds, by what it did: wait for room in the memtables, apply the
    /// transactions, write and sync the group, and answer the callers.
    pub busy_nanoseconds: [(&'static str, u64); 4],
    /// Transactions that were committed.
    pub transactions: u64,
    /// Keys and records of the entities that committed transactions wrote or removed, in bytes.
    pub stored_bytes: u64,
    /// How often writes became impossible because one had failed.
    pub outages: u64,
}

/// An LSM tree and the library that keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeFigures {
    /// Space on disk, in bytes: sorted files and journals.
    pub disk_bytes: u64,
    /// Space of the journals, in bytes.
    pub journal_bytes: u64,
    /// Number of journals.
    pub journals: u64,
    /// Number of sorted files.
    pub sorted_files: u64,
    /// Memory of entries that are in the journals and in no sorted file yet, in bytes.
    pub memtable_bytes: u64,
    /// Number of memtables that wait to be written out.
    pub flushes_waiting: u64,
    /// Memory of cached blocks, in bytes.
    pub cache_bytes: u64,
    /// The most memory that cached blocks may take, in bytes.
    pub cache_capacity_bytes: u64,
    /// Blocks that were found in the cache.
    pub cache_hits: u64,
    /// Blocks that had to be read from disk, or from the cache of the operating system.
    pub cache_misses: u64,
    /// What the tree takes of the memory of the process.
    pub memory: TreeMemory,
    /// Number of running compactions.
    pub compactions_running: u64,
    /// Number of completed compactions.
    pub compactions: u64,
    /// Time that compactions took, in seconds; several may run at a time.
    pub compaction_seconds: f64,
    /// Number of running scans.
    pub scans_running: u64,
    /// Number of scans that wait until others have had their turn.
    pub scans_waiting: u64,
}

/// What an LSM tree takes of the memory of the process, in bytes, with what the allocator adds to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeMemory {
    /// Cached blocks.
    pub cache: u64,
    /// Memtables: the one that takes the writes, those that are being written out, and those that were and are kept.
    pub memtables: u64,
    /// Indexes and filters of sorted files that stay in memory.
    pub pinned: u64,
}

/// A database and the connections to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseFigures {
    /// Most connections.
    pub connections_max: u64,
    /// The nodes to which the connections lead: one, unless the address names several equal ones.
    pub nodes: Vec<NodeFigures>,
    /// Number of repeated attempts, by reason.
    pub retries: [(&'static str, u64); 3],
}

/// A node of a database and the connections to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFigures {
    /// Host and port.
    pub node: String,
    /// Whether it answered when it was last asked.
    pub is_up: bool,
    /// Open connections.
    pub connections: u64,
    /// Open connections that are not in use.
    pub connections_idle: u64,
    /// Requests that wait for a connection.
    pub waiting: u64,
    /// How long requests waited for a connection, in nanoseconds.
    pub wait_nanoseconds: Distributed,
    /// How long the node took to answer each step of an operation, in nanoseconds. A step is one round trip, and one more for
    /// each statement that the connection has not prepared yet.
    pub step_nanoseconds: Distributed,
}

/// The distribution of values, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distributed {
    /// The upper bounds of the buckets, inclusive, ascending.
    pub bounds: &'static [u64],
    /// How many values are in each bucket and in no lower one; the last is for those above all bounds.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

/// Counts the distribution of values: two additions for each value, and no lock.
#[derive(Debug)]
pub struct Distribution {
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Distribution {
    /// Without values; the bounds ascend.
    pub fn new(bounds: &'static [u64]) -> Self {
        let counts = std::iter::repeat_with(AtomicU64::default).take(bounds.len() + 1).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn record(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts a time, in nanoseconds.
    pub fn record_time(&self, time: std::time::Duration) {
        self.record(nanoseconds(time));
    }

    /// The values that were counted so far.
    pub fn read(&self) -> Distributed {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Distributed { bounds: self.bounds, counts, sum: self.sum.load(Ordering::Relaxed) }
    }
}

/// A time in nanoseconds.
pub(crate) fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds of a microsecond.
const MICRO: u64 = 1_000;
/// Nanoseconds of a millisecond.
const MILLI: u64 = 1_000_000;

/// Bounds for times of storage: 50 µs to 10 s, in nanoseconds.
pub(crate) const STORAGE_TIME_BOUNDS: &[u64] = &[
    50 * MICRO,
    100 * MICRO,
    250 * MICRO,
    500 * MICRO,
    MILLI,
    2_500 * MICRO,
    5 * MILLI,
    10 * MILLI,
    25 * MILLI,
    50 * MILLI,
    100 * MILLI,
    250 * MILLI,
    1_000 * MILLI,
    10_000 * MILLI,
];
/// Bounds for the size of a group.
pub(crate) const GROUP_BOUNDS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_the_first_bucket_that_holds_them() {
        const BOUNDS: &[u64] = &[1, 10, 100];
        let distribution = Distribution::new(BOUNDS);
        for value in [0, 1, 2, 10, 11, 100, 101, 1_000_000] {
            distribution.record(value);
        }
        assert_eq!(distribution.read(), Distributed { bounds: BOUNDS, counts: vec![2, 2, 2, 2], sum: 1_000_225 });
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [STORAGE_TIME_BOUNDS, GROUP_BOUNDS] {
            assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        }
    }
}
