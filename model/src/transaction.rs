//! Entity group transactions: several mutations of one partition that happen together or not at all.

use crate::DateTime;
use crate::key::EntityKey;
use crate::limits::TRANSACTION_OPERATIONS_MAX;
use crate::mutation::{Effect, Mutation, MutationError};
use crate::record::RecordView;
use std::collections::HashSet;

/// One to 100 mutations of different entities of one partition (05 §1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction(Vec<Mutation>);

/// Why mutations do not form a transaction. Indexes count from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionError {
    /// There is none.
    Empty,
    /// There are more than 100.
    TooMany,
    /// The mutation at this index has another partition key than the first.
    DifferentPartition(usize),
    /// The mutation at this index names an entity that an earlier one names.
    DuplicateEntity(usize),
}

/// What a mutation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The entity was stored with this Timestamp.
    Stored(DateTime),
    /// The entity was deleted.
    Deleted,
}

/// What becomes of one entity by a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key bytes inside the table, see [`EntityKey::encode`].
    pub key: Vec<u8>,
    /// What becomes of it.
    pub effect: Effect,
}

/// Why a transaction is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyError<E> {
    /// The mutation at this index is refused. Nothing changed.
    Refused(usize, MutationError),
    /// An existing entity could not be read.
    Read(E),
}

impl Transaction {
    /// A transaction of one mutation.
    pub fn single(mutation: Mutation) -> Self {
        Self(vec![mutation])
    }

    /// Checks the rules of 05 §5.2: count, then operation by operation partition and duplicates.
    pub fn new(mutations: Vec<Mutation>) -> Result<Self, TransactionError> {
        if mutations.len() > TRANSACTION_OPERATIONS_MAX {
            return Err(TransactionError::TooMany);
        }
        let first = mutations.first().ok_or(TransactionError::Empty)?.key().partition.clone();
        // Rows that ascend, as most do, are different from each other without being remembered.
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

    /// The mutations in order.
    pub fn mutations(&self) -> &[Mutation] {
        &self.0
    }

    /// What the transaction makes of the entities that `read` finds, at this instant.
    ///
    /// `read` answers the record bytes of an entity; it is asked once for each mutation, in order.
    pub fn apply<B: AsRef<[u8]>, E>(
        self,
        now: DateTime,
        mut read: impl FnMut(&EntityKey, &[u8]) -> Result<Option<B>, E>,
    ) -> Result<Vec<Change>, ApplyError<E>> {
        let mut changes = Vec::with_capacity(self.0.len());
        for (index, mutation) in self.0.into_iter().enumerate() {
            let key = mutation.key().encode();
            let bytes = read(mutation.key(), &key).map_err(ApplyError::Read)?;
            let existing = match &bytes {
                Some(bytes) => Some(
                    RecordView::new(bytes.as_ref())
                        .map_err(|_| ApplyError::Refused(index, MutationError::DamagedRecord))?,
                ),
                None => None,
            };
            let effect = mutation.apply(existing, now).map_err(|error| ApplyError::Refused(index, error))?;
            changes.push(Change { key, effect });
        }
        Ok(changes)
    }
}

impl Change {
    /// What the change tells the client.
    pub fn written(&self) -> Written {
        match &self.effect {
            Effect::Put(record) => Written::Stored(record.view().expect("the record was just built").timestamp()),
            Effect::Delete => Written::Deleted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, KeyText, RecordBuilder};
    use std::convert::Infallible;

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
        let result = transaction.apply(DateTime::MIN, |_, _| Ok::<Option<Vec<u8>>, Infallible>(None));
        assert_eq!(result, Err(ApplyError::Refused(1, MutationError::NotFound)));
    }
}
