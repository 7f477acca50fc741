//! The part of a transaction's work that does not depend on its position in the serial order, and is done before that
//! position is known.
//!
//! The caller encodes the keys, looks up the existing entities, and builds the new values. The committer, whose time
//! all writers share, only stamps and writes these values. This division removes about half of the committer's work.
//!
//! Invariants:
//!
//! 1. An outcome that depends on an entity is used only if [`RecentWrites`] shows that the entity has not been written
//!    since the lookup. Otherwise, the committer looks it up again.
//! 2. A prepared value has the earliest Timestamp that the entity may get; [`model::record::stamp`] only moves it
//!    forward.
//! 3. An outcome for an entity that expires, or has expired, is used only if that is the same when the committer stamps
//!    the transaction, and the retention of the table has not changed.
//! 4. Preparation reports no errors: it leaves an entity that cannot be read to the committer.

use crate::disk::layout::{self, StoredTable};
use crate::disk::payload;
use crate::hashed_key::{HashedKey, KeyHashes};
use crate::log::group::EncodedTransaction;
use crate::state::EmbeddedState;
use crate::sync::atomic::Ordering;
use crate::tree::Key;
use byteview::ByteView;
use engine::TableKey;
use engine::parts::index;
use model::mutation::Effect;
use model::{DateTime, Expiry, Mutation, MutationError, MutationResult, RecordView, Retention, Transaction};

/// The number of counters in [`RecentWrites`], which take 512 KiB in total. With more counters, fewer keys would share
/// one.
const RECENT_WRITES: usize = 64 * 1024;

pub(crate) struct Submitted {
    pub(crate) table: TableKey,
    pub(crate) transaction: Transaction,
}

pub(crate) struct Prepared {
    /// The table that had the name during preparation, and its indexes. If they are different now, the preparation is
    /// unusable.
    pub(crate) table: StoredTable,
    /// The retention of the table during preparation. If it has changed, the preparation is unusable, too.
    pub(crate) retention: Option<Retention>,
    /// The last group whose writes are guaranteed to be visible to the lookups.
    pub(crate) seen: u64,
    pub(crate) changes: Vec<Change>,
    pub(crate) written: Vec<MutationResult>,
    /// The payload for the log, if every outcome is a change.
    pub(crate) encoded: Option<EncodedTransaction>,
    pub(crate) bytes: usize,
}

pub(crate) struct Change {
    pub(crate) key: HashedKey,
    /// `None` until the entity has been looked up.
    pub(crate) outcome: Option<Outcome>,
    /// The entries of indexes that are added (true) or removed, if the outcome is a change.
    pub(crate) entries: Vec<(Key, bool)>,
    /// Whether the outcome or the entries depend on the existing entity.
    ///
    /// Without indexes, an Insert Or Replace depends on nothing, not even on the existing Timestamp, because the
    /// transaction's Timestamp is later than all earlier ones. Skipping the lookup keeps unconditional writes fast.
    pub(crate) depends_on_existing: bool,
    /// The expiry of the existing entity, and whether the outcome assumes that the entity is visible. `None` if it
    /// never expires.
    pub(crate) assumed: Option<(DateTime, bool)>,
}

/// The new value of an entity, not yet stamped; `None` if the entity is deleted. An error is the reason why the
/// mutation is refused.
pub(crate) type Outcome = Result<Option<ByteView>, MutationError>;

impl Prepared {
    /// Encodes the keys of a transaction without any lookups.
    pub(crate) fn keys_only(
        table: StoredTable,
        retention: Option<Retention>,
        transaction: &Transaction,
        hashes: &KeyHashes,
    ) -> Self {
        let has_indexes = !table.indexes().is_empty();
        let change = |mutation: &Mutation| Change {
            key: hashes.key(layout::key_of_entity(table.id, mutation.key())),
            outcome: None,
            entries: Vec::new(),
            depends_on_existing: has_indexes || mutation.expectation().depends_on_entity(),
            assumed: None,
        };
        let changes: Vec<_> = transaction.mutations().iter().map(change).collect();
        let written = Vec::with_capacity(changes.len());
        Self { table, retention, seen: 0, written, changes, encoded: None, bytes: 0 }
    }

    /// Returns whether nothing about the table has changed since the preparation that matters to it.
    pub(crate) fn is_for(&self, table: &StoredTable, retention: Option<&Retention>) -> bool {
        self.table.is_same(table) && self.retention.as_ref() == retention
    }

    /// Prepares as much as possible at this moment. Returns `None` if the table does not exist or the preparation was
    /// stopped. After each mutation, `may_continue` receives the memory used so far, in bytes.
    pub(crate) fn new(
        shared: &EmbeddedState,
        table: &TableKey,
        transaction: &Transaction,
        mut may_continue: impl FnMut(usize) -> bool,
    ) -> Option<Self> {
        // Read the group before the lookups: they may then see more than this group's writes, but never less.
        let seen = shared.visible_group.load(Ordering::Acquire);
        let (table, retention) = {
            let catalog = shared.catalog.read();
            let listed = catalog.get(table)?;
            (listed.table.clone(), listed.settings.retention.clone())
        };
        let expiry = shared.expiry(retention.as_ref(), transaction.visible());
        let mut prepared = Self { seen, ..Self::keys_only(table, retention, transaction, &shared.key_hashes) };
        let latest = |key: &[u8]| shared.storage.tree.latest(key);
        for (change, mutation) in prepared.changes.iter_mut().zip(transaction.mutations()) {
            let read = || latest(&change.key.key);
            let existing = if change.depends_on_existing { shared.timed(read) } else { Ok(None) };
            // The committer encounters the same error and reports it.
            if let Ok(existing) = existing {
                change.decide(&prepared.table, mutation, existing.as_deref(), &expiry);
                if matches!(change.outcome, Some(Err(MutationError::DamagedRecord))) {
                    change.outcome = None;
                }
            }
            // A few bytes may be merged into a large entity, so the size is not known before the lookup.
            prepared.bytes += change.memory_bytes();
            if !may_continue(prepared.bytes) {
                return None;
            }
        }
        if prepared.changes.iter().all(|change| matches!(change.outcome, Some(Ok(_)))) {
            prepared.encoded = Some(encode(&prepared.changes));
        }
        Some(prepared)
    }
}

impl Change {
    /// Determines the outcome of a mutation from the record of the existing entity.
    pub(crate) fn decide(&mut self, table: &StoredTable, mutation: &Mutation, stored: Option<&[u8]>, expiry: &Expiry) {
        let existing = stored.filter(|_| mutation.expectation().depends_on_entity()).map(RecordView::new).transpose();
        let expires = existing.ok().flatten().and_then(|existing| expiry.of(existing));
        self.assumed = expires.map(|expires| (expires, expiry.shows(Some(expires))));
        let outcome = existing.map_err(|_| MutationError::DamagedRecord).and_then(|existing| {
            mutation.apply_at(existing, expiry, DateTime::MIN).map(|effect| match effect {
                Effect::Put(record) => Some(ByteView::from(record.as_bytes())),
                Effect::Delete => None,
            })
        });
        self.entries.clear();
        if let (false, Ok(value)) = (table.indexes().is_empty(), &outcome) {
            let key = layout::key_in_table(&self.key.key).unwrap_or_default();
            for index in table.indexes() {
                // An expired entity still has its entries.
                let change = index::change(&index.property, key, stored, value.as_deref());
                let entries = change.removed.map(|entry| (entry, false)).into_iter();
                let entries = entries.chain(change.added.map(|entry| (entry, true)));
                let full = |(entry, is_added): (Vec<u8>, bool)| (layout::entity_key(index.id, &entry).into(), is_added);
                self.entries.extend(entries.map(full));
            }
        }
        self.outcome = Some(outcome);
    }

    /// Returns whether the existing entity is as visible as the outcome assumes.
    pub(crate) fn is_as_assumed(&self, expiry: &Expiry) -> bool {
        self.assumed.is_none_or(|(expires, is_visible)| expiry.shows(Some(expires)) == is_visible)
    }

    fn memory_bytes(&self) -> usize {
        let value_bytes = self.value().map_or(0, <[u8]>::len);
        // The payload for the log contains a copy.
        let entry_bytes =
            |(key, _): &(Key, bool)| size_of::<(Key, bool)>() + key.len() + payload::operation_bytes(key, 0);
        size_of::<Self>()
            + self.key.key.len()
            + value_bytes
            + payload::operation_bytes(&self.key.key, value_bytes)
            + self.entries.iter().map(entry_bytes).sum::<usize>()
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        match &self.outcome {
            Some(Ok(Some(value))) => Some(value),
            _ => None,
        }
    }
}

/// Encodes changes for the log. All of their outcomes are known, and none is an error.
pub(crate) fn encode(changes: &[Change]) -> EncodedTransaction {
    let entry_bytes = |(key, _): &(Key, bool)| payload::operation_bytes(key, 0);
    let bytes = |change: &Change| {
        let value_bytes = change.value().map_or(0, <[u8]>::len);
        payload::operation_bytes(&change.key.key, value_bytes) + change.entries.iter().map(entry_bytes).sum::<usize>()
    };
    let mut encoded = Vec::with_capacity(changes.iter().map(bytes).sum());
    for change in changes {
        payload::push_entity(&mut encoded, &change.key.key, change.value());
        for (key, is_added) in &change.entries {
            payload::push_entry(&mut encoded, key, *is_added);
        }
    }
    payload::encoded(encoded)
}

/// The group that last wrote to each entity. If several keys share a counter, the counter may show a later group than
/// the group that last wrote to a given key.
pub(crate) struct RecentWrites {
    /// The current group, counted from 1.
    group: u64,
    groups: Box<[u64]>,
}

impl RecentWrites {
    pub(crate) fn new() -> Self {
        Self { group: 0, groups: vec![0; RECENT_WRITES].into_boxed_slice() }
    }

    /// The number is not reused, even if the group fails.
    pub(crate) fn begin_group(&mut self) -> u64 {
        self.group += 1;
        self.group
    }

    /// Records that the current group writes to an entity, whether or not the write succeeds.
    pub(crate) fn record(&mut self, key: &HashedKey) {
        let group = self.group;
        if let Some(last) = self.groups.get_mut(counter(key)) {
            *last = group;
        }
    }

    /// Records that every entity may have changed. After an outage, the committer then looks up again whatever was
    /// prepared before its end.
    pub(crate) fn record_all(&mut self) {
        let group = self.begin_group();
        self.groups.fill(group);
    }

    /// Returns true if an entity has not been written to since the group `seen` became visible.
    pub(crate) fn is_unchanged_since(&self, seen: u64, key: &HashedKey) -> bool {
        self.groups.get(counter(key)).is_some_and(|last| *last <= seen)
    }

    /// Returns whether the current group may have written to an entity.
    pub(crate) fn is_of_current_group(&self, key: &HashedKey) -> bool {
        self.groups.get(counter(key)) == Some(&self.group)
    }
}

fn counter(key: &HashedKey) -> usize {
    usize::try_from(key.hash % RECENT_WRITES as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashed_key::HashedKeyMap;
    use crate::tree::Key;

    fn key(hash: u64) -> HashedKey {
        HashedKey { key: Key::from(hash.to_be_bytes()), hash }
    }

    #[test]
    fn writes_are_known_for_as_long_as_someone_may_not_have_seen_them() {
        let mut recent = RecentWrites::new();
        let (written, shares_its_counter, other) = (key(1), key(1 + RECENT_WRITES as u64), key(2));
        assert!(recent.is_unchanged_since(0, &written));
        let first = recent.begin_group();
        recent.record(&written);
        assert!(recent.is_of_current_group(&written) && !recent.is_unchanged_since(first - 1, &written));
        assert!(
            !recent.is_unchanged_since(first - 1, &shares_its_counter),
            "keys that share a counter cannot be distinguished"
        );
        assert!(recent.is_unchanged_since(first - 1, &other) && !recent.is_of_current_group(&other));
        let second = recent.begin_group();
        assert!(!recent.is_of_current_group(&written) && recent.is_unchanged_since(first, &written));
        recent.record(&other);
        assert!(!recent.is_unchanged_since(first, &other) && recent.is_unchanged_since(second, &other));
        recent.record_all();
        assert!(!recent.is_unchanged_since(second, &other) && !recent.is_unchanged_since(second, &key(3)));
        let third = recent.begin_group();
        assert!(recent.is_unchanged_since(third, &other) && !recent.is_of_current_group(&other));
    }

    #[test]
    fn keys_with_one_hash_are_told_apart() {
        let of = |bytes: [u8; 1]| HashedKey { key: Key::from(bytes), hash: 7 };
        let mut map = HashedKeyMap::default();
        map.insert(of([1]), 1);
        map.insert(of([2]), 2);
        assert_eq!((map.get(&of([1])), map.get(&of([2])), map.get(&of([3]))), (Some(&1), Some(&2), None));
        let hashes = KeyHashes::default();
        assert_eq!(hashes.key(vec![1, 2]), hashes.key(vec![1, 2]));
    }
}
