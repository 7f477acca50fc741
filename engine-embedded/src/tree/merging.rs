//! Merging sorted files, with the strategies of the library.
//!
//! A merge never skips a level, and its files are chosen under the library's lock. Otherwise, a tombstone could be
//! dropped while a level in between still contains the item that it hides.

use super::error::TreeError;
use super::shape::{Level, Merge, Shape};
use super::store::Tree;
use lsm_tree::AbstractTree;
use lsm_tree::compaction::{CompactionStrategy, Leveled, PullDown};
use std::sync::Arc;

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
        let version = self.0.library.current_version();
        let levels = version.iter_levels().map(|runs| {
            let files = runs.iter().flat_map(|run| run.iter());
            files.fold(Level::default(), |sum, file| Level {
                files: sum.files + 1,
                entries: sum.entries + file.metadata.item_count,
                tombstones: sum.tombstones + file.metadata.tombstone_count,
                bytes: sum.bytes + file.metadata.file_size,
            })
        });
        Shape { levels: levels.collect(), memtable_entries: self.0.active_memtable_entries() }
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
        store.check_list_numbers().inspect_err(|_| self.refuse_merge())?;
        store.room.merge_began();
        let before = store.library.current_version().id();
        let oldest = store.registry.oldest();
        let may_have_kept_versions = oldest < self.persisted();
        let result = store.library.compact(strategy, oldest.snapshot_number());
        store.room.merge_ended(result.is_err(), store.library.l0_run_count());
        result?;
        store.release_or_warn();
        Ok(Merged { has_changed: store.library.current_version().id() != before, may_have_kept_versions })
    }

    /// Records that a merge that is due is not done, as after a failed merge: the writer does not wait for it.
    pub(crate) fn refuse_merge(&self) {
        self.0.room.merge_ended(true, self.0.library.l0_run_count());
    }
}
