//! Entity group transactions: several mutations of one partition that are applied together or not at all.
//!
//! Invariants:
//!
//! 1. A transaction has 1 to 100 mutations of different entities, all with one partition key.
//! 2. A transaction that sees expired entities only deletes.
//!
//! This module must not depend on how an engine makes a transaction atomic.

use crate::DateTime;
use crate::etag::Condition;
use crate::key::EntityKey;
use crate::limits::TRANSACTION_OPERATIONS_MAX;
use crate::mutation::{Effect, Mutation, MutationError};
use crate::record::RecordView;
use crate::retention::{Expiry, Visibility};
use std::collections::HashSet;

/// One to 100 mutations of different entities in one partition (05 §1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    mutations: Vec<Mutation>,
    visible: Visibility,
}

/// The reason why mutations do not form a transaction. Indexes are zero-based.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionError {
    /// There are no mutations.
    Empty,
    /// There are more than 100 mutations.
    TooMany,
    /// The partition key of the mutation at this index differs from the first mutation's partition key.
    DifferentPartition(usize),
    /// The mutation at this index has the same entity key as an earlier one.
    DuplicateEntity(usize),
}

impl Transaction {
    /// Creates a transaction with one mutation.
    pub fn single(mutation: Mutation) -> Self {
        Self { mutations: vec![mutation], visible: Visibility::Live }
    }

    /// Checks the rules of 05 §5.2: the count, and then for each operation its partition and duplicates.
    pub fn new(mutations: Vec<Mutation>) -> Result<Self, TransactionError> {
        if mutations.len() > TRANSACTION_OPERATIONS_MAX {
            return Err(TransactionError::TooMany);
        }
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
        Ok(Self { mutations, visible: Visibility::Live })
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
        let effect = |mutation: &Mutation| {
            let bytes = existing.next().expect("each mutation has one");
            let view = bytes.as_ref().map(|bytes| RecordView::new(bytes.as_ref())).transpose();
            mutation.apply_at(view.map_err(|_| MutationError::DamagedRecord)?, expiry, now)
        };
        let effects = self.mutations.iter().map(effect).enumerate();
        effects.map(|(index, effect)| effect.map_err(|error| (index, error))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyText, MutationResult, RecordBuilder, Retention};

    fn upsert(partition: &str, row: &str) -> Mutation {
        Mutation::InsertOrReplace { key: key(partition, row), properties: RecordBuilder::default() }
    }

    fn key(partition: &str, row: &str) -> EntityKey {
        EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() }
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
        let at = |ticks| DateTime::from_ticks(ticks).unwrap();
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
        let written = Ok(MutationResult::Stored(at(90_000_001)));
        assert_eq!((apply(&merge, live), apply(&merge, expired)), (written, written));
        assert_eq!((apply(&insert, live), apply(&insert, expired)), (Err(MutationError::AlreadyExists), written));
        let deleted = Ok(MutationResult::Deleted);
        assert_eq!((apply(&delete, live), apply(&delete, expired)), (deleted, Err(MutationError::NotFound)));
        let sweep = |ticks| Transaction::deleting_expired([(key("p", "r"), at(ticks))]).unwrap();
        let found = sweep(90_000_000);
        assert_eq!((apply(&found, live), apply(&found, expired)), (Err(MutationError::NotFound), deleted));
        assert_eq!(apply(&sweep(1), expired), Err(MutationError::ConditionNotMet));
    }
}
