//! The known usage of an account, which determines whether a transaction fits into its quota.
//!
//! An exact count would cost a read for each upsert. Therefore everything is counted from time to time, and only the
//! changes made by inserts and deletions are added in between. The possible effect of upserts and updates is totaled
//! separately and determines when to count again.
//!
//! What a transaction adds is reserved before it is executed, so that concurrent transactions together cannot exceed
//! the quota.
//!
//! This module must not depend on the engine or read a clock.

use crate::accounts::{ContentLimit, Quota};
use model::limits::QUOTA_TABLES_COUNTED_MAX;
use model::{EntityKey, Mutation, RecordBuilder};
use std::collections::HashMap;

/// The number of entities and their size: keys and records as they are stored, without index and compression.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ContentSize {
    pub(super) entities: u64,
    pub(super) bytes: u64,
}

impl ContentSize {
    pub(super) fn add(&mut self, other: Self) {
        self.entities = self.entities.saturating_add(other.entities);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn subtract(&mut self, other: Self) {
        self.entities = self.entities.saturating_sub(other.entities);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    fn new(key: &EntityKey, properties: &RecordBuilder) -> Self {
        Self { entities: 1, bytes: entity_bytes(key.partition.as_str(), key.row.as_str(), properties.record_bytes()) }
    }
}

/// Returns the size of an entity in bytes: its two keys with a separator, and its record.
pub(super) fn entity_bytes(partition: &str, row: &str, record_bytes: usize) -> u64 {
    u64::try_from(partition.len() + 1 + row.len() + record_bytes).unwrap_or(u64::MAX)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct UsageChange {
    /// The entities and bytes that the transaction certainly adds.
    inserted: ContentSize,
    /// The entities and bytes that the transaction may add.
    possible: ContentSize,
    /// The number of entities that the transaction deletes. Their size is not known.
    deleted: u64,
}

impl UsageChange {
    pub(super) fn from_mutations(mutations: &[Mutation]) -> Self {
        let mut change = Self::default();
        for mutation in mutations {
            match mutation {
                Mutation::Insert { key, properties } => change.inserted.add(ContentSize::new(key, properties)),
                Mutation::InsertOrReplace { key, properties } | Mutation::InsertOrMerge { key, properties } => {
                    change.possible.add(ContentSize::new(key, properties));
                }
                Mutation::Replace { key, properties, .. } | Mutation::Merge { key, properties, .. } => {
                    change.possible.add(ContentSize { entities: 0, ..ContentSize::new(key, properties) });
                }
                Mutation::Delete { .. } => change.deleted += 1,
            }
        }
        change
    }

    fn only_deletes(self) -> bool {
        self.inserted == ContentSize::default() && self.possible == ContentSize::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionOutcome {
    Committed,
    NoEffect,
    /// The transaction may have been committed, or the account was counted in the meantime.
    Unknown,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    known: ContentSize,
    possible: ContentSize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaDecision {
    Allowed,
    /// Allowed, but it is time to count again.
    AllowedButRecount,
    Refused,
}

impl Usage {
    fn decide(&self, limit: ContentLimit, change: &UsageChange) -> QuotaDecision {
        let UsageChange { inserted, possible, .. } = change;
        let is_beyond = |max: Option<u64>, now: u64, sure: u64, maybe: u64| {
            // A change that may need no space is refused only if the limit has been reached.
            max.is_some_and(|max| (sure > 0 && now.saturating_add(sure) > max) || (maybe > 0 && now >= max))
        };
        let known = self.known;
        if is_beyond(limit.entities, known.entities, inserted.entities, possible.entities)
            || is_beyond(limit.bytes, known.bytes, inserted.bytes, possible.bytes)
        {
            return QuotaDecision::Refused;
        }
        let mut most = known;
        most.add(self.possible);
        // If the limit has certainly been reached, no new count is needed.
        let needs_recount = |max: Option<u64>, known: u64, most: u64| max.is_some_and(|max| known < max && most >= max);
        if needs_recount(limit.entities, known.entities, most.entities)
            || needs_recount(limit.bytes, known.bytes, most.bytes)
        {
            return QuotaDecision::AllowedButRecount;
        }
        QuotaDecision::Allowed
    }

    fn reserve(&mut self, change: &UsageChange) {
        self.known.add(change.inserted);
        self.possible.add(change.possible);
    }

    fn settle(&mut self, change: &UsageChange, outcome: TransactionOutcome) {
        match outcome {
            TransactionOutcome::Committed => self.known.subtract(ContentSize { entities: change.deleted, bytes: 0 }),
            TransactionOutcome::NoEffect => {
                self.known.subtract(change.inserted);
                self.possible.subtract(change.possible);
            }
            TransactionOutcome::Unknown => {}
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct AccountUsage {
    whole: Usage,
    tables: HashMap<Box<str>, Usage>,
    /// Whether the real usage may be less than the known usage, because something was deleted after the count or may
    /// not have been written.
    may_overstate: bool,
}

impl AccountUsage {
    pub(super) fn counted(tables: Vec<(Box<str>, ContentSize)>) -> Self {
        let mut usage = Self::default();
        for (name, known) in tables {
            usage.whole.known.add(known);
            if usage.tables.len() < QUOTA_TABLES_COUNTED_MAX {
                usage.tables.insert(name, Usage { known, ..Usage::default() });
            }
        }
        usage
    }

    pub(super) fn whole(&self) -> ContentSize {
        self.whole.known
    }

    /// Decides whether a transaction on a table is allowed. Deletions are always allowed.
    pub(super) fn decide(&self, quota: Quota, table: &str, change: &UsageChange) -> QuotaDecision {
        if change.only_deletes() {
            return QuotaDecision::Allowed;
        }
        let of_account = self.whole.decide(quota.account, change);
        let of_table = self.tables.get(table).copied().unwrap_or_default().decide(quota.table, change);
        match (of_account, of_table) {
            (QuotaDecision::Refused, _) | (_, QuotaDecision::Refused) => QuotaDecision::Refused,
            (QuotaDecision::Allowed, QuotaDecision::Allowed) => QuotaDecision::Allowed,
            _ => QuotaDecision::AllowedButRecount,
        }
    }

    pub(super) fn may_overstate(&self) -> bool {
        self.may_overstate
    }

    pub(super) fn reserve(&mut self, table: &str, change: &UsageChange) {
        self.whole.reserve(change);
        let has_room = self.tables.len() < QUOTA_TABLES_COUNTED_MAX;
        if let Some(usage) = self.tables.get_mut(table) {
            usage.reserve(change);
        } else if has_room {
            self.tables.entry(table.into()).or_default().reserve(change);
        }
    }

    pub(super) fn settle(&mut self, table: &str, change: &UsageChange, outcome: TransactionOutcome) {
        self.whole.settle(change, outcome);
        if let Some(usage) = self.tables.get_mut(table) {
            usage.settle(change, outcome);
            // The table may not exist.
            if *usage == Usage::default() {
                self.tables.remove(table);
            }
        }
        self.may_overstate |=
            outcome == TransactionOutcome::Unknown || (outcome == TransactionOutcome::Committed && change.deleted > 0);
    }

    pub(super) fn forget(&mut self, table: &str) {
        if let Some(gone) = self.tables.remove(table) {
            self.whole.known.subtract(gone.known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Condition, EdmValue, KeyText};

    fn key(row: &str) -> EntityKey {
        EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new(row).unwrap() }
    }

    fn properties() -> RecordBuilder {
        let mut properties = RecordBuilder::default();
        properties.push("Text", EdmValue::String("x".repeat(1000).as_str()));
        properties
    }

    fn insert(rows: &[&str]) -> UsageChange {
        UsageChange::from_mutations(
            &rows.iter().map(|row| Mutation::Insert { key: key(row), properties: properties() }).collect::<Vec<_>>(),
        )
    }

    fn upsert() -> UsageChange {
        UsageChange::from_mutations(&[Mutation::InsertOrReplace { key: key("r"), properties: properties() }])
    }

    fn update() -> UsageChange {
        UsageChange::from_mutations(&[Mutation::Merge {
            key: key("r"),
            properties: properties(),
            condition: Condition::Any,
        }])
    }

    fn delete() -> UsageChange {
        UsageChange::from_mutations(&[Mutation::Delete { key: key("r"), condition: Condition::Any }])
    }

    fn happened(usage: &mut AccountUsage, table: &str, change: &UsageChange) {
        usage.reserve(table, change);
        usage.settle(table, change, TransactionOutcome::Committed);
    }

    fn quota(account: ContentLimit, table: ContentLimit) -> Quota {
        Quota { tables: None, account, table }
    }

    const NONE: ContentLimit = ContentLimit { entities: None, bytes: None };

    #[test]
    fn inserts_are_counted_exactly() {
        let three = quota(ContentLimit { entities: Some(3), bytes: None }, NONE);
        let mut usage = AccountUsage::counted(vec![("one".into(), ContentSize { entities: 1, bytes: 10 })]);
        assert_eq!(usage.decide(three, "two", &insert(&["1", "2", "3"])), QuotaDecision::Refused);
        assert_eq!(usage.decide(three, "two", &insert(&["1", "2"])), QuotaDecision::Allowed);
        happened(&mut usage, "two", &insert(&["1", "2"]));
        assert_eq!(usage.decide(three, "two", &insert(&["3"])), QuotaDecision::Refused);
        assert_eq!(usage.decide(three, "two", &upsert()), QuotaDecision::Refused);
        assert_eq!(usage.decide(three, "two", &update()), QuotaDecision::Allowed, "an update adds no entity");
        assert_eq!(usage.decide(three, "two", &delete()), QuotaDecision::Allowed);
        happened(&mut usage, "two", &delete());
        assert_eq!(usage.decide(three, "two", &insert(&["3"])), QuotaDecision::Allowed);
        usage.forget("one");
        assert_eq!(usage.decide(three, "two", &insert(&["3", "4"])), QuotaDecision::Allowed);
    }

    #[test]
    fn a_reservation_counts_until_the_transaction_certainly_changed_nothing() {
        let three = quota(ContentLimit { entities: Some(3), bytes: None }, NONE);
        let mut usage = AccountUsage::default();
        usage.reserve("one", &insert(&["1", "2"]));
        assert_eq!(usage.decide(three, "one", &insert(&["3", "4"])), QuotaDecision::Refused);
        usage.settle("one", &insert(&["1", "2"]), TransactionOutcome::NoEffect);
        assert!(usage.tables.is_empty(), "a table that may not exist");
        assert_eq!(usage.decide(three, "one", &insert(&["3", "4"])), QuotaDecision::Allowed);
        assert!(!usage.may_overstate());
        usage.reserve("one", &insert(&["3", "4"]));
        usage.settle("one", &insert(&["3", "4"]), TransactionOutcome::Unknown);
        assert_eq!(usage.decide(three, "one", &insert(&["5", "6"])), QuotaDecision::Refused);
        assert!(usage.may_overstate(), "a new count would show the usage");
        usage.reserve("one", &upsert());
        assert_eq!(usage.decide(three, "one", &upsert()), QuotaDecision::AllowedButRecount);
        usage.settle("one", &upsert(), TransactionOutcome::NoEffect);
        assert_eq!(usage.decide(three, "one", &upsert()), QuotaDecision::Allowed);
    }

    #[test]
    fn a_limit_of_bytes_refuses_everything_except_deletions() {
        let entity = insert(&["1"]).inserted.bytes;
        assert!((1000..1100).contains(&entity));
        let bytes = quota(ContentLimit { entities: None, bytes: Some(3 * entity) }, NONE);
        let mut usage = AccountUsage::default();
        happened(&mut usage, "one", &insert(&["1", "2", "3"]));
        for change in [insert(&["4"]), upsert(), update()] {
            assert_eq!(usage.decide(bytes, "one", &change), QuotaDecision::Refused);
        }
        assert_eq!(usage.decide(bytes, "one", &delete()), QuotaDecision::Allowed);
        // Only a new count shows how much was freed.
        happened(&mut usage, "one", &delete());
        assert_eq!(usage.decide(bytes, "one", &upsert()), QuotaDecision::Refused);
        assert!(usage.may_overstate());
        assert!(!AccountUsage::counted(Vec::new()).may_overstate());
    }

    #[test]
    fn what_may_have_grown_is_a_reason_to_count_and_not_to_refuse() {
        let three = quota(ContentLimit { entities: Some(3), bytes: None }, NONE);
        let mut usage = AccountUsage::default();
        for expected in
            [QuotaDecision::Allowed, QuotaDecision::Allowed, QuotaDecision::Allowed, QuotaDecision::AllowedButRecount]
        {
            assert_eq!(usage.decide(three, "one", &upsert()), expected);
            happened(&mut usage, "one", &upsert());
        }
        assert_eq!(usage.decide(three, "one", &insert(&["1"])), QuotaDecision::AllowedButRecount);
    }

    #[test]
    fn each_table_has_its_own() {
        let two = quota(NONE, ContentLimit { entities: Some(2), bytes: None });
        let mut usage = AccountUsage::default();
        happened(&mut usage, "one", &insert(&["1", "2"]));
        assert_eq!(usage.decide(two, "one", &insert(&["3"])), QuotaDecision::Refused);
        assert_eq!(usage.decide(two, "two", &insert(&["3"])), QuotaDecision::Allowed);
        usage.forget("one");
        assert_eq!(usage.decide(two, "one", &insert(&["3"])), QuotaDecision::Allowed);
    }
}
