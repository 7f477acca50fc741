//! Entity group transactions: several mutations of one partition that are applied together or not at all.
//!
//! Invariants:
//!
//! 1. A transaction has 1 to 100 mutations of different entities (128 in one dialect), all with one partition key.
//! 2. A transaction that sees expired entities only deletes.
//!
//! This module must not depend on how an engine makes a transaction atomic.

use crate::etag::Condition;
use crate::key::EntityKey;
use crate::limits::{RETURNED_ENTITIES_BYTES_MAX, TRANSACTION_OPERATIONS_MAX, TRANSACTION_RECORD_BYTES_MAX};
use crate::mutation::{Effect, Mutation, MutationError, MutationResult};
use crate::record::RecordView;
use crate::repeated::Combined;
use crate::retention::{Expiry, Visibility};
use crate::{DateTime, Dialect};
use std::collections::HashSet;

/// Mutations of different entities in one partition (05 §1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    mutations: Vec<Mutation>,
    visible: Visibility,
    /// The indexes of the mutations whose records are returned, in ascending order.
    returned: Vec<usize>,
}

/// Decides which results of a transaction contain records.
#[derive(Debug)]
pub struct ReturnedRecords<'t> {
    indexes: &'t [usize],
    bound: ContentBound,
}

/// Bounds the total size of the entities that are returned for a transaction: the first one is always included, and
/// others only while the total is at most [`RETURNED_ENTITIES_BYTES_MAX`].
#[derive(Debug, Default)]
pub struct ContentBound {
    bytes: usize,
}

/// Bounds the total size of the records that a transaction stores.
#[derive(Debug, Default)]
pub struct StoredBound {
    bytes: usize,
}

/// The reason why mutations do not form a transaction. Indexes are zero-based.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionError {
    /// There are no mutations.
    Empty,
    /// There are too many mutations.
    TooMany,
    /// The partition key of the mutation at this index differs from the first mutation's partition key.
    DifferentPartition(usize),
    /// The mutation at this index has the same entity key as an earlier one.
    DuplicateEntity(usize),
}

impl Transaction {
    /// Creates a transaction with one mutation.
    pub fn single(mutation: Mutation) -> Self {
        Self { mutations: vec![mutation], visible: Visibility::Live, returned: Vec::new() }
    }

    /// Checks the rules of a dialect. In one of them, an entity may occur more than once (11 §9); the second value then
    /// tells which operation became part of which mutation.
    ///
    /// UNVERIFIED (11 §9): the number of operations, and operations on one entity that cannot be combined.
    pub fn in_dialect(
        dialect: Dialect,
        mutations: Vec<Mutation>,
    ) -> Result<(Self, Option<Combined>), TransactionError> {
        if dialect == Dialect::Storage {
            return Ok((Self::new(mutations)?, None));
        }
        if mutations.len() > dialect.operations_max() {
            return Err(TransactionError::TooMany);
        }
        let mut combined = Combined::new(mutations).map_err(TransactionError::DuplicateEntity)?;
        let transaction = Self::of_distinct(std::mem::take(&mut combined.mutations));
        let at_origin = |error| match error {
            TransactionError::DifferentPartition(index) => {
                TransactionError::DifferentPartition(combined.first_origin(index))
            }
            other => other,
        };
        Ok((transaction.map_err(at_origin)?, Some(combined)))
    }

    /// Checks the rules of 05 §5.2: the count, and then for each operation its partition and duplicates.
    pub fn new(mutations: Vec<Mutation>) -> Result<Self, TransactionError> {
        if mutations.len() > TRANSACTION_OPERATIONS_MAX {
            return Err(TransactionError::TooMany);
        }
        Self::of_distinct(mutations)
    }

    /// Checks all rules but the count.
    fn of_distinct(mutations: Vec<Mutation>) -> Result<Self, TransactionError> {
        let first = mutations.first().ok_or(TransactionError::Empty)?.key().partition.clone();
        // Ascending row keys, the usual case, are distinct.
        let mut rows = HashSet::new();
        let ascend = mutations.is_sorted_by(|one, next| one.key().row.as_str() < next.key().row.as_str());
        for (index, mutation) in mutations.iter().enumerate() {
            if mutation.key().partition != first {
                return Err(TransactionError::DifferentPartition(index));
            }
            if !ascend && !rows.insert(mutation.key().row.as_str()) {
                return Err(TransactionError::DuplicateEntity(index));
            }
        }
        Ok(Self { mutations, visible: Visibility::Live, returned: Vec::new() })
    }

    /// Asks for the records that the mutations with the given indexes store, within a [`ContentBound`]. The indexes
    /// must be in ascending order.
    #[must_use]
    pub fn returning(self, returned: Vec<usize>) -> Self {
        Self { returned, ..self }
    }

    /// Creates a transaction that deletes entities, each if it still has the given Timestamp.
    pub fn deleting(entities: impl IntoIterator<Item = (EntityKey, DateTime)>) -> Result<Self, TransactionError> {
        let delete = |(key, timestamp)| Mutation::Delete { key, condition: Condition::from_timestamp(timestamp) };
        Self::new(entities.into_iter().map(delete).collect())
    }

    /// Creates a transaction that deletes expired entities, each if it still has the given Timestamp. To such a
    /// transaction, entities that have not expired do not exist.
    pub fn deleting_expired(
        entities: impl IntoIterator<Item = (EntityKey, DateTime)>,
    ) -> Result<Self, TransactionError> {
        let deletions = Self::deleting(entities)?;
        Ok(Self { visible: Visibility::Expired, ..deletions })
    }

    /// Returns which entities the transaction sees.
    pub fn visible(&self) -> Visibility {
        self.visible
    }

    /// Returns the mutations in order.
    pub fn mutations(&self) -> &[Mutation] {
        &self.mutations
    }

    /// Returns the decision for the results of the mutations, which must be asked for in order.
    pub fn returned_records(&self) -> ReturnedRecords<'_> {
        ReturnedRecords { indexes: &self.returned, bound: ContentBound::default() }
    }

    /// Returns the results of the mutations, given their effects.
    pub fn results(&self, effects: &[Effect]) -> Vec<MutationResult> {
        let mut returned = self.returned_records();
        let result = |(index, effect): (usize, &Effect)| match effect {
            Effect::Put(record) if returned.includes(index, record.as_bytes().len()) => {
                MutationResult::Returned(record.clone())
            }
            effect => effect.written(),
        };
        effects.iter().enumerate().map(result).collect()
    }

    /// Applies the mutations in order. `now` is the time of the write. An error contains the index of the first refused
    /// mutation; in that case, nothing changes. `existing` contains, for each mutation, the record bytes of its entity,
    /// even if it has expired.
    pub fn apply<B: AsRef<[u8]>>(
        &self,
        now: DateTime,
        expiry: &Expiry,
        existing: impl IntoIterator<Item = Option<B>>,
    ) -> Result<Vec<Effect>, (usize, MutationError)> {
        let mut existing = existing.into_iter();
        let mut stored = StoredBound::default();
        let effect = |mutation: &Mutation| {
            let bytes = existing.next().expect("each mutation has one");
            let view = bytes.as_ref().map(|bytes| RecordView::new(bytes.as_ref())).transpose();
            let effect = mutation.apply_at(view.map_err(|_| MutationError::DamagedRecord)?, expiry, now)?;
            if let Effect::Put(record) = &effect {
                stored.add(record.as_bytes().len())?;
            }
            Ok::<_, MutationError>(effect)
        };
        let effects = self.mutations.iter().map(effect).enumerate();
        effects.map(|(index, effect)| effect.map_err(|error| (index, error))).collect()
    }
}

impl ReturnedRecords<'_> {
    /// Returns whether the result of a mutation contains its record, which has the given size in bytes.
    pub fn includes(&mut self, index: usize, record_bytes: usize) -> bool {
        self.indexes.binary_search(&index).is_ok() && self.bound.includes(record_bytes)
    }
}

impl StoredBound {
    /// Counts a record that a mutation stores. Fails if the records are too large together.
    pub fn add(&mut self, record_bytes: usize) -> Result<(), MutationError> {
        self.bytes = self.bytes.saturating_add(record_bytes);
        if self.bytes <= TRANSACTION_RECORD_BYTES_MAX { Ok(()) } else { Err(MutationError::EntityTooLarge) }
    }
}

impl ContentBound {
    /// Returns whether an entity is included, which has the given size in bytes.
    pub fn includes(&mut self, entity_bytes: usize) -> bool {
        let bytes = self.bytes.saturating_add(entity_bytes);
        let is_included = self.bytes == 0 || bytes <= RETURNED_ENTITIES_BYTES_MAX;
        if is_included {
            self.bytes = bytes;
        }
        is_included
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EdmValue, EntityLimits, KeyText, RecordBuilder, Retention};

    fn upsert(partition: &str, row: &str) -> Mutation {
        Mutation::InsertOrReplace { key: key(partition, row), properties: RecordBuilder::default() }
    }

    fn key(partition: &str, row: &str) -> EntityKey {
        EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() }
    }

    fn at(ticks: i64) -> DateTime {
        DateTime::from_ticks(ticks).unwrap()
    }

    #[test]
    fn returned_records_are_bounded_but_for_the_first() {
        let large = |row: &str| {
            let mut properties = RecordBuilder::default();
            (0..15).for_each(|n| properties.push(&format!("P{n}"), EdmValue::Binary(&vec![0; 64 * 1024])));
            Mutation::InsertOrReplace { key: key("p", row), properties }
        };
        let kinds = |transaction: Transaction| {
            let absent = vec![None::<&[u8]>; transaction.mutations().len()];
            let effects = transaction.apply(at(5), &Expiry::NEVER, absent);
            let kind = |result: MutationResult| match result {
                MutationResult::Stored(stamp) if stamp == at(5) => 's',
                MutationResult::Returned(record) if record.view().unwrap().timestamp() == at(5) => 'r',
                other => panic!("{other:?}"),
            };
            transaction.results(&effects.unwrap()).into_iter().map(kind).collect::<String>()
        };
        let of = |rows: &[&str]| {
            Transaction::new(rows.iter().map(|row| if row.len() > 1 { large(row) } else { upsert("p", row) }).collect())
        };
        let rows = ["1", "22", "33", "4", "55", "66", "77", "8"];
        assert_eq!(kinds(of(&rows).unwrap()), "ssssssss", "nothing is returned unless asked for");
        assert_eq!(kinds(of(&rows).unwrap().returning(vec![0, 2])), "rsrsssss");
        // Two of the large records fit, and small ones after them do.
        assert_eq!(kinds(of(&rows).unwrap().returning((0..8).collect())), "rrrrsssr");
    }

    #[test]
    fn a_transaction_stores_a_bounded_amount() {
        let mut large = RecordBuilder::within(&EntityLimits::COSMOS, 0);
        large.push("v", EdmValue::Binary(&vec![0; 2 * 1024 * 1024 - 1024]));
        let large = large.finish(at(1));
        let merges = |count: usize| {
            let merge = |row: usize| Mutation::InsertOrMerge {
                key: key("p", &row.to_string()),
                properties: RecordBuilder::within(&EntityLimits::COSMOS, 0),
            };
            Transaction::in_dialect(Dialect::Cosmos, (0..count).map(merge).collect()).unwrap().0
        };
        let apply = |count: usize| {
            let applied = merges(count).apply(at(5), &Expiry::NEVER, vec![Some(large.as_bytes()); count]);
            applied.map(|effects| effects.len())
        };
        assert_eq!((apply(80), apply(81)), (Ok(80), Err((80, MutationError::EntityTooLarge))));
    }

    #[test]
    fn a_dialect_has_its_number_of_operations() {
        let many = |n: usize| (0..n).map(|i| upsert("p", &i.to_string())).collect::<Vec<_>>();
        let count = |dialect, n| Transaction::in_dialect(dialect, many(n)).map(|made| made.0.mutations().len());
        assert_eq!(count(Dialect::Cosmos, 128), Ok(128));
        for (dialect, n) in [(Dialect::Cosmos, 129), (Dialect::Storage, 101)] {
            assert_eq!(count(dialect, n), Err(TransactionError::TooMany));
        }
    }

    #[test]
    fn the_rules_of_a_transaction() {
        assert_eq!(Transaction::new(vec![]), Err(TransactionError::Empty));
        assert_eq!(
            Transaction::new(vec![upsert("p", "1"), upsert("q", "2")]),
            Err(TransactionError::DifferentPartition(1))
        );
        assert_eq!(
            Transaction::new(vec![upsert("p", "1"), upsert("p", "2"), upsert("p", "1")]),
            Err(TransactionError::DuplicateEntity(2))
        );
        let many = |n: usize| (0..n).map(|i| upsert("p", &i.to_string())).collect::<Vec<_>>();
        assert!(Transaction::new(many(100)).is_ok());
        assert_eq!(Transaction::new(many(101)), Err(TransactionError::TooMany));
    }

    #[test]
    fn the_first_refused_mutation_is_named() {
        let delete = Mutation::Delete { key: key("p", "2"), condition: Condition::Any };
        let transaction = Transaction::new(vec![upsert("p", "1"), delete]).unwrap();
        let result = transaction.apply(DateTime::MIN, &Expiry::NEVER, [None::<&[u8]>; 2]);
        assert_eq!(result, Err((1, MutationError::NotFound)));
    }

    #[test]
    fn an_expired_entity_is_absent_except_to_its_deletion() {
        let retention = Retention::by_age(1);
        let stored = RecordBuilder::default().finish(at(90_000_000));
        let merge = Mutation::InsertOrMerge { key: key("p", "r"), properties: RecordBuilder::default() };
        let insert = Mutation::Insert { key: key("p", "r"), properties: RecordBuilder::default() };
        let delete = Mutation::Delete { key: key("p", "r"), condition: Condition::Any };
        let apply = |transaction: &Transaction, now| {
            let expiry = Expiry::new(retention.as_ref(), transaction.visible(), at(now));
            // The clock that stamps is behind.
            let applied = transaction.apply(at(5), &expiry, [Some(stored.as_bytes())]);
            applied.map(|effects| effects[0].written()).map_err(|(_, error)| error)
        };
        let (live, expired) = (99_999_999, 100_000_000);
        let [merge, insert, delete] = [merge, insert, delete].map(Transaction::single);
        let written = || Ok(MutationResult::Stored(at(90_000_001)));
        assert_eq!((apply(&merge, live), apply(&merge, expired)), (written(), written()));
        assert_eq!((apply(&insert, live), apply(&insert, expired)), (Err(MutationError::AlreadyExists), written()));
        let deleted = || Ok(MutationResult::Deleted);
        assert_eq!((apply(&delete, live), apply(&delete, expired)), (deleted(), Err(MutationError::NotFound)));
        let sweep = |ticks| Transaction::deleting_expired([(key("p", "r"), at(ticks))]).unwrap();
        let found = sweep(90_000_000);
        assert_eq!((apply(&found, live), apply(&found, expired)), (Err(MutationError::NotFound), deleted()));
        assert_eq!(apply(&sweep(1), expired), Err(MutationError::ConditionNotMet));
    }
}
