//! Flushes memtables and merges sorted files where the library does so too late or not at all.
//!
//! An overwritten or deleted entity stays in the tree until its versions and its tombstone meet in a merge; until then,
//! every scan steps over them. The library merges its uppermost level into the next one when the uppermost level has a
//! certain number of files, whatever they contain. It checks the number only after a flush. A separate thread therefore
//! inspects the levels. It merges when the entries that may hide others are numerous compared with the entries that
//! they may hide. The threshold is [`BUSY_SHARE`] while there are writes, and [`IDLE_SHARE`] once there have been none
//! for [`IDLE_TIME`].
//!
//! Invariants:
//!
//! 1. A merge drops nothing that a snapshot can see. The merge uses the library's own bound of visible versions. The
//!    sequence number of a new snapshot would not suffice, because an older snapshot may be open.
//! 2. A merge never skips a level, and its files are chosen under the library's lock. Otherwise, a tombstone could be
//!    dropped while a level in between still contains the entity that it hides.
//! 3. [`due`] and [`has_dead_entries_in_lowest`] decide which work is due. They depend only on numbers, so they can be
//!    tested.

use crate::counts::MergeCounts;
use crate::disk::storage::Storage;
use crate::figures::Disk;
use crate::state::EmbeddedState;
use engine::parts::monotonic;
use fjall::AbstractTree;
use fjall::compaction::Leveled;
use lsm_tree::compaction::{CompactionStrategy, MoveDown, PullDown};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(250);
const IDLE_TIME: Duration = Duration::from_millis(500);
/// While there are writes, the uppermost level is merged when it has this share of the entries of the levels below. A
/// smaller share makes scans faster but writes more expensive, because each merge rewrites the levels below.
const BUSY_SHARE: Share = Share { part: 3, of: 10 };
/// When the engine is idle, all levels above the lowest one are merged into it if they have this share of its entries.
const IDLE_SHARE: Share = Share { part: 1, of: 10 };
/// The number of entries below which a merge is never worthwhile: a scan steps over that many entries in a millisecond,
/// whereas writing a file requires several syncs.
const ENTRIES_MIN: u64 = 1024;
/// The maximum total size of two levels that are merged as a whole, in bytes. Such a merge takes about three seconds
/// and cannot be interrupted. Larger levels are merged file by file.
const WHOLE_LEVELS_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// The size of the files that a merge of the uppermost level writes, in bytes. With a threshold of one file, the
/// library also uses no intermediate levels until the lowest level exceeds this size.
const FILE_BYTES: u64 = 256 * 1024 * 1024;
/// The size of the files that a merge of individual files writes, in bytes. For such a merge, the library chooses files
/// that overlap at most fifty times this size in the lowest level, so the constant also limits the merge to a gigabyte.
const LOWEST_FILE_BYTES: u64 = 20 * 1024 * 1024;
const LOWEST_LEVEL: u8 = 6;
/// If more batches than this are above the library's bound of visible versions, a merge certainly keeps some of them
/// for an open snapshot. If there are fewer, they may be the last ones that were flushed.
const KEPT_BATCHES_MAX: u64 = 16;
/// The pause after a check found too little disk space for a merge.
const ROOM_PAUSE: Duration = Duration::from_secs(30);
/// The pause after a merge that changed nothing, usually because the library is merging the same files.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);
/// The pause after an attempt to release memory and files while a snapshot was open.
const RELEASE_PAUSE: Duration = Duration::from_secs(3);
/// The number of snapshots after which the library recomputes its bound of visible versions.
const SNAPSHOTS_PER_BOUND: usize = 10_000;

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
struct Level {
    entries: u64,
    tombstones: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Shape {
    memtable_entries: u64,
    /// The levels, from the uppermost to the lowest.
    levels: Vec<Level>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Flush,
    /// Merge the uppermost level into the next level in use, or into the lowest level if no other level is in use.
    MergeUppermost,
    MergeLevel(u8),
    MergeFiles,
    /// Rewrite the lowest level, because it contains versions or tombstones that were kept for a snapshot.
    RewriteLowest,
}

fn due(shape: &Shape, is_idle: bool) -> Option<Work> {
    let (uppermost, below) = shape.levels.split_first()?;
    let entries = |levels: &[Level]| levels.iter().map(|level| level.entries).sum::<u64>();
    if !is_idle {
        let is_due = BUSY_SHARE.is_reached(uppermost.entries, entries(below));
        return is_due.then_some(Work::MergeUppermost);
    }
    let (lowest, between) = below.split_last()?;
    let in_memory = shape.memtable_entries;
    if IDLE_SHARE.is_reached(in_memory, lowest.entries) {
        Some(Work::Flush)
    } else if uppermost.entries > 0 && IDLE_SHARE.is_reached(in_memory + uppermost.entries, lowest.entries) {
        Some(Work::MergeUppermost)
    } else if IDLE_SHARE.is_reached(in_memory + uppermost.entries + entries(between), lowest.entries) {
        let level = 1 + between.iter().position(|level| level.entries > 0)?;
        let bytes = shape.levels.iter().skip(level).take(2).map(|level| level.bytes).sum::<u64>();
        let is_small = bytes <= WHOLE_LEVELS_BYTES_MAX;
        Some(if is_small { Work::MergeLevel(u8::try_from(level).ok()?) } else { Work::MergeFiles })
    } else {
        None
    }
}

/// Returns true if rewriting the lowest level would drop dead entries. Assumes that no open snapshot needs them.
fn has_dead_entries_in_lowest(shape: &Shape, has_kept_versions: bool) -> bool {
    shape.levels.last().is_some_and(|lowest| {
        let has_dead = has_kept_versions || IDLE_SHARE.is_reached(lowest.tombstones, lowest.entries);
        has_dead && lowest.entries > 0 && lowest.bytes <= WHOLE_LEVELS_BYTES_MAX
    })
}

pub(crate) fn compact(shared: &EmbeddedState, disk: &Disk, stop: &Receiver<()>) {
    let mut compactor = Compactor::new();
    while stop.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        // If a write has failed, the database is closed and there is nothing to do.
        let Ok(storage) = shared.storage() else { continue };
        if storage.retired.is_cancelled() || !compactor.may_work(&storage) {
            continue;
        }
        compactor.run_due_work(&storage, disk, &shared.merges);
    }
}

struct Compactor {
    /// The ID of the active memtable, and its size when it last changed.
    writes: Option<(u64, u64)>,
    last_write: Option<Instant>,
    pause_until: Option<Instant>,
    /// Whether a merge wrote versions to the lowest level that it kept only because an open snapshot may have needed
    /// them.
    has_kept_versions: bool,
    /// The database in which a merge failed. The output of that merge stays on disk until the database is reopened.
    failed: Weak<Storage>,
    /// The time of the next attempt to release memory and files. `None` if nothing has been written or merged since the
    /// last release.
    release_at: Option<Instant>,
    /// The library's bound of visible versions at the last attempt.
    bound: u64,
}

impl Compactor {
    /// Creates the initial state, in which the engine counts as idle until the first write: at startup, there may be
    /// much to merge.
    fn new() -> Self {
        Self {
            writes: None,
            last_write: None,
            pause_until: None,
            has_kept_versions: false,
            failed: Weak::new(),
            release_at: Some(monotonic::now()),
            bound: 0,
        }
    }

    fn may_work(&self, storage: &Arc<Storage>) -> bool {
        !std::ptr::eq(self.failed.as_ptr(), Arc::as_ptr(storage))
            && self.pause_until.is_none_or(|until| monotonic::now() >= until)
    }

    fn run_due_work(&mut self, storage: &Arc<Storage>, disk: &Disk, merges: &MergeCounts) {
        let tree = &storage.data.tree;
        let memtable = tree.active_memtable();
        let writes = Some((memtable.id(), memtable.size()));
        if self.writes != writes {
            // Neither data present at startup nor a new, empty memtable counts as a recent write.
            if self.writes.is_some() && memtable.size() > 0 {
                self.last_write = Some(monotonic::now());
            }
            self.writes = writes;
            self.release_at = Some(monotonic::now());
        }
        let is_idle = self.last_write.is_none_or(|at| at.elapsed() >= IDLE_TIME);
        // The library is about to flush a memtable; the memtable's entries count after the flush.
        if is_idle && tree.sealed_memtable_count() > 0 {
            return;
        }
        let shape = shape(storage);
        let work = match due(&shape, is_idle) {
            Some(work) => work,
            None if is_idle && self.release(storage) && has_dead_entries_in_lowest(&shape, self.has_kept_versions) => {
                Work::RewriteLowest
            }
            None => return,
        };
        self.release_at = Some(monotonic::now());
        let bytes = shape.levels.iter().map(|level| level.bytes).sum::<u64>();
        if work != Work::Flush && disk.room_bytes() < bytes.min(WHOLE_LEVELS_BYTES_MAX) {
            self.pause(ROOM_PAUSE);
            return;
        }
        let newest = tree.get_highest_persisted_seqno().unwrap_or_default();
        self.has_kept_versions = match work {
            Work::Flush => self.has_kept_versions,
            Work::RewriteLowest => false,
            _ => self.has_kept_versions || newest.saturating_sub(visible_bound(storage)) > KEPT_BATCHES_MAX,
        };
        tracing::debug!(?work, ?shape, is_idle, "merging sorted files");
        let result = if work == Work::Flush { run(storage, work) } else { merges.count(|| run(storage, work)) };
        match result {
            Ok(()) => {
                // If nothing changed, either the library is already merging on its own or it cannot do the requested
                // work.
                if work != Work::Flush && self::shape(storage) == shape {
                    self.pause(REPEAT_PAUSE);
                }
            }
            Err(error) => {
                tracing::error!(%error, "sorted files could not be merged; no more attempts are made until the database is reopened");
                self.failed = Arc::downgrade(storage);
            }
        }
    }

    /// Returns true if nothing is left to release.
    fn release(&mut self, storage: &Storage) -> bool {
        if self.release_at.is_some_and(|at| monotonic::now() >= at) {
            let is_done = release(storage, &mut self.bound).unwrap_or_else(|error| {
                tracing::warn!(%error, "merged files could not be removed; the removal will be retried");
                false
            });
            self.release_at = (!is_done).then(|| monotonic::now() + RELEASE_PAUSE);
        }
        self.release_at.is_none()
    }

    fn pause(&mut self, pause: Duration) {
        self.pause_until = Some(monotonic::now() + pause);
    }
}

fn shape(storage: &Storage) -> Shape {
    let tree = &storage.data.tree;
    let version = tree.current_version();
    let levels = version.iter_levels().map(|runs| {
        let files = runs.iter().flat_map(|run| run.iter());
        files.fold(Level::default(), |sum, file| Level {
            entries: sum.entries + file.metadata.item_count,
            tombstones: sum.tombstones + file.metadata.tombstone_count,
            bytes: sum.bytes + file.metadata.file_size,
        })
    });
    Shape { levels: levels.collect(), memtable_entries: tree.active_memtable().len() as u64 }
}

fn run(storage: &Storage, work: Work) -> fjall::Result<()> {
    let strategy: Arc<dyn CompactionStrategy> = match work {
        Work::Flush => return storage.data.rotate_memtable().map(drop),
        Work::MergeUppermost => Arc::new(Leveled::default().with_l0_threshold(1).with_table_target_size(FILE_BYTES)),
        Work::MergeLevel(level) => Arc::new(PullDown(level, level + 1)),
        // With a threshold of zero, every level above the lowest is too large, so the library picks the files that are
        // cheapest to merge.
        Work::MergeFiles => Arc::new(Leveled::default().with_l0_threshold(0).with_table_target_size(LOWEST_FILE_BYTES)),
        Work::RewriteLowest => Arc::new(PullDown(LOWEST_LEVEL, LOWEST_LEVEL)),
    };
    storage.data.tree.compact(strategy, visible_bound(storage)).map_err(fjall::Error::from)
}

/// Returns the sequence number below which snapshots can see only the latest version of a key.
fn visible_bound(storage: &Storage) -> u64 {
    storage.db.supervisor.snapshot_tracker.get_seqno_safe_to_gc()
}

/// Releases flushed memtables and merged files, which the library keeps until the next memtable is flushed. The library
/// keeps every list of files that an open snapshot may need, according to its bound of visible versions, and one more
/// list. It recomputes that bound after a number of snapshots, and moving the files of an empty level creates a new
/// list. Returns whether everything was released; an open snapshot prevents that. `last_bound` is the bound at the last
/// attempt.
fn release(storage: &Storage, last_bound: &mut u64) -> fjall::Result<bool> {
    let tree = &storage.data.tree;
    if tree.version_free_list_len() == 0 {
        return Ok(true);
    }
    let compute_bound = || {
        for _ in 0..SNAPSHOTS_PER_BOUND {
            drop(storage.db.snapshot());
        }
        visible_bound(storage)
    };
    let bound = compute_bound();
    if bound == *last_bound {
        return Ok(false);
    }
    *last_bound = bound;
    if let Some(level) = level_to_move(&shape(storage)) {
        tree.compact(Arc::new(MoveDown(level, level)), bound)?;
        *last_bound = compute_bound();
    }
    tree.get_version_history_lock().maintenance(storage.data.path(), visible_bound(storage))?;
    Ok(tree.version_free_list_len() <= 1)
}

/// Returns an empty level below the uppermost one. The level must not be the uppermost, because the library may flush
/// memtables before the move. Moving several runs would combine them into a single run that is out of order, in which
/// some entities could not be found. Only the uppermost level ever has several runs.
fn level_to_move(shape: &Shape) -> Option<u8> {
    let mut below = (0..).zip(&shape.levels).skip(1);
    below.find_map(|(index, level)| (level.entries == 0).then_some(index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{key, table};
    use crate::{Embedded, EmbeddedOptions};
    use engine::Engine;
    use fjall::Readable;
    use model::clock::SystemClock;
    use model::{Condition, EdmValue, Mutation, RecordBuilder, Transaction};
    use std::collections::BTreeMap;
    use test_support::Random;

    const MIB: u64 = 1024 * 1024;

    fn levels(entries_and_mebibytes: [(u64, u64); 7]) -> Vec<Level> {
        entries_and_mebibytes
            .map(|(entries, mebibytes)| Level { entries, tombstones: 0, bytes: mebibytes * MIB })
            .to_vec()
    }

    #[test]
    fn what_is_due() {
        const NONE: (u64, u64) = (0, 0);
        let small = |uppermost| levels([uppermost, NONE, NONE, NONE, NONE, NONE, (100_000, 80)]);
        let between = |level_5, lowest| levels([NONE, NONE, NONE, NONE, NONE, level_5, lowest]);
        for (memtable_entries, levels, while_busy, when_idle) in [
            (0, small(NONE), None, None),
            (1023, levels([NONE; 7]), None, None),
            (1024, levels([NONE; 7]), None, Some(Work::Flush)),
            (9_999, small(NONE), None, None),
            (10_000, small(NONE), None, Some(Work::Flush)),
            (90_000, small(NONE), None, Some(Work::Flush)),
            (0, small((9_999, 8)), None, None),
            (1, small((9_999, 8)), None, Some(Work::MergeUppermost)),
            (0, small((29_999, 8)), None, Some(Work::MergeUppermost)),
            (0, small((30_000, 1)), Some(Work::MergeUppermost), Some(Work::MergeUppermost)),
            // Intermediate levels are merged from the top down, and only when there are no writes.
            (0, between((100_000, 90), (999_000, 800)), None, Some(Work::MergeLevel(5))),
            (0, between((99_000, 90), (999_000, 800)), None, None),
            (0, between((5_000_000, 250), (10_000_000, 7_300)), None, Some(Work::MergeFiles)),
            (
                0,
                levels([NONE, NONE, NONE, NONE, (50_000, 40), (60_000, 50), (999_000, 800)]),
                None,
                Some(Work::MergeLevel(4)),
            ),
            (
                1_000,
                levels([(1_000, 1), NONE, NONE, NONE, NONE, (98_000, 50), (999_000, 800)]),
                None,
                Some(Work::MergeLevel(5)),
            ),
        ] {
            let shape = Shape { memtable_entries, levels };
            assert_eq!((due(&shape, false), due(&shape, true)), (while_busy, when_idle), "{shape:?}");
        }
    }

    #[test]
    fn the_uppermost_level_is_never_moved_to_get_a_new_list_of_files() {
        const NONE: (u64, u64) = (0, 0);
        const SOME: (u64, u64) = (1, 1);
        for (levels, expected) in [
            (levels([NONE; 7]), Some(1)),
            (levels([NONE, SOME, SOME, NONE, SOME, NONE, SOME]), Some(3)),
            (levels([NONE, SOME, SOME, SOME, SOME, SOME, SOME]), None),
        ] {
            let shape = Shape { memtable_entries: 0, levels };
            assert_eq!(level_to_move(&shape), expected, "{shape:?}");
        }
    }

    #[test]
    fn the_lowest_level_is_rewritten_for_what_was_kept_in_it() {
        let shape = |entries, tombstones, bytes| Shape {
            memtable_entries: 0,
            levels: vec![Level::default(), Level { entries, tombstones, bytes }],
        };
        for (shape, without_versions, with_versions) in [
            (shape(0, 0, 0), false, false),
            (shape(100_000, 0, 80 * MIB), false, true),
            (shape(100_000, 9_999, 80 * MIB), false, true),
            (shape(100_000, 10_000, 80 * MIB), true, true),
            (shape(1_000, 1_000, MIB), false, true),
            (shape(2_000_000, 2_000_000, WHOLE_LEVELS_BYTES_MAX), true, true),
            (shape(2_000_000, 2_000_000, WHOLE_LEVELS_BYTES_MAX + 1), false, false),
        ] {
            let decided = [false, true].map(|has_kept_versions| has_dead_entries_in_lowest(&shape, has_kept_versions));
            assert_eq!(decided, [without_versions, with_versions], "{shape:?}");
        }
    }

    fn upsert(number: usize, value: i64) -> Mutation {
        let mut properties = RecordBuilder::default();
        properties.push("value", EdmValue::Int64(value));
        Mutation::InsertOrReplace { key: key(number), properties }
    }

    type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

    fn contents(storage: &Storage, snapshot: &fjall::Snapshot) -> Contents {
        let entries = snapshot.range::<Vec<u8>, _>(&storage.data, ..);
        entries.map(|entry| entry.into_inner().map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
    }

    /// Snapshots stay open across merges.
    #[tokio::test(flavor = "multi_thread")]
    async fn merges_change_nothing_that_a_snapshot_shows() {
        let mut random = Random::from_environment("ROWHOUSE_COMPACTION_SEED");
        let folder = tempfile::tempdir().unwrap();
        let engine = Embedded::open(folder.path(), &EmbeddedOptions::default(), SystemClock).unwrap();
        engine.create_table(&table()).await.unwrap();
        let storage = engine.shared.storage().unwrap();
        let mut open: Vec<(fjall::Snapshot, Contents)> = Vec::new();
        for _ in 0..60 {
            for _ in 0..random.below(40) {
                let number = random.index(60);
                let mutation = if random.below(3) == 0 {
                    Mutation::Delete { key: key(number), condition: Condition::Any }
                } else {
                    upsert(number, i64::try_from(random.below(1000)).unwrap())
                };
                let _refused = engine.commit(&table(), Transaction::single(mutation)).await;
            }
            if random.below(3) == 0 {
                let snapshot = storage.db.snapshot();
                let shown = contents(&storage, &snapshot);
                open.push((snapshot, shown));
            }
            let before = contents(&storage, &storage.db.snapshot());
            let fullest = shape(&storage).levels.iter().skip(1).rposition(|level| level.entries > 0);
            match random.below(6) {
                0 => drop(release(&storage, &mut 0).unwrap()),
                1 => storage.data.rotate_memtable_and_wait().unwrap(),
                2 => run(&storage, Work::MergeUppermost).unwrap(),
                3 => run(&storage, Work::MergeFiles).unwrap(),
                4 => run(&storage, Work::RewriteLowest).unwrap(),
                _ => match fullest {
                    // Index 0 stands for level 1.
                    Some(index) if index < 5 => {
                        run(&storage, Work::MergeLevel(u8::try_from(index).unwrap() + 1)).unwrap();
                    }
                    _ => {}
                },
            }
            assert_eq!(contents(&storage, &storage.db.snapshot()), before);
            for (snapshot, shown) in &open {
                assert_eq!(&contents(&storage, snapshot), shown);
            }
            if random.below(4) == 0 && !open.is_empty() {
                let index = random.index(open.len());
                open.swap_remove(index);
            }
        }
        let last = contents(&storage, &storage.db.snapshot());
        drop((open, storage));
        engine.close().await.unwrap();
        drop(engine);
        let engine = Embedded::open(folder.path(), &EmbeddedOptions::default(), SystemClock).unwrap();
        let storage = engine.shared.storage().unwrap();
        assert_eq!(contents(&storage, &storage.db.snapshot()), last);
    }

    async fn merged(storage: &Storage, entries: u64) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let shape = shape(storage);
            let (lowest, above) = shape.levels.split_last().unwrap();
            let held = shape.memtable_entries + above.iter().map(|level| level.entries).sum::<u64>();
            // The count includes the engine's own entries, and the versions of the last group that the snapshot sees.
            if held == 0 && (entries..entries + 128).contains(&lowest.entries) {
                return;
            }
            assert!(Instant::now() < deadline, "{shape:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn versions_and_tombstones_are_gone_when_the_engine_is_idle_also_after_a_start() {
        const ENTITIES: usize = 5_000;
        let folder = tempfile::tempdir().unwrap();
        let engine = Embedded::open(folder.path(), &EmbeddedOptions::default(), SystemClock).unwrap();
        engine.create_table(&table()).await.unwrap();
        let upsert_all = async |engine: &Embedded, value| {
            for first in (0..ENTITIES).step_by(100) {
                let mutations = (first..first + 100).map(|number| upsert(number, value)).collect();
                engine.commit(&table(), Transaction::new(mutations).unwrap()).await.unwrap();
            }
        };
        let delete_all = async |engine: &Embedded| {
            for first in (0..ENTITIES).step_by(100) {
                let deletion = |number| Mutation::Delete { key: key(number), condition: Condition::Any };
                let mutations = (first..first + 100).map(deletion).collect();
                engine.commit(&table(), Transaction::new(mutations).unwrap()).await.unwrap();
            }
        };
        upsert_all(&engine, 1).await;
        let storage = engine.shared.storage().unwrap();
        merged(&storage, ENTITIES as u64).await;
        // The contents of a snapshot are retained while it is open.
        let snapshot = storage.snapshot();
        let shown = contents(&storage, &snapshot);
        upsert_all(&engine, 2).await;
        merged(&storage, ENTITIES as u64).await;
        let files = || std::fs::read_dir(storage.data.path().join("tables")).unwrap().count();
        assert!(contents(&storage, &snapshot) == shown && files() > 1);
        // Versions and tombstones that the snapshot needs are merged into the lowest level, and are dropped after the
        // snapshot is closed.
        delete_all(&engine).await;
        let deadline = Instant::now() + Duration::from_secs(60);
        while shape(&storage).levels[6].tombstones < ENTITIES as u64 / 2 {
            assert!(Instant::now() < deadline, "{:?}", shape(&storage));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        upsert_all(&engine, 3).await;
        assert!(contents(&storage, &snapshot) == shown);
        drop(snapshot);
        merged(&storage, ENTITIES as u64).await;
        // Otherwise, the library would keep the flushed memtable and the merged files until the next flush.
        let deadline = Instant::now() + Duration::from_secs(60);
        while storage.data.tree.version_memtable_size_sum() > 0 || files() > 1 {
            assert!(Instant::now() < deadline, "{} files", files());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        delete_all(&engine).await;
        drop(storage);
        engine.close().await.unwrap();
        drop(engine);
        let engine = Embedded::open(folder.path(), &EmbeddedOptions::default(), SystemClock).unwrap();
        merged(&engine.shared.storage().unwrap(), 0).await;
        engine.close().await.unwrap();
    }
}
