//! Decides when files are flushed and merged, and does it on a separate thread.
//!
//! [`Shape::due`] says which work is due; it depends on whether there were writes recently. Invariant: a merge that
//! would leave too little free space is not started.

use crate::counts::MergeCounts;
use crate::disk::space::Disk;
use crate::disk::storage::Storage;
use crate::sequence::Sequence;
use crate::state::EmbeddedState;
use crate::tree::{Merge, Shape, WHOLE_LEVELS_BYTES_MAX, Work};
use engine::parts::monotonic;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(250);
const IDLE_TIME: Duration = Duration::from_millis(500);
/// The pause after a failed merge, and between failed flushes of an idle engine.
const FAILURE_PAUSE: Duration = Duration::from_secs(30);
/// The pause after a merge that changed nothing, and after a check found too little disk space for a merge.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);
/// The size of a log that an idle engine flushes few entries for, so that the log can be retired, in bytes. A log that
/// is hardly written stays smaller.
const QUIET_LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The pause after an attempt to release memory and files while a snapshot was open.
const RELEASE_PAUSE: Duration = Duration::from_secs(3);

pub(crate) fn compact(shared: &EmbeddedState, disk: &Disk, stop: &Receiver<()>) {
    let mut compactor = Compactor::new();
    while stop.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        #[cfg(test)]
        let _held = shared.upkeep_held.blocking_lock();
        compactor.run_due_work(&shared.storage, disk, &shared.merges);
    }
}

struct Compactor {
    /// The last transaction that was seen.
    published: Option<Sequence>,
    last_write: Option<Instant>,
    pause_until: Option<Instant>,
    /// The time of the next attempt to flush after a failure.
    flush_at: Option<Instant>,
    /// Whether the disk had enough room when a merge was last due.
    has_room: bool,
    /// The last transaction in sorted files when no level was found to be too large.
    checked: Sequence,
    /// Whether a merge wrote versions to the lowest level that it kept only because an open snapshot may have needed
    /// them.
    has_kept_versions: bool,
    /// The time of the next attempt to release memory and files. `None` if nothing has been written or merged since the
    /// last release.
    release_at: Option<Instant>,
}

impl Compactor {
    /// Creates the initial state, in which the engine counts as idle until the first write: at startup, there may be
    /// much to merge.
    fn new() -> Self {
        Self {
            published: None,
            last_write: None,
            pause_until: None,
            flush_at: None,
            has_room: true,
            checked: Sequence::ZERO,
            has_kept_versions: false,
            release_at: Some(monotonic::now()),
        }
    }

    fn run_due_work(&mut self, storage: &Storage, disk: &Disk, merges: &MergeCounts) {
        let tree = &storage.tree;
        tree.count_tombstones();
        let published = tree.published();
        if self.published != Some(published) {
            // Data present at startup does not count as a recent write.
            if self.published.is_some() {
                self.last_write = Some(monotonic::now());
            }
            self.published = Some(published);
            self.release_at = Some(monotonic::now());
        }
        if self.pause_until.is_some_and(|until| monotonic::now() < until) {
            return;
        }
        let is_idle = self.last_write.is_none_or(|at| at.elapsed() >= IDLE_TIME);
        let shape = tree.shape();
        let Some(work) = self.due(storage, &shape, is_idle) else { return };
        self.release_at = Some(monotonic::now());
        let merge = match work {
            Work::Merge(merge) => merge,
            Work::Flush if self.flush_at.is_some_and(|at| monotonic::now() < at) => return,
            Work::Flush => {
                let result = storage.flush_everything();
                if let Err(error) = &result {
                    tracing::error!(%error, "a memtable could not be written to a sorted file");
                }
                self.flush_at = result.is_err().then(|| monotonic::now() + FAILURE_PAUSE);
                return;
            }
        };
        let needed = shape.bytes().min(WHOLE_LEVELS_BYTES_MAX);
        let fits = || disk.room_bytes(tree.unflushed_bytes()) >= needed;
        let has_room = fits() || (merge == Merge::Overfull && disk.drop_kept_log(needed) && fits());
        if !has_room && self.has_room {
            tracing::warn!("sorted files are not merged because the disk has too little free space");
        }
        self.has_room = has_room;
        if !has_room {
            tree.refuse_merge();
            return self.retry(merge, REPEAT_PAUSE);
        }
        tracing::debug!(?merge, ?shape, is_idle, "merging sorted files");
        match merges.count(|| tree.merge(merge)) {
            Ok(merged) => {
                self.has_kept_versions =
                    merge != Merge::RewriteLowest && (self.has_kept_versions || merged.may_have_kept_versions);
                match (merge, merged.has_changed) {
                    // After one level, another one may be too large.
                    (Merge::Overfull, true) => self.checked = Sequence::ZERO,
                    (Merge::Overfull, false) | (_, true) => {}
                    (_, false) => self.pause(REPEAT_PAUSE),
                }
            }
            Err(error) => {
                tracing::error!(%error, "sorted files could not be merged; the merge will be retried");
                self.retry(merge, FAILURE_PAUSE);
            }
        }
    }

    fn due(&mut self, storage: &Storage, shape: &Shape, is_idle: bool) -> Option<Work> {
        let persisted = storage.tree.persisted();
        if let Some(work) = shape.due(is_idle) {
            return Some(work);
        }
        if persisted > self.checked {
            self.checked = persisted;
            return Some(Work::Merge(Merge::Overfull));
        }
        if is_idle && self.must_release() && keeps_large_log(storage) {
            return Some(Work::Flush);
        }
        let is_quiet = is_idle && self.release(storage);
        (is_quiet && shape.has_dead_entries_in_lowest(self.has_kept_versions))
            .then_some(Work::Merge(Merge::RewriteLowest))
    }

    fn must_release(&self) -> bool {
        self.release_at.is_some_and(|at| monotonic::now() >= at)
    }

    /// Returns true if nothing is left to release.
    fn release(&mut self, storage: &Storage) -> bool {
        if self.must_release() {
            let released = storage.tree.release().map_err(Into::into).and_then(|is_done| {
                // Everything is in sorted files, so the log is not needed.
                if storage.tree.persisted() == storage.tree.published() {
                    storage.retire_log()?;
                }
                Ok::<_, crate::disk::storage_error::StorageError>(is_done)
            });
            let is_done = released.unwrap_or_else(|error| {
                tracing::warn!(%error, "merged files or old segments of the log could not be removed; the removal will be retried");
                false
            });
            self.release_at = (!is_done).then(|| monotonic::now() + RELEASE_PAUSE);
        }
        self.release_at.is_none()
    }

    /// Tries a merge again after a pause, even if nothing is written in the meantime. A writer may wait for it.
    fn retry(&mut self, merge: Merge, pause: Duration) {
        if merge == Merge::Overfull {
            self.checked = Sequence::ZERO;
        }
        self.pause(pause);
    }

    fn pause(&mut self, pause: Duration) {
        self.pause_until = Some(monotonic::now() + pause);
    }
}

/// Returns whether the log and the files that wait for reuse take much disk space only because of what is in memory: in
/// the active memtable, or in one that could not be flushed.
fn keeps_large_log(storage: &Storage) -> bool {
    let has_all = storage.tree.persisted() == storage.tree.published();
    !has_all && storage.upkeep.size().is_ok_and(|(_, bytes)| bytes > QUIET_LOG_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::folder::Folder;
    use crate::disk::opening;
    use crate::disk::payload::{Operations, Origin};
    use crate::disk::storage::{OpenSettings, Storage};
    use crate::log::options::Durability;
    use crate::tests::{key, table};
    use crate::tree::Snapshot;
    use crate::{Embedded, EmbeddedOptions};
    use engine::Engine;
    use model::clock::SystemClock;
    use model::{Condition, EdmValue, Mutation, RecordBuilder, Transaction};
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::{Duration, Instant};
    use test_support::TIMEOUT;

    fn open(folder: &Path) -> Embedded {
        Embedded::open(folder, &EmbeddedOptions::default(), SystemClock).unwrap()
    }

    fn upsert(number: usize, value: i64) -> Mutation {
        let mut properties = RecordBuilder::default();
        properties.push("value", EdmValue::Int64(value));
        Mutation::InsertOrReplace { key: key(number), properties }
    }

    type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

    fn contents(snapshot: &Snapshot) -> Contents {
        let entries = snapshot.range::<&[u8]>(..);
        entries.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
    }

    /// The writer may wait for it, so nothing may be written in the meantime.
    #[test]
    fn a_merge_that_was_refused_is_done_as_soon_as_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let settings = OpenSettings { cache_bytes: 0, durability: Durability::Sync };
        let storage = opening::open(&mut Folder::acquire(folder.path()).unwrap(), settings).unwrap();
        for number in 0..36 {
            let mut operations = Operations::default();
            operations.put([0, 0, 0, 0, 0, 0, 0, 9, number], [number]);
            storage.write(vec![operations.into_transaction(Origin::Catalog)], None, true).unwrap();
            storage.flush_everything().unwrap();
        }
        let disk = |reserve_bytes| Disk { folder: folder.path().to_owned(), reserve_bytes, keeper: None };
        let (mut compactor, merges) = (Compactor::new(), MergeCounts::default());
        for _ in 0..3 {
            compactor.pause_until = None;
            compactor.run_due_work(&storage, &disk(u64::MAX), &merges);
            assert!(!storage.tree.wait_for_room());
        }
        compactor.pause_until = None;
        compactor.run_due_work(&storage, &disk(0), &merges);
        assert!(storage.tree.wait_for_room());
    }

    async fn wait_until(what: &str, is_done: impl Fn() -> bool, state: impl Fn() -> String) {
        let deadline = Instant::now() + TIMEOUT;
        while !is_done() {
            assert!(Instant::now() < deadline, "{what}: {}", state());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the number of entries that are not in the lowest level.
    fn held(storage: &Storage) -> u64 {
        let shape = storage.tree.shape();
        let (_, above) = shape.levels.split_last().unwrap();
        shape.memtable_entries + above.iter().map(|level| level.entries).sum::<u64>()
    }

    fn is_merged(storage: &Storage, entries: u64) -> bool {
        // The count includes the engine's own entries, and the versions of the last group that the snapshot sees.
        held(storage) == 0 && (entries..entries + 128).contains(&storage.tree.shape().levels[6].entries)
    }

    async fn merged(storage: &Storage, entries: u64) {
        wait_until("merged", || is_merged(storage, entries), || format!("{:?}", storage.tree.shape())).await;
    }

    /// Writes until everything was merged. On a busy machine, the engine may seem idle between two writes, and the
    /// later ones may then be too few for another merge.
    async fn merged_after(storage: &Storage, entries: u64, write: impl AsyncFn()) {
        loop {
            write().await;
            let is_done = || is_merged(storage, entries) || (1..1024).contains(&held(storage));
            wait_until("merged", is_done, || format!("{:?}", storage.tree.shape())).await;
            if is_merged(storage, entries) {
                return;
            }
        }
    }

    /// Returns the names and lengths of the files of the log.
    fn log_files(folder: &Path) -> Vec<(String, u64)> {
        let entries = std::fs::read_dir(folder.join("log")).unwrap().map(Result::unwrap);
        // A file may be deleted in the meantime.
        entries
            .filter_map(|entry| Some((entry.file_name().into_string().unwrap(), entry.metadata().ok()?.len())))
            .collect()
    }

    /// Asserts that an idle engine holds nothing that it does not need: no memtables, one sorted file or none, and a
    /// log of one segment that contains only its header.
    async fn released(storage: &Storage, folder: &Path) {
        const SEGMENT_HEADER_BYTES: u64 = 4096;
        let files = || std::fs::read_dir(folder.join("tree/tables")).unwrap().count();
        let is_live = |name: &str| Path::new(name).extension().is_some_and(|ending| ending == "log");
        let is_retired = || matches!(&log_files(folder)[..], [(name, SEGMENT_HEADER_BYTES)] if is_live(name));
        let is_released = || {
            let state = storage.tree.state();
            state.retained_memtable_bytes == 0 && state.retained_lists == 0 && files() <= 1 && is_retired()
        };
        let state = || format!("{:?}, {} files, {:?}", storage.tree.state(), files(), log_files(folder));
        wait_until("released", is_released, state).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn versions_and_tombstones_are_gone_when_the_engine_is_idle_also_after_a_start() {
        const ENTITIES: usize = 5_000;
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path());
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
        let storage = &engine.shared.storage;
        merged_after(storage, ENTITIES as u64, async || upsert_all(&engine, 1).await).await;
        // The contents of a snapshot are retained while it is open.
        let snapshot = storage.tree.snapshot();
        let shown = contents(&snapshot);
        merged_after(storage, ENTITIES as u64, async || upsert_all(&engine, 2).await).await;
        let files = || std::fs::read_dir(folder.path().join("tree/tables")).unwrap().count();
        assert!(contents(&snapshot) == shown && files() > 1);
        // Versions and tombstones that the snapshot needs are merged into the lowest level, and are dropped after the
        // snapshot is closed.
        delete_all(&engine).await;
        let has_tombstones = || storage.tree.shape().levels[6].tombstones >= ENTITIES as u64 / 2;
        wait_until("tombstones", has_tombstones, || format!("{:?}", storage.tree.shape())).await;
        upsert_all(&engine, 3).await;
        assert!(contents(&snapshot) == shown);
        drop(snapshot);
        merged_after(storage, ENTITIES as u64, async || upsert_all(&engine, 4).await).await;
        released(storage, folder.path()).await;
        delete_all(&engine).await;
        while (1..1024).contains(&held(storage)) {
            upsert_all(&engine, 5).await;
            delete_all(&engine).await;
        }
        engine.close().await.unwrap();
        drop(engine);
        let engine = open(folder.path());
        merged(&engine.shared.storage, 0).await;
        released(&engine.shared.storage, folder.path()).await;
        engine.close().await.unwrap();
    }
}
