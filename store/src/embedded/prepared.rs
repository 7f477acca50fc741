//! What of a transaction does not depend on its place in the serial order, done before it takes that place.
//!
//! The caller encodes the keys, looks up what the transaction finds, and builds the values. The committer, whose time all
//! writers share, stamps and writes them. That takes about half of its work off it.
//!
//! Invariants:
//!
//! 1. An outcome that depends on an entity is used only while [`RecentWrites`] shows that nothing was written to that
//!    entity since the look-up. Otherwise the committer looks it up again.
//! 2. A prepared value carries the earliest Timestamp that the entity may get; [`model::record::stamp`] only moves it forward.
//! 3. Preparing reports nothing: what cannot be read is left to the committer.

use super::layout::{self, TableId};
use super::state::EmbeddedState;
use crate::engine::TableKey;
use byteview::ByteView;
use fjall::UserKey;
use model::mutation::Effect;
use model::{DateTime, Mutation, MutationError, RecordView, Transaction, Written};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::atomic::Ordering;

/// How many counters [`RecentWrites`] has: 512 KiB. The more there are, the fewer keys share one.
const RECENT_WRITES: usize = 64 * 1024;

/// A transaction as the committer gets it from the caller.
pub(super) struct Prepared {
    /// The table that had the name. If another one has it by now, nothing of this is of use.
    pub(super) table: TableId,
    /// The last group of which the look-ups are sure to have seen everything.
    pub(super) seen: u64,
    /// One for each mutation.
    pub(super) changes: Vec<Change>,
    /// Empty, with room for the answer.
    pub(super) written: Vec<Written>,
    /// About how much memory the changes take.
    pub(super) bytes: usize,
}

/// What one mutation changes.
pub(super) struct Change {
    pub(super) key: HashedKey,
    /// `None` before the entity was looked up.
    pub(super) outcome: Option<Outcome>,
    /// Whether the outcome depends on the entity that the mutation finds.
    pub(super) depends_on_existing: bool,
}

/// The new value of an entity, not yet stamped, and `None` if the entity is deleted; or why the mutation is refused.
pub(super) type Outcome = Result<Option<ByteView>, MutationError>;

/// The key of an entity in the database, with a hash that is computed once.
#[derive(Debug, Clone)]
pub(super) struct HashedKey {
    pub(super) key: UserKey,
    hash: u64,
}

impl Prepared {
    /// The keys of a transaction, and nothing looked up.
    pub(super) fn keys_only(table: TableId, transaction: &Transaction, hashes: &KeyHashes) -> Self {
        let change = |mutation: &Mutation| Change {
            key: hashes.key(layout::key_of_entity(table, mutation.key())),
            outcome: None,
            depends_on_existing: depends_on_existing(mutation),
        };
        let changes: Vec<_> = transaction.mutations().iter().map(change).collect();
        Self { table, seen: 0, written: Vec::with_capacity(changes.len()), changes, bytes: 0 }
    }

    /// Prepares what can be prepared at this moment; `None` if the table is not to be found, or if there is no memory for it.
    /// `reserve` gets the memory that it takes so far, in bytes, and tells whether it may have that much.
    pub(super) fn new(
        shared: &EmbeddedState,
        table: &TableKey,
        transaction: &Transaction,
        mut reserve: impl FnMut(usize) -> bool,
    ) -> Option<Self> {
        // Before the look-ups: they may see more than this group, never less.
        let seen = shared.visible_group.load(Ordering::Acquire);
        let storage = shared.storage().ok()?;
        let id = shared.catalog().get(table)?.table;
        let mut prepared = Self { seen, ..Self::keys_only(id, transaction, &shared.key_hashes) };
        for (change, mutation) in prepared.changes.iter_mut().zip(transaction.mutations()) {
            let existing = if change.depends_on_existing { storage.data.get(&change.key.key) } else { Ok(None) };
            // The committer meets the same error, and reports it.
            let outcome = existing.map(|existing| outcome(mutation, existing.as_deref()));
            change.outcome = outcome.ok().filter(|outcome| !matches!(outcome, Err(MutationError::DamagedRecord)));
            // A few bytes may be merged into a large entity, so this is not known beforehand.
            prepared.bytes += change.memory_bytes();
            if !reserve(prepared.bytes) {
                return None;
            }
        }
        Some(prepared)
    }
}

impl Change {
    /// About how much memory it takes.
    fn memory_bytes(&self) -> usize {
        let value_bytes = match &self.outcome {
            Some(Ok(Some(value))) => value.len(),
            _ => 0,
        };
        size_of::<Self>() + self.key.key.len() + value_bytes
    }
}

/// Whether the outcome of a mutation depends on the entity that it finds.
///
/// An upsert that replaces needs nothing of it, not even its Timestamp, because that of the transaction is later than every
/// one before it. Not reading it is what keeps blind writes fast.
pub(super) fn depends_on_existing(mutation: &Mutation) -> bool {
    !matches!(mutation, Mutation::InsertOrReplace { .. })
}

/// What a mutation makes of the record of the entity that it finds.
pub(super) fn outcome(mutation: &Mutation, existing: Option<&[u8]>) -> Outcome {
    let existing = existing.map(RecordView::new).transpose().map_err(|_| MutationError::DamagedRecord)?;
    mutation.apply(existing, DateTime::MIN).map(|effect| match effect {
        Effect::Put(record) => Some(ByteView::from(record.as_bytes())),
        Effect::Delete => None,
    })
}

/// Computes the hashes of keys. Clients choose keys, so the hashes are seeded.
#[derive(Debug, Default)]
pub(super) struct KeyHashes(RandomState);

impl KeyHashes {
    pub(super) fn key(&self, key: Vec<u8>) -> HashedKey {
        HashedKey { hash: self.0.hash_one(&key), key: key.into() }
    }
}

impl PartialEq for HashedKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key == other.key
    }
}

impl Eq for HashedKey {}

impl Hash for HashedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A map by keys that does not hash them again.
pub(super) type HashedKeyMap<T> = HashMap<HashedKey, T, BuildHasherDefault<KnownHash>>;

/// Takes the hash of a [`HashedKey`] as it is.
#[derive(Debug, Default)]
pub(super) struct KnownHash(u64);

impl Hasher for KnownHash {
    fn write(&mut self, bytes: &[u8]) {
        // Only `write_u64` is used. This would be slow, and right.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Which group last wrote to an entity. Several keys share a counter, so it may be an earlier group than it says.
pub(super) struct RecentWrites {
    /// The group that is being made up, counted from 1 on.
    group: u64,
    groups: Box<[u64]>,
}

impl RecentWrites {
    /// Before the first group.
    pub(super) fn new() -> Self {
        Self { group: 0, groups: vec![0; RECENT_WRITES].into_boxed_slice() }
    }

    /// Begins the next group, and returns its number. A number is not used again, even if its group fails.
    pub(super) fn begin_group(&mut self) -> u64 {
        self.group += 1;
        self.group
    }

    /// Notes that the current group writes to an entity, whether or not that succeeds.
    pub(super) fn note(&mut self, key: &HashedKey) {
        let group = self.group;
        if let Some(last) = self.groups.get_mut(counter(key)) {
            *last = group;
        }
    }

    /// Notes that every entity may have changed, because the database was opened again: with a durability that syncs later,
    /// what was visible before may be lost.
    pub(super) fn note_all(&mut self) {
        let group = self.begin_group();
        self.groups.fill(group);
    }

    /// Whether nothing was written to an entity since a group became visible.
    pub(super) fn is_unchanged_since(&self, seen: u64, key: &HashedKey) -> bool {
        self.groups.get(counter(key)).is_some_and(|last| *last <= seen)
    }

    /// Whether the current group may have written to an entity.
    pub(super) fn is_of_current_group(&self, key: &HashedKey) -> bool {
        self.groups.get(counter(key)) == Some(&self.group)
    }
}

/// The counter of a key.
fn counter(key: &HashedKey) -> usize {
    usize::try_from(key.hash % RECENT_WRITES as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(hash: u64) -> HashedKey {
        HashedKey { key: UserKey::from(hash.to_be_bytes()), hash }
    }

    #[test]
    fn writes_are_known_for_as_long_as_someone_may_not_have_seen_them() {
        let mut recent = RecentWrites::new();
        let (written, shares_its_counter, other) = (key(1), key(1 + RECENT_WRITES as u64), key(2));
        assert!(recent.is_unchanged_since(0, &written));
        let first = recent.begin_group();
        recent.note(&written);
        assert!(recent.is_of_current_group(&written) && !recent.is_unchanged_since(first - 1, &written));
        assert!(!recent.is_unchanged_since(first - 1, &shares_its_counter), "it cannot be told apart");
        assert!(recent.is_unchanged_since(first - 1, &other) && !recent.is_of_current_group(&other));
        let second = recent.begin_group();
        assert!(!recent.is_of_current_group(&written) && recent.is_unchanged_since(first, &written));
        recent.note(&other);
        assert!(!recent.is_unchanged_since(first, &other) && recent.is_unchanged_since(second, &other));
        recent.note_all();
        assert!(!recent.is_unchanged_since(second, &other) && !recent.is_unchanged_since(second, &key(3)));
        let third = recent.begin_group();
        assert!(recent.is_unchanged_since(third, &other) && !recent.is_of_current_group(&other));
    }

    #[test]
    fn keys_with_one_hash_are_told_apart() {
        let of = |bytes: [u8; 1]| HashedKey { key: UserKey::from(bytes), hash: 7 };
        let mut map = HashedKeyMap::default();
        map.insert(of([1]), 1);
        map.insert(of([2]), 2);
        assert_eq!((map.get(&of([1])), map.get(&of([2])), map.get(&of([3]))), (Some(&1), Some(&2), None));
        let hashes = KeyHashes::default();
        assert_eq!(hashes.key(vec![1, 2]), hashes.key(vec![1, 2]));
    }
}
