//! Decides which merges are due. The decisions depend only on numbers, so they can be tested.
//!
//! An overwritten or deleted item stays in the tree until its versions and its tombstone meet in a merge; until then,
//! every scan steps over them. Files are merged when the entries that may hide others are numerous compared with the
//! entries that they may hide. The threshold is [`BUSY_SHARE`] while there are writes, and [`IDLE_SHARE`] when there
//! are none.

use super::error::TreeError;
use super::store::Tree;
use super::write_out::write_out_during;
use crate::sync::atomic::Ordering;
use lsm_tree::AbstractTree;
use lsm_tree::compaction::{CompactionStrategy, Leveled, PullDown};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::sync::Arc;

/// While there are writes, the uppermost level is merged when it has this share of the entries of the levels below. A
/// smaller share makes scans faster but writes more expensive, because each merge rewrites the levels below.
const BUSY_SHARE: Share = Share { part: 3, of: 10 };
/// When there are no writes, all levels above the lowest one are merged into it if they have this share of its entries.
const IDLE_SHARE: Share = Share { part: 1, of: 10 };
/// The number of entries below which a merge is never worthwhile: a scan steps over that many entries in a millisecond,
/// whereas writing a file requires several syncs.
const ENTRIES_MIN: u64 = 1024;
/// The maximum total size of two levels that are merged as a whole, in bytes. Such a merge takes about three seconds
/// and cannot be interrupted. Larger levels are merged file by file.
pub(crate) const WHOLE_LEVELS_BYTES_MAX: u64 = 1024 * 1024 * 1024;

#[derive(Debug, Clone, Copy)]
struct Share {
    part: u64,
    of: u64,
}

impl Share {
    /// Returns whether `entries` is at least this share of `others`, and large enough to matter.
    fn is_reached(self, entries: u64, others: u64) -> bool {
        entries >= ENTRIES_MIN && entries.saturating_mul(self.of) >= others.saturating_mul(self.part)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) files: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) bytes: u64,
}

/// The number of entries in memory and in each level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) memtable_entries: u64,
    /// The levels, from the uppermost to the lowest.
    pub(crate) levels: Vec<Level>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Seal and flush the active memtable. The log must be synced before the flush, so the tree does not do this alone.
    Flush,
    Merge(Merge),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merge {
    /// Merge a level that exceeds its number of files or its size, if there is one. Due after every flush.
    Overfull,
    /// Merge the uppermost level into the next level in use, or into the lowest level if no other level is in use.
    Uppermost,
    Level(u8),
    Files,
    /// Rewrite the lowest level, because it contains versions or tombstones that were kept for a snapshot.
    RewriteLowest,
}

impl Shape {
    /// Returns the work that is due now, if any.
    pub(crate) fn due(&self, is_idle: bool) -> Option<Work> {
        let (uppermost, below) = self.levels.split_first()?;
        let entries = |levels: &[Level]| levels.iter().map(|level| level.entries).sum::<u64>();
        if !is_idle {
            let is_due = BUSY_SHARE.is_reached(uppermost.entries, entries(below));
            return is_due.then_some(Work::Merge(Merge::Uppermost));
        }
        let (lowest, between) = below.split_last()?;
        let in_memory = self.memtable_entries;
        if IDLE_SHARE.is_reached(in_memory, lowest.entries) {
            Some(Work::Flush)
        } else if uppermost.entries > 0 && IDLE_SHARE.is_reached(in_memory + uppermost.entries, lowest.entries) {
            Some(Work::Merge(Merge::Uppermost))
        } else if IDLE_SHARE.is_reached(in_memory + uppermost.entries + entries(between), lowest.entries) {
            let level = 1 + between.iter().position(|level| level.entries > 0)?;
            let bytes = self.levels.iter().skip(level).take(2).map(|level| level.bytes).sum::<u64>();
            let is_small = bytes <= WHOLE_LEVELS_BYTES_MAX;
            Some(Work::Merge(if is_small { Merge::Level(u8::try_from(level).ok()?) } else { Merge::Files }))
        } else {
            None
        }
    }

    /// Returns true if rewriting the lowest level would drop dead entries. Assumes that no open snapshot needs them.
    pub(crate) fn has_dead_entries_in_lowest(&self, has_kept_versions: bool) -> bool {
        self.levels.last().is_some_and(|lowest| {
            let has_dead = has_kept_versions || IDLE_SHARE.is_reached(lowest.tombstones, lowest.entries);
            has_dead && lowest.entries > 0 && lowest.bytes <= WHOLE_LEVELS_BYTES_MAX
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.bytes).sum()
    }
}

/// What the tree occupies and what it has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeState {
    pub(crate) disk_bytes: u64,
    pub(crate) files: u64,
    /// The size of the memtables that are not in files yet, in bytes.
    pub(crate) memtable_bytes: u64,
    /// The size of all memtables in memory, in bytes. It includes those that are kept for snapshots.
    pub(crate) retained_memtable_bytes: u64,
    pub(crate) sealed_memtables: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) cache_capacity_bytes: u64,
    pub(crate) cache_hits: u64,
    pub(crate) blocks_loaded: u64,
    /// The size of the filters and indexes of files that are always in memory, in bytes.
    pub(crate) pinned_bytes: u64,
    pub(crate) open_snapshots: u64,
    /// The number of lists of files that are kept for snapshots.
    pub(crate) retained_lists: u64,
}

impl Tree {
    pub(crate) fn state(&self) -> TreeState {
        let (store, library) = (&*self.0, &self.0.library);
        let cache = &library.config.cache;
        let (list, older) = (store.lists.newest(), store.lists.older());
        let memtables: BTreeMap<_, _> = older
            .iter()
            .chain([&list])
            .flat_map(|list| list.memtables())
            .map(|memtable| (memtable.id(), memtable.size()))
            .collect();
        let sealed = store.sealed.lock();
        let (sealed_memtables, sealed_bytes) =
            (sealed.len(), sealed.iter().map(|memtable| memtable.bytes).sum::<u64>());
        drop(sealed);
        TreeState {
            disk_bytes: self.disk_bytes(),
            files: number(list.levels().flatten().count()),
            memtable_bytes: sealed_bytes + store.active_memtable_bytes(),
            retained_memtable_bytes: memtables.into_values().sum(),
            sealed_memtables: number(sealed_memtables),
            cache_bytes: cache.size(),
            cache_capacity_bytes: cache.capacity(),
            cache_hits: number(library.metrics.block_load_cached_count()),
            blocks_loaded: self.blocks_loaded(),
            pinned_bytes: number(
                list.levels().flatten().map(|file| file.pinned_filter_size() + file.pinned_block_index_size()).sum(),
            ),
            open_snapshots: number(store.registry.count()),
            retained_lists: number(older.len()),
        }
    }

    /// Returns the number of blocks that reads have loaded from disk, or from the operating system's cache, since the
    /// tree was opened. Takes no lock.
    pub(crate) fn blocks_loaded(&self) -> u64 {
        number(self.0.library.metrics.block_load_io_count())
    }

    /// Returns the size of the files in the newest list, in bytes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.shape().bytes()
    }

    /// Returns the names of the sorted files in the newest list.
    pub(crate) fn sorted_files(&self) -> HashSet<OsString> {
        let list = self.0.lists.newest();
        list.levels().flatten().filter_map(|table| Some(table.path.file_name()?.to_owned())).collect()
    }
}

fn number(count: usize) -> u64 {
    count as u64
}

/// The number of files in the uppermost level at which they are always merged. With large levels below, fewer merges
/// write less.
const UPPERMOST_FILES: u8 = 12;
/// The size of the files that a merge of the uppermost level writes, in bytes. With a threshold of one file, the
/// library also uses no intermediate levels until the lowest level exceeds this size.
const FILE_BYTES: u64 = 256 * 1024 * 1024;
/// The size of the files that a merge of individual files writes, in bytes. For such a merge, the library chooses files
/// that overlap at most fifty times this size in the lowest level, so the constant also limits the merge to a gigabyte.
const LOWEST_FILE_BYTES: u64 = 20 * 1024 * 1024;
const LOWEST_LEVEL: u8 = 6;

/// The result of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merged {
    /// Whether the files have changed, by this merge or by a flush at the same time.
    pub(crate) has_changed: bool,
    /// Whether the merge may have kept versions only because an open snapshot may need them.
    pub(crate) may_have_kept_versions: bool,
}

impl Tree {
    pub(crate) fn shape(&self) -> Shape {
        let list = self.0.lists.newest();
        let levels = list.levels().map(|files| {
            files.fold(Level::default(), |sum, file| Level {
                files: sum.files + 1,
                entries: sum.entries + file.metadata.item_count,
                tombstones: sum.tombstones + file.metadata.tombstone_count,
                bytes: sum.bytes + file.metadata.file_size,
            })
        });
        Shape { levels: levels.collect(), memtable_entries: self.0.active_memtable_entries() }
    }

    /// Counts the tombstones in files, for [`Self::tombstones`].
    pub(crate) fn count_tombstones(&self) {
        let store = &*self.0;
        // Tombstones that are flushed while they are counted are counted twice, rather than not at all.
        let flushed = store.flushed_tombstones.load(Ordering::Relaxed);
        let counted = store.library.tombstone_count().wrapping_sub(flushed);
        store.counted_tombstones.store(counted, Ordering::Relaxed);
    }

    /// Waits for a merge that is in progress. The caller has checked that the disk has room for
    /// new versions of the files. After an error, the tree shows the same as before, but unfinished files remain until
    /// it is opened again.
    pub(crate) fn merge(&self, merge: Merge) -> Result<Merged, TreeError> {
        let strategy: Arc<dyn CompactionStrategy> = match merge {
            Merge::Overfull => Arc::new(Leveled::default().with_l0_threshold(UPPERMOST_FILES)),
            Merge::Uppermost => Arc::new(Leveled::default().with_l0_threshold(1).with_table_target_size(FILE_BYTES)),
            Merge::Level(level) => Arc::new(PullDown(level, level + 1)),
            // With a threshold of zero, every level above the lowest is too large, so the library picks the files that
            // are cheapest to merge.
            Merge::Files => Arc::new(Leveled::default().with_l0_threshold(0).with_table_target_size(LOWEST_FILE_BYTES)),
            Merge::RewriteLowest => Arc::new(PullDown(LOWEST_LEVEL, LOWEST_LEVEL)),
        };
        let store = &*self.0;
        let _merging = store.merging.lock();
        store.room.merge_began();
        let before = store.library.current_version().id();
        let oldest = store.registry.oldest();
        let may_have_kept_versions = oldest < self.persisted();
        let result = write_out_during(
            &store.path.join("tables"),
            || store.library.next_table_id(),
            || store.library.compact(strategy, oldest.snapshot_number()),
        );
        // A merge that fails at its end may have installed a list.
        store.renew_list(<[_]>::to_vec);
        store.room.merge_ended(result.is_err(), store.lists.newest().uppermost_runs());
        result?;
        store.release_or_warn();
        Ok(Merged { has_changed: store.library.current_version().id() != before, may_have_kept_versions })
    }

    /// Records that a merge that is due is not done, as after a failed merge: the writer does not wait for it.
    pub(crate) fn refuse_merge(&self) {
        self.0.room.merge_ended(true, self.0.lists.newest().uppermost_runs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn levels(entries_and_mebibytes: [(u64, u64); 7]) -> Vec<Level> {
        let level = |(entries, mebibytes)| Level { files: 1, entries, tombstones: 0, bytes: mebibytes * MIB };
        entries_and_mebibytes.map(level).to_vec()
    }

    #[test]
    fn what_is_due() {
        const NONE: (u64, u64) = (0, 0);
        let merge = |merge| Some(Work::Merge(merge));
        let small = |uppermost| levels([uppermost, NONE, NONE, NONE, NONE, NONE, (100_000, 80)]);
        let between = |level_5, lowest| levels([NONE, NONE, NONE, NONE, NONE, level_5, lowest]);
        for (memtable_entries, levels, while_busy, when_idle) in [
            (0, small(NONE), None, None),
            (1023, levels([NONE; 7]), None, None),
            (1024, levels([NONE; 7]), None, Some(Work::Flush)),
            (9_999, small(NONE), None, None),
            (10_000, small(NONE), None, Some(Work::Flush)),
            (0, small((9_999, 8)), None, None),
            (1, small((9_999, 8)), None, merge(Merge::Uppermost)),
            (0, small((29_999, 8)), None, merge(Merge::Uppermost)),
            (0, small((30_000, 1)), merge(Merge::Uppermost), merge(Merge::Uppermost)),
            // Intermediate levels are merged from the top down, and only when there are no writes.
            (0, between((100_000, 90), (999_000, 800)), None, merge(Merge::Level(5))),
            (0, between((99_000, 90), (999_000, 800)), None, None),
            (0, between((5_000_000, 250), (10_000_000, 7_300)), None, merge(Merge::Files)),
            (
                0,
                levels([NONE, NONE, NONE, NONE, (50_000, 40), (60_000, 50), (999_000, 800)]),
                None,
                merge(Merge::Level(4)),
            ),
        ] {
            let shape = Shape { memtable_entries, levels };
            assert_eq!((shape.due(false), shape.due(true)), (while_busy, when_idle), "{shape:?}");
        }
    }

    #[test]
    fn the_lowest_level_is_rewritten_for_what_was_kept_in_it() {
        let shape = |entries, tombstones, bytes| Shape {
            memtable_entries: 0,
            levels: vec![Level::default(), Level { files: 1, entries, tombstones, bytes }],
        };
        for (shape, without_versions, with_versions) in [
            (shape(0, 0, 0), false, false),
            (shape(100_000, 9_999, 80 * MIB), false, true),
            (shape(100_000, 10_000, 80 * MIB), true, true),
            (shape(1_000, 1_000, MIB), false, true),
            (shape(2_000_000, 2_000_000, WHOLE_LEVELS_BYTES_MAX), true, true),
            (shape(2_000_000, 2_000_000, WHOLE_LEVELS_BYTES_MAX + 1), false, false),
        ] {
            let decided = [false, true].map(|has_kept_versions| shape.has_dead_entries_in_lowest(has_kept_versions));
            assert_eq!(decided, [without_versions, with_versions], "{shape:?}");
        }
    }
}
