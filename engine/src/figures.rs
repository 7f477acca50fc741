//! The figures of an engine for operators: current numbers, and distributions of times and sizes.
//!
//! This module must not depend on who reads the figures, or in which format.

use crate::load::LoadReport;
use model::DateTime;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The figures of an engine. `None` marks a figure that the engine does not have, or cannot determine without querying
/// a database.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// The number of tables in all accounts.
    pub tables: Option<u64>,
    /// The number of deleted tables whose entities are still to be removed; zero if a deletion removes them at once.
    pub purge_backlog: Option<u64>,
    /// The reason why writes are currently refused; `None` if they are accepted.
    pub refusal: Option<Refusal>,
    /// The disk that holds the data.
    pub disk: Option<DiskFigures>,
    /// The committer thread, if the engine has one.
    pub committer: Option<CommitterFigures>,
    /// The LSM tree, if the engine has one.
    pub tree: Option<TreeFigures>,
    /// The database, if the engine uses one.
    pub database: Option<DatabaseFigures>,
    /// The log, if the engine keeps one.
    pub change_log: Option<ChangeLogFigures>,
    /// `None` without replication.
    pub replication: Option<ReplicationFigures>,
}

/// The replication of a primary or of a standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplicationFigures {
    /// The number of the epoch, which increases with each promotion.
    pub epoch: u64,
    /// The number of standbys that are connected to this primary; `None` on a standby.
    pub standbys: Option<u64>,
    /// The number of transactions that a standby does not have yet: this one, or the last of the connected ones. `None`
    /// if there is no connection.
    pub lag_transactions: Option<u64>,
    /// The time since a standby last had everything, in milliseconds; `None` on a primary, and if it never had.
    pub lag_milliseconds: Option<u64>,
    /// Whether writes wait for a connected standby that has everything acknowledged; on a standby, for this one.
    pub is_awaited: bool,
    /// Whether this standby can never follow its primary again.
    pub is_cut_off: bool,
}

/// The log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeLogFigures {
    /// The size of what is kept only for readers, in bytes.
    pub bytes: u64,
    /// The position of the oldest transaction that is kept.
    pub first: u64,
    /// The position after the last transaction.
    pub next: u64,
    /// The time of the oldest transaction that is kept only for readers, if there is one.
    pub oldest: Option<DateTime>,
    /// The size of the database's own log that has not been decoded yet, in bytes, if this server decodes it.
    pub undecoded_bytes: Option<u64>,
}

/// The reason why an engine refuses writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The engine is closing, or closed.
    Closed,
    /// A write failed, and the storage has not recovered yet.
    Outage,
    /// The standby has not confirmed the last write.
    Unconfirmed,
    /// The disk's free space is below the reserve. Deletions are accepted.
    DiskFull,
    /// A standby was promoted, so nothing may be written any more.
    Fenced,
}

/// The disk that holds the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFigures {
    /// The free space available to this process, in bytes.
    pub free_bytes: u64,
    /// The amount of free space below which only deletions are accepted, in bytes.
    pub reserve_bytes: u64,
}

/// The committer thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitterFigures {
    /// The number of requests that wait for the committer.
    pub queue: u64,
    /// The memory used by transactions that are queued or being committed, in bytes.
    pub queue_bytes: u64,
    /// The number of transactions in each written group.
    pub group_transactions: Distributed,
    /// The number of mutations in each written group.
    pub group_entities: Distributed,
    /// The time to write each group to the log and sync it, in nanoseconds.
    pub write_nanoseconds: Distributed,
    /// The time that the thread was busy with groups, in nanoseconds, by activity: waiting for space in the memtables,
    /// applying the transactions, writing and syncing the group, and responding to the callers.
    pub busy_nanoseconds: [(&'static str, u64); 4],
    /// The number of committed transactions.
    pub transactions: u64,
    /// The size of the keys and records that committed transactions wrote or removed, in bytes.
    pub stored_bytes: u64,
    /// The number of outages, in which a failed write made further writes impossible.
    pub outages: u64,
}

/// The figures of an LSM tree and its library.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeFigures {
    /// The disk space used by sorted files and the log, in bytes.
    pub disk_bytes: u64,
    /// The disk space used by the log, with segments that wait for reuse, in bytes.
    pub log_bytes: u64,
    /// The number of segments of the log that are not released yet.
    pub log_segments: u64,
    /// The number of sorted files.
    pub sorted_files: u64,
    /// The memory used by entries that are in the log but not yet in a sorted file, in bytes.
    pub memtable_bytes: u64,
    /// The number of memtables that wait to be flushed.
    pub flushes_waiting: u64,
    /// The memory used by cached blocks, in bytes.
    pub cache_bytes: u64,
    /// The maximum memory for cached blocks, in bytes.
    pub cache_capacity_bytes: u64,
    /// The number of block reads that the cache served.
    pub cache_hits: u64,
    /// The number of blocks that were read from disk or from the operating system's cache.
    pub cache_misses: u64,
    /// The tree's share of the process memory.
    pub memory: TreeMemory,
    /// Reads of single entities.
    pub reads: ReadFigures,
    /// The number of running compactions.
    pub compactions_running: u64,
    /// The number of completed compactions.
    pub compactions: u64,
    /// The total duration of compactions, in seconds.
    pub compaction_seconds: f64,
    /// The number of running scans.
    pub scans_running: u64,
    /// The number of scans that wait for their turn.
    pub scans_waiting: u64,
}

/// The reads of single entities: gets, and the lookups for writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadFigures {
    /// Whether reads are moved to blocking threads, because recent reads had to wait for the disk.
    pub are_moved: bool,
    /// The number of reads on the threads of their requests.
    pub in_place: u64,
    /// The number of reads on blocking threads.
    pub moved: u64,
    /// The number of reads that loaded blocks from a slow disk, on either kind of thread.
    pub slow: u64,
}

/// The process memory used by an LSM tree, in bytes, including the allocator's overhead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeMemory {
    /// Cached blocks.
    pub cache: u64,
    /// Memtables: the active one, those being flushed, and flushed ones that are kept.
    pub memtables: u64,
    /// Indexes and filters of sorted files that are pinned in memory.
    pub pinned: u64,
}

/// The figures of a database and its connections.
#[derive(Debug, Clone, PartialEq)]
pub struct DatabaseFigures {
    /// The maximum number of connections.
    pub connections_max: u64,
    /// The nodes to which the connections lead. There is one node, unless the URL contains several equivalent ones.
    pub nodes: Vec<NodeFigures>,
    /// The number of retries, by reason.
    pub retries: [(&'static str, u64); 3],
    /// The load of a cluster, if it is measured and the database responds.
    pub load: Option<Arc<LoadReport>>,
}

/// The figures of a database node and its connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFigures {
    /// The node's host and port.
    pub node: String,
    /// Whether the node responded when last checked.
    pub is_up: bool,
    /// The number of open connections.
    pub connections: u64,
    /// The number of open connections that are not in use.
    pub connections_idle: u64,
    /// The number of requests that wait for a connection.
    pub waiting: u64,
    /// The time that requests waited for a connection, in nanoseconds.
    pub wait_nanoseconds: Distributed,
    /// The time that the node took to respond to each step of an operation, in nanoseconds. A step is one round trip,
    /// plus one for each statement that the connection has not yet prepared.
    pub step_nanoseconds: Distributed,
}

/// A distribution of values at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distributed {
    /// The inclusive upper bounds of the buckets, ascending.
    pub bounds: &'static [u64],
    /// The number of values in each bucket (not cumulative). The last bucket holds the values above all bounds.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

/// A recorder of a distribution of values. Each value costs two additions and takes no lock.
#[derive(Debug)]
pub struct Distribution {
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Distribution {
    /// Creates an empty distribution. The bounds must be in ascending order.
    pub fn new(bounds: &'static [u64]) -> Self {
        let counts = std::iter::repeat_with(AtomicU64::default).take(bounds.len() + 1).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Records a value.
    pub fn record(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Records a duration, in nanoseconds.
    pub fn record_time(&self, time: std::time::Duration) {
        self.record(nanoseconds(time));
    }

    /// Returns the values recorded so far.
    pub fn read(&self) -> Distributed {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Distributed { bounds: self.bounds, counts, sum: self.sum.load(Ordering::Relaxed) }
    }
}

/// Returns a duration in nanoseconds, or the maximum if it is longer.
pub fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

/// The bucket bounds for storage times, from 50 µs to 10 s, in nanoseconds.
pub const STORAGE_TIME_BOUNDS: &[u64] = &[
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
/// The bucket bounds for the size of a group.
pub const GROUP_BOUNDS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384];

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
