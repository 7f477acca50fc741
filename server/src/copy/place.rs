//! A place that is open: what copying needs of an engine and of a service alike.
//!
//! This module must not know which is copied to which.

use anyhow::{Context, anyhow, bail};
use client::{Continuation, Entity, Page, TableService};
use model::limits::PAGE_ENTITY_BYTES_MAX;
use model::{
    AccountName, EntityKey, EntityView, KeyRange, KeyText, Mutation, Position, RecordBuilder, ServiceProperties,
    ServicePropertiesUpdate, StoredAccessPolicies, TableName, Transaction,
};
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::{Duration, Instant};
use store::{CatalogError, CommitError, Engine, EntitySink, ReadError, Scan, TableKey};

/// How long an engine may work on one page before it hands out what it has.
const PAGE_TIME: Duration = Duration::from_secs(10);
/// How many tables are asked for at a time.
const TABLES_PER_LIST: usize = 1000;

/// What a place answers, some time.
pub(super) type Answer<'a, T> = Pin<Box<dyn Future<Output = anyhow::Result<T>> + Send + 'a>>;

/// An engine or a service. Everything may be repeated without harm.
pub(super) trait Place: Send + Sync {
    /// The only account of the place; `None` if it takes any.
    fn only_account(&self) -> Option<&AccountName>;
    /// The accounts that have anything to copy.
    fn accounts(&self) -> Answer<'_, Vec<AccountName>>;
    /// All tables of an account.
    fn tables<'a>(&'a self, account: &'a AccountName) -> Answer<'a, Vec<TableName>>;
    /// Makes sure that a table exists.
    fn create_table<'a>(&'a self, table: &'a TableKey) -> Answer<'a, ()>;
    /// A page of at most this many entities.
    fn page<'a>(&'a self, table: &'a TableKey, from: Option<&'a Continuation>, limit: usize) -> Answer<'a, Page>;
    /// Stores up to 100 different entities of one partition, and replaces those that exist.
    fn upsert<'a>(&'a self, table: &'a TableKey, entities: Vec<Entity>) -> Answer<'a, ()>;
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
pub(super) struct EnginePlace<E>(pub(super) E);

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
            let mut from = String::new();
            loop {
                let some = self.0.list_tables(account, &from, TABLES_PER_LIST).await?;
                // Names have no character that sorts before the digit zero, so nothing lies in between.
                let Some(last) = some.last() else { return Ok(tables) };
                from = format!("{}0", last.folded());
                tables.extend(some);
            }
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

    fn page<'a>(&'a self, table: &'a TableKey, from: Option<&'a Continuation>, limit: usize) -> Answer<'a, Page> {
        let position = from.map(|from| Position::new(&from.partition, from.row.as_deref().unwrap_or_default()));
        Box::pin(async move {
            let scan = Scan {
                ranges: vec![KeyRange::all()],
                from: position,
                filter: None,
                limit,
                byte_budget: PAGE_ENTITY_BYTES_MAX,
                deadline: Instant::now() + PAGE_TIME,
            };
            let (kept, end) =
                self.0.scan(table, scan, Kept::default()).await.map_err(|error| read_error(error, table))?;
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

    fn upsert<'a>(&'a self, table: &'a TableKey, entities: Vec<Entity>) -> Answer<'a, ()> {
        Box::pin(async move {
            let mutations =
                entities.into_iter().map(|Entity { key, properties }| Mutation::InsertOrReplace { key, properties });
            let transaction = Transaction::new(mutations.collect())
                .map_err(|error| anyhow!("entities of '{}' form no transaction: {error:?}", table.name))?;
            match self.0.commit(table, transaction).await {
                Ok(_) => Ok(()),
                Err(CommitError::TableNotFound) => bail!("the table '{}' is gone", table.name),
                Err(CommitError::Refused(_, error)) => {
                    bail!("an entity of the table '{}' is not allowed here: {error:?}", table.name)
                }
                Err(CommitError::Fault(fault)) => Err(fault.into()),
            }
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

/// Takes copies of the entities of a page.
#[derive(Default)]
struct Kept {
    entities: Vec<Entity>,
    fault: Option<&'static str>,
}

impl EntitySink for Kept {
    fn entity(&mut self, entity: &EntityView<'_>) -> ControlFlow<()> {
        if let Some(entity) = kept(entity) {
            self.entities.push(entity);
            return ControlFlow::Continue(());
        }
        self.fault = Some("its record is damaged");
        ControlFlow::Break(())
    }
}

fn kept(entity: &EntityView<'_>) -> Option<Entity> {
    let partition = KeyText::new(&entity.key.partition).ok()?;
    let row = KeyText::new(&entity.key.row).ok()?;
    let mut properties = RecordBuilder::default();
    for property in entity.record.properties() {
        let property = property.ok()?;
        properties.push(property.name().ok()?, property.value().ok()?);
    }
    Some(Entity { key: EntityKey { partition, row }, properties })
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

    fn page<'a>(&'a self, table: &'a TableKey, from: Option<&'a Continuation>, limit: usize) -> Answer<'a, Page> {
        Box::pin(async move { Ok(self.page(table.name.as_str(), from, limit).await?) })
    }

    fn upsert<'a>(&'a self, table: &'a TableKey, entities: Vec<Entity>) -> Answer<'a, ()> {
        Box::pin(async move { Ok(self.upsert(table.name.as_str(), &entities).await?) })
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
