//! Token buckets: how much each account or partition has used recently, in a bounded amount of memory.
//!
//! A bucket holds the amount for one second and refills at the rate of its target. Only the instant at which it will be
//! full again is stored. A full bucket therefore needs no entry, and entries of full buckets are removed.
//!
//! This module must not know what is counted, and must not read a clock.

use model::limits::{THROTTLE_BUCKETS_MAX, THROTTLE_SHARDS, THROTTLE_SWEEP_SECONDS};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;

/// One second, in nanoseconds: the time in which an empty bucket refills.
const SECOND: u64 = 1_000_000_000;
/// The minimum time between two searches for full buckets, in nanoseconds. This prevents a search in every request
/// while all entries are in use.
const SWEEP_PAUSE: u64 = SECOND / 10;

/// Buckets of one size, identified by the number of their owner.
///
/// Two owners with the same number share a bucket. The numbers are hashes with a secret seed, so no client can provoke
/// a collision, and an accidental one is very unlikely.
#[derive(Debug)]
pub(super) struct Buckets {
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
    pub(super) fn new(entities_per_second: u64) -> Self {
        let entity_nanos = SECOND / entities_per_second.clamp(1, SECOND);
        Self { entity_nanos, shards: (0..THROTTLE_SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Takes entities from a bucket. If it has too few, returns false and takes nothing.
    ///
    /// If the bucket is full, more entities can be taken than it holds; the bucket then takes correspondingly longer
    /// to refill.
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

    pub(super) fn refund(&self, owner: u64, entities: u64) {
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
        shard.lock()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().full_at.len()).sum()
    }
}

impl Shard {
    const BUCKETS_MAX: usize = THROTTLE_BUCKETS_MAX / THROTTLE_SHARDS;

    fn set(&mut self, owner: u64, full_at: u64, now: u64) {
        let is_full = self.full_at.len() >= Self::BUCKETS_MAX && !self.full_at.contains_key(&owner);
        let pause = if is_full { SWEEP_PAUSE } else { THROTTLE_SWEEP_SECONDS * SECOND };
        if now.saturating_sub(self.swept_at) >= pause {
            self.swept_at = now;
            self.full_at.retain(|_, full_at| *full_at > now);
            self.full_at.shrink_to(2 * self.full_at.len());
        }
        // While all entries are in use, new owners are not counted, so that the entry of no existing owner is dropped.
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
        assert_eq!(taken(begin + 10 * SECOND), 4, "never more than the amount for one second");
        assert!(buckets.take(2, 4, begin), "other owners have their own buckets");
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
        buckets.refund(1, 1);
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
        // The debt of a transaction is not forgiven.
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
        // One second later, all buckets are full, so each shard in use finds room.
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
