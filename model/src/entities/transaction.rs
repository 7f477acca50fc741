//! Entity group transactions: several mutations of one partition that are applied together or not at all.
//!
//! Invariant: a transaction has 1 to 100 mutations of different entities, all with one partition key.
//!
//! This module must not depend on how an engine makes a transaction atomic.

use crate::DateTime;
use crate::limits::TRANSACTION_OPERATIONS_MAX;
use crate::mutation::{Effect, Mutation, MutationError};
use crate::record::RecordView;
use std::collections::HashSet;

/// One to 100 mutations of different entities in one partition (05 §1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction(Vec<Mutation>);

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
        Self(vec![mutation])
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
        Ok(Self(mutations))
    }

    /// Returns the mutations in order.
    pub fn mutations(&self) -> &[Mutation] {
        &self.0
    }

    /// Applies the mutations in order. `now` is the time of the write. An error contains the index of the first refused
    /// mutation; in that case, nothing changes. `existing` contains, for each mutation, the record bytes of its entity.
    pub fn apply<B: AsRef<[u8]>>(
        &self,
        now: DateTime,
        existing: impl IntoIterator<Item = Option<B>>,
    ) -> Result<Vec<Effect>, (usize, MutationError)> {
        let mut existing = existing.into_iter();
        let effect = |mutation: &Mutation| {
            let bytes = existing.next().expect("each mutation has one");
            let view = bytes.as_ref().map(|bytes| RecordView::new(bytes.as_ref())).transpose();
            mutation.apply(view.map_err(|_| MutationError::DamagedRecord)?, now)
        };
        let effects = self.0.iter().map(effect).enumerate();
        effects.map(|(index, effect)| effect.map_err(|error| (index, error))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, EntityKey, KeyText, RecordBuilder};

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
        let result = transaction.apply(DateTime::MIN, [None::<&[u8]>; 2]);
        assert_eq!(result, Err((1, MutationError::NotFound)));
    }
}
