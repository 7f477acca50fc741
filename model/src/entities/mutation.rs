//! The effect of each mutation on an entity: one pure function that all engines share.
//!
//! Invariants:
//!
//! 1. A new Timestamp is greater than the previous one, even if the clock moves backwards.
//! 2. Limits apply to the resulting entity, not only to the data sent in the request.
//!
//! This module must not depend on engines or transactions.

use crate::DateTime;
use crate::etag::Condition;
use crate::key::{EntityKey, KeyView};
use crate::record::{Property, Record, RecordBuilder, RecordView};
use crate::retention::Expiry;

/// A change to one entity (02 §5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Creates an entity, which must not exist yet.
    Insert {
        /// The key of the entity.
        key: EntityKey,
        /// The custom properties.
        properties: RecordBuilder,
    },
    /// Replaces all custom properties of an entity that must exist and satisfy the condition.
    Replace {
        /// The key of the entity.
        key: EntityKey,
        /// The new set of custom properties.
        properties: RecordBuilder,
        /// The condition on the existing entity.
        condition: Condition,
    },
    /// Sets some custom properties of an entity that must exist and satisfy the condition.
    Merge {
        /// The key of the entity.
        key: EntityKey,
        /// The properties to set. All other properties keep their values.
        properties: RecordBuilder,
        /// The condition on the existing entity.
        condition: Condition,
    },
    /// Creates an entity, or replaces all custom properties of the existing one.
    InsertOrReplace {
        /// The key of the entity.
        key: EntityKey,
        /// The new set of custom properties.
        properties: RecordBuilder,
    },
    /// Creates an entity, or sets some custom properties of the existing one.
    InsertOrMerge {
        /// The key of the entity.
        key: EntityKey,
        /// The properties to set. All other properties keep their values.
        properties: RecordBuilder,
    },
    /// Deletes an entity that must exist and satisfy the condition.
    Delete {
        /// The key of the entity.
        key: EntityKey,
        /// The condition on the existing entity.
        condition: Condition,
    },
}

/// What a mutation requires of the entity with its key, and what its effect depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation<'m> {
    /// The state in which the mutation is accepted.
    pub state: ExpectedState<'m>,
    /// Whether the effect contains properties of the existing entity.
    pub merges: bool,
}

/// The state of an entity in which a mutation is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedState<'m> {
    /// Any state.
    Any,
    /// There must be no entity.
    Absent,
    /// There must be an entity that satisfies the condition.
    Present(&'m Condition),
}

/// The reason why a mutation is refused. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MutationError {
    /// An entity with the key of the insert already exists.
    AlreadyExists,
    /// There is no entity with the given key.
    NotFound,
    /// The existing entity does not satisfy the condition.
    ConditionNotMet,
    /// The entity would have more custom properties than allowed.
    TooManyProperties,
    /// The entity would be larger than allowed, or all entities that the transaction stores together.
    EntityTooLarge,
    /// A single value is larger than allowed.
    ValueTooLarge,
    /// The record of the existing entity is damaged.
    DamagedRecord,
}

/// The effect of a mutation on an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The entity's record is replaced by the given record.
    Put(Record),
    /// The entity is deleted.
    Delete,
}

/// The result of a mutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MutationResult {
    /// The entity was stored, with this Timestamp.
    Stored(DateTime),
    /// The entity was stored as this record. A transaction returns the records that it was asked for
    /// ([`crate::Transaction::returning`]).
    Returned(Record),
    /// The entity was deleted.
    Deleted,
}

impl MutationResult {
    /// Returns the Timestamp of the stored entity, or `None` if it was deleted.
    pub fn timestamp(&self) -> Option<DateTime> {
        match self {
            Self::Stored(timestamp) => Some(*timestamp),
            Self::Returned(record) => Some(timestamp_of(record)),
            Self::Deleted => None,
        }
    }
}

impl Effect {
    /// Returns the result for the client.
    pub fn written(&self) -> MutationResult {
        match self {
            Self::Put(record) => MutationResult::Stored(timestamp_of(record)),
            Self::Delete => MutationResult::Deleted,
        }
    }
}

fn timestamp_of(record: &Record) -> DateTime {
    record.view().expect("the record was just built").timestamp()
}

impl Mutation {
    /// Returns the key of the changed entity.
    pub fn key(&self) -> &EntityKey {
        match self {
            Self::Insert { key, .. }
            | Self::Replace { key, .. }
            | Self::Merge { key, .. }
            | Self::InsertOrReplace { key, .. }
            | Self::InsertOrMerge { key, .. }
            | Self::Delete { key, .. } => key,
        }
    }

    /// Returns the properties that the mutation carries, or `None` for a deletion.
    pub fn properties(&self) -> Option<&RecordBuilder> {
        match self {
            Self::Insert { properties, .. }
            | Self::Replace { properties, .. }
            | Self::Merge { properties, .. }
            | Self::InsertOrReplace { properties, .. }
            | Self::InsertOrMerge { properties, .. } => Some(properties),
            Self::Delete { .. } => None,
        }
    }

    /// Returns what the mutation requires of the existing entity.
    pub fn expectation(&self) -> Expectation<'_> {
        let (state, merges) = match self {
            Self::Insert { .. } => (ExpectedState::Absent, false),
            Self::Replace { condition, .. } | Self::Delete { condition, .. } => {
                (ExpectedState::Present(condition), false)
            }
            Self::Merge { condition, .. } => (ExpectedState::Present(condition), true),
            Self::InsertOrReplace { .. } => (ExpectedState::Any, false),
            Self::InsertOrMerge { .. } => (ExpectedState::Any, true),
        };
        Expectation { state, merges }
    }

    /// Applies the mutation to the existing entity. `now` is the time of the write.
    ///
    /// The Timestamp becomes `now`, or 100 ns after the existing one if that is later, so an entity's ETag always
    /// changes, and an earlier one never recurs. The checks follow the order of 06 §6, step 12: the size of the
    /// request's properties, existence, condition, and then the size of the merged entity.
    ///
    /// An insert keeps its properties in the order in which they were sent. All other mutations sort them by name in
    /// ordinal order, as recorded for updates, merges and upserts by merge.
    pub fn apply(&self, existing: Option<RecordView<'_>>, now: DateTime) -> Result<Effect, MutationError> {
        let Some(properties) = self.properties() else {
            self.expectation().check(existing)?;
            return Ok(Effect::Delete);
        };
        check_size(self.key(), properties)?;
        let expectation = self.expectation();
        expectation.check(existing)?;
        let stamp = existing.map_or(now, |record| now.max(record.timestamp().next()));
        match existing {
            Some(existing) if expectation.merges => merge(self.key(), existing, properties, stamp),
            _ if matches!(self, Self::Insert { .. }) => Ok(Effect::Put(properties.clone().finish(stamp))),
            _ => Ok(Effect::Put(properties.clone().ordered().finish(stamp))),
        }
    }
}

impl Mutation {
    /// Applies the mutation to the existing entity if the operation sees it, and otherwise as if there were no entity.
    /// The new Timestamp is later than the one of the stored entity in either case.
    pub fn apply_at(
        &self,
        existing: Option<RecordView<'_>>,
        expiry: &Expiry,
        now: DateTime,
    ) -> Result<Effect, MutationError> {
        match existing {
            Some(hidden) if !expiry.sees(hidden) => self.apply(None, now.max(hidden.timestamp().next())),
            existing => self.apply(existing, now),
        }
    }
}

impl Expectation<'_> {
    /// Returns false if the mutation is accepted in any state, and always with the same properties.
    pub fn depends_on_entity(&self) -> bool {
        self.merges || self.state != ExpectedState::Any
    }

    /// Refuses a mutation that does not find the expected state.
    fn check(&self, existing: Option<RecordView<'_>>) -> Result<(), MutationError> {
        match (self.state, existing) {
            (ExpectedState::Any, _) | (ExpectedState::Absent, None) => Ok(()),
            (ExpectedState::Absent, Some(_)) => Err(MutationError::AlreadyExists),
            (ExpectedState::Present(_), None) => Err(MutationError::NotFound),
            (ExpectedState::Present(condition), Some(existing)) => {
                if condition.holds_for(existing.timestamp()) {
                    Ok(())
                } else {
                    Err(MutationError::ConditionNotMet)
                }
            }
        }
    }
}

/// Checks the limits of the properties (01 §4, §5; 11 §6) in the order of 06 §6: property count, total size, single
/// values.
pub fn check_size(key: &EntityKey, properties: &RecordBuilder) -> Result<(), MutationError> {
    if properties.has_too_many_properties() {
        return Err(MutationError::TooManyProperties);
    }
    let limits = properties.limits();
    let is_large = entity_formula_bytes(key, properties) > limits.formula_bytes_max;
    if is_large || entity_stored_bytes(key, properties) > limits.stored_bytes_max {
        return Err(MutationError::EntityTooLarge);
    }
    if properties.has_too_large_value() {
        return Err(MutationError::ValueTooLarge);
    }
    Ok(())
}

/// Returns the size of an entity, in bytes, by the documented formula (01 §5).
pub fn entity_formula_bytes(key: &EntityKey, properties: &RecordBuilder) -> usize {
    let keys = KeyView { partition: key.partition.as_str().into(), row: key.row.as_str().into() };
    4 + keys.formula_bytes() + properties.formula_bytes()
}

/// Returns the size of the keys and the record of an entity as they are stored, in bytes.
pub fn entity_stored_bytes(key: &EntityKey, properties: &RecordBuilder) -> usize {
    key.partition.as_str().len() + key.row.as_str().len() + properties.record_bytes()
}

fn merge(
    key: &EntityKey,
    existing: RecordView<'_>,
    properties: &RecordBuilder,
    stamp: DateTime,
) -> Result<Effect, MutationError> {
    let damaged = |_| MutationError::DamagedRecord;
    let mut all: Vec<Property<'_>> = Vec::with_capacity(existing.len() + properties.len());
    for property in properties.properties().chain(existing.properties()) {
        all.push(property.map_err(damaged)?);
    }
    // New values come first and the sort is stable, so of two values with the same name, the new one is kept.
    all.sort_by_key(Property::name_bytes);
    all.dedup_by_key(|property| property.name_bytes());
    let mut merged = RecordBuilder::within(properties.limits(), existing.record_bytes());
    for property in all {
        merged.push(property.name().map_err(damaged)?, property.value().map_err(damaged)?);
    }
    check_size(key, &merged)?;
    Ok(Effect::Put(merged.finish(stamp)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::limits::{COSMOS_ENTITY_BYTES_MAX, ENTITY_BYTES_MAX};
    use crate::{ETag, EdmValue, EntityLimits, KeyText};
    use proptest::prelude::*;

    fn key() -> EntityKey {
        EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() }
    }

    fn properties(list: &[(&str, i32)]) -> RecordBuilder {
        let mut builder = RecordBuilder::default();
        for (name, value) in list {
            builder.push(name, EdmValue::Int32(*value));
        }
        builder
    }

    fn at(ticks: i64) -> DateTime {
        DateTime::from_ticks(ticks).unwrap()
    }

    fn content(effect: &Effect) -> Vec<(String, i32)> {
        let Effect::Put(record) = effect else { panic!("a record was expected") };
        let view = record.view().unwrap();
        view.properties()
            .map(|p| {
                let p = p.unwrap();
                let EdmValue::Int32(value) = p.value().unwrap() else { panic!("an Int32 was expected") };
                (p.name().unwrap().to_owned(), value)
            })
            .collect()
    }

    type Expected<'a> = Result<&'a [(&'a str, i32)], MutationError>;

    #[test]
    fn every_mutation_against_missing_and_existing() {
        let existing = properties(&[("b", 2), ("a", 1)]).finish(at(10));
        let stale = Condition::Matches("\"stale\"".into());
        let current = Condition::parse(&ETag::from_timestamp(at(10)).to_string()).unwrap();
        let new = || properties(&[("c", 3), ("a", 9)]);
        let cases: Vec<(&str, Mutation, Expected<'_>, Expected<'_>)> = vec![
            (
                "insert",
                Mutation::Insert { key: key(), properties: new() },
                Ok(&[("c", 3), ("a", 9)]),
                Err(MutationError::AlreadyExists),
            ),
            (
                "replace *",
                Mutation::Replace { key: key(), properties: new(), condition: Condition::Any },
                Err(MutationError::NotFound),
                Ok(&[("a", 9), ("c", 3)]),
            ),
            (
                "replace current",
                Mutation::Replace { key: key(), properties: new(), condition: current.clone() },
                Err(MutationError::NotFound),
                Ok(&[("a", 9), ("c", 3)]),
            ),
            (
                "replace stale",
                Mutation::Replace { key: key(), properties: new(), condition: stale.clone() },
                Err(MutationError::NotFound),
                Err(MutationError::ConditionNotMet),
            ),
            (
                "merge *",
                Mutation::Merge { key: key(), properties: new(), condition: Condition::Any },
                Err(MutationError::NotFound),
                Ok(&[("a", 9), ("b", 2), ("c", 3)]),
            ),
            (
                "merge stale",
                Mutation::Merge { key: key(), properties: new(), condition: stale.clone() },
                Err(MutationError::NotFound),
                Err(MutationError::ConditionNotMet),
            ),
            (
                "insert or replace",
                Mutation::InsertOrReplace { key: key(), properties: new() },
                Ok(&[("a", 9), ("c", 3)]),
                Ok(&[("a", 9), ("c", 3)]),
            ),
            (
                "insert or merge",
                Mutation::InsertOrMerge { key: key(), properties: new() },
                Ok(&[("a", 9), ("c", 3)]),
                Ok(&[("a", 9), ("b", 2), ("c", 3)]),
            ),
        ];
        for (name, mutation, on_missing, on_existing) in cases {
            for (found, expected) in [(None, on_missing), (Some(existing.view().unwrap()), on_existing)] {
                let got = mutation.apply(found, at(20)).map(|effect| content(&effect));
                let expected = expected.map(|list| list.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect::<Vec<_>>());
                assert_eq!(got, expected, "{name}, existing: {}", found.is_some());
            }
        }
        for (condition, expected) in [
            (Condition::Any, Ok(Effect::Delete)),
            (current, Ok(Effect::Delete)),
            (stale, Err(MutationError::ConditionNotMet)),
        ] {
            let delete = Mutation::Delete { key: key(), condition };
            assert_eq!(delete.apply(None, at(20)), Err(MutationError::NotFound));
            assert_eq!(delete.apply(Some(existing.view().unwrap()), at(20)), expected);
        }
    }

    fn any_condition() -> impl Strategy<Value = Condition> {
        let at_time = |ticks| Condition::parse(&ETag::from_timestamp(at(ticks)).to_string()).unwrap();
        prop_oneof![Just(Condition::Any), (8_i64..12).prop_map(at_time), Just(Condition::Matches("\"other\"".into()))]
    }

    fn any_mutation() -> impl Strategy<Value = Mutation> {
        (0..6_u8, any_condition(), -1_i32..2)
            .prop_map(|(kind, condition, value)| of_kind(kind, key(), properties(&[("b", value), ("a", 9)]), condition))
    }

    /// Returns a mutation of the kind with a number from 0 to 5.
    pub(crate) fn of_kind(kind: u8, key: EntityKey, properties: RecordBuilder, condition: Condition) -> Mutation {
        match kind {
            0 => Mutation::Insert { key, properties },
            1 => Mutation::Replace { key, properties, condition },
            2 => Mutation::Merge { key, properties, condition },
            3 => Mutation::InsertOrReplace { key, properties },
            4 => Mutation::InsertOrMerge { key, properties },
            _ => Mutation::Delete { key, condition },
        }
    }

    proptest! {
        /// Engines decide from the expectation which entities they read, so it must contain everything that `apply`
        /// depends on.
        #[test]
        fn the_expectation_contains_everything_that_the_result_depends_on(
            mutation in any_mutation(), ticks in 8_i64..12, exists in any::<bool>(), one in 0..3, other in 0..3,
        ) {
            let entity = |value| properties(&[("z", value)]).finish(at(ticks));
            let (one, other) = (entity(one), entity(other));
            let apply = |record: Option<&Record>| {
                mutation.apply(record.map(|record| record.view().unwrap()), at(20)).map(|effect| match effect {
                    Effect::Put(_) => Some(content(&effect)),
                    Effect::Delete => None,
                })
            };
            let result = apply(exists.then_some(&one));
            let expected = mutation.expectation();
            let refusal = match (expected.state, exists) {
                (ExpectedState::Absent, true) => Some(MutationError::AlreadyExists),
                (ExpectedState::Present(_), false) => Some(MutationError::NotFound),
                (ExpectedState::Present(condition), true) if !condition.holds_for(at(ticks)) => {
                    Some(MutationError::ConditionNotMet)
                }
                _ => None,
            };
            prop_assert_eq!(result.as_ref().err(), refusal.as_ref());
            if !expected.merges {
                prop_assert_eq!(&result, &apply(exists.then_some(&other)));
            }
            if !expected.depends_on_entity() {
                prop_assert_eq!(&result, &apply(None));
            }
            let keeps_old = matches!(&result, Ok(Some(properties)) if properties.iter().any(|(name, _)| name == "z"));
            prop_assert_eq!(keeps_old, expected.merges && exists && refusal.is_none());
        }
    }

    #[test]
    fn the_timestamp_always_grows_even_if_the_clock_stands_or_goes_back() {
        let existing = properties(&[]).finish(at(10));
        for (now, expected) in [(20, 20), (11, 11), (10, 11), (3, 11)] {
            let upsert = Mutation::InsertOrMerge { key: key(), properties: properties(&[]) };
            let Effect::Put(record) = upsert.apply(Some(existing.view().unwrap()), at(now)).unwrap() else { panic!() };
            assert_eq!(record.view().unwrap().timestamp(), at(expected), "clock at {now}");
        }
    }

    #[test]
    fn limits_are_checked_in_the_order_of_the_service() {
        let insert = |properties| Mutation::Insert { key: key(), properties }.apply(None, at(1));
        let many = |n: usize, value: EdmValue<'_>| {
            let mut builder = RecordBuilder::default();
            (0..n).for_each(|i| builder.push(&format!("p{i}"), value));
            builder
        };
        assert!(insert(many(252, EdmValue::Int32(1))).is_ok());
        assert_eq!(insert(many(253, EdmValue::Int32(1))), Err(MutationError::TooManyProperties));
        assert!(insert(many(1, EdmValue::Binary(&vec![0; 65_536]))).is_ok());
        assert_eq!(insert(many(1, EdmValue::Binary(&vec![0; 65_537]))), Err(MutationError::ValueTooLarge));
        assert_eq!(insert(many(1, EdmValue::Binary(&vec![0; 1_048_576]))), Err(MutationError::EntityTooLarge));
        assert!(insert(many(1, EdmValue::String(&"é".repeat(32_768)))).is_ok());
        assert_eq!(insert(many(1, EdmValue::String(&"é".repeat(32_769)))), Err(MutationError::ValueTooLarge));
    }

    fn wide(n: i32) -> RecordBuilder {
        let mut builder = RecordBuilder::within(&EntityLimits::COSMOS, 0);
        (0..n).for_each(|i| builder.push(&format!("p{i}"), EdmValue::Int32(i)));
        builder
    }

    #[test]
    fn the_limits_of_the_other_dialect_count_stored_bytes_and_no_value() {
        let insert = |properties| Mutation::Insert { key: key(), properties }.apply(None, at(1));
        assert_eq!(content(&insert(wide(255)).unwrap()).len(), 255);
        assert_eq!(insert(wide(256)), Err(MutationError::TooManyProperties));
        for character in ["a", "é", "日"] {
            // The keys, the header, the name and its length, the type, and the length of the value take 18 bytes.
            let count = (COSMOS_ENTITY_BYTES_MAX - 18) / character.len();
            let sized = |count: usize| {
                let mut builder = wide(0);
                builder.push("n", EdmValue::String(&character.repeat(count)));
                insert(builder).map(drop)
            };
            assert_eq!((sized(count), sized(count + 1)), (Ok(()), Err(MutationError::EntityTooLarge)), "{character}");
        }
    }

    #[test]
    fn a_merge_is_judged_by_the_limits_of_its_request() {
        let stored = wide(255).finish(at(1));
        let mut large = wide(0);
        large.push("v", EdmValue::Binary(&vec![0; ENTITY_BYTES_MAX]));
        let large = large.finish(at(1));
        let merge = |stored: &Record, properties: RecordBuilder| {
            let merged = Mutation::InsertOrMerge { key: key(), properties }.apply(Some(stored.view().unwrap()), at(2));
            merged.map(drop)
        };
        assert_eq!(merge(&stored, wide(9)), Ok(()));
        assert_eq!(merge(&stored, wide(256)), Err(MutationError::TooManyProperties));
        assert_eq!(merge(&stored, properties(&[("p1", 1)])), Err(MutationError::TooManyProperties));
        assert_eq!(merge(&large, wide(1)), Ok(()));
        assert_eq!(merge(&large, properties(&[("p1", 1)])), Err(MutationError::EntityTooLarge));
        // What does not keep the stored properties depends on the request alone.
        let replace = Mutation::InsertOrReplace { key: key(), properties: properties(&[("p1", 1)]) };
        assert!(replace.apply(Some(stored.view().unwrap()), at(2)).is_ok());
    }

    #[test]
    fn the_entity_limit_holds_to_the_byte() {
        // The keys take 4 + 2 * (1 + 1) bytes, and there are 15 properties with names of one or two characters.
        let sized = |last: usize| {
            let mut builder = RecordBuilder::default();
            (0..15).for_each(|i| builder.push(&format!("{}", (b'a' + i) as char), EdmValue::Binary(&vec![0; 65_536])));
            builder.push("z", EdmValue::Binary(&vec![0; last]));
            Mutation::Insert { key: key(), properties: builder }.apply(None, at(1))
        };
        let room = ENTITY_BYTES_MAX - 8 - 15 * (8 + 2 + 4 + 65_536) - (8 + 2 + 4);
        assert!(room <= 65_536);
        assert!(sized(room).is_ok());
        assert_eq!(sized(room + 1), Err(MutationError::EntityTooLarge));
    }

    #[test]
    fn a_merge_is_held_to_the_limits_of_its_result() {
        let mut full = RecordBuilder::default();
        (0..252).for_each(|i| full.push(&format!("p{i}"), EdmValue::Int32(i)));
        let full = full.finish(at(1));
        let merge = |list: &[(&str, i32)]| {
            Mutation::InsertOrMerge { key: key(), properties: properties(list) }
                .apply(Some(full.view().unwrap()), at(2))
        };
        assert!(merge(&[("p7", 1)]).is_ok());
        assert_eq!(merge(&[("new", 1)]), Err(MutationError::TooManyProperties));
    }
}
