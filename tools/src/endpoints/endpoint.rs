//! The interface between commands and endpoints: a data folder, a database, a service or a backup.
//!
//! This module must not know why entities are read and written.

use async_trait::async_trait;
use client::{Changes, Continuation, PropertyBag};
use engine::TableKey;
use model::limits::{REQUEST_BODY_BYTES_MAX, TRANSACTION_OPERATIONS_MAX};
use model::record::Property;
use model::{
    AccountName, EdmValue, EntityKey, KeyText, RecordBuilder, ServiceProperties, StoredAccessPolicies, TableName,
    TableSettings,
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    /// An expression in the filter language. `None` selects all entities.
    pub(crate) filter: Option<String>,
    /// The custom properties to read; an empty list means all. Keys and Timestamp are always read.
    pub(crate) select: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMode {
    Insert,
    /// All properties are replaced; a missing entity is inserted.
    Replace,
    /// The given properties are set, other properties are kept; a missing entity is inserted.
    Merge,
}

#[derive(Debug, Default)]
pub(crate) struct Page {
    /// A page may be empty even if more pages follow.
    pub(crate) entities: Vec<PropertyBag>,
    /// `None` for the last page.
    pub(crate) next: Option<Continuation>,
}

#[async_trait]
pub(crate) trait Source: Send + Sync {
    /// Returns the only account that the endpoint can have, or `None` if it accepts any account.
    fn only_account(&self) -> Option<&AccountName>;
    /// Returns the accounts that have tables or service properties.
    async fn accounts(&self) -> anyhow::Result<Vec<AccountName>>;
    async fn tables(&self, account: &AccountName) -> anyhow::Result<Vec<TableName>>;
    async fn page(
        &self,
        table: &TableKey,
        query: &Query,
        from: Option<&Continuation>,
        limit: usize,
    ) -> anyhow::Result<Page>;
    async fn policies(&self, table: &TableKey) -> anyhow::Result<StoredAccessPolicies>;
    /// Returns `None` if the tables of the endpoint have no settings.
    async fn settings(&self, table: &TableKey) -> anyhow::Result<Option<TableSettings>>;
    async fn properties(&self, account: &AccountName) -> anyhow::Result<ServiceProperties>;
    /// Returns the changes of a table. Returns `None` if the endpoint has no change feed.
    fn changes(&self, _: &TableKey) -> Option<Changes<PropertyBag>> {
        None
    }
    /// Closes the endpoint. All writes are durable when this returns.
    async fn close(&self) -> anyhow::Result<()>;
}

/// Every write can safely be retried.
#[async_trait]
pub(crate) trait Endpoint: Source {
    async fn create_table(&self, table: &TableKey) -> anyhow::Result<()>;
    /// Writes up to 100 distinct entities of one partition.
    async fn write(
        &self,
        table: &TableKey,
        entities: Vec<PropertyBag>,
        mode: WriteMode,
    ) -> anyhow::Result<WriteOutcome>;
    /// Deletes an entity if it exists.
    async fn delete(&self, table: &TableKey, key: EntityKey) -> anyhow::Result<()>;
    async fn entity(&self, table: &TableKey, key: &EntityKey) -> anyhow::Result<Option<PropertyBag>>;
    async fn set_policies(&self, table: &TableKey, policies: StoredAccessPolicies) -> anyhow::Result<()>;
    async fn set_settings(&self, table: &TableKey, settings: TableSettings) -> anyhow::Result<()>;
    async fn set_properties(&self, account: &AccountName, properties: ServiceProperties) -> anyhow::Result<()>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Done,
    /// Some of the entities to insert already exist, perhaps from an earlier attempt. Some of the other entities may
    /// have been written.
    SomeExist,
}

/// The maximum size of the entities in a transaction, by the size formula. If their JSON exceeds the maximum size of a
/// request, the transaction is split.
const TRANSACTION_ENTITY_BYTES_MAX: usize = REQUEST_BODY_BYTES_MAX / 2;

/// Preserves the order of the items. The entities of each group can be written in one transaction.
pub(crate) fn group_into_transactions<T>(items: Vec<T>, entity: impl Fn(&T) -> &PropertyBag) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut last: Option<(KeyText, usize)> = None;
    for item in items {
        let PropertyBag { key, properties, .. } = entity(&item);
        let bytes = properties.as_record_builder().formula_bytes();
        match (&mut last, groups.last_mut()) {
            (Some((partition, total)), Some(group))
                if *partition == key.partition
                    && group.len() < TRANSACTION_OPERATIONS_MAX
                    && *total + bytes <= TRANSACTION_ENTITY_BYTES_MAX =>
            {
                *total += bytes;
                group.push(item);
            }
            _ => {
                last = Some((key.partition.clone(), bytes));
                groups.push(vec![item]);
            }
        }
    }
    groups
}

/// Returns the difference between two entities with the same keys, or `None` if they are equal.
///
/// Ignores the order of properties, and the sign of zero, which JSON does not preserve. The message contains no values,
/// because they are user data.
pub(crate) fn difference(from: &PropertyBag, to: &PropertyBag) -> Option<String> {
    let from = from.properties.as_record_builder();
    let to = to.properties.as_record_builder();
    if from == to {
        return None;
    }
    let (from, to) = (sorted(from), sorted(to));
    let (mut left, mut right) = (from.iter().peekable(), to.iter().peekable());
    loop {
        let (one, other) = match (left.peek(), right.peek()) {
            (None, None) => return None,
            (Some(one), Some(other)) if one.name_bytes() == other.name_bytes() => (one, other),
            (Some(one), other) if other.is_none_or(|other| one.name_bytes() < other.name_bytes()) => {
                return Some(format!("the target has no property '{}'", name(one)));
            }
            (_, Some(other)) => return Some(format!("the source has no property '{}'", name(other))),
            (Some(one), None) => return Some(format!("the target has no property '{}'", name(one))),
        };
        if one.edm_type() != other.edm_type() {
            let types = (one.edm_type().name(), other.edm_type().name());
            return Some(format!(
                "the property '{}' is {} in the source and {} in the target",
                name(one),
                types.0,
                types.1
            ));
        }
        if !is_same_value(one, other) {
            return Some(format!("the property '{}' has a different value", name(one)));
        }
        left.next();
        right.next();
    }
}

fn sorted(properties: &RecordBuilder) -> Vec<Property<'_>> {
    let mut sorted = Vec::with_capacity(properties.len());
    sorted.extend(properties.properties().filter_map(Result::ok));
    sorted.sort_unstable_by_key(Property::name_bytes);
    sorted
}

fn is_same_value(one: &Property<'_>, other: &Property<'_>) -> bool {
    if let (Ok(EdmValue::Double(one)), Ok(EdmValue::Double(other))) = (one.value(), other.value()) {
        // Adding zero removes the sign of zero. The service has only one NaN.
        let bits = |double: f64| if double.is_nan() { f64::NAN.to_bits() } else { (double + 0.0).to_bits() };
        return bits(one) == bits(other);
    }
    one.value_bytes() == other.value_bytes()
}

fn name<'a>(property: &Property<'a>) -> &'a str {
    property.name().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(partition: &str, row: usize, bytes: usize) -> PropertyBag {
        let key =
            EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(&row.to_string()).unwrap() };
        let mut properties = RecordBuilder::default();
        properties.push("B", EdmValue::Binary(&vec![0; bytes]));
        PropertyBag::of_properties(key, properties)
    }

    #[test]
    fn transactions_have_one_partition_and_keep_the_limits() {
        let sizes =
            |entities| group_into_transactions(entities, |entity| entity).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(vec![]), [0; 0]);
        let mut entities: Vec<_> = (0..250).map(|row| entity("a", row, 1)).collect();
        entities.push(entity("b", 0, 1));
        entities.extend((0..2).map(|row| entity("c", row, 1)));
        assert_eq!(sizes(entities), [100, 100, 50, 1, 2]);
        let large = (0..40).map(|row| entity("a", row, 60_000)).collect();
        assert_eq!(sizes(large), [34, 6], "at most 2 MiB in total");
    }

    fn bag(properties: &[(&str, EdmValue<'_>)]) -> PropertyBag {
        let text = |text| KeyText::new(text).unwrap();
        let mut builder = RecordBuilder::default();
        for (name, value) in properties {
            builder.push(name, *value);
        }
        PropertyBag::of_properties(EntityKey { partition: text("p"), row: text("r") }, builder)
    }

    #[test]
    fn order_and_the_sign_of_zero_do_not_count() {
        use EdmValue::{Double, Int32, String};
        for (one, other) in [
            (vec![], vec![]),
            (vec![("a", Int32(1)), ("b", String("x"))], vec![("b", String("x")), ("a", Int32(1))]),
            (vec![("a", Double(0.0))], vec![("a", Double(-0.0))]),
            (vec![("a", Double(f64::NAN))], vec![("a", Double(-f64::NAN))]),
        ] {
            assert_eq!(difference(&bag(&one), &bag(&other)), None, "{one:?}");
        }
    }

    #[test]
    fn every_other_difference_is_described_without_values() {
        use EdmValue::{Double, Int32, Int64, String};
        for (one, other, expected) in [
            (vec![("a", Int32(1))], vec![], "the target has no property 'a'"),
            (vec![], vec![("a", Int32(1))], "the source has no property 'a'"),
            (
                vec![("a", Int32(1)), ("c", Int32(1))],
                vec![("b", Int32(1)), ("c", Int32(1))],
                "target has no property 'a'",
            ),
            (vec![("c", Int32(1))], vec![("b", Int32(1)), ("c", Int32(1))], "source has no property 'b'"),
            (vec![("a", Int32(1))], vec![("a", Int64(1))], "is Edm.Int32 in the source and Edm.Int64 in the target"),
            (vec![("a", String("secret"))], vec![("a", String("other"))], "the property 'a' has a different value"),
            (vec![("a", Double(1.0))], vec![("a", Double(f64::NAN))], "the property 'a' has a different value"),
        ] {
            let difference = difference(&bag(&one), &bag(&other)).unwrap();
            assert!(difference.contains(expected) && !difference.contains("secret"), "{difference}");
        }
    }
}
