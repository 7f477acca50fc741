//! The lists of memtables and files that reads use.
//!
//! The library holds the lock of its lists during five syncs and more, whenever it installs one. Here, a lock is held
//! only to exchange a pointer, so no read waits for a sync. A snapshot keeps the list from which it reads, and the list
//! its memtables and files.

use super::library::List;
use crate::sync::{Mutex, RwLock};
use std::sync::Arc;

pub(super) struct Lists {
    newest: RwLock<Arc<List>>,
    /// The lists that snapshots may still use.
    older: Mutex<Vec<Arc<List>>>,
    /// Held while a list is made, so that it replaces the one from which it was made.
    renewing: Mutex<()>,
}

impl Lists {
    pub(super) fn new(list: List) -> Self {
        Self { newest: RwLock::new(Arc::new(list)), older: Mutex::default(), renewing: Mutex::default() }
    }

    pub(super) fn newest(&self) -> Arc<List> {
        Arc::clone(&self.newest.read())
    }

    /// Returns the newest list, and what `open` returns while no list can replace it.
    pub(super) fn newest_while<T>(&self, open: impl FnOnce() -> T) -> (Arc<List>, T) {
        let newest = self.newest.read();
        let opened = open();
        (Arc::clone(&newest), opened)
    }

    /// Replaces the newest list.
    pub(super) fn renew(&self, renew: impl FnOnce(&List) -> List) {
        let _renewing = self.renewing.lock();
        let next = Arc::new(renew(&self.newest()));
        let last = std::mem::replace(&mut *self.newest.write(), next);
        self.older.lock().push(last);
    }

    /// Drops the older lists that no snapshot uses, with their memtables and with files that were merged. Returns how
    /// many are left. Snapshots leave this to the threads that flush and merge, because it may take long.
    pub(super) fn release(&self) -> usize {
        let mut older = self.older.lock();
        // No new snapshot gets one of these.
        let (used, unused): (Vec<_>, Vec<_>) = older.drain(..).partition(|list| Arc::strong_count(list) > 1);
        let left = used.len();
        *older = used;
        drop(older);
        drop(unused);
        left
    }

    /// Returns the older lists that are left.
    pub(super) fn older(&self) -> Vec<Arc<List>> {
        self.older.lock().clone()
    }
}
