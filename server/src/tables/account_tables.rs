//! The operations' access to the engine.

use super::metrics_tables::{MetricsTables, check_mutations, read_only_failure};
use crate::changes::ChangeFeed;
use crate::failure::{Failure, Stage};
use crate::limits::quota::{AccountQuota, QuotaReservation};
use crate::limits::throttle::Throttle;
use crate::request::EntityCounts;
use crate::telemetry::traces::step;
use engine::{CatalogError, CommitError, Engine, EngineExt, EntitySink, IndexState, Order, ReadError, Scan, ScanEnd};
use engine::{SinkDecision, TableKey, TablePage, TableQuery};
use model::name::TableNameError;
use model::{
    AccountName, ChangesTable, EntityKey, EntityView, IndexedProperty, MetricsTable, Mutation, MutationError,
    MutationResult, OrderedView, Record, Retention, ServiceProperties, ServicePropertiesUpdate, StoredAccessPolicies,
    TableName, TableSettingsUpdate, Transaction,
};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::ErrorCode;
use wire::defect::table_name_defect;
use wire::reason::{Reason, ReasonKind};

pub(crate) struct AccountTables<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) account: &'a AccountName,
    /// `None` if nothing is throttled.
    pub(super) throttle: Option<&'a Throttle>,
    /// `None` if the account has no quota.
    quota: Option<AccountQuota<'a>>,
    /// `None` if the server keeps no metrics for accounts.
    metrics_tables: Option<MetricsTables>,
    /// `None` if there is no change feed.
    pub(super) changes: Option<&'a Arc<ChangeFeed>>,
    entities: EntityCounters,
}

/// These counters are updated behind a shared reference, by only one task at a time.
#[derive(Debug, Default)]
struct EntityCounters {
    examined: AtomicU64,
    returned: AtomicU64,
    written: AtomicU64,
}

impl<'a> AccountTables<'a> {
    /// `has_secondary_metrics` is `None` if the server keeps no metrics for accounts. Otherwise, it specifies whether
    /// the server also keeps metrics for the secondary endpoint.
    pub(crate) fn new(
        engine: &'a dyn Engine,
        account: &'a AccountName,
        throttle: Option<&'a Throttle>,
        quota: Option<AccountQuota<'a>>,
        has_secondary_metrics: Option<bool>,
        changes: Option<&'a Arc<ChangeFeed>>,
    ) -> Self {
        let metrics_tables = has_secondary_metrics.map(|has_secondary| MetricsTables { has_secondary });
        Self { engine, account, throttle, quota, metrics_tables, changes, entities: EntityCounters::default() }
    }

    pub(crate) fn entities(&self) -> EntityCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let EntityCounters { examined, returned, written } = &self.entities;
        EntityCounts { examined: read(examined), returned: read(returned), written: read(written) }
    }

    pub(super) fn count_read(&self, examined: u64, returned: u64) {
        self.entities.examined.fetch_add(examined, Ordering::Relaxed);
        self.entities.returned.fetch_add(returned, Ordering::Relaxed);
    }

    pub(crate) fn admit_request(&self) -> Result<(), Failure> {
        self.throttle.map_or(Ok(()), |throttle| throttle.admit_request(self.account))
    }

    /// Returns the name of a table as it appears in the log and metrics, or `None` if no table can have the name.
    pub(crate) fn name_for_metrics(&self, name: &str) -> Option<TableName> {
        self.metrics_table(name).or_else(|| TableName::new(name).ok())
    }

    fn metrics_table(&self, name: &str) -> Option<TableName> {
        self.metrics_tables?.table(name)
    }

    fn key_of(&self, name: TableName) -> TableKey {
        TableKey { account: self.account.clone(), name }
    }

    /// UNVERIFIED (01 §2): the error code for the reserved name and for metrics tables. Here, both are treated as
    /// tables that do not exist.
    fn table(&self, name: &str) -> Result<TableKey, Failure> {
        match TableName::new(name) {
            Ok(name) => Ok(self.key_of(name)),
            Err(_) if MetricsTable::is_reserved(name) => Err(Failure::query(ErrorCode::TableNotFound)),
            Err(TableNameError::Reserved) => Err(Failure::query(ErrorCode::TableNotFound)),
            Err(error @ (TableNameError::Length | TableNameError::Characters)) => {
                let reason = unoffered(name).unwrap_or_else(|| table_name_defect(name, error));
                Err(Failure::query(error).because(reason))
            }
        }
    }

    /// Checks that a table exists, for an operation that fails in any case but must report a missing table first.
    pub(crate) async fn check_exists(&self, name: &str) -> Result<(), Failure> {
        self.admit_request()?;
        let table = self.table_or_metrics(name)?;
        if table.name.is_metrics_table() || step("look up table", pin!(self.engine.table(&table))).await?.is_some() {
            return Ok(());
        }
        Err(Failure::query(ErrorCode::TableNotFound))
    }

    pub(super) fn table_or_metrics(&self, name: &str) -> Result<TableKey, Failure> {
        self.metrics_table(name).map_or_else(|| self.table(name), |name| Ok(self.key_of(name)))
    }

    pub(crate) async fn page(&self, query: TableQuery<'_>) -> Result<TablePage, Failure> {
        Ok(step("list tables", pin!(self.engine.table_page(self.account, query))).await?)
    }

    pub(crate) async fn spelling(&self, name: &str) -> Result<Option<TableName>, Failure> {
        if let Some(name) = self.metrics_table(name) {
            return Ok(Some(name));
        }
        let Ok(name) = TableName::new(name) else { return Ok(None) };
        Ok(step("look up table", pin!(self.engine.table(&self.key_of(name)))).await?)
    }

    pub(crate) async fn create(&self, name: TableName) -> Result<(), Failure> {
        let table = self.key_of(name);
        let _creation_lock = match &self.quota {
            Some(quota) => quota.admit_table(self.engine, &table).await?,
            None => None,
        };
        Ok(step("create table", pin!(self.engine.create_table(&table))).await?)
    }

    /// Deletes a table. Its name is available again immediately.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), Failure> {
        if self.metrics_table(name).is_some() {
            return Err(read_only_failure());
        }
        let name = TableName::new(name).map_err(|_| Failure::service(ErrorCode::ResourceNotFound))?;
        let table = self.key_of(name);
        step("delete table", pin!(self.engine.delete_table(&table))).await?;
        if let Some(quota) = &self.quota {
            quota.forget_table(&table);
        }
        Ok(())
    }

    pub(crate) async fn policies(&self, name: &str) -> Result<StoredAccessPolicies, Failure> {
        Ok(step("read policies", pin!(self.engine.policies(&self.table(name)?))).await?)
    }

    pub(crate) async fn set_policies(&self, name: &str, policies: StoredAccessPolicies) -> Result<(), Failure> {
        let table = self.table(name)?;
        let set = step("write policies", pin!(self.engine.set_policies(&table, policies))).await;
        set.map_err(settings_failure)
    }

    pub(crate) async fn retention(&self, name: &str) -> Result<Option<Retention>, Failure> {
        let settings = step("read table settings", pin!(self.engine.settings(&self.table(name)?))).await?;
        Ok(settings.retention)
    }

    pub(crate) async fn set_retention(&self, name: &str, retention: Option<Retention>) -> Result<(), Failure> {
        self.update_settings(name, TableSettingsUpdate { retention: Some(retention), ..Default::default() }).await
    }

    pub(crate) async fn indexes(&self, name: &str) -> Result<Vec<IndexState>, Failure> {
        Ok(step("read indexes", pin!(self.engine.indexes(&self.table(name)?))).await?)
    }

    pub(crate) async fn set_indexes(&self, name: &str, properties: Vec<IndexedProperty>) -> Result<(), Failure> {
        self.update_settings(name, TableSettingsUpdate { indexes: Some(properties), ..Default::default() }).await
    }

    async fn update_settings(&self, name: &str, update: TableSettingsUpdate) -> Result<(), Failure> {
        let table = self.table(name)?;
        let updated = step("write table settings", pin!(self.engine.update_settings(&table, update))).await;
        updated.map_err(settings_failure)
    }

    pub(crate) fn service_properties(&self) -> Result<Arc<ServiceProperties>, Failure> {
        Ok(self.engine.service_properties(self.account)?)
    }

    /// Replaces those sections of the service properties that the update contains.
    pub(crate) async fn update_service_properties(&self, update: ServicePropertiesUpdate) -> Result<(), Failure> {
        let updated = self.engine.update_service_properties(self.account, update);
        Ok(step("write service properties", pin!(updated)).await?)
    }

    pub(crate) async fn get(&self, name: &str, key: &EntityKey) -> Result<Option<Record>, Failure> {
        let table = self.table_or_metrics(name)?;
        let admitted = self.throttle.map(|throttle| throttle.admit_get(&table, key)).transpose()?;
        let record = match step("get entity", pin!(self.engine.get(&table, key))).await {
            // Nothing has been written to this metrics table yet.
            Err(ReadError::TableNotFound) if table.name.is_metrics_table() => None,
            record => record?,
        };
        if let Some(record) = &record {
            self.count_read(1, 1);
            if let Some(admitted) = admitted {
                admitted.count_record(record.as_bytes().len());
            }
        }
        Ok(record)
    }

    /// Returns what a query reads: the table with the given name, or the table and the order that the name of an
    /// ordered view means. `views` are the meanings of such a name that the credential permits.
    pub(crate) async fn queried(&self, name: &str, views: &[OrderedView]) -> Result<(TableKey, Order), Failure> {
        let ordered = |view: &OrderedView| {
            let order = Order::Value { property: view.property.clone(), is_descending: view.is_descending };
            (self.key_of(view.table.clone()), order)
        };
        match views {
            [] => return Ok((self.table_or_metrics(name)?, Order::KEYS)),
            // The scan determines whether the index exists.
            [view] => return Ok(ordered(view)),
            _ => {}
        }
        let mut missing = ReadError::TableNotFound;
        for view in views {
            let (table, order) = ordered(view);
            let indexes = step("read indexes", pin!(self.engine.indexes(&table))).await;
            match indexes {
                Ok(indexes) if indexes.iter().any(|index| index.property == view.property) => {
                    return Ok((table, order));
                }
                Ok(_) => missing = ReadError::IndexNotFound,
                Err(ReadError::TableNotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(missing.into())
    }

    pub(crate) async fn scan<S: EntitySink>(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: S,
    ) -> Result<(S, ScanEnd), Failure> {
        if let (true, Order::Value { property, is_descending }) = (scan.is_confined, scan.order.clone()) {
            return self.scan_confined_view(table, (property, is_descending), scan, sink).await;
        }
        let (sink, end) = self.examine(table, scan, sink).await?;
        self.count_read(end.examined, end.accepted);
        Ok((sink, end))
    }

    /// Counts the entities that a scan finds.
    pub(crate) async fn count(&self, table: &TableKey, scan: Scan) -> Result<ScanEnd, Failure> {
        match scan.order.clone() {
            Order::Value { property, .. } if scan.is_confined => self.count_confined_view(table, property, scan).await,
            _ => Ok(self.scan(table, scan, EveryEntity).await?.1),
        }
    }

    /// Scans a table if throttling allows it.
    pub(super) async fn examine<S: EntitySink>(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: S,
    ) -> Result<(S, ScanEnd), Failure> {
        let admitted = match self.throttle {
            Some(throttle) => Some(throttle.admit_query(table, &scan.ranges)?),
            None => None,
        };
        // A metrics table may not exist yet.
        if table.name.is_metrics_table() && self.engine.table(table).await?.is_none() {
            return Ok((sink, ScanEnd { next: None, examined: 0, accepted: 0, earliest_expiry: None, index: None }));
        }
        let (sink, end) = step("scan", pin!(self.engine.scan(table, scan, sink))).await?;
        if let Some(admitted) = admitted {
            admitted.count_examined(end.examined);
        }
        Ok((sink, end))
    }

    /// Applies a transaction to a table if throttling and the quota allow it. Returns the result of each mutation, in
    /// order.
    pub(crate) async fn commit(&self, name: &str, transaction: Transaction) -> Result<Vec<MutationResult>, Failure> {
        let refused = |failure: Failure| failure.of_operation(0, Stage::Decoding);
        let mutations = transaction.mutations();
        let table = self.table_or_metrics(name).map_err(refused)?;
        let is_metrics_table = table.name.is_metrics_table();
        if is_metrics_table {
            check_mutations(mutations)?;
        }
        if let Some(throttle) = self.throttle {
            throttle.admit_mutations(&table, mutations)?;
        }
        let reservation = self.reserve(&table, mutations).map_err(refused)?;
        let committed = step("commit", pin!(self.write(&table, transaction, reservation))).await;
        Ok(committed.map_err(|error| match error {
            // To clients, the metrics tables always exist, so only the entity is missing.
            CommitError::TableNotFound if is_metrics_table => CommitError::Refused(0, MutationError::NotFound),
            error => error,
        })?)
    }

    /// Deletes entities of one partition. They are counted against throttling's targets, but not refused. Returns their
    /// number.
    pub(super) async fn write_deletions(&self, table: &TableKey, deletions: Transaction) -> Result<u64, CommitError> {
        let (mutations, count) = (deletions.mutations(), deletions.mutations().len() as u64);
        let partition_key = mutations.first().map(|first| first.key().clone());
        let reservation = self.reserve(table, mutations);
        // A quota does not refuse deletions.
        self.write(table, deletions, reservation.ok().flatten()).await?;
        if let (Some(throttle), Some(key)) = (self.throttle, partition_key) {
            throttle.count_deletions(table, &key, count);
        }
        Ok(count)
    }

    fn reserve<'t>(&self, table: &'t TableKey, mutations: &[Mutation]) -> Result<Option<QuotaReservation<'t>>, Failure>
    where
        'a: 't,
    {
        match &self.quota {
            Some(quota) if !table.name.is_metrics_table() => quota.reserve(table, mutations),
            _ => Ok(None),
        }
    }

    async fn write(
        &self,
        table: &TableKey,
        transaction: Transaction,
        reservation: Option<QuotaReservation<'_>>,
    ) -> Result<Vec<MutationResult>, CommitError> {
        let count = transaction.mutations().len() as u64;
        let committed = self.engine.commit(table, transaction).await;
        if let Some(reservation) = reservation {
            reservation.settle(&committed);
        }
        if committed.is_ok() {
            self.entities.written.fetch_add(count, Ordering::Relaxed);
        }
        committed
    }
}

/// Returns the failure of a change to the settings of a table.
fn settings_failure(error: CatalogError) -> Failure {
    match error {
        CatalogError::NotFound => Failure::service(ErrorCode::TableNotFound),
        error => error.into(),
    }
}

/// Accepts every entity, for a count.
pub(crate) struct EveryEntity;

impl EntitySink for EveryEntity {
    fn entity(&mut self, _: &EntityView<'_>) -> SinkDecision {
        SinkDecision::Accepted
    }
}

/// Returns why a server has no table with a name that other servers have: a view, or a table of the change feed.
fn unoffered(name: &str) -> Option<Reason> {
    let detail = if ChangesTable::from_name(name).is_some() {
        "The change feed is an extension, and this server keeps no log of changes."
    } else if !OrderedView::meanings(name).is_empty() {
        "An ordered view is an extension."
    } else {
        return None;
    };
    Some(ReasonKind::ExtensionsOff.because(detail))
}
