//! An engine whose type is erased, so that a server with a rehearsal is compiled once and not for every engine.
//!
//! Its calls allocate memory, which is why no other server uses it.

use engine::{
    CatalogError, CommitError, Engine, EntitySink, Fault, Figures, IndexState, ReadError, Scan, ScanEnd, SinkDecision,
    TableKey, TablePage, TableQuery,
};
use model::{AccountName, EntityKey, EntityView, MutationResult, Record, Retention, ServiceProperties};
use model::{
    ServicePropertiesUpdate, StoredAccessPolicies, TableName, TableSettings, TableSettingsUpdate, Transaction,
};
use std::any::Any;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

pub(super) struct ErasedEngine(Box<dyn AnyEngine>);

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Engine`] as a trait with objects.
pub(super) trait AnyEngine: Send + Sync {
    fn create_table<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<(), CatalogError>>;
    fn delete_table<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<(), CatalogError>>;
    fn table<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<Option<TableName>, Fault>>;
    fn accounts(&self) -> Boxed<'_, Result<Vec<AccountName>, Fault>>;
    fn list_tables<'a>(
        &'a self,
        account: &'a AccountName,
        from: &'a str,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<TableName>, Fault>>;
    fn table_page<'a>(&'a self, account: &'a AccountName, query: TableQuery<'a>)
    -> Boxed<'a, Result<TablePage, Fault>>;
    fn policies<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<StoredAccessPolicies, ReadError>>;
    fn policies_in_effect<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<StoredAccessPolicies, ReadError>>;
    fn set_policies<'a>(
        &'a self,
        table: &'a TableKey,
        policies: StoredAccessPolicies,
    ) -> Boxed<'a, Result<(), CatalogError>>;
    fn settings<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<TableSettings, ReadError>>;
    fn update_settings<'a>(
        &'a self,
        table: &'a TableKey,
        update: TableSettingsUpdate,
    ) -> Boxed<'a, Result<(), CatalogError>>;
    fn tables_to_sweep(&self) -> Boxed<'_, Result<Vec<(TableKey, Retention)>, Fault>>;
    fn indexes<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<Vec<IndexState>, ReadError>>;
    fn get<'a>(&'a self, table: &'a TableKey, key: &'a EntityKey) -> Boxed<'a, Result<Option<Record>, ReadError>>;
    fn scan_erased<'a>(
        &'a self,
        table: &'a TableKey,
        scan: Scan,
        sink: ErasedSink,
    ) -> Boxed<'a, Result<(ErasedSink, ScanEnd), ReadError>>;
    fn commit<'a>(
        &'a self,
        table: &'a TableKey,
        transaction: Transaction,
    ) -> Boxed<'a, Result<Vec<MutationResult>, CommitError>>;
    fn service_properties(&self, account: &AccountName) -> Result<Arc<ServiceProperties>, Fault>;
    fn set_default_properties(&self, defaults: ServiceProperties);
    fn update_service_properties<'a>(
        &'a self,
        account: &'a AccountName,
        update: ServicePropertiesUpdate,
    ) -> Boxed<'a, Result<(), Fault>>;
    fn figures(&self) -> Figures;
    fn close(&self) -> Boxed<'_, Result<(), Fault>>;
}

impl<E: Engine> AnyEngine for E {
    fn create_table<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<(), CatalogError>> {
        Box::pin(Engine::create_table(self, table))
    }

    fn delete_table<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<(), CatalogError>> {
        Box::pin(Engine::delete_table(self, table))
    }

    fn table<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<Option<TableName>, Fault>> {
        Box::pin(Engine::table(self, table))
    }

    fn accounts(&self) -> Boxed<'_, Result<Vec<AccountName>, Fault>> {
        Box::pin(Engine::accounts(self))
    }

    fn list_tables<'a>(
        &'a self,
        account: &'a AccountName,
        from: &'a str,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<TableName>, Fault>> {
        Box::pin(Engine::list_tables(self, account, from, limit))
    }

    fn table_page<'a>(
        &'a self,
        account: &'a AccountName,
        query: TableQuery<'a>,
    ) -> Boxed<'a, Result<TablePage, Fault>> {
        Box::pin(Engine::table_page(self, account, query))
    }

    fn policies<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<StoredAccessPolicies, ReadError>> {
        Box::pin(Engine::policies(self, table))
    }

    fn policies_in_effect<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<StoredAccessPolicies, ReadError>> {
        Box::pin(Engine::policies_in_effect(self, table))
    }

    fn set_policies<'a>(
        &'a self,
        table: &'a TableKey,
        policies: StoredAccessPolicies,
    ) -> Boxed<'a, Result<(), CatalogError>> {
        Box::pin(Engine::set_policies(self, table, policies))
    }

    fn settings<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<TableSettings, ReadError>> {
        Box::pin(Engine::settings(self, table))
    }

    fn update_settings<'a>(
        &'a self,
        table: &'a TableKey,
        update: TableSettingsUpdate,
    ) -> Boxed<'a, Result<(), CatalogError>> {
        Box::pin(Engine::update_settings(self, table, update))
    }

    fn tables_to_sweep(&self) -> Boxed<'_, Result<Vec<(TableKey, Retention)>, Fault>> {
        Box::pin(Engine::tables_to_sweep(self))
    }

    fn indexes<'a>(&'a self, table: &'a TableKey) -> Boxed<'a, Result<Vec<IndexState>, ReadError>> {
        Box::pin(Engine::indexes(self, table))
    }

    fn get<'a>(&'a self, table: &'a TableKey, key: &'a EntityKey) -> Boxed<'a, Result<Option<Record>, ReadError>> {
        Box::pin(Engine::get(self, table, key))
    }

    fn scan_erased<'a>(
        &'a self,
        table: &'a TableKey,
        scan: Scan,
        sink: ErasedSink,
    ) -> Boxed<'a, Result<(ErasedSink, ScanEnd), ReadError>> {
        Box::pin(Engine::scan(self, table, scan, sink))
    }

    fn commit<'a>(
        &'a self,
        table: &'a TableKey,
        transaction: Transaction,
    ) -> Boxed<'a, Result<Vec<MutationResult>, CommitError>> {
        Box::pin(Engine::commit(self, table, transaction))
    }

    fn service_properties(&self, account: &AccountName) -> Result<Arc<ServiceProperties>, Fault> {
        Engine::service_properties(self, account)
    }

    fn set_default_properties(&self, defaults: ServiceProperties) {
        Engine::set_default_properties(self, defaults);
    }

    fn update_service_properties<'a>(
        &'a self,
        account: &'a AccountName,
        update: ServicePropertiesUpdate,
    ) -> Boxed<'a, Result<(), Fault>> {
        Box::pin(Engine::update_service_properties(self, account, update))
    }

    fn figures(&self) -> Figures {
        Engine::figures(self)
    }

    fn close(&self) -> Boxed<'_, Result<(), Fault>> {
        Box::pin(Engine::close(self))
    }
}

impl ErasedEngine {
    pub(super) fn new(engine: impl Engine) -> Self {
        Self(Box::new(engine))
    }

    pub(super) async fn scan<S: EntitySink>(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: S,
    ) -> Result<(S, ScanEnd), ReadError> {
        let (sink, end) = self.0.scan_erased(table, scan, ErasedSink(Box::new(sink))).await?;
        let sink: Box<dyn Any> = sink.0;
        Ok((*sink.downcast().expect("an engine returns the sink that it was given"), end))
    }
}

impl Deref for ErasedEngine {
    type Target = dyn AnyEngine;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

pub(super) struct ErasedSink(Box<dyn AnySink>);

trait AnySink: EntitySink + Any {}

impl<S: EntitySink> AnySink for S {}

impl EntitySink for ErasedSink {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        self.0.entity(entity)
    }
}
