//! Background threads: one removes the entities of deleted tables, one flushes memtables, one prepares segments of the
//! log, and one syncs the log at intervals.
//!
//! Invariants:
//!
//! 1. Steps are short, and after each step a thread checks whether the engine is closing.
//! 2. The marker of a deleted table is removed after the table's last entity, so a purge survives a restart.

use crate::disk::layout::{self, TableId, TableIndex};
use crate::disk::payload::{Operations, Origin};
use crate::disk::space::Disk;
use crate::disk::storage::{Storage, storage_fault};
use crate::disk::storage_error::StorageError;
use crate::log::options::SEGMENT_BYTES;
use crate::state::EmbeddedState;
use crate::upkeep::retention::remove_names;
use crate::writing::committer::Request;
use crate::writing::fair_queue::FairQueue;
use crate::writing::group::{IndexRequest, IndexStep, IndexedEntity};
use engine::parts::turns::Turns;
use engine::parts::{index, monotonic};
use engine::{Fault, TableKey};
use model::AccountName;
use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;
use tokio::sync::oneshot;

/// The time after which a thread that waits for work checks whether it must stop.
const STOP_POLL: Duration = Duration::from_millis(100);
/// The pause after failed work.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause after repeated failures of a flush.
const FAILURE_PAUSE_MAX: Duration = Duration::from_secs(8);
const PURGE_STEP_ENTITIES: usize = 1024;

/// Removes the entities of deleted tables: first the tables left over from the previous run, then whenever it is woken.
pub(crate) fn purge(shared: &EmbeddedState, wakes: &Receiver<()>) {
    // During an outage, the purge fails. The committer wakes the purger afterwards.
    let failure = "the entities of a deleted table could not be removed; the purge will be retried";
    let mut turns = Turns::default();
    work_when_woken(shared, wakes, failure, || purge_some(shared, wakes, &mut turns));
}

/// Works at once, and then whenever it is woken or `work` returns true, until the engine closes. Failed
/// work is repeated after a pause. Only the first of successive failures is logged.
pub(crate) fn work_when_woken<E: Display>(
    shared: &EmbeddedState,
    wakes: &Receiver<()>,
    failure: &str,
    mut work: impl FnMut() -> Result<bool, E>,
) {
    let mut has_failed = false;
    loop {
        let result = work();
        if shared.closing.is_cancelled() {
            return;
        }
        if let Err(error) = &result
            && !has_failed
        {
            tracing::error!(%error, "{failure}");
        }
        has_failed = result.is_err();
        let pause = match result {
            Ok(true) => Duration::ZERO,
            Ok(false) => Duration::MAX,
            Err(_) => FAILURE_PAUSE,
        };
        if wakes.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// Deleted tables take turns, whatever their accounts were. Returns whether there may be more of them.
fn purge_some(
    shared: &EmbeddedState,
    wakes: &Receiver<()>,
    turns: &mut Turns<(), TableId, Vec<u8>>,
) -> Result<bool, StorageError> {
    let storage = &shared.storage;
    if storage.upkeep.archive().is_none() {
        remove_names(shared, |_| true)?;
    }
    turns.update(purge_marks(storage)?.into_iter().map(|id| ((), id, id.to_bytes().to_vec())));
    take_turns(shared, wakes, turns, |(), id, from| {
        #[cfg(test)]
        drop(shared.purges_held.blocking_lock());
        let next = purge_step(storage, *id, from)?;
        if next.is_none() {
            let mut operations = Operations::default();
            operations.delete(layout::purge_key(*id));
            write_purge(storage, operations)?;
        }
        Ok(next)
    })
}

/// Makes steps of the work whose turn it is, until none is left or the thread is woken because there may be more.
/// `step` returns the work that is left. After a failure, the work of the other tables continues. Returns whether the
/// tables must be listed again.
pub(crate) fn take_turns<A: Ord + Clone, T: Ord + Clone, W, E>(
    shared: &EmbeddedState,
    wakes: &Receiver<()>,
    turns: &mut Turns<A, T, W>,
    step: impl Fn(&A, &T, W) -> Result<Option<W>, E>,
) -> Result<bool, E> {
    let mut failed = Ok(());
    while !shared.closing.is_cancelled() {
        if wakes.try_recv().is_ok() {
            return failed.map(|()| true);
        }
        let Some((account, table, work)) = turns.take() else { break };
        let began = monotonic::now();
        match step(&account, &table, work) {
            Ok(Some(work)) => turns.put_back(account, table, work),
            Ok(None) => {}
            Err(error) => failed = Err(error),
        }
        // Leave half of the time to writers that wait for the log or for the committer.
        std::thread::sleep(began.elapsed());
    }
    failed.map(|()| false)
}

/// Returns the IDs of the deleted tables whose entities are not removed yet.
pub(crate) fn purge_marks(storage: &Storage) -> Result<Vec<TableId>, StorageError> {
    let mut marked = Vec::new();
    for marker in storage.tree.snapshot().range(layout::PURGE_PREFIX..layout::PURGE_END) {
        // Markers without a table ID were rejected when the database was opened.
        marked.extend(layout::decode_purge_key(&marker?.0));
    }
    Ok(marked)
}

/// Returns the key to continue from, or `None` if there are no more entities.
fn purge_step(storage: &Storage, id: TableId, from: Vec<u8>) -> Result<Option<Vec<u8>>, StorageError> {
    if !storage.tree.wait_for_large_room() {
        return Err(StorageError::NO_ROOM);
    }
    let mut operations = Operations::default();
    let mut last = None;
    for entry in storage.tree.snapshot().range(from..id.next().to_bytes().to_vec()) {
        let (key, _) = entry?;
        last = Some(key.to_vec());
        operations.delete(key);
        if operations.len() == PURGE_STEP_ENTITIES {
            break;
        }
    }
    let is_last_step = operations.len() < PURGE_STEP_ENTITIES;
    write_purge(storage, operations)?;
    Ok(if is_last_step { None } else { last })
}

fn write_purge(storage: &Storage, operations: Operations) -> Result<(), StorageError> {
    if operations.is_empty() {
        return Ok(());
    }
    storage.write(vec![operations.into_transaction(Origin::Purge)], None, true)
}

/// Flushes each memtable when it is full. After a failure, the pause doubles, because each attempt may leave a file.
pub(crate) fn flush(shared: &EmbeddedState, stop: &Receiver<()>) {
    let tree = &shared.storage.tree;
    let mut pause = FAILURE_PAUSE;
    while stop.try_recv() == Err(TryRecvError::Empty) {
        if !tree.wait_until_full(STOP_POLL) {
            continue;
        }
        if let Err(error) = shared.storage.flush_everything() {
            if pause == FAILURE_PAUSE {
                tracing::error!(%error, "a memtable could not be written to a sorted file; when the next one is full, writes are refused until it can be");
            }
            if stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            pause = FAILURE_PAUSE_MAX.min(2 * pause);
        } else {
            pause = FAILURE_PAUSE;
        }
    }
}

/// Prepares the next segment of the log while the current one is being filled, if the disk has room for it. Also wakes
/// the committer if a write or a sync by another thread has failed, because only the committer continues the log.
pub(crate) fn watch_log(shared: &EmbeddedState, committer: &FairQueue<Request>, disk: &Disk, stop: &Receiver<()>) {
    let must_stop = |pause| stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
    let upkeep = &shared.storage.upkeep;
    let mut is_stopped = false;
    while !is_stopped && !must_stop(STOP_POLL) {
        if upkeep.has_failed() && !shared.counts.is_in_outage.load(Ordering::Relaxed) {
            committer.interrupt();
        }
        if disk.room_bytes(shared.storage.tree.unflushed_bytes()) < SEGMENT_BYTES {
            continue;
        }
        let prepared = upkeep.prepare_next(&mut |pause| {
            is_stopped = must_stop(pause);
            // Writes or a merge may have used the space in the meantime.
            !is_stopped && disk.room_bytes(shared.storage.tree.unflushed_bytes()) > 0
        });
        if let Err(error) = prepared {
            tracing::warn!(%error, "a segment of the log could not be prepared; the next one will grow while it is written");
            is_stopped = must_stop(FAILURE_PAUSE);
        }
    }
}

pub(crate) fn sync_at_intervals(shared: &EmbeddedState, interval: Duration, stop: &Receiver<()>) {
    let mut has_failed = false;
    while stop.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let result = shared.storage.sync();
        if let Err(error) = &result
            && !has_failed
        {
            tracing::error!(%error, "the log could not be synced; it will be continued in another file");
        }
        has_failed = result.is_err();
    }
}

/// The maximum number of entities that a step reads. The committer needs about 0.2 ms for their entries.
const STEP_ENTITIES: usize = 256;
/// The size of the records at which a step ends, in bytes.
const STEP_BYTES: usize = 1024 * 1024;

/// Builds indexes: first those left over from the previous run, then whenever it is woken.
pub(crate) fn build_indexes(shared: &EmbeddedState, committer: &FairQueue<Request>, wakes: &Receiver<()>) {
    let failure = "an index could not be built; the construction will be retried";
    let mut turns = Turns::default();
    work_when_woken(shared, wakes, failure, || build_some(shared, wakes, committer, &mut turns));
}

/// Returns whether there may be more tables to build indexes for.
fn build_some(
    shared: &EmbeddedState,
    wakes: &Receiver<()>,
    committer: &FairQueue<Request>,
    turns: &mut Turns<AccountName, TableId, Build>,
) -> Result<bool, Fault> {
    turns.update(unfinished(shared));
    take_turns(shared, wakes, turns, |_, _, build| {
        #[cfg(test)]
        drop(shared.builds_held.blocking_lock());
        let next = build.step(shared, committer)?;
        if next.is_none() {
            build.send(committer, IndexStep::Finish)?;
        }
        Ok(next.map(|from| Build { from, ..build }))
    })
}

/// Returns the tables with unfinished indexes.
fn unfinished(shared: &EmbeddedState) -> Vec<(AccountName, TableId, Build)> {
    let catalog = shared.catalog.read();
    let build = catalog.iter().filter_map(|(account, listed)| {
        let indexes: Vec<_> = listed.table.indexes().iter().filter(|index| !index.is_ready).cloned().collect();
        if indexes.is_empty() {
            return None;
        }
        let (id, table) = (listed.table.id, TableKey { account: account.clone(), name: listed.name.clone() });
        Some((account.clone(), id, Build { table, id, indexes, from: id.to_bytes().to_vec() }))
    });
    build.collect()
}

/// The construction of the unfinished indexes of a table.
struct Build {
    table: TableKey,
    id: TableId,
    indexes: Vec<TableIndex>,
    /// The key of the first entity that has not been read.
    from: Vec<u8>,
}

impl Build {
    /// Returns the key to continue from, or `None` if there are no more entities.
    fn step(&self, shared: &EmbeddedState, committer: &FairQueue<Request>) -> Result<Option<Vec<u8>>, Fault> {
        // As in a preparation: the snapshot may show more than this group's writes, but never less.
        let seen = shared.visible_group.load(Ordering::Acquire);
        let snapshot = shared.storage.tree.snapshot();
        let (mut entities, mut next, mut bytes) = (Vec::new(), None, 0);
        for (count, entity) in snapshot.range(self.from.clone()..self.id.next().to_bytes().to_vec()).enumerate() {
            let (key, record) = entity.map_err(storage_fault)?;
            if count == STEP_ENTITIES || bytes >= STEP_BYTES {
                next = Some(key.to_vec());
                break;
            }
            bytes += record.len();
            let key_in_table = layout::key_in_table(&key).unwrap_or_default();
            let entry = |index: &TableIndex| {
                let entry = index::entry_of(&index.property, key_in_table, &record)?;
                Some((index.id, layout::entity_key(index.id, &entry).into()))
            };
            let entries: Vec<_> = self.indexes.iter().filter_map(entry).collect();
            // An entity that gets the property later gets its entry from the commit.
            if !entries.is_empty() {
                entities.push(IndexedEntity { key: shared.key_hashes.key(key.to_vec()), entries });
            }
        }
        drop(snapshot);
        if !entities.is_empty() {
            self.send(committer, IndexStep::Add { seen, entities })?;
        }
        Ok(next)
    }

    fn send(&self, committer: &FairQueue<Request>, step: IndexStep) -> Result<(), Fault> {
        let (answer, answered) = oneshot::channel();
        let indexes = self.indexes.iter().map(|index| index.id).collect();
        let request = IndexRequest { table: self.table.clone(), id: self.id, indexes, step, answer };
        committer.push(Request::Index(request)).map_err(|_| Fault::Closed)?;
        answered.blocking_recv().unwrap_or(Err(Fault::Interrupted))
    }
}
