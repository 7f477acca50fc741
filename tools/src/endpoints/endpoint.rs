//! What commands need of an endpoint: a data folder, a database, a service or a backup.
//!
//! This module must not know what entities are read and written for.

use async_trait::async_trait;
use client::{Continuation, PropertyBag};
use model::{AccountName, EntityKey, ServiceProperties, StoredAccessPolicies, TableName};
use std::sync::Arc;
use store::TableKey;

/// Which entities of a table are read, and which of their properties.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    /// An expression of the filter language; `None` selects all entities.
    pub(crate) filter: Option<String>,
    /// The custom properties that are read; an empty list means all. Keys and Timestamp are always read.
    pub(crate) select: Vec<String>,
}

/// How an entity is written, depending on whether it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// It must not exist.
    Insert,
    /// All its properties are replaced; a missing entity is inserted.
    Replace,
    /// The given properties are set, the others are kept; a missing entity is inserted.
    Merge,
}

/// A page of the entities of a table, in key order.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The entities. A page may be empty although more pages follow.
    pub(crate) entities: Vec<PropertyBag>,
    /// Where the next page begins; `None` for the last page.
    pub(crate) next: Option<Continuation>,
}

/// A table that is read in pages.
#[async_trait]
pub(crate) trait PageReader: Send + Sync {
    /// A page of at most `limit` entities.
    async fn page(&self, query: &Query, from: Option<&Continuation>, limit: usize) -> anyhow::Result<Page>;
}

/// A table of an endpoint.
pub(crate) struct SourceTable {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) table: TableKey,
}

#[async_trait]
impl PageReader for SourceTable {
    async fn page(&self, query: &Query, from: Option<&Continuation>, limit: usize) -> anyhow::Result<Page> {
        self.source.page(&self.table, query, from, limit).await
    }
}

/// Something that tables can be read from.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    /// The only account that the endpoint can have; `None` if it takes any.
    fn only_account(&self) -> Option<&AccountName>;
    /// The accounts that have tables or service properties.
    async fn accounts(&self) -> anyhow::Result<Vec<AccountName>>;
    /// All tables of an account.
    async fn tables(&self, account: &AccountName) -> anyhow::Result<Vec<TableName>>;
    /// A page of at most `limit` entities.
    async fn page(
        &self,
        table: &TableKey,
        query: &Query,
        from: Option<&Continuation>,
        limit: usize,
    ) -> anyhow::Result<Page>;
    /// The stored access policies of a table.
    async fn policies(&self, table: &TableKey) -> anyhow::Result<StoredAccessPolicies>;
    /// The service properties of an account.
    async fn properties(&self, account: &AccountName) -> anyhow::Result<ServiceProperties>;
    /// Closes the endpoint. What was written is durable when this returns.
    async fn close(&self) -> anyhow::Result<()>;
}

/// Something that tables can be read from and written to. Every write may be repeated without harm.
#[async_trait]
pub(crate) trait Endpoint: Source {
    /// Makes sure that a table exists.
    async fn create_table(&self, table: &TableKey) -> anyhow::Result<()>;
    /// Writes up to 100 different entities of one partition.
    async fn write(
        &self,
        table: &TableKey,
        entities: Vec<PropertyBag>,
        mode: WriteMode,
    ) -> anyhow::Result<WriteOutcome>;
    /// One entity; `None` if it does not exist.
    async fn entity(&self, table: &TableKey, key: &EntityKey) -> anyhow::Result<Option<PropertyBag>>;
    /// Replaces the stored access policies of a table.
    async fn set_policies(&self, table: &TableKey, policies: StoredAccessPolicies) -> anyhow::Result<()>;
    /// Replaces the service properties of an account.
    async fn set_properties(&self, account: &AccountName, properties: ServiceProperties) -> anyhow::Result<()>;
}

/// What became of entities that were to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// All are written.
    Done,
    /// Some of the entities to insert exist already, perhaps from an earlier attempt. Some of the others may be
    /// written.
    SomeExist,
}
