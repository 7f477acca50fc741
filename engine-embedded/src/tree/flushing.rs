//! Sealing memtables, writing them to sorted files, and releasing what no snapshot needs.

use super::error::TreeError;
use super::library::AbstractTree;
use super::store::{Store, Tree};
use crate::sync::atomic::Ordering;

impl Tree {
    /// Seals the active memtable, so that the next flush writes it to a file. Waits until everything in it is
    /// published. Returns false if the memtable is empty, or if the tree is about to be closed before that.
    pub(crate) fn rotate(&self) -> bool {
        let _flushing = self.0.flushing.lock();
        self.0.seal_memtable()
    }

    /// Writes all sealed memtables to files, and returns whether there were any. After an error, they are still in
    /// memory and readable, and a later call tries again; files that were not completed remain until the tree is
    /// opened again. Waits for a flush that is in progress.
    pub(crate) fn flush(&self) -> Result<bool, TreeError> {
        self.flush_after(|| Ok(()))
    }

    /// Like [`Self::flush`], but first calls `sync`, after it is certain which memtables are written, and writes
    /// nothing if that fails.
    pub(crate) fn flush_after<E: From<TreeError>>(&self, sync: impl FnOnce() -> Result<(), E>) -> Result<bool, E> {
        let store = &*self.0;
        let _flushing = store.flushing.lock();
        if store.is_seal_incomplete() {
            return Ok(false);
        }
        // Memtables are sealed only while `flushing` is held, so the library flushes exactly these.
        let Some(last) = store.sealed.lock().back().copied() else { return Ok(false) };
        let result = sync().and_then(|()| store.flush().map_err(E::from));
        if result.is_ok() {
            store.sealed.lock().clear();
            store.set_persisted(last.last);
            store.flushed_tombstones.store(last.tombstones, Ordering::Relaxed);
        }
        let waiting = store.sealed.lock().len();
        store.room.flush_ended(result.is_err(), waiting, store.lists.newest().uppermost_runs());
        result?;
        store.release_or_warn();
        Ok(true)
    }

    /// Releases memtables that were flushed and files that were merged, as far as no open snapshot needs them. Flushes
    /// and merges do the same, so this is needed only after snapshots were closed. Returns whether everything was
    /// released.
    pub(crate) fn release(&self) -> Result<bool, TreeError> {
        self.0.release()
    }
}

impl Store {
    fn flush(&self) -> Result<(), TreeError> {
        let bound = self.registry.oldest().snapshot_number();
        let lock = self.library.get_flush_lock();
        self.library.flush(&lock, bound)?;
        // Only the active memtable is left.
        self.renew_list(|memtables| memtables.first().cloned().into_iter().collect());
        Ok(())
    }

    /// Releases what can be released after a successful flush or merge. A failure does no harm: a later call retries.
    pub(super) fn release_or_warn(&self) {
        if let Err(error) = self.release() {
            tracing::warn!(%error, "merged files could not be removed; the removal will be retried");
        }
    }

    /// Releases the lists that no snapshot uses. The library needs only its newest one, because it reads nothing for
    /// the engine.
    pub(super) fn release(&self) -> Result<bool, TreeError> {
        self.library.get_version_history_lock().maintenance(&self.path, u64::MAX)?;
        Ok(self.lists.release() == 0)
    }
}
