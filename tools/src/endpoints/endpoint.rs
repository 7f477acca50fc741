//! The interface between commands and endpoints: a data folder, a database, a service or a backup.
//!
//! This module must not know why entities are read and written.

use async_trait::async_trait;
use client::{Changes, Continuation, PropertyBag};
use engine::TableKey;
use model::limits::{REQUEST_BODY_BYTES_MAX, TRANSACTION_OPERATIONS_MAX};
use model::{AccountName, EntityKey, KeyText, ServiceProperties, StoredAccessPolicies, TableName, TableSettings};

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

#[cfg(test)]
mod tests {
    use super::*;
    use model::{EdmValue, RecordBuilder};

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
}
