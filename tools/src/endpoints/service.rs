//! The account of a service as an endpoint.

use super::endpoint::{Endpoint, Source, WriteOutcome};
use anyhow::{Context, anyhow};
use async_trait::async_trait;
use client::{Continuation, Entity, Page, Query, TableService, WriteMode};
use model::{AccountName, EntityKey, ServiceProperties, StoredAccessPolicies, TableName};
use store::TableKey;

const SKIP_POLICIES: &str = "stored access policies (--skip-policies leaves them out)";
const SKIP_PROPERTIES: &str = "service properties (--skip-properties leaves them out)";

#[async_trait]
impl Source for TableService {
    fn only_account(&self) -> Option<&AccountName> {
        Some(self.endpoint().account())
    }

    async fn accounts(&self) -> anyhow::Result<Vec<AccountName>> {
        Ok(vec![self.endpoint().account().clone()])
    }

    async fn tables(&self, _: &AccountName) -> anyhow::Result<Vec<TableName>> {
        let names = self.tables().await?;
        // The service's own tables, such as those of metrics, have names that no client can create.
        let names = names.into_iter().filter(|name| !name.starts_with('$'));
        let parse = |name: String| {
            TableName::new(&name)
                .map_err(|_| anyhow!("the service lists the table '{name}', which is not a table name"))
        };
        names.map(parse).collect()
    }

    async fn page(
        &self,
        table: &TableKey,
        query: &Query,
        from: Option<&Continuation>,
        limit: usize,
    ) -> anyhow::Result<Page> {
        Ok(self.page(table.name.as_str(), query, from, limit).await?)
    }

    async fn policies(&self, table: &TableKey) -> anyhow::Result<StoredAccessPolicies> {
        self.policies(table.name.as_str()).await.context(SKIP_POLICIES)
    }

    async fn properties(&self, _: &AccountName) -> anyhow::Result<ServiceProperties> {
        self.properties().await.context(SKIP_PROPERTIES)
    }

    async fn close(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Endpoint for TableService {
    async fn create_table(&self, table: &TableKey) -> anyhow::Result<()> {
        Ok(self.create_table(table.name.as_str()).await?)
    }

    async fn write(&self, table: &TableKey, entities: Vec<Entity>, mode: WriteMode) -> anyhow::Result<WriteOutcome> {
        match self.write(table.name.as_str(), &entities, mode).await {
            Err(error) if error.refusal() == Some((409, "EntityAlreadyExists")) => Ok(WriteOutcome::SomeExist),
            result => Ok(result.map(|()| WriteOutcome::Done)?),
        }
    }

    async fn entity(&self, table: &TableKey, key: &EntityKey) -> anyhow::Result<Option<Entity>> {
        match self.entity(table.name.as_str(), key, &[]).await {
            Err(error) if error.refusal() == Some((404, "ResourceNotFound")) => Ok(None),
            result => Ok(Some(result?)),
        }
    }

    async fn set_policies(&self, table: &TableKey, policies: StoredAccessPolicies) -> anyhow::Result<()> {
        self.set_policies(table.name.as_str(), &policies).await.context(SKIP_POLICIES)
    }

    async fn set_properties(&self, _: &AccountName, properties: ServiceProperties) -> anyhow::Result<()> {
        self.set_properties(&properties).await.context(SKIP_PROPERTIES)
    }
}
