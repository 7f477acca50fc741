//! Changes that were made but are not in effect yet, in a bounded amount of memory.
//!
//! This module must not know what changes, and must not read a clock.

use model::DateTime;
use model::limits::REHEARSAL_CHANGES_MAX;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Each change takes effect after the same delay.
#[derive(Debug)]
pub(super) struct PendingChanges<K, V> {
    ticks: i64,
    changes: Mutex<Changes<K, V>>,
}

#[derive(Debug)]
struct Changes<K, V> {
    /// The changes of each key, in the order in which they were made.
    by_key: HashMap<K, Vec<Change<V>>>,
    count: usize,
}

#[derive(Debug)]
struct Change<V> {
    made: DateTime,
    /// The value that is in effect until this change takes effect.
    before: V,
}

impl<K: Eq + Hash, V: Clone> PendingChanges<K, V> {
    /// If the delay is zero, changes take effect immediately.
    pub(super) fn new(time: Duration) -> Self {
        let ticks = i64::try_from(time.as_nanos() / 100).unwrap_or(i64::MAX);
        Self { ticks, changes: Mutex::new(Changes { by_key: HashMap::new(), count: 0 }) }
    }

    pub(super) fn add(&self, key: K, before: V, now: DateTime) {
        if self.ticks == 0 {
            return;
        }
        let mut changes = self.changes.lock();
        if changes.count >= REHEARSAL_CHANGES_MAX {
            changes.retain(|change| self.is_pending(change, now));
        }
        if changes.count < REHEARSAL_CHANGES_MAX {
            changes.count += 1;
            changes.by_key.entry(key).or_default().push(Change { made: now, before });
        }
    }

    pub(super) fn effective_before(&self, key: &K, now: DateTime) -> Option<V> {
        if self.ticks == 0 {
            return None;
        }
        let changes = self.changes.lock();
        let pending = changes.by_key.get(key)?.iter().find(|change| self.is_pending(change, now))?;
        Some(pending.before.clone())
    }

    pub(super) fn forget(&self, key: &K) {
        let mut changes = self.changes.lock();
        let gone = changes.by_key.remove(key).map_or(0, |gone| gone.len());
        changes.count -= gone;
    }

    pub(super) fn forget_where(&self, is_gone: impl Fn(&K) -> bool) {
        let mut changes = self.changes.lock();
        changes.by_key.retain(|key, _| !is_gone(key));
        changes.count_again();
    }

    /// Returns true if a change is not in effect yet. A change whose time is in the future was made before the clock
    /// was set back, and is in effect.
    fn is_pending(&self, change: &Change<V>, now: DateTime) -> bool {
        (0..self.ticks).contains(&(now.ticks() - change.made.ticks()))
    }
}

impl<K: Eq + Hash, V> Changes<K, V> {
    fn retain(&mut self, keep: impl Fn(&Change<V>) -> bool) {
        self.by_key.retain(|_, changes| {
            changes.retain(&keep);
            !changes.is_empty()
        });
        self.count_again();
    }

    fn count_again(&mut self) {
        self.count = self.by_key.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime {
        DateTime::from_ticks(1_000_000_000_000 + seconds * 10_000_000).unwrap()
    }

    #[test]
    fn each_change_takes_effect_after_its_own_time() {
        let changes = PendingChanges::new(Duration::from_secs(30));
        changes.add("a", "none", at(0));
        changes.add("a", "first", at(10));
        assert_eq!(changes.effective_before(&"a", at(0)), Some("none"));
        assert_eq!(changes.effective_before(&"a", at(29)), Some("none"));
        assert_eq!(changes.effective_before(&"a", at(30)), Some("first"));
        assert_eq!(changes.effective_before(&"a", at(40)), None);
        assert_eq!(changes.effective_before(&"b", at(0)), None);
        assert_eq!(changes.effective_before(&"a", at(-1)), None, "the clock was set back");
        changes.forget(&"a");
        assert_eq!(changes.effective_before(&"a", at(0)), None);
    }

    #[test]
    fn without_a_time_nothing_is_kept() {
        let changes = PendingChanges::new(Duration::ZERO);
        changes.add("a", (), at(0));
        assert_eq!(changes.effective_before(&"a", at(0)), None);
        assert_eq!(changes.changes.lock().count, 0);
    }

    #[test]
    fn the_changes_of_some_keys_are_forgotten() {
        let changes = PendingChanges::new(Duration::from_secs(30));
        for key in ["a1", "a2", "b1"] {
            changes.add(key, (), at(0));
        }
        changes.forget_where(|key| key.starts_with('a'));
        assert_eq!(["a1", "a2", "b1"].map(|key| changes.effective_before(&key, at(0))), [None, None, Some(())]);
        assert_eq!(changes.changes.lock().count, 1);
    }

    #[test]
    fn there_are_never_too_many() {
        let changes = PendingChanges::new(Duration::from_secs(1));
        for key in 0..REHEARSAL_CHANGES_MAX + 5 {
            changes.add(key, (), at(0));
        }
        assert_eq!(changes.changes.lock().count, REHEARSAL_CHANGES_MAX);
        assert_eq!(changes.effective_before(&REHEARSAL_CHANGES_MAX, at(0)), None, "in effect immediately");
        changes.add(0, (), at(5));
        assert_eq!(changes.changes.lock().count, 1, "changes in effect are removed");
        assert_eq!(changes.effective_before(&0, at(5)), Some(()));
    }
}
