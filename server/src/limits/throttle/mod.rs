//! The scalability targets of the real service. Requests beyond them are refused as "server busy".
//!
//! Each entity that is written, deleted, or examined by a query is counted (`docs/throttling.md`). An entity that is
//! written or read by its keys counts once for each KiB or part of a KiB, so that large entities are limited, too. Each
//! server counts only its own requests, even if several share a database.
//!
//! Invariants:
//!
//! 1. A refused request has done nothing and is not counted.
//! 2. Nothing waits here: a lock is held only for one map lookup.

mod buckets;

use crate::clock;
use crate::failure::Failure;
use buckets::Buckets;
use engine::TableKey;
use model::key::encode_ordinal;
use model::limits::{
    ACCOUNT_ENTITIES_PER_SECOND_DEFAULT, PARTITION_ENTITIES_PER_SECOND_DEFAULT, THROTTLE_ENTITY_BYTES,
};
use model::{AccountName, EntityKey, KeyRange, Mutation, RecordBuilder};
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;
use wire::{ErrorCode, ServiceError};

/// The maximum number of entities served per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Targets {
    /// For each account, 1 to `THROTTLE_TARGET_MAX`.
    pub account_entities_per_second: u64,
    /// For each partition, 1 to `THROTTLE_TARGET_MAX`.
    pub partition_entities_per_second: u64,
}

impl Targets {
    /// The published targets of the service.
    pub const SERVICE: Self = Self {
        account_entities_per_second: ACCOUNT_ENTITIES_PER_SECOND_DEFAULT,
        partition_entities_per_second: PARTITION_ENTITIES_PER_SECOND_DEFAULT,
    };
}

#[derive(Debug)]
pub(crate) struct Throttle {
    accounts: Buckets,
    partitions: Buckets,
    seed: RandomState,
    started: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ThrottleKeys {
    account: u64,
    /// `None` if the request is not limited to one partition.
    partition: Option<u64>,
}

/// An admitted read, until it is known how many entities it examined.
#[derive(Debug)]
#[must_use]
pub(crate) struct AdmittedRead<'a> {
    throttle: &'a Throttle,
    keys: ThrottleKeys,
}

impl Throttle {
    pub(crate) fn new(targets: Targets, started: Instant) -> Self {
        Self {
            accounts: Buckets::new(targets.account_entities_per_second),
            partitions: Buckets::new(targets.partition_entities_per_second),
            seed: RandomState::new(),
            started,
        }
    }

    /// Returns the buckets of an account and, optionally, of a table's partition, given by its encoded key.
    fn keys(&self, account: &AccountName, partition: Option<(&TableKey, &[u8])>) -> ThrottleKeys {
        let partition = partition.map(|(table, key)| self.seed.hash_one((&table.account, table.name.folded(), key)));
        ThrottleKeys { account: self.seed.hash_one(account), partition }
    }

    fn admit(&self, keys: ThrottleKeys, entities: u64, now: Instant) -> Result<(), Failure> {
        let now = self.nanos(now);
        if !self.accounts.take(keys.account, entities, now) {
            return Err(account_is_busy());
        }
        if keys.partition.is_some_and(|partition| !self.partitions.take(partition, entities, now)) {
            self.accounts.refund(keys.account, entities);
            return Err(partition_is_busy());
        }
        Ok(())
    }

    fn add(&self, keys: ThrottleKeys, entities: u64, now: Instant) {
        let now = self.nanos(now);
        self.accounts.overdraw(keys.account, entities, now);
        if let Some(partition) = keys.partition {
            self.partitions.overdraw(partition, entities, now);
        }
    }

    pub(crate) fn admit_request(&self, account: &AccountName) -> Result<(), Failure> {
        self.admit(self.keys(account, None), 1, clock::instant())
    }

    pub(crate) fn admit_mutations(&self, table: &TableKey, mutations: &[Mutation]) -> Result<(), Failure> {
        let Some(first) = mutations.first() else { return Ok(()) };
        let record_bytes = |mutation: &Mutation| mutation.properties().map_or(0, RecordBuilder::record_bytes);
        let entities = mutations.iter().map(|mutation| entities_of_size(record_bytes(mutation))).sum();
        self.admit(self.entity_keys(table, first.key()), entities, clock::instant())
    }

    /// Counts entities of one partition that were deleted without admission.
    pub(crate) fn count_deletions(&self, table: &TableKey, entity: &EntityKey, entities: u64) {
        self.add(self.entity_keys(table, entity), entities, clock::instant());
    }

    /// Admits the read of one entity, which counts once for now; the rest of its size is added later.
    pub(crate) fn admit_get(&self, table: &TableKey, key: &EntityKey) -> Result<AdmittedRead<'_>, Failure> {
        let keys = self.entity_keys(table, key);
        self.admit(keys, 1, clock::instant())?;
        Ok(AdmittedRead { throttle: self, keys })
    }

    fn entity_keys(&self, table: &TableKey, entity: &EntityKey) -> ThrottleKeys {
        let partition = entity.partition.as_str();
        let mut key = Vec::with_capacity(partition.len());
        encode_ordinal(partition, &mut key);
        self.keys(&table.account, Some((table, &key)))
    }

    /// Admits a query of the given ranges, which counts as one entity for now; the other entities that it examines are
    /// added later.
    pub(crate) fn admit_query(&self, table: &TableKey, ranges: &[KeyRange]) -> Result<AdmittedRead<'_>, Failure> {
        let keys = self.keys(&table.account, common_partition(ranges).map(|key| (table, key)));
        self.admit(keys, 1, clock::instant())?;
        Ok(AdmittedRead { throttle: self, keys })
    }

    /// Admits a query that is not limited to a partition, like [`Self::admit_query`].
    pub(crate) fn admit_scan(&self, account: &AccountName) -> Result<AdmittedRead<'_>, Failure> {
        let keys = self.keys(account, None);
        self.admit(keys, 1, clock::instant())?;
        Ok(AdmittedRead { throttle: self, keys })
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl AdmittedRead<'_> {
    pub(crate) fn count_examined(self, entities: u64) {
        if entities > 1 {
            self.throttle.add(self.keys, entities - 1, clock::instant());
        }
    }

    pub(crate) fn count_record(self, record_bytes: usize) {
        self.count_examined(entities_of_size(record_bytes));
    }
}

fn entities_of_size(record_bytes: usize) -> u64 {
    u64::try_from(record_bytes.div_ceil(THROTTLE_ENTITY_BYTES)).unwrap_or(u64::MAX).max(1)
}

/// Returns the encoded key of the partition that contains all ranges, if there is exactly one.
fn common_partition(ranges: &[KeyRange]) -> Option<&[u8]> {
    let partition = ranges.first()?.partition()?;
    ranges.iter().all(|range| range.partition() == Some(partition)).then_some(partition)
}

/// UNVERIFIED (06 §5): which of the messages belongs to which target.
fn account_is_busy() -> Failure {
    Failure::service(ServiceError::new(ErrorCode::ServerBusy, "Operations per second is over the account limit."))
}

/// UNVERIFIED (06 §5): which of the messages belongs to which target.
fn partition_is_busy() -> Failure {
    Failure::service(ErrorCode::ServerBusy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{EdmValue, KeyText, TableName};
    use std::ops::Bound;
    use std::time::Duration;

    fn account(name: &str) -> AccountName {
        AccountName::new(name).unwrap()
    }

    fn table(name: &str) -> TableKey {
        TableKey { account: account("orchard"), name: TableName::new(name).unwrap() }
    }

    fn message(result: Result<(), Failure>) -> Option<String> {
        result.err().map(|failure| {
            assert_eq!(failure.error.code, ErrorCode::ServerBusy);
            failure.error.message.to_string()
        })
    }

    #[test]
    fn a_partition_and_an_account_have_targets_of_their_own() {
        let started = Instant::now();
        let targets = Targets { account_entities_per_second: 250, partition_entities_per_second: 100 };
        let throttle = Throttle::new(targets, started);
        let at = |milliseconds| started + Duration::from_millis(milliseconds);
        let harvest = table("harvest");
        let keys = |partition: &'static str| throttle.keys(&account("orchard"), Some((&harvest, partition.as_bytes())));
        assert!(throttle.admit(keys("a"), 100, at(0)).is_ok());
        let busy = message(throttle.admit(keys("a"), 1, at(0)));
        assert_eq!(busy.as_deref(), Some("The server is busy."));
        assert!(throttle.admit(keys("b"), 100, at(0)).is_ok());
        // This would be too much if the refusal had cost the account anything.
        assert!(throttle.admit(keys("c"), 50, at(0)).is_ok());
        let busy = message(throttle.admit(keys("d"), 1, at(0)));
        assert_eq!(busy.as_deref(), Some("Operations per second is over the account limit."));
        assert!(throttle.admit(throttle.keys(&account("other"), None), 250, at(0)).is_ok());
        // In 10 ms, a partition regains one entity, and the account two.
        assert!(throttle.admit(keys("a"), 1, at(10)).is_ok());
        assert!(message(throttle.admit(keys("a"), 1, at(10))).is_some());
        assert!(throttle.admit(keys("d"), 1, at(10)).is_ok());
        assert!(message(throttle.admit(keys("d"), 1, at(10))).is_some());
    }

    #[test]
    fn what_a_query_examined_counts_afterwards() {
        let started = Instant::now();
        let targets = Targets { account_entities_per_second: 1000, partition_entities_per_second: 100 };
        let throttle = Throttle::new(targets, started);
        let harvest = table("harvest");
        let keys = throttle.keys(&account("orchard"), Some((&harvest, b"a")));
        assert!(throttle.admit(keys, 1, started).is_ok());
        throttle.add(keys, 119, started);
        assert!(message(throttle.admit(keys, 1, started + Duration::from_millis(200))).is_some());
        assert!(throttle.admit(keys, 1, started + Duration::from_millis(210)).is_ok());
        let other = throttle.keys(&account("orchard"), Some((&harvest, b"b")));
        assert!(throttle.admit(other, 100, started).is_ok(), "the account has enough");
    }

    #[test]
    fn large_entities_count_by_their_size() {
        for (bytes, entities) in [(0, 1), (1, 1), (1024, 1), (1025, 2), (1 << 20, 1024)] {
            assert_eq!(entities_of_size(bytes), entities, "{bytes}");
        }
        let targets = Targets { account_entities_per_second: 1_000_000, partition_entities_per_second: 100 };
        let throttle = Throttle::new(targets, Instant::now());
        let harvest = table("harvest");
        let mutation = |partition, bytes: usize| {
            let mut properties = RecordBuilder::default();
            properties.push("Text", EdmValue::String(&"x".repeat(bytes)));
            let [partition, row] = [partition, "1"].map(|key| KeyText::new(key).unwrap());
            Mutation::InsertOrReplace { key: EntityKey { partition, row }, properties }
        };
        let admit = |partition, bytes| message(throttle.admit_mutations(&harvest, &[mutation(partition, bytes)]));
        assert_eq!(admit("a", 1000 * 1024), None, "a full bucket admits everything");
        assert!(admit("a", 1).is_some(), "ten seconds are owed");
        assert_eq!(admit("b", 1), None);
        let key = mutation("c", 0).key().clone();
        throttle.admit_get(&harvest, &key).unwrap().count_record(400 * 1024);
        assert!(message(throttle.admit_get(&harvest, &key).map(|_| ())).is_some());
    }

    #[test]
    fn the_case_of_a_table_does_not_matter_and_the_table_does() {
        let targets = Targets { account_entities_per_second: 1, partition_entities_per_second: 1 };
        let throttle = Throttle::new(targets, Instant::now());
        let keys = |name: &str| throttle.keys(&account("orchard"), Some((&table(name), b"a")));
        assert_eq!(keys("harvest"), keys("HARVEST"));
        assert_ne!(keys("harvest").partition, keys("harvest2").partition);
    }

    #[test]
    fn ranges_of_one_partition_count_against_it() {
        let rows = |partition, row| KeyRange::rows(partition, Bound::Included(row), Bound::Included(row));
        assert_eq!(common_partition(&[rows("a", "1"), rows("a", "2")]), Some(&b"a"[..]));
        assert_eq!(common_partition(&[rows("a", "1"), rows("b", "1")]), None);
        assert_eq!(common_partition(&[KeyRange::all()]), None);
        assert_eq!(common_partition(&[]), None);
    }
}
