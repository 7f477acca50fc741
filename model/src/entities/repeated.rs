//! Repeated mutations of one entity in a transaction: several become one that has the same effect (11 §9).
//!
//! Engines therefore never see an entity twice in a transaction.
//!
//! This module must not depend on the other rules of transactions.

use crate::etag::Condition;
use crate::mutation::{Mutation, MutationResult};
use crate::record::RecordBuilder;
use std::collections::HashMap;

/// Mutations of different entities, and the mutations of which they consist.
#[derive(Debug)]
pub struct Combined {
    /// The mutations, in the order in which their entities occurred first.
    pub mutations: Vec<Mutation>,
    /// For each of the original mutations, the index of the one that contains it, and whether it deletes.
    origins: Vec<(usize, bool)>,
}

impl Combined {
    /// Combines the mutations of each entity. Fails with the index of the first one that cannot be combined with those
    /// before it.
    pub fn new(mutations: Vec<Mutation>) -> Result<Self, usize> {
        let mut combined = Self { mutations: Vec::with_capacity(mutations.len()), origins: Vec::new() };
        let mut places = HashMap::new();
        for (index, mutation) in mutations.into_iter().enumerate() {
            let is_deletion = mutation.properties().is_none();
            let next = combined.mutations.len();
            let place = *places.entry(mutation.key().clone()).or_insert(next);
            combined.origins.push((place, is_deletion));
            match combined.mutations.get_mut(place) {
                Some(before) => *before = both(before, mutation).ok_or(index)?,
                None => combined.mutations.push(mutation),
            }
        }
        Ok(combined)
    }

    /// Returns the index of the first original mutation in the one with the given index.
    pub fn first_origin(&self, index: usize) -> usize {
        self.origins.iter().position(|(place, _)| *place == index).unwrap_or(index)
    }

    /// Returns the indexes of the mutations that contain those with the given indexes, in ascending order.
    pub fn places(&self, indexes: &[usize]) -> Vec<usize> {
        let mut places: Vec<_> = indexes.iter().filter_map(|index| Some(self.origins.get(*index)?.0)).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Returns the results of the original mutations, given the results of the combined ones.
    pub fn results(&self, results: &[MutationResult]) -> Vec<MutationResult> {
        let result = |(place, is_deletion): &(usize, bool)| match results.get(*place) {
            Some(result) if !is_deletion => result.clone(),
            _ => MutationResult::Deleted,
        };
        self.origins.iter().map(result).collect()
    }
}

/// Returns the mutation with the effect of both, or `None` if there is none. The second one cannot know the `ETag` that
/// the first one causes.
fn both(first: &Mutation, second: Mutation) -> Option<Mutation> {
    let key = first.key().clone();
    let condition = match &second {
        Mutation::Replace { condition, .. }
        | Mutation::Merge { condition, .. }
        | Mutation::Delete { condition, .. } => condition,
        Mutation::Insert { .. } | Mutation::InsertOrReplace { .. } | Mutation::InsertOrMerge { .. } => &Condition::Any,
    };
    if *condition != Condition::Any {
        return None;
    }
    let replaces = matches!(&second, Mutation::Replace { .. } | Mutation::InsertOrReplace { .. });
    match (first, second) {
        (
            Mutation::Delete { condition, .. },
            Mutation::Insert { properties, .. }
            | Mutation::InsertOrReplace { properties, .. }
            | Mutation::InsertOrMerge { properties, .. },
        ) => Some(Mutation::Replace { key, properties, condition: condition.clone() }),
        (Mutation::Replace { condition, .. } | Mutation::Merge { condition, .. }, Mutation::Delete { .. }) => {
            Some(Mutation::Delete { key, condition: condition.clone() })
        }
        (Mutation::Delete { .. }, _) | (_, Mutation::Delete { .. } | Mutation::Insert { .. }) => None,
        (
            first,
            Mutation::Replace { properties: second, .. }
            | Mutation::InsertOrReplace { properties: second, .. }
            | Mutation::Merge { properties: second, .. }
            | Mutation::InsertOrMerge { properties: second, .. },
        ) => {
            let properties = if replaces { second } else { overlaid(first.properties()?, &second)? };
            Some(match first.clone() {
                Mutation::Insert { .. } => Mutation::Insert { key, properties },
                Mutation::Merge { condition, .. } if !replaces => Mutation::Merge { key, properties, condition },
                Mutation::Replace { condition, .. } | Mutation::Merge { condition, .. } => {
                    Mutation::Replace { key, properties, condition }
                }
                Mutation::InsertOrMerge { .. } if !replaces => Mutation::InsertOrMerge { key, properties },
                _ => Mutation::InsertOrReplace { key, properties },
            })
        }
    }
}

/// Returns the properties of both, with the values of the second where both have one; `None` if one of them has more
/// than an entity can have, because it does not keep them.
fn overlaid(first: &RecordBuilder, second: &RecordBuilder) -> Option<RecordBuilder> {
    if first.has_too_many_properties() || second.has_too_many_properties() {
        return None;
    }
    let mut all = first.emptied();
    let is_kept = |name: &[u8]| !second.properties().flatten().any(|property| property.name_bytes() == name);
    let kept = first.properties().flatten().filter(|property| is_kept(property.name_bytes()));
    for property in kept.chain(second.properties().flatten()) {
        if let (Ok(name), Ok(value)) = (property.name(), property.value()) {
            all.push(name, value);
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::Effect;
    use crate::mutation::tests::of_kind;
    use crate::{DateTime, EdmValue, EntityKey, KeyText, Record, RecordView};
    use proptest::prelude::*;

    fn mutation(kind: u8, names: &[u8], value: i32) -> Mutation {
        let text = |text| KeyText::new(text).unwrap();
        let key = EntityKey { partition: text("p"), row: text("r") };
        let mut properties = RecordBuilder::default();
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        for name in names {
            properties.push(&format!("n{name}"), EdmValue::Int32(value));
        }
        of_kind(kind, key, properties, Condition::Any)
    }

    /// Applies mutations one after the other. Returns what is left, or the index of the one that is refused.
    fn applied(mutations: &[Mutation], existing: Option<&Record>) -> Result<Option<Vec<(String, i32)>>, usize> {
        let mut record = existing.cloned();
        for (index, mutation) in mutations.iter().enumerate() {
            let view: Option<RecordView<'_>> = record.as_ref().map(|record| record.view().unwrap());
            record = match mutation.apply(view, DateTime::MIN).map_err(|_| index)? {
                Effect::Put(record) => Some(record),
                Effect::Delete => None,
            };
        }
        let sorted = |record: Record| {
            let mut found: Vec<_> = record
                .view()
                .unwrap()
                .properties()
                .map(|property| {
                    let property = property.unwrap();
                    let EdmValue::Int32(value) = property.value().unwrap() else { panic!("only numbers were written") };
                    (property.name().unwrap().to_owned(), value)
                })
                .collect();
            found.sort();
            found
        };
        Ok(record.map(sorted))
    }

    proptest! {
        #[test]
        fn a_combined_mutation_has_the_effect_of_its_parts(
            kinds in proptest::collection::vec((0..6_u8, proptest::collection::vec(0..4_u8, 0..4)), 1..5),
            exists: bool,
        ) {
            let parts: Vec<_> = kinds.iter().zip(1..).map(|((kind, names), value)| mutation(*kind, names, value)).collect();
            let mut stored = RecordBuilder::default();
            stored.push("n0", EdmValue::Int32(0));
            let stored = exists.then(|| stored.finish(DateTime::MIN));
            let expected = applied(&parts, stored.as_ref());
            match Combined::new(parts.clone()) {
                Ok(combined) => {
                    prop_assert_eq!(combined.mutations.len(), 1);
                    // Only the first part depends on the stored entity.
                    match (applied(&combined.mutations, stored.as_ref()), expected) {
                        (Ok(actual), Ok(expected)) => prop_assert_eq!(actual, expected),
                        (Err(0), Err(0)) => {}
                        other => prop_assert!(false, "{:?}", other),
                    }
                    prop_assert_eq!(combined.places(&[0]), [0]);
                }
                Err(index) => prop_assert!(index > 0),
            }
        }
    }

    #[test]
    fn what_is_combined() {
        // An insert after a write always fails, and so does every write but an insert or an upsert after a deletion. No
        // mutation deletes an entity whether it exists or not.
        let combines = |first, second| Combined::new(vec![mutation(first, &[0], 1), mutation(second, &[1], 2)]).is_ok();
        let row = |first| (0..6).map(|second| if combines(first, second) { 'y' } else { '-' }).collect::<String>();
        assert_eq!((0..6).map(row).collect::<Vec<_>>(), ["-yyyy-", "-yyyyy", "-yyyyy", "-yyyy-", "-yyyy-", "y--yy-"]);
        let foreign = Mutation::Delete {
            key: mutation(0, &[], 0).key().clone(),
            condition: Condition::from_timestamp(DateTime::MIN),
        };
        assert_eq!(Combined::new(vec![mutation(1, &[], 1), foreign]).err(), Some(1));
        let names: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(Combined::new(vec![mutation(4, &names, 1), mutation(4, &[], 2)]).err(), Some(1), "256 properties");
    }

    #[test]
    fn results_belong_to_the_original_mutations() {
        let combined = Combined::new(vec![mutation(5, &[], 1), mutation(0, &[], 2)]).unwrap();
        let stored = MutationResult::Stored(DateTime::MIN);
        assert_eq!(combined.results(std::slice::from_ref(&stored)), [MutationResult::Deleted, stored]);
        assert_eq!((combined.first_origin(0), combined.places(&[0, 1])), (0, vec![0]));
    }
}
