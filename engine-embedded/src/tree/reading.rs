//! Snapshots and reads.

use super::error::TreeError;
use super::library::{Items, List};
use super::registry::Registration;
use super::store::{Key, RESERVED_KEY, Tree, Value};
use crate::sequence::Sequence;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

impl Tree {
    /// Opens a snapshot of the published state.
    pub(crate) fn snapshot(&self) -> Snapshot {
        // A list that is older than the sequence could lack a memtable. The files of a newer one could contain later
        // transactions, for which versions were dropped that the snapshot shows.
        let (list, registration) = self.0.lists.newest_while(|| self.0.registry.open());
        Snapshot { registration, list, tree: self.clone() }
    }

    /// Returns the value of a key in the newest applied state, whether or not it is published. While a transaction is
    /// being applied, some of its items may be missing.
    pub(crate) fn latest(&self, key: &[u8]) -> Result<Option<Value>, TreeError> {
        // This read needs no registration: every list contains the newest version of each key.
        Ok(self.0.lists.newest().get(key, u64::MAX)?)
    }
}

/// The published state at one instant. While a snapshot is open, the files that it needs are not removed.
pub(crate) struct Snapshot {
    registration: Registration,
    list: Arc<List>,
    tree: Tree,
}

impl Snapshot {
    /// Returns the sequence of the last transaction that the snapshot shows.
    pub(crate) fn sequence(&self) -> Sequence {
        self.registration.sequence
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>, TreeError> {
        Ok(self.list.get(key, self.number())?)
    }

    /// Returns an iterator over the items in a range of keys, from both ends. It keeps its own snapshot open.
    pub(crate) fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range {
        let start = match range.start_bound() {
            Bound::Included(key) if key.as_ref() > RESERVED_KEY => Bound::Included(key.as_ref()),
            Bound::Excluded(key) if key.as_ref() > RESERVED_KEY => Bound::Excluded(key.as_ref()),
            Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => Bound::Excluded(RESERVED_KEY),
        };
        let end = range.end_bound().map(AsRef::as_ref);
        let items = self.list.range((start, end), self.number());
        Range { items, _snapshot: self.clone() }
    }

    fn number(&self) -> u64 {
        self.sequence().snapshot_number()
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        let registration = self.tree.0.registry.open_again(&self.registration);
        Self { registration, list: Arc::clone(&self.list), tree: self.tree.clone() }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.tree.0.registry.close(&self.registration);
    }
}

/// An iterator over the items of a snapshot in a range of keys.
pub(crate) struct Range {
    items: Items,
    // Dropped last.
    _snapshot: Snapshot,
}

impl Iterator for Range {
    type Item = Result<(Key, Value), TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.items.next()?.map_err(TreeError::from))
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.items.next_back()?.map_err(TreeError::from))
    }
}
