//! Snapshots and reads.

use super::error::TreeError;
use super::library::{AbstractTree, Guard, IterGuardImpl};
use super::registry::Registration;
use super::store::{Key, RESERVED_KEY, Tree, Value};
use crate::sequence::Sequence;
use std::ops::{Bound, RangeBounds};

impl Tree {
    /// Opens a snapshot of the published state.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { registration: self.0.registry.open(), tree: self.clone() }
    }

    /// Returns the value of a key in the newest applied state, whether or not it is published. While a transaction is
    /// being applied, some of its items may be missing.
    pub(crate) fn latest(&self, key: &[u8]) -> Result<Option<Value>, TreeError> {
        // This read needs no registration: the newest list always exists, and contains the newest version of each key.
        Ok(self.0.library.get(key, u64::MAX)?)
    }
}

/// The published state at one instant. While a snapshot is open, the files that it needs are not removed.
pub(crate) struct Snapshot {
    registration: Registration,
    tree: Tree,
}

impl Snapshot {
    /// Returns the sequence of the last transaction that the snapshot shows.
    pub(crate) fn sequence(&self) -> Sequence {
        self.registration.sequence
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>, TreeError> {
        Ok(self.tree.0.library.get(key, self.number())?)
    }

    /// Returns an iterator over the items in a range of keys, from both ends. It keeps its own snapshot open.
    pub(crate) fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range {
        let start = match range.start_bound() {
            Bound::Included(key) if key.as_ref() > RESERVED_KEY => Bound::Included(key.as_ref()),
            Bound::Excluded(key) if key.as_ref() > RESERVED_KEY => Bound::Excluded(key.as_ref()),
            Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => Bound::Excluded(RESERVED_KEY),
        };
        let end = range.end_bound().map(AsRef::as_ref);
        let items = self.tree.0.library.range::<&[u8], _>((start, end), self.number(), None);
        Range { items, _snapshot: self.clone() }
    }

    fn number(&self) -> u64 {
        self.sequence().snapshot_number()
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        Self { registration: self.tree.0.registry.open_again(&self.registration), tree: self.tree.clone() }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.tree.0.registry.close(&self.registration);
    }
}

/// An iterator over the items of a snapshot in a range of keys.
pub(crate) struct Range {
    items: Box<dyn DoubleEndedIterator<Item = IterGuardImpl> + Send>,
    // Dropped last.
    _snapshot: Snapshot,
}

impl Iterator for Range {
    type Item = Result<(Key, Value), TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.items.next()?.into_inner().map_err(TreeError::from))
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.items.next_back()?.into_inner().map_err(TreeError::from))
    }
}
