//! Random tables, keys, transactions, scans and filters that often coincide.

use crate::support::*;
use engine::{Order, Scan, TableKey};
use model::filter::{Call, Comparison, Literal, Operator, PropertyName, StringFunction};
use model::{
    Condition, DateTime, EdmValue, EntityKey, Filter, IndexedProperty, KeyRange, Mutation, Permissions, Position,
};
use model::{RecordBuilder, Retention, StoredAccessPolicies, StoredAccessPolicy, Transaction, Visibility};
use test_support::Random;

pub(crate) struct Choices(pub(crate) Random);

impl Choices {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.index(bound)
    }

    pub(crate) fn one<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub(crate) fn table(&mut self) -> TableKey {
        let account = self.one(&["account1", "account2"]);
        table_of(account, self.one(&["Alpha", "alpha", "ALPHA", "Beta", "gamma"]))
    }

    pub(crate) fn entity(&mut self) -> EntityKey {
        let partition = self.one(&["", "a", "ab", "é", "\u{E000}", "😀"]);
        key(partition, &self.row())
    }

    fn row(&mut self) -> String {
        let row = self.one(&["", "0", "1", "2", "3", "30", "😀", "\u{FFFD}"]);
        row.to_owned()
    }

    fn properties(&mut self) -> RecordBuilder {
        let mut builder = RecordBuilder::default();
        for name in ["value", "other"] {
            if self.one_in(2) {
                builder.push(name, EdmValue::Int64(i64::try_from(self.below(4)).unwrap()));
            }
        }
        if self.one_in(2) {
            builder.push("text", EdmValue::String(&self.row()));
        }
        if self.one_in(3) {
            // The clock moves in the same range.
            let ticks = START_TICKS + i64::try_from(self.below(100_000)).unwrap();
            builder.push("Time", EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap()));
        }
        if self.one_in(20) {
            builder.push("large", EdmValue::Binary(&vec![7; 20_000]));
        }
        builder
    }

    fn condition(&mut self, stamps: &[DateTime]) -> Condition {
        if stamps.is_empty() || self.one_in(3) {
            return Condition::Any;
        }
        let recent = stamps.len() - 1 - self.below(stamps.len().min(20));
        if_match(stamps[recent])
    }

    fn mutation(&mut self, key: EntityKey, stamps: &[DateTime]) -> Mutation {
        match self.below(8) {
            0 => Mutation::Insert { key, properties: self.properties() },
            1 => Mutation::Replace { key, properties: self.properties(), condition: self.condition(stamps) },
            2 => Mutation::Merge { key, properties: self.properties(), condition: self.condition(stamps) },
            3 => Mutation::Delete { key, condition: self.condition(stamps) },
            4 | 5 => Mutation::InsertOrMerge { key, properties: self.properties() },
            _ => Mutation::InsertOrReplace { key, properties: self.properties() },
        }
    }

    pub(crate) fn transaction(&mut self, stamps: &[DateTime]) -> Transaction {
        let first = self.entity();
        if !stamps.is_empty() && self.one_in(8) {
            let recent = stamps.len() - 1 - self.below(stamps.len().min(20));
            return Transaction::deleting_expired([(first, stamps[recent])]).unwrap();
        }
        let mut mutations = vec![self.mutation(first.clone(), stamps)];
        if self.one_in(3) {
            for _ in 0..self.below(6) {
                let key =
                    EntityKey { partition: first.partition.clone(), row: model::KeyText::new(&self.row()).unwrap() };
                if mutations.iter().all(|mutation| *mutation.key() != key) {
                    mutations.push(self.mutation(key, stamps));
                }
            }
        }
        Transaction::new(mutations).unwrap()
    }

    pub(crate) fn retention(&mut self) -> Option<Retention> {
        match self.below(3) {
            0 => None,
            1 => Retention::by_age(1),
            _ => Retention::by_property("Time", 0),
        }
    }

    fn property(&mut self) -> IndexedProperty {
        IndexedProperty::new(self.one(&["value", "other", "text"])).unwrap()
    }

    pub(crate) fn indexes(&mut self) -> Vec<IndexedProperty> {
        let mut indexes: Vec<_> = (0..self.below(3)).map(|_| self.property()).collect();
        indexes.dedup();
        indexes
    }

    pub(crate) fn order(&mut self) -> Order {
        Order::Value { property: self.property(), is_descending: self.one_in(2) }
    }

    pub(crate) fn policies(&mut self) -> StoredAccessPolicies {
        let policy = |random: &mut Self, index: usize| {
            let mut policy = StoredAccessPolicy::new(&format!("é{index}")).unwrap();
            policy.start = random.one_in(2).then_some(DateTime::MIN);
            policy.expiry = random.one_in(2).then_some(DateTime::MAX);
            policy.permissions = random.one_in(2).then(|| *random.one(&[&Permissions::NONE, &Permissions::ENTITIES]));
            policy
        };
        StoredAccessPolicies::new((0..self.below(6)).map(|index| policy(self, index)).collect()).unwrap()
    }

    pub(crate) fn scan(&mut self) -> Scan {
        let mut edges: Vec<Vec<u8>> = (0..2 * self.below(3)).map(|_| self.entity().encode()).collect();
        edges.sort();
        let mut ranges: Vec<KeyRange> =
            edges.chunks(2).map(|pair| KeyRange { start: pair[0].clone(), end: Some(pair[1].clone()) }).collect();
        if ranges.is_empty() {
            ranges.push(KeyRange::all());
        }
        let from = self.one_in(3).then(|| Position::from_bytes(self.entity().encode()));
        let filter = self.one_in(2).then(|| {
            Filter::Compare(Comparison {
                property: PropertyName::Custom("value".into()),
                operator: *self.one(&[&Operator::Equal, &Operator::LessThan, &Operator::NotEqual]),
                literal: Literal::Int64(i64::try_from(self.below(4)).unwrap()),
            })
        });
        let limit = if self.one_in(2) { self.below(5) } else { usize::MAX };
        let bytes_expected = if self.one_in(4) { self.below(500) } else { usize::MAX };
        let visible = if self.one_in(4) { Visibility::Expired } else { Visibility::Live };
        let order = Order::Key { is_descending: self.one_in(2) };
        Scan { ranges, order, from, filter, visible, limit, bytes_expected, ..scan_all() }
    }

    pub(crate) fn filter(&mut self, depth: usize) -> Filter {
        let kinds = if depth == 0 { 2 } else { 6 };
        match self.below(kinds) {
            0 if self.one_in(8) => Filter::Constant(self.one_in(2)),
            0 if self.one_in(4) => Filter::IsTrue(PropertyName::Custom("value".into())),
            0 | 1 if self.one_in(3) => Filter::Call(self.call()),
            0 | 1 => Filter::Compare(self.comparison()),
            2 => Filter::Not(Box::new(self.filter(depth - 1))),
            3 => Filter::Or((0..2 + self.below(2)).map(|_| self.filter(depth - 1)).collect()),
            _ => Filter::And((0..2 + self.below(2)).map(|_| self.filter(depth - 1)).collect()),
        }
    }

    fn call(&mut self) -> Call {
        let key = self.entity();
        let (property, text) = match self.below(4) {
            0 | 1 => (PropertyName::PartitionKey, key.partition.as_str()),
            2 => (PropertyName::RowKey, key.row.as_str()),
            _ => (PropertyName::Custom(self.one(&["text", "value", "absent"]).into()), key.row.as_str()),
        };
        let functions = [&StringFunction::StartsWith, &StringFunction::EndsWith, &StringFunction::Contains];
        let text = text.chars().take(self.below(3)).collect();
        Call { function: *self.one(&functions), property, text }
    }

    fn comparison(&mut self) -> Comparison {
        let key = self.entity();
        let (property, literal) = match self.below(8) {
            0..=2 => (PropertyName::PartitionKey, Literal::String(key.partition.as_str().into())),
            3 | 4 => (PropertyName::RowKey, Literal::String(key.row.as_str().into())),
            5 => {
                let ticks = START_TICKS + i64::try_from(self.below(200_000)).unwrap();
                (PropertyName::Timestamp, Literal::DateTime(DateTime::from_ticks(ticks).unwrap()))
            }
            _ => {
                let name = self.one(&["value", "other", "absent"]);
                (PropertyName::Custom(name.into()), Literal::Int64(i64::try_from(self.below(4)).unwrap()))
            }
        };
        let operators = [
            &Operator::Equal,
            &Operator::NotEqual,
            &Operator::LessThan,
            &Operator::LessThanOrEqual,
            &Operator::GreaterThan,
            &Operator::GreaterThanOrEqual,
        ];
        Comparison { property, operator: *self.one(&operators), literal }
    }
}
