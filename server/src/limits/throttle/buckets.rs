//! How much each account or partition has taken lately, in a bounded amount of memory.
//!
//! A bucket holds what may be taken in one second, and fills at the rate of its target. Only the instant at which it will be
//! full again is stored, so a full bucket needs no entry, and its entry is removed.
//!
//! This module must not know what is counted, nor read a clock.

use model::limits::{THROTTLE_BUCKETS_MAX, THROTTLE_SHARDS, THROTTLE_SWEEP_SECONDS};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A second, in nanoseconds: what an empty bucket takes to fill.
const SECOND: u64 = 1_000_000_000;
/// The shortest time between two searches for full buckets, in nanoseconds. While all entries are in use, not every request
/// may search.
const SWEEP_PAUSE: u64 = SECOND / 10;

/// Buckets of one size, by a number that stands for what each belongs to.
///
/// Two owners with the same number share a bucket. The numbers are hashes with a secret seed, so nobody can cause that, and
/// by chance it is very unlikely.
#[derive(Debug)]
pub(super) struct Buckets {
    /// How long the bucket takes to regain one entity, in nanoseconds.
    entity_nanos: u64,
    shards: Vec<Mutex<Shard>>,
}

#[derive(Debug, Default)]
struct Shard {
    /// When each bucket will be full, in nanoseconds since the start.
    full_at: HashMap<u64, u64>,
    swept_at: u64,
}

impl Buckets {
    /// Buckets that regain this many entities a second.
    pub(super) fn new(entities_per_second: u64) -> Self {
        let entity_nanos = SECOND / entities_per_second.clamp(1, SECOND);
        Self { entity_nanos, shards: (0..THROTTLE_SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Takes entities out of a bucket; `false`, and nothing is taken, if it has too few.
    ///
    /// More than a bucket can hold is taken out of a full one, which then takes longer to fill again.
    pub(super) fn take(&self, owner: u64, entities: u64, now: u64) -> bool {
        let cost = entities.saturating_mul(self.entity_nanos);
        let mut shard = self.shard(owner);
        let filling = shard.full_at.get(&owner).map_or(0, |full_at| full_at.saturating_sub(now));
        if filling.saturating_add(cost.min(SECOND)) > SECOND {
            return false;
        }
        shard.set(owner, now.saturating_add(filling).saturating_add(cost), now);
        true
    }

    /// Gives back what was just taken.
    pub(super) fn give_back(&self, owner: u64, entities: u64) {
        let cost = entities.saturating_mul(self.entity_nanos);
        if let Some(full_at) = self.shard(owner).full_at.get_mut(&owner) {
            *full_at = full_at.saturating_sub(cost);
        }
    }

    /// Takes entities even if the bucket has too few. Its debt never exceeds one second.
    pub(super) fn overdraw(&self, owner: u64, entities: u64, now: u64) {
        let cost = entities.saturating_mul(self.entity_nanos);
        let mut shard = self.shard(owner);
        let full_at = shard.full_at.get(&owner).map_or(now, |full_at| now.max(*full_at));
        let latest = full_at.max(now.saturating_add(2 * SECOND));
        shard.set(owner, full_at.saturating_add(cost).min(latest), now);
    }

    fn shard(&self, owner: u64) -> MutexGuard<'_, Shard> {
        let index = usize::try_from(owner % THROTTLE_SHARDS as u64).unwrap_or_default();
        let shard = self.shards.get(index).expect("there are as many shards as remainders");
        // No change of the map can panic half-way.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().full_at.len()).sum()
    }
}

impl Shard {
    /// Most buckets of one shard.
    const BUCKETS_MAX: usize = THROTTLE_BUCKETS_MAX / THROTTLE_SHARDS;

    fn set(&mut self, owner: u64, full_at: u64, now: u64) {
        let is_full = self.full_at.len() >= Self::BUCKETS_MAX && !self.full_at.contains_key(&owner);
        let pause = if is_full { SWEEP_PAUSE } else { THROTTLE_SWEEP_SECONDS * SECOND };
        if now.saturating_sub(self.swept_at) >= pause {
            self.swept_at = now;
            self.full_at.retain(|_, full_at| *full_at > now);
            self.full_at.shrink_to(2 * self.full_at.len());
        }
        // While all entries are in use, a new owner is not counted, rather than another one forgotten.
        if !is_full || self.full_at.len() < Self::BUCKETS_MAX {
            self.full_at.insert(owner, full_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_taken_at_once_and_then_the_target_holds() {
        let buckets = Buckets::new(4);
        let begin = 17 * SECOND;
        let taken = |now| (0..20).filter(|_| buckets.take(1, 1, now)).count();
        assert_eq!(taken(begin), 4);
        assert_eq!(taken(begin + SECOND / 4), 1);
        assert_eq!(taken(begin + SECOND / 4), 0);
        assert_eq!(taken(begin + 3 * SECOND / 4), 2);
        assert_eq!(taken(begin + 10 * SECOND), 4, "never more than a second of it");
        assert!(buckets.take(2, 4, begin), "others have buckets of their own");
    }

    #[test]
    fn what_is_larger_than_the_bucket_waits_for_it_to_be_full_and_is_paid_for() {
        let buckets = Buckets::new(10);
        assert!(buckets.take(1, 100, 0), "a transaction of 100 is possible at any target");
        assert!(!buckets.take(1, 1, 9 * SECOND));
        assert!(buckets.take(1, 1, 9 * SECOND + SECOND / 10));
        assert!(!buckets.take(1, 100, 10 * SECOND), "not quite full");
        assert!(buckets.take(1, 100, 11 * SECOND));
    }

    #[test]
    fn what_is_refused_takes_nothing_and_what_is_given_back_is_there_again() {
        let buckets = Buckets::new(2);
        assert!(buckets.take(1, 1, 0));
        for _ in 0..10 {
            assert!(!buckets.take(1, 2, 0));
        }
        assert!(buckets.take(1, 1, 0));
        buckets.give_back(1, 1);
        assert!(buckets.take(1, 1, 0));
        assert!(!buckets.take(1, 1, 0));
    }

    #[test]
    fn a_bucket_is_overdrawn_by_a_second_at_most() {
        let buckets = Buckets::new(10);
        buckets.overdraw(1, 1_000_000, 0);
        assert!(!buckets.take(1, 1, SECOND));
        assert!(buckets.take(1, 1, SECOND + SECOND / 10));
        buckets.overdraw(2, 5, 0);
        assert!(buckets.take(2, 5, 0) && !buckets.take(2, 1, 0));
        // What a transaction owes is not forgiven.
        assert!(buckets.take(3, 100, 0));
        buckets.overdraw(3, 1, 0);
        assert!(!buckets.take(3, 1, 9 * SECOND));
    }

    #[test]
    fn buckets_that_are_full_go_and_there_are_never_too_many() {
        let buckets = Buckets::new(1);
        for owner in 0..2 * THROTTLE_BUCKETS_MAX as u64 {
            assert!(buckets.take(owner, 1, 0));
        }
        assert_eq!(buckets.len(), THROTTLE_BUCKETS_MAX);
        assert!(!buckets.take(0, 1, 0), "an owner with a bucket keeps it");
        assert!(buckets.take(u64::MAX, 1, SECOND / 2) && buckets.take(u64::MAX, 1, SECOND / 2), "uncounted");
        // A second later all are full, so each shard that is used finds room.
        let newcomers = 4 * THROTTLE_BUCKETS_MAX as u64;
        for owner in newcomers..newcomers + THROTTLE_SHARDS as u64 {
            assert!(buckets.take(owner, 1, SECOND));
        }
        assert_eq!(buckets.len(), THROTTLE_SHARDS);
        // Full buckets are removed after a while even if there are few.
        assert!(buckets.take(2 * newcomers, 1, SECOND + SECOND / 2));
        assert_eq!(buckets.len(), THROTTLE_SHARDS + 1);
        assert!(buckets.take(0, 1, (2 + THROTTLE_SWEEP_SECONDS) * SECOND));
        assert_eq!(buckets.len(), THROTTLE_SHARDS);
    }
}
