//! A place that is open: what commands need of an engine and of a service alike.
//!
//! This module must not know what is read and written for.

use anyhow::{Context, anyhow, bail};
use client::{Continuation, Entity, Page, Query, TableService, WriteMode};
use model::limits::PAGE_ENTITY_BYTES_MAX;
use model::plan::plan;
use model::{
    AccountName, EntityKey, EntityView, Filter, KeyText, Mutation, MutationError, Position, RecordBuilder, RecordView,
    ServiceProperties, ServicePropertiesUpdate, StoredAccessPolicies, TableName, Transaction,
};
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::{Duration, Instant};
use store::{CatalogError, CommitError, Engine, EntitySink, ReadError, Scan, TableKey, TablePages};

/// How long an engine may work on one page before it hands out what it has.
const PAGE_TIME: Duration = Duration::from_secs(10);

/// What a place answers, some time.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = anyhow::Result<T>> + Send + 'a>>;

/// What became of entities that were to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// All are written.
    Done,
    /// Some were to be inserted and are there already. Of those in front of them some may be written.
    SomeExist,
}

/// An engine or a service. Everything may be repeated without harm.
pub(crate) trait Place: Send + Sync {
    /// The only account of the place; `None` if it takes any.
    fn only_account(&self) -> Option<&AccountName>;
    /// The accounts that have anything.
    fn accounts(&self) -> Answer<'_, Vec<AccountName>>;
    /// All tables of an account.
    fn tables<'a>(&'a self, account: &'a AccountName) -> Answer<'a, Vec<TableName>>;
    /// Makes sure that a table exists.
    fn create_table<'a>(&'a self, table: &'a TableKey) -> Answer<'a, ()>;
    /// A page of at most this many entities.
    fn page<'a>(
        &'a self,
        table: &'a TableKey,
        query: &'a Query,
        from: Option<&'a Continuation>,
        limit: usize,
    ) -> Answer<'a, Page>;
    /// Writes up to 100 different entities of one partition. An insert may be refused because of an earlier attempt.
    fn write<'a>(&'a self, table: &'a TableKey, entities: Vec<Entity>, mode: WriteMode) -> Answer<'a, Written>;
    /// One entity; `None` if it is not there.
    fn entity<'a>(&'a self, table: &'a TableKey, key: &'a EntityKey) -> Answer<'a, Option<Entity>>;
    /// The stored access policies of a table.
    fn policies<'a>(&'a self, table: &'a TableKey) -> Answer<'a, StoredAccessPolicies>;
    /// Replaces the stored access policies of a table.
    fn set_policies<'a>(&'a self, table: &'a TableKey, policies: StoredAccessPolicies) -> Answer<'a, ()>;
    /// The service properties of an account.
    fn properties<'a>(&'a self, account: &'a AccountName) -> Answer<'a, ServiceProperties>;
    /// Replaces the service properties of an account.
    fn set_properties<'a>(&'a self, account: &'a AccountName, properties: ServiceProperties) -> Answer<'a, ()>;
    /// Ends the use of the place: whatever was written is durable when this returns.
    fn close(&self) -> Answer<'_, ()>;
}

/// An engine as a place.
pub(crate) struct EnginePlace<E>(pub(crate) E);

impl<E: Engine> Place for EnginePlace<E> {
    fn only_account(&self) -> Option<&AccountName> {
        None
    }

    fn accounts(&self) -> Answer<'_, Vec<AccountName>> {
        Box::pin(async { Ok(self.0.accounts().await?) })
    }

    fn tables<'a>(&'a self, account: &'a AccountName) -> Answer<'a, Vec<TableName>> {
        Box::pin(async move {
            let mut tables = Vec::new();
            let mut pages = TablePages::new(&self.0, account, String::new());
            while let Some(some) = pages.next().await? {
                tables.extend(some);
            }
            Ok(tables)
        })
    }

    fn create_table<'a>(&'a self, table: &'a TableKey) -> Answer<'a, ()> {
        Box::pin(async move {
            match self.0.create_table(table).await {
                Ok(()) | Err(CatalogError::AlreadyExists) => Ok(()),
                Err(error) => Err(catalog_error(error, table)),
            }
        })
    }

    fn page<'a>(
        &'a self,
        table: &'a TableKey,
        query: &'a Query,
        from: Option<&'a Continuation>,
        limit: usize,
    ) -> Answer<'a, Page> {
        let position = from.map(|from| Position::new(&from.partition, from.row.as_deref().unwrap_or_default()));
        Box::pin(async move {
            let filter = query.filter.as_deref().map(read_filter).transpose()?.flatten();
            let scan = Scan {
                ranges: plan(filter.as_ref()).ranges,
                from: position,
                filter,
                limit,
                byte_budget: PAGE_ENTITY_BYTES_MAX,
                deadline: Instant::now() + PAGE_TIME,
            };
            let (kept, end) =
                self.0.scan(table, scan, Kept::new(&query.select)).await.map_err(|error| read_error(error, table))?;
            if let Some(fault) = kept.fault {
                bail!("an entity of the table '{}' cannot be read: {fault}", table.name);
            }
            let next = end.next.map(|position| {
                let keys = position.keys().context("the engine named no position")?;
                let row = Some(keys.row.into_owned());
                anyhow::Ok(Continuation { partition: keys.partition.into_owned(), row })
            });
            Ok(Page { entities: kept.entities, next: next.transpose()? })
        })
    }

    fn write<'a>(&'a self, table: &'a TableKey, entities: Vec<Entity>, mode: WriteMode) -> Answer<'a, Written> {
        Box::pin(async move {
            let mutations = entities.into_iter().map(|entity| mutation(entity, mode));
            let transaction = Transaction::new(mutations.collect())
                .map_err(|error| anyhow!("entities of '{}' form no transaction: {error:?}", table.name))?;
            match self.0.commit(table, transaction).await {
                Ok(_) => Ok(Written::Done),
                Err(CommitError::TableNotFound) => bail!("the table '{}' is gone", table.name),
                Err(CommitError::Refused(_, MutationError::AlreadyExists)) => Ok(Written::SomeExist),
                Err(CommitError::Refused(_, error)) => {
                    bail!("an entity of the table '{}' is not allowed here: {error:?}", table.name)
                }
                Err(CommitError::Fault(fault)) => Err(fault.into()),
            }
        })
    }

    fn entity<'a>(&'a self, table: &'a TableKey, key: &'a EntityKey) -> Answer<'a, Option<Entity>> {
        Box::pin(async move {
            let record = self.0.get(table, key).await.map_err(|error| read_error(error, table))?;
            let Some(record) = record else { return Ok(None) };
            let read = record.view().ok().and_then(|record| properties(record, &[]));
            let properties = read.with_context(|| format!("an entity of the table '{}' is damaged", table.name))?;
            Ok(Some(Entity::new(key.clone(), properties)))
        })
    }

    fn policies<'a>(&'a self, table: &'a TableKey) -> Answer<'a, StoredAccessPolicies> {
        Box::pin(async move { self.0.policies(table).await.map_err(|error| read_error(error, table)) })
    }

    fn set_policies<'a>(&'a self, table: &'a TableKey, policies: StoredAccessPolicies) -> Answer<'a, ()> {
        Box::pin(async move { self.0.set_policies(table, policies).await.map_err(|error| catalog_error(error, table)) })
    }

    fn properties<'a>(&'a self, account: &'a AccountName) -> Answer<'a, ServiceProperties> {
        Box::pin(async move { Ok(ServiceProperties::clone(&*self.0.service_properties(account)?)) })
    }

    fn set_properties<'a>(&'a self, account: &'a AccountName, properties: ServiceProperties) -> Answer<'a, ()> {
        let ServiceProperties { logging, hour_metrics, minute_metrics, cors } = properties;
        let update = ServicePropertiesUpdate {
            logging: Some(logging),
            hour_metrics: Some(hour_metrics),
            minute_metrics: Some(minute_metrics),
            cors: Some(cors),
        };
        Box::pin(async move { Ok(self.0.update_service_properties(account, update).await?) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(self.0.close().await?) })
    }
}

fn read_error(error: ReadError, table: &TableKey) -> anyhow::Error {
    match error {
        ReadError::TableNotFound => anyhow!("the table '{}' is gone", table.name),
        ReadError::Fault(fault) => fault.into(),
    }
}

fn catalog_error(error: CatalogError, table: &TableKey) -> anyhow::Error {
    match error {
        CatalogError::AlreadyExists => anyhow!("the table '{}' is there already", table.name),
        CatalogError::NotFound => anyhow!("the table '{}' is gone", table.name),
        CatalogError::Fault(fault) => fault.into(),
    }
}

fn mutation(entity: Entity, mode: WriteMode) -> Mutation {
    let Entity { key, properties, .. } = entity;
    match mode {
        WriteMode::Insert => Mutation::Insert { key, properties },
        WriteMode::Replace => Mutation::InsertOrReplace { key, properties },
        WriteMode::Merge => Mutation::InsertOrMerge { key, properties },
    }
}

/// Reads a filter as a service does; nothing filters nothing.
pub(crate) fn read_filter(text: &str) -> anyhow::Result<Option<Filter>> {
    wire::filter::parse_optional(text).map_err(|_| {
        anyhow!(
            "'{text}' is not a filter: one looks like PartitionKey eq 'north' and Count gt 5, with dates as \
             datetime'2031-04-01T00:00:00Z' and large numbers as 5000000000L"
        )
    })
}

/// Takes copies of the entities of a page.
struct Kept {
    entities: Vec<Entity>,
    select: Vec<String>,
    fault: Option<&'static str>,
}

impl Kept {
    fn new(select: &[String]) -> Self {
        Self { entities: Vec::new(), select: select.to_vec(), fault: None }
    }
}

impl EntitySink for Kept {
    fn entity(&mut self, entity: &EntityView<'_>) -> ControlFlow<()> {
        if let Some(entity) = kept(entity, &self.select) {
            self.entities.push(entity);
            return ControlFlow::Continue(());
        }
        self.fault = Some("its record is damaged");
        ControlFlow::Break(())
    }
}

/// A copy of an entity with those properties that are selected; `None` if its record is damaged.
pub(crate) fn kept(entity: &EntityView<'_>, select: &[String]) -> Option<Entity> {
    let partition = KeyText::new(&entity.key.partition).ok()?;
    let row = KeyText::new(&entity.key.row).ok()?;
    let properties = properties(entity.record, select)?;
    let timestamp = Some(entity.record.timestamp());
    Some(Entity { key: EntityKey { partition, row }, properties, timestamp, etag: None })
}

/// The properties of a record, or those that are selected, in the order in which a service gives them then.
fn properties(record: RecordView<'_>, select: &[String]) -> Option<RecordBuilder> {
    let mut properties = RecordBuilder::default();
    for property in record.properties() {
        let property = property.ok()?;
        let name = property.name().ok()?;
        if select.is_empty() || select.iter().any(|selected| selected == name) {
            properties.push(name, property.value().ok()?);
        }
    }
    Some(if select.is_empty() { properties } else { properties.ordered() })
}

/// The account of a service as a place.
impl Place for TableService {
    fn only_account(&self) -> Option<&AccountName> {
        Some(self.endpoint().account())
    }

    fn accounts(&self) -> Answer<'_, Vec<AccountName>> {
        Box::pin(async { Ok(vec![self.endpoint().account().clone()]) })
    }

    fn tables<'a>(&'a self, _: &'a AccountName) -> Answer<'a, Vec<TableName>> {
        Box::pin(async {
            let names = self.tables().await?;
            // Tables of the service's own, such as those of metrics, have names that nobody else can give.
            let names = names.into_iter().filter(|name| !name.starts_with('$'));
            let read = |name: String| {
                TableName::new(&name).map_err(|_| anyhow!("the service has a table of the impossible name '{name}'"))
            };
            names.map(read).collect()
        })
    }

    fn create_table<'a>(&'a self, table: &'a TableKey) -> Answer<'a, ()> {
        Box::pin(async move { Ok(self.create_table(table.name.as_str()).await?) })
    }

    fn page<'a>(
        &'a self,
        table: &'a TableKey,
        query: &'a Query,
        from: Option<&'a Continuation>,
        limit: usize,
    ) -> Answer<'a, Page> {
        Box::pin(async move { Ok(self.page(table.name.as_str(), query, from, limit).await?) })
    }

    fn write<'a>(&'a self, table: &'a TableKey, entities: Vec<Entity>, mode: WriteMode) -> Answer<'a, Written> {
        Box::pin(async move {
            match self.write(table.name.as_str(), &entities, mode).await {
                Err(error) if error.refusal() == Some((409, "EntityAlreadyExists")) => Ok(Written::SomeExist),
                result => Ok(result.map(|()| Written::Done)?),
            }
        })
    }

    fn entity<'a>(&'a self, table: &'a TableKey, key: &'a EntityKey) -> Answer<'a, Option<Entity>> {
        Box::pin(async move {
            match self.entity(table.name.as_str(), key, &[]).await {
                Err(error) if error.refusal() == Some((404, "ResourceNotFound")) => Ok(None),
                result => Ok(Some(result?)),
            }
        })
    }

    fn policies<'a>(&'a self, table: &'a TableKey) -> Answer<'a, StoredAccessPolicies> {
        Box::pin(async move { self.policies(table.name.as_str()).await.context(SKIP_POLICIES) })
    }

    fn set_policies<'a>(&'a self, table: &'a TableKey, policies: StoredAccessPolicies) -> Answer<'a, ()> {
        Box::pin(async move { self.set_policies(table.name.as_str(), &policies).await.context(SKIP_POLICIES) })
    }

    fn properties<'a>(&'a self, _: &'a AccountName) -> Answer<'a, ServiceProperties> {
        Box::pin(async { self.properties().await.context(SKIP_PROPERTIES) })
    }

    fn set_properties<'a>(&'a self, _: &'a AccountName, properties: ServiceProperties) -> Answer<'a, ()> {
        Box::pin(async move { self.set_properties(&properties).await.context(SKIP_PROPERTIES) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

const SKIP_POLICIES: &str = "stored access policies (--skip-policies leaves them out)";
const SKIP_PROPERTIES: &str = "service properties (--skip-properties leaves them out)";
