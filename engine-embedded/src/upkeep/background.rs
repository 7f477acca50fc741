//! Background threads: one removes the entities of deleted tables, the other syncs at intervals.
//!
//! Invariants:
//!
//! 1. Steps are short, and after each step a thread checks whether the engine is closing.
//! 2. The marker of a deleted table is removed after the table's last entity, so a purge survives a restart.

use crate::disk::layout::{self, TableId};
use crate::disk::storage::Storage;
use crate::state::EmbeddedState;
use engine::parts::monotonic;
use fjall::{PersistMode, Readable};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

const PURGE_STEP_ENTITIES: usize = 1024;

/// Removes the entities of deleted tables: first the tables left over from the previous run, then whenever it is woken.
pub(crate) fn purge(shared: &EmbeddedState, wakes: &Receiver<()>) {
    loop {
        // While the database is closed, the committer is about to reopen it, and wakes the purger afterwards.
        if let Ok(storage) = shared.storage()
            && let Err(error) = purge_marked(shared, &storage)
        {
            tracing::error!(%error, "the entities of a deleted table could not be removed; the purge will be retried");
        }
        if shared.closing.is_cancelled() || wakes.recv().is_err() {
            return;
        }
    }
}

fn purge_marked(shared: &EmbeddedState, storage: &Storage) -> fjall::Result<()> {
    let mut marked = Vec::new();
    for marker in storage.db.snapshot().prefix(&storage.data, layout::PURGE_PREFIX) {
        // Markers without a table ID were rejected when the database was opened.
        marked.extend(layout::decode_purge_key(&marker.key()?));
    }
    for id in marked {
        let mut from = id.to_bytes().to_vec();
        while let Some(next) = {
            if shared.closing.is_cancelled() || storage.retired.is_cancelled() {
                return Ok(());
            }
            #[cfg(test)]
            drop(shared.purges_held.blocking_lock());
            let began = monotonic::now();
            let next = purge_step(storage, id, from)?;
            // Leave half of the time to writers that wait for the journal.
            std::thread::sleep(began.elapsed());
            next
        } {
            from = next;
        }
        let mut batch = storage.db.batch().durability(Some(PersistMode::SyncData));
        batch.remove(&storage.data, layout::purge_key(id));
        batch.commit()?;
    }
    Ok(())
}

/// Returns the key to continue from, or `None` if there are no more entities.
fn purge_step(storage: &Storage, id: TableId, from: Vec<u8>) -> fjall::Result<Option<Vec<u8>>> {
    storage.wait_for_room();
    let mut batch = storage.db.batch();
    let mut last = None;
    for entry in storage.db.snapshot().range(&storage.data, from..id.next().to_bytes().to_vec()) {
        let key = entry.key()?;
        batch.remove(&storage.data, key.clone());
        last = Some(key.to_vec());
        if batch.len() == PURGE_STEP_ENTITIES {
            break;
        }
    }
    let is_last_step = batch.len() < PURGE_STEP_ENTITIES;
    // With the durability `Sync`, everything before the last batch of a journal is synced, and the journal check at
    // startup relies on it. One sync for that many entities is cheap.
    batch.durability(Some(PersistMode::SyncData)).commit()?;
    Ok(if is_last_step { None } else { last })
}

pub(crate) fn sync_at_intervals(shared: &EmbeddedState, interval: Duration, stop: &Receiver<()>) {
    while stop.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        if shared.is_unsynced.swap(false, Ordering::AcqRel)
            && let Ok(storage) = shared.storage()
            && let Err(error) = storage.db.persist(PersistMode::SyncData)
        {
            tracing::error!(%error, "the journal could not be synced; the next write will reopen the database");
        }
    }
}
