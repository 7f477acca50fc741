use super::contact::connect;
use super::endpoint::{Endpoint, Page, Query, Source, WriteMode, WriteOutcome};
use super::location::EndpointOption;
use super::service_error::{EntityTooLarge, ServiceError};
use anyhow::{Context, anyhow};
use async_trait::async_trait;
use client::{
    Changes, Continuation, Credential, Error, ErrorKind, IfMatch, PropertyBag, Stored, Table, TableService, Transaction,
};
use engine::TableKey;
use model::{
    AccountName, EntityKey, IndexedProperty, ServiceProperties, StoredAccessPolicies, TableName, TableSettings,
};

const SKIP_POLICIES: &str = "stored access policies (skip them with --skip-policies)";
const SKIP_SETTINGS: &str =
    "retention and indexes, which need a server with --extensions (skip them with --skip-policies)";
const SKIP_PROPERTIES: &str = "service properties (skip them with --skip-properties)";

/// An account of a service. Errors name the option that selected it, because a command may use two services.
#[derive(Debug)]
pub(super) struct ServiceEndpoint {
    service: TableService,
    option: EndpointOption,
}

impl ServiceEndpoint {
    /// Nothing is sent yet.
    pub(super) fn new(
        option: EndpointOption,
        endpoint: client::Endpoint,
        credential: Credential,
        attempts_max: u32,
    ) -> anyhow::Result<Self> {
        let service = connect(name(option, &endpoint), endpoint, credential, attempts_max)?;
        Ok(Self { service, option })
    }

    fn table(&self, table: &TableKey) -> Table {
        self.service.table(table.name.as_str())
    }

    fn named(&self, error: Error) -> ServiceError {
        ServiceError::new(name(self.option, self.service.endpoint()), self.option.address_option(), error)
    }
}

fn name(option: EndpointOption, endpoint: &client::Endpoint) -> String {
    format!("{option} {endpoint}")
}

#[async_trait]
impl Source for ServiceEndpoint {
    fn only_account(&self) -> Option<&AccountName> {
        Some(self.service.endpoint().account())
    }

    async fn accounts(&self) -> anyhow::Result<Vec<AccountName>> {
        Ok(vec![self.service.endpoint().account().clone()])
    }

    async fn tables(&self, _: &AccountName) -> anyhow::Result<Vec<TableName>> {
        let names = self.service.tables().all().await.map_err(|error| self.named(error))?;
        // The service's own tables, such as metrics tables, have names that no client can create.
        let names = names.into_iter().filter(|name| !name.starts_with('$'));
        let parse = |name: String| {
            TableName::new(&name).map_err(|_| anyhow!("the service lists a table with an invalid name, '{name}'"))
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
        let mut query = query_of(&self.table(table), query).page_size(limit);
        if let Some(from) = from {
            query = query.resume(from.clone());
        }
        let page = query.pages().next().await.context("the query returned no page")?;
        let page = page.map_err(|error| self.named(error))?;
        Ok(Page { entities: page.items, next: page.next })
    }

    async fn policies(&self, table: &TableKey) -> anyhow::Result<StoredAccessPolicies> {
        self.table(table).policies().await.map_err(|error| self.named(error)).context(SKIP_POLICIES)
    }

    async fn settings(&self, table: &TableKey) -> anyhow::Result<Option<TableSettings>> {
        let table = self.table(table);
        let retention = match table.retention().await {
            Ok(retention) => retention,
            Err(error) if is_unknown_operation(&error) => return Ok(None),
            Err(error) => return Err(self.named(error)).context(SKIP_SETTINGS),
        };
        let indexes = table.indexes().await.map_err(|error| self.named(error)).context(SKIP_SETTINGS)?;
        let indexes = indexes.into_iter().map(|index| index.property).collect();
        Ok(Some(TableSettings { retention, indexes }))
    }

    async fn properties(&self, _: &AccountName) -> anyhow::Result<ServiceProperties> {
        self.service.properties().await.map_err(|error| self.named(error)).context(SKIP_PROPERTIES)
    }

    fn changes(&self, table: &TableKey) -> Option<Changes<PropertyBag>> {
        Some(self.table(table).changes())
    }

    async fn close(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Returns whether the service does not have the operation, because it has no extensions. The cloud refuses the query
/// option; other services may ignore it, and answer with something else.
fn is_unknown_operation(error: &Error) -> bool {
    matches!(error.code(), Some("InvalidQueryParameterValue" | "InvalidInput" | "NotImplemented"))
        || matches!(error, Error::Unreadable { .. })
}

#[async_trait]
impl Endpoint for ServiceEndpoint {
    async fn create_table(&self, table: &TableKey) -> anyhow::Result<()> {
        Ok(self.table(table).create_if_missing().await.map_err(|error| self.named(error))?)
    }

    async fn write(
        &self,
        table: &TableKey,
        entities: Vec<PropertyBag>,
        mode: WriteMode,
    ) -> anyhow::Result<WriteOutcome> {
        match write_all(&self.table(table), &entities, mode).await {
            Ok(()) => Ok(WriteOutcome::Done),
            Err((_, error)) if error.code() == Some("EntityAlreadyExists") => Ok(WriteOutcome::SomeExist),
            Err((entity, error)) => {
                let refused = entity.filter(|_| is_of_size(&error));
                let error = anyhow::Error::from(self.named(error));
                Err(match refused {
                    Some(entity) => error.context(EntityTooLarge { table: table.clone(), key: entity.key.clone() }),
                    None => error,
                })
            }
        }
    }

    async fn delete(&self, table: &TableKey, key: EntityKey) -> anyhow::Result<()> {
        let table = self.table(table);
        let deleted = table.delete_if_exists(key.partition.as_str(), key.row.as_str(), IfMatch::Any).await;
        Ok(deleted.map(drop).map_err(|error| self.named(error))?)
    }

    async fn entity(&self, table: &TableKey, key: &EntityKey) -> anyhow::Result<Option<PropertyBag>> {
        let found = self.table(table).find(key.partition.as_str(), key.row.as_str()).await;
        Ok(found.map_err(|error| self.named(error))?.map(Stored::into_entity))
    }

    async fn set_policies(&self, table: &TableKey, policies: StoredAccessPolicies) -> anyhow::Result<()> {
        self.table(table).set_policies(&policies).await.map_err(|error| self.named(error)).context(SKIP_POLICIES)
    }

    async fn set_settings(&self, table: &TableKey, settings: TableSettings) -> anyhow::Result<()> {
        let TableSettings { retention, indexes } = settings;
        let table = self.table(table);
        let properties: Vec<_> = indexes.iter().map(IndexedProperty::as_str).collect();
        let set = async {
            table.set_retention(retention).await?;
            table.set_indexes(&properties).await
        };
        set.await.map_err(|error| self.named(error)).context(SKIP_SETTINGS)
    }

    async fn set_properties(&self, _: &AccountName, properties: ServiceProperties) -> anyhow::Result<()> {
        let set = self.service.set_properties(&properties).await;
        set.map_err(|error| self.named(error)).context(SKIP_PROPERTIES)
    }
}

pub(crate) fn query_of(table: &Table, query: &Query) -> client::Query<PropertyBag, PropertyBag> {
    let select: Vec<&str> = query.select.iter().map(String::as_str).collect();
    let all = table.query::<PropertyBag>().resolve(&select, Ok);
    match &query.filter {
        Some(filter) => all.filter_text(filter),
        None => all,
    }
}

/// The entities must be distinct and in one partition. They are written in one transaction.
///
/// A transaction that would be too large is split, so some entities may be stored even if the call fails. A transaction
/// whose outcome is unknown is retried, so an insert can fail because its first attempt succeeded. An entity that is
/// too large for a transaction is written alone.
///
/// An error comes with the entity that caused it, if the service tells.
async fn write_all<'e>(
    table: &Table,
    entities: &'e [PropertyBag],
    mode: WriteMode,
) -> Result<(), (Option<&'e PropertyBag>, Error)> {
    let mut pending = vec![entities];
    while let Some(part) = pending.pop() {
        let transaction = part.iter().fold(Transaction::new(), |transaction, entity| match mode {
            WriteMode::Insert => transaction.insert(entity),
            WriteMode::Replace => transaction.insert_or_replace(entity),
            WriteMode::Merge => transaction.insert_or_merge(entity),
        });
        match table.commit(transaction.may_repeat()).await {
            Err(error) if part.len() > 1 && error.kind() == ErrorKind::TooLarge => {
                let (first, second) = part.split_at(part.len().div_ceil(2));
                pending.extend([second, first]);
            }
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                let [entity] = part else { return Err((None, error)) };
                let written = match mode {
                    WriteMode::Insert => table.insert(entity).await,
                    WriteMode::Replace => table.insert_or_replace(entity).await,
                    WriteMode::Merge => table.insert_or_merge(entity).await,
                };
                written.map_err(|error| (Some(entity), error))?;
            }
            Err(error) => {
                // A service may omit the index of the only operation.
                let index = error.operation_index().or_else(|| (part.len() == 1).then_some(0));
                return Err((index.and_then(|index| part.get(index)), error));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Returns whether the service refused an entity because of its size. The cloud accepts less than some servers store.
fn is_of_size(error: &Error) -> bool {
    let codes = ["EntityTooLarge", "PropertyValueTooLarge", "TooManyProperties", "PropertyNameTooLong"];
    error.kind() == ErrorKind::TooLarge || error.code().is_some_and(|code| codes.contains(&code))
}
