//! Looks up the keys of a transaction together.
//!
//! The library looks up one key at a time: in all memtables, and in the filters of all sorted files. Here, all keys go
//! through one of them before the next. Keys of one transaction lie close together, so one look mostly tells that a
//! memtable has none of them, and what was fetched of a filter for one key is still in the processor's cache for the next.
//!
//! Invariants:
//!
//! 1. The answers are those of the library. Where it is not certain that all memtables are known, it is asked itself.
//! 2. Memtables come before sorted files, and these are listed last: what is written out meanwhile is found there.
//! 3. What is newer comes first, and what is found first decides, be it a deletion.
//!
//! It relies on one writer: what others write meanwhile may be missed. The purger is another one, but what it removes
//! belongs to no table any more.

use super::storage::Storage;
use fjall::{AbstractTree, UserKey, UserValue};
use lsm_tree::table::filter::standard_bloom::Builder as FilterBuilder;
use lsm_tree::{InternalValue, Memtable, MemtableId, SeqNo, ValueType};
use std::sync::{Arc, Weak};

/// Fewer keys are left to the library.
const KEYS_MIN: usize = 4;

/// The latest value of each key, in their order.
pub(super) fn find(storage: &Storage, keys: &[&UserKey]) -> fjall::Result<Vec<Option<UserValue>>> {
    let memtables = if keys.len() < KEYS_MIN { None } else { storage.memtables().list(&storage.data.tree) };
    match memtables {
        Some(memtables) => find_together(storage, &memtables, keys),
        None => keys.iter().map(|key| storage.data.get(key)).collect(),
    }
}

/// A key that is looked up.
struct Sought<'k> {
    key: &'k [u8],
    hash: u64,
    /// The newest entry, which may say that the key was removed.
    found: Option<InternalValue>,
}

/// Memtables are listed from the newest.
fn find_together(
    storage: &Storage,
    memtables: &[Arc<Memtable>],
    keys: &[&UserKey],
) -> fjall::Result<Vec<Option<UserValue>>> {
    let mut sought: Vec<_> =
        keys.iter().map(|key| Sought { key, hash: FilterBuilder::get_hash(key), found: None }).collect();
    let (lowest, highest) = (keys.iter().min(), keys.iter().max());
    for memtable in memtables {
        if lowest.zip(highest).is_some_and(|(lowest, highest)| has_any(memtable, lowest, highest)) {
            for sought in sought.iter_mut().filter(|sought| sought.found.is_none()) {
                sought.found = memtable.get(sought.key, SeqNo::MAX);
            }
        }
    }
    let version = storage.data.tree.current_version();
    for run in version.iter_levels().flat_map(|level| level.iter()) {
        for sought in sought.iter_mut().filter(|sought| sought.found.is_none()) {
            if let Some(file) = run.get_for_key(sought.key) {
                sought.found = file.get(sought.key, SeqNo::MAX, sought.hash)?;
            }
        }
    }
    let value = |sought: Sought<'_>| sought.found.filter(|entry| !entry.is_tombstone()).map(|entry| entry.value);
    Ok(sought.into_iter().map(value).collect())
}

/// Whether a memtable has an entry between two keys or at one of them.
fn has_any(memtable: &Memtable, lowest: &UserKey, highest: &UserKey) -> bool {
    // The newest entry of a key comes first.
    let from = InternalValue::from_components(lowest.clone(), [], SeqNo::MAX, ValueType::Value).key;
    memtable.items.range(from..).next().is_some_and(|entry| entry.key().user_key <= *highest)
}

/// The memtables of the library, which shows only the one that is being filled. They are not kept from being dropped once
/// they are written out.
pub(super) struct Memtables {
    active_id: MemtableId,
    active: Weak<Memtable>,
    /// Those that were filled before it, without a gap, from the oldest.
    filled: Vec<Weak<Memtable>>,
}

impl Memtables {
    /// Those of a database that was just opened, of which only the one that will be filled next is known.
    pub(super) fn new(tree: &impl AbstractTree) -> Self {
        let active = tree.active_memtable();
        Self { active_id: active.id(), active: Arc::downgrade(&active), filled: Vec::new() }
    }

    /// All that may hold what is in no sorted file, from the newest; `None` if one of them is not known.
    fn list(&mut self, tree: &impl AbstractTree) -> Option<Vec<Arc<Memtable>>> {
        let active = tree.active_memtable();
        if active.id() != self.active_id {
            let filled = std::mem::replace(&mut self.active, Arc::downgrade(&active));
            let follows = active.id() == self.active_id + 1;
            self.active_id = active.id();
            if follows {
                self.filled.push(filled);
            } else {
                self.filled.clear();
            }
        }
        // If one is filled in between, this counts it, too, and an older one is listed for nothing.
        let waiting = tree.sealed_memtable_count();
        let written_out = self.filled.len().checked_sub(waiting)?;
        self.filled.drain(..written_out);
        // They are written out from the oldest on, so if one was dropped, what is older is in sorted files, too. It must not be
        // listed even if somebody still holds it: it would come before the newer one, which is now in a file.
        let filled = self.filled.iter().rev().map_while(Weak::upgrade);
        Some(std::iter::once(active).chain(filled).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::Folder;
    use super::super::preflight::CutOff;
    use super::super::storage::OpenSettings;
    use super::*;
    use proptest::prelude::*;
    use tempfile::TempDir;

    #[derive(Debug, Clone)]
    enum Step {
        /// Writes keys, and removes those that are marked, in one batch.
        Write(Vec<(u8, bool)>),
        /// Fills no more into the memtable, which is written out in the background.
        Seal,
        /// Writes out what is in memory.
        WriteOut,
        Compact,
        /// Closes the database and opens it again.
        Open,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let write = prop::collection::vec((any::<u8>(), prop::bool::weighted(0.2)), 1..40).prop_map(Step::Write);
        let step = prop_oneof![
            6 => write, 3 => Just(Step::Seal), 2 => Just(Step::WriteOut), 1 => Just(Step::Compact), 1 => Just(Step::Open)
        ];
        prop::collection::vec(step, 1..24)
    }

    fn open(folder: &TempDir) -> (Storage, Folder) {
        let mut folder = Folder::take(folder.path()).unwrap();
        let settings = OpenSettings { cache_bytes: 1 << 20, cut_off: CutOff::LastBatch };
        (Storage::open(&mut folder, settings).unwrap(), folder)
    }

    fn key(number: u8) -> UserKey {
        UserKey::from(format!("key {number:03}"))
    }

    fn take(storage: &Storage, step: &Step, value: usize) {
        let data = &storage.data;
        match step {
            Step::Write(keys) => {
                let mut batch = storage.db.batch();
                for (number, is_removed) in keys {
                    match is_removed {
                        true => batch.remove(data, key(*number)),
                        false => batch.insert(data, key(*number), value.to_string()),
                    }
                }
                batch.commit().unwrap();
            }
            Step::Seal => drop(data.rotate_memtable().unwrap()),
            Step::WriteOut => data.rotate_memtable_and_wait().unwrap(),
            Step::Compact => data.major_compact().unwrap(),
            Step::Open => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn many_keys_are_found_as_each_alone(steps in steps(), wanted in prop::collection::vec(any::<u8>(), 0..60)) {
            let folder = tempfile::tempdir().unwrap();
            let mut opened = open(&folder);
            let few: Vec<_> = wanted.iter().map(|number| key(*number)).collect();
            let all: Vec<_> = (0..=u8::MAX).map(key).collect();
            for (value, step) in steps.iter().enumerate() {
                if matches!(step, Step::Open) {
                    drop(opened);
                    opened = open(&folder);
                }
                let storage = &opened.0;
                take(storage, step, value);
                for keys in [&few, &all] {
                    let found = find(storage, &keys.iter().collect::<Vec<_>>()).unwrap();
                    let alone: Vec<_> = keys.iter().map(|key| storage.data.get(key).unwrap()).collect();
                    prop_assert_eq!(found, alone);
                }
            }
        }
    }

    /// Writes a key and fills no more into the memtable, which stays until it is written out by hand.
    fn fill(storage: &Storage, value: usize) {
        take(storage, &Step::Write(vec![(1, false)]), value);
        storage.data.tree.rotate_memtable().unwrap();
    }

    fn write_out(storage: &Storage) {
        let tree = &storage.data.tree;
        tree.flush(&tree.get_flush_lock(), 0).unwrap();
    }

    fn value(storage: &Storage) -> UserValue {
        let mut found = find(storage, &[&key(1); KEYS_MIN]).unwrap();
        found.pop().flatten().unwrap()
    }

    #[test]
    fn memtables_are_known_that_were_looked_at_while_they_were_filled() {
        let folder = tempfile::tempdir().unwrap();
        let (storage, _folder) = open(&folder);
        let known = || storage.memtables().list(&storage.data.tree).map(|memtables| memtables.len());
        assert_eq!(known(), Some(1), "the database is new");
        for waiting in 1..5 {
            fill(&storage, waiting);
            assert_eq!(known(), Some(1 + waiting));
        }
        write_out(&storage);
        assert_eq!(known(), Some(1));
        // Two are filled between two looks, and the first of them is not seen.
        fill(&storage, 5);
        fill(&storage, 6);
        assert_eq!(known(), None);
        assert_eq!(value(&storage), "6");
        fill(&storage, 7);
        assert_eq!(known(), None, "the first is still not written out");
        write_out(&storage);
        assert_eq!(known(), Some(1));
        assert_eq!(value(&storage), "7");
    }

    #[test]
    fn a_memtable_that_is_held_after_newer_ones_were_written_out_is_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let (storage, _folder) = open(&folder);
        // As a compaction does for as long as it runs.
        let _held = storage.data.tree.active_memtable();
        for version in ["1", "2"] {
            fill(&storage, version.parse().unwrap());
            assert_eq!(value(&storage), version);
        }
        write_out(&storage);
        // The library forgets what it had before.
        storage.data.tree.get_version_history_lock().maintenance(storage.data.path(), u64::MAX).unwrap();
        take(&storage, &Step::Write(vec![(2, false)]), 3);
        storage.data.tree.rotate_memtable().unwrap();
        assert_eq!(value(&storage), "2");
    }
}
