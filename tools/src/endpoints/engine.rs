use super::endpoint::{Endpoint, Page, Query, Source, WriteMode, WriteOutcome};
use anyhow::{Context, anyhow, bail};
use async_trait::async_trait;
use client::{Continuation, PropertyBag};
use engine::{
    CatalogError, CommitError, Engine, EngineExt, EntitySink, ReadError, Scan, SinkDecision, TableKey, TablePages,
};
use model::limits::PAGE_BODY_BYTES_MAX;
use model::plan::plan;
use model::{
    AccountName, Condition, EntityKey, EntityLimits, EntityView, Filter, KeyText, Mutation, MutationError, Position,
    RecordBuilder, RecordView, ServiceProperties, ServicePropertiesUpdate, StoredAccessPolicies, TableName,
    TableSettings, Transaction,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::filter::Grammar;

/// The time limit for filling one page. When it is reached, the engine returns a partial page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct EngineEndpoint(pub(crate) Arc<dyn Engine>);

#[async_trait]
impl Source for EngineEndpoint {
    fn only_account(&self) -> Option<&AccountName> {
        None
    }

    async fn accounts(&self) -> anyhow::Result<Vec<AccountName>> {
        Ok(self.0.accounts().await?)
    }

    async fn tables(&self, account: &AccountName) -> anyhow::Result<Vec<TableName>> {
        let mut tables = Vec::new();
        let mut pages = TablePages::new(&*self.0, account, String::new());
        while let Some(page) = pages.next().await? {
            tables.extend(page);
        }
        Ok(tables)
    }

    async fn page(
        &self,
        table: &TableKey,
        query: &Query,
        from: Option<&Continuation>,
        limit: usize,
    ) -> anyhow::Result<Page> {
        let filter = query.filter.as_deref().map(parse_filter).transpose()?.flatten();
        let scan = Scan {
            ranges: plan(filter.as_ref()).ranges,
            from: from.map(|from| Position::new(&from.partition, from.row.as_deref().unwrap_or_default())),
            filter,
            limit,
            bytes_expected: PAGE_BODY_BYTES_MAX,
            ..Scan::all(Instant::now() + PAGE_TIMEOUT)
        };
        let sink = PageSink { entities: Vec::new(), bytes: 0, select: query.select.clone(), is_damaged: false };
        let (page, end) = self.0.scan(table, scan, sink).await.map_err(|error| read_error(error, table))?;
        if page.is_damaged {
            bail!("an entity in table '{}' cannot be read: its record is damaged", table.name);
        }
        let next = end.next.map(|position| {
            let keys = position.keys().context("the engine returned no position")?;
            let row = Some(keys.row.into_owned());
            anyhow::Ok(Continuation { partition: keys.partition.into_owned(), row })
        });
        Ok(Page { entities: page.entities, next: next.transpose()? })
    }

    async fn policies(&self, table: &TableKey) -> anyhow::Result<StoredAccessPolicies> {
        self.0.policies(table).await.map_err(|error| read_error(error, table))
    }

    async fn settings(&self, table: &TableKey) -> anyhow::Result<Option<TableSettings>> {
        self.0.settings(table).await.map(Some).map_err(|error| read_error(error, table))
    }

    async fn properties(&self, account: &AccountName) -> anyhow::Result<ServiceProperties> {
        Ok(ServiceProperties::clone(&*self.0.service_properties(account)?))
    }

    async fn close(&self) -> anyhow::Result<()> {
        Ok(self.0.close().await?)
    }
}

#[async_trait]
impl Endpoint for EngineEndpoint {
    async fn create_table(&self, table: &TableKey) -> anyhow::Result<()> {
        match self.0.create_table(table).await {
            Ok(()) | Err(CatalogError::AlreadyExists) => Ok(()),
            Err(error) => Err(catalog_error(error, table)),
        }
    }

    async fn write(
        &self,
        table: &TableKey,
        entities: Vec<PropertyBag>,
        mode: WriteMode,
    ) -> anyhow::Result<WriteOutcome> {
        let mutations = entities.into_iter().map(|entity| mutation(entity, mode));
        match commit(&*self.0, table, mutations.collect()).await? {
            Ok(()) => Ok(WriteOutcome::Done),
            Err(MutationError::AlreadyExists) => Ok(WriteOutcome::SomeExist),
            Err(error) => bail!("the engine rejects an entity of table '{}': {error:?}", table.name),
        }
    }

    async fn delete(&self, table: &TableKey, key: EntityKey) -> anyhow::Result<()> {
        match commit(&*self.0, table, vec![Mutation::Delete { key, condition: Condition::Any }]).await? {
            Ok(()) | Err(MutationError::NotFound) => Ok(()),
            Err(error) => bail!("the engine does not delete an entity of table '{}': {error:?}", table.name),
        }
    }

    async fn entity(&self, table: &TableKey, key: &EntityKey) -> anyhow::Result<Option<PropertyBag>> {
        let record = self.0.get(table, key).await.map_err(|error| read_error(error, table))?;
        let Some(record) = record else { return Ok(None) };
        let read = record.view().ok().and_then(|record| properties(record, &[]));
        let properties = read.with_context(|| format!("an entity in table '{}' is damaged", table.name))?;
        Ok(Some(PropertyBag::of_properties(key.clone(), properties)))
    }

    async fn set_policies(&self, table: &TableKey, policies: StoredAccessPolicies) -> anyhow::Result<()> {
        self.0.set_policies(table, policies).await.map_err(|error| catalog_error(error, table))
    }

    async fn set_settings(&self, table: &TableKey, settings: TableSettings) -> anyhow::Result<()> {
        let set = self.0.update_settings(table, settings.into_update()).await;
        set.map_err(|error| catalog_error(error, table))
    }

    async fn set_properties(&self, account: &AccountName, properties: ServiceProperties) -> anyhow::Result<()> {
        let ServiceProperties { logging, hour_metrics, minute_metrics, cors } = properties;
        let update = ServicePropertiesUpdate {
            logging: Some(logging),
            hour_metrics: Some(hour_metrics),
            minute_metrics: Some(minute_metrics),
            cors: Some(cors),
        };
        Ok(self.0.update_service_properties(account, update).await?)
    }
}

async fn commit(
    engine: &dyn Engine,
    table: &TableKey,
    mutations: Vec<Mutation>,
) -> anyhow::Result<Result<(), MutationError>> {
    let transaction = Transaction::new(mutations)
        .map_err(|error| anyhow!("entities of '{}' do not form a valid transaction: {error:?}", table.name))?;
    match engine.commit(table, transaction).await {
        Ok(_) => Ok(Ok(())),
        Err(CommitError::TableNotFound) => bail!("the table '{}' no longer exists", table.name),
        Err(CommitError::Refused(_, error)) => Ok(Err(error)),
        Err(CommitError::Fault(fault)) => Err(fault.into()),
    }
}

fn read_error(error: ReadError, table: &TableKey) -> anyhow::Error {
    match error {
        ReadError::TableNotFound => anyhow!("the table '{}' no longer exists", table.name),
        ReadError::Fault(fault) => fault.into(),
        error @ (ReadError::IndexNotFound | ReadError::IndexNotReady) => {
            anyhow!("the table '{}' cannot be read: {error}", table.name)
        }
    }
}

fn catalog_error(error: CatalogError, table: &TableKey) -> anyhow::Error {
    match error {
        CatalogError::AlreadyExists => anyhow!("the table '{}' already exists", table.name),
        CatalogError::BeingDeleted => anyhow!("the table '{}' is still being deleted", table.name),
        CatalogError::NotFound => anyhow!("the table '{}' no longer exists", table.name),
        CatalogError::Fault(fault) => fault.into(),
    }
}

fn mutation(entity: PropertyBag, mode: WriteMode) -> Mutation {
    let PropertyBag { key, properties, .. } = entity;
    let properties = properties.into_record_builder();
    match mode {
        WriteMode::Insert => Mutation::Insert { key, properties },
        WriteMode::Replace => Mutation::InsertOrReplace { key, properties },
        WriteMode::Merge => Mutation::InsertOrMerge { key, properties },
    }
}

/// An empty string means no filter, as in a service. Functions are allowed: a service without them refuses the filter
/// itself.
pub(crate) fn parse_filter(text: &str) -> anyhow::Result<Option<Filter>> {
    wire::filter::parse_optional(text, Grammar::Extended).map_err(|_| {
        anyhow!(
            "'{text}' is not a valid filter: write it like PartitionKey eq 'north' and Count gt 5, with dates as \
             datetime'2031-04-01T00:00:00Z' and large numbers as 5000000000L"
        )
    })
}

struct PageSink {
    entities: Vec<PropertyBag>,
    /// The size of the page, which bounds its memory.
    bytes: usize,
    select: Vec<String>,
    is_damaged: bool,
}

impl EntitySink for PageSink {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        let stored_bytes = entity.record.record_bytes();
        if let Some(entity) = copy_entity(entity, &self.select) {
            self.entities.push(entity);
            self.bytes += stored_bytes;
            return if self.bytes < PAGE_BODY_BYTES_MAX { SinkDecision::Accepted } else { SinkDecision::AcceptedLast };
        }
        self.is_damaged = true;
        SinkDecision::AcceptedLast
    }
}

/// If `select` is empty, copies all properties. Returns `None` if the record is damaged.
pub(crate) fn copy_entity(entity: &EntityView<'_>, select: &[String]) -> Option<PropertyBag> {
    let partition = KeyText::new(&entity.key.partition).ok()?;
    let row = KeyText::new(&entity.key.row).ok()?;
    let properties = properties(entity.record, select)?;
    let timestamp = Some(entity.record.timestamp());
    Some(PropertyBag { key: EntityKey { partition, row }, properties: properties.into(), timestamp, etag: None })
}

/// Returns properties in the order of a service: sorted by name if some are selected.
fn properties(record: RecordView<'_>, select: &[String]) -> Option<RecordBuilder> {
    let mut properties = RecordBuilder::within(&EntityLimits::WIDEST, record.record_bytes());
    for property in record.properties() {
        let property = property.ok()?;
        let name = property.name().ok()?;
        if select.is_empty() || select.iter().any(|selected| selected == name) {
            properties.push(name, property.value().ok()?);
        }
    }
    Some(if select.is_empty() { properties } else { properties.ordered() })
}
