//! The engine that stores its data in a database with the PostgreSQL protocol. Several servers may share one database,
//! because a server stores nothing locally that another server needs.
//!
//! Invariants beyond those of [`engine::contract`]:
//!
//! 1. **A transaction is one call** to a function in the database, which makes its changes if every entity is as
//!    expected, and none otherwise (`function`). The effect of a mutation is determined here; the call contains the
//!    required state. On Citus, the call runs on the single node that stores the partition.
//! 2. **A page is one snapshot**: a read-only transaction at REPEATABLE READ. On Citus, there is one such snapshot per
//!    node.
//! 3. **No stamp is repeated.** Each server issues stamps that no other server issues, whatever the clocks show
//!    (`leases`). The Timestamp of an existing entity increases, whichever server writes to it.
//! 4. **No write goes to a deleted table.** The catalog is read with each commit but not locked. A table's purge is
//!    completed only when no commit that found the table can still be running (`purge`).
//! 5. **The entries of an index change with the entities**, in the same call. A server that does not know the current
//!    indexes of a table cannot write to it. An index is built when no earlier write can still be running (`indexing`).
//! 6. **An unknown outcome is reported as unknown.** If an operation fails before the call is sent, it is retried for a
//!    bounded time. A later failure is a [`Fault::Unknown`], unless the database reports that nothing happened.
//!
//! `docs/scaling.md` describes how to operate this engine, and ADR 13 explains its design.

mod changes;
mod connections;
mod layout;
mod log_state;
mod requests;
mod schema;
mod slot;
mod state;
mod statements;
#[cfg(test)]
mod tests;

pub use connections::login::Password;
pub use connections::open_error::StoreError;
pub use connections::settings::{check_address, has_password};
pub use requests::properties::{PROPERTIES_REFRESH, PROPERTIES_VISIBLE_WITHIN};

/// What the crate for a distributed database is made of.
pub mod parts {
    pub use crate::changes::decode_error::{DecodeError, Unorderable};
    pub use crate::changes::merging::Merger;
    pub use crate::changes::nodes::{COORDINATOR, LogNode};
    pub use crate::changes::order::{LogToOrder, Order, Orders, POLL, Progress};
    pub use crate::changes::setup::add_slot;
    pub use crate::changes::stored::StoredChange;
    pub use crate::changes::streams::Streams;
    pub use crate::changes::transactions::{Committed, Decoded, Received, ReceivedChange, Scope, TableChange, Tables};
    pub use crate::connections::attempt::{AttemptError, describe, jittered};
    pub use crate::connections::dialect::Dialect;
    pub use crate::connections::node::{Lease, Node};
    pub use crate::connections::pool::Pool;
    pub use crate::connections::routes::{RequestMeter, Routes, Shards};
    pub use crate::connections::rows::{column, no_response, read};
    pub use crate::connections::settings::Settings;
    pub use crate::schema::migration::begin;
    pub use crate::schema::opening::{Session, TAKE_TURNS, on_coordinator};
    pub use crate::slot::BALANCE_LEASE;
    pub use crate::state::PostgresState;
}

use async_trait::async_trait;
use changes::order::{OneNode, Orders};
use changes::reading::PostgresChanges;
use connections::dialect::Dialect;
use connections::pool::Pool;
use connections::routes::{NoRoutes, Routes};
use connections::settings::Settings;
use engine::figures::{DatabaseFigures, Figures, Refusal};
use engine::{
    BoxFuture, BoxedSink, CatalogError, CommitError, Engine, Fault, IndexState, ReadError, Scan, ScanEnd, TableKey,
};
use engine::{ChangeLog, KeepChanges, LoadMonitor};
use log_state::LogState;
use model::{AccountName, Clock, EntityKey, Record, Retention, ServiceProperties, ServicePropertiesUpdate};
use model::{MutationResult, StoredAccessPolicies, TableName, TableSettings, TableSettingsUpdate, Transaction};
use parking_lot::Mutex;
use slot::Slot;
use state::PostgresState;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The settings for the connection between the engine and its database.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The URL: `postgres://USER@HOST:PORT/DATABASE`, with the options of the client library, `sslmode` and
    /// `sslrootcert`.
    pub url: String,
    /// The password, if the URL contains none.
    pub password: Option<Password>,
    /// The maximum number of concurrent connections to the database. Requests wait while all connections are in use.
    pub connections_max: usize,
    /// Whether to distribute the entities over the Citus workers.
    pub distribute: bool,
    /// How much of a change log to keep; `None` for no change log.
    pub keep_changes: Option<KeepChanges>,
}

impl PostgresOptions {
    /// Returns the options for a database that is not distributed, without a password and without a change log.
    pub fn new(url: impl Into<String>, connections_max: usize) -> Self {
        Self { url: url.into(), password: None, connections_max, distribute: false, keep_changes: None }
    }
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions").field("connections_max", &self.connections_max).finish_non_exhaustive()
    }
}

/// A database that is about to be used.
#[derive(Debug, Clone, Copy)]
pub struct Database {
    /// Its kind.
    pub dialect: Dialect,
    /// Whether the entities are distributed over several nodes.
    pub is_distributed: bool,
    /// Whether each host of the URL is a node.
    pub has_equal_nodes: bool,
}

/// What depends on where the partitions are.
pub struct Cluster {
    /// Where requests go.
    pub routes: Arc<dyn Routes>,
    /// The order of the nodes' changes.
    pub orders: Arc<dyn Orders>,
}

impl Cluster {
    /// Returns the cluster of a database that is not distributed.
    pub fn one_node() -> Self {
        Self { routes: Arc::new(NoRoutes), orders: Arc::new(OneNode) }
    }
}

/// An engine that stores its data in a database.
#[derive(Debug)]
pub struct Postgres {
    shared: Arc<PostgresState>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    settings: Settings,
    connections_max: u64,
    log: Option<Arc<LogState>>,
    load: Option<LoadMonitor>,
}

impl Postgres {
    /// Connects to the database, creates or upgrades the schema, and starts the background tasks. An unresponsive
    /// database is retried for ten seconds. `cluster` is called when the kind of the database is known.
    pub fn open<'a>(
        options: &'a PostgresOptions,
        clock: Arc<dyn Clock>,
        cluster: &'a mut (dyn FnMut(Database) -> Cluster + Send),
    ) -> BoxFuture<'a, Result<Self, StoreError>> {
        Box::pin(async move {
            let settings = Settings::new(&options.url, options.password.as_ref())?;
            let (dialect, names) = Box::pin(schema::opening::prepare(&settings, options.distribute)).await?;
            let (is_distributed, has_equal_nodes) = (names.is_distributed, settings.has_equal_nodes);
            let Cluster { routes, orders } = cluster(Database { dialect, is_distributed, has_equal_nodes });
            if options.keep_changes.is_some() {
                if dialect == Dialect::YugabyteDb {
                    return Err(StoreError::new("--keep-log is not supported on YugabyteDB yet; omit it".to_owned()));
                }
                Box::pin(changes::setup::prepare(&settings, &*orders, is_distributed)).await?;
            }
            let pool = Pool::new(&settings, dialect, options.connections_max.max(1), routes);
            let is_logged = options.keep_changes.is_some();
            let shared = Arc::new(PostgresState::new(pool, names, Slot::new(clock), is_logged));
            let failed = |error: Fault| StoreError::statement(&settings.place, error);
            shared.pool.explore().await;
            shared.refresh_properties().await.map_err(failed)?;
            shared.persist(async || shared.reserve(None).await).await.map_err(|error| match &error {
                Fault::Unavailable(reason) if reason.is::<slot::NoSlot>() => StoreError::new(format!(
                    "the database {} accepts no more servers: {}",
                    settings.place,
                    slot::NoSlot
                )),
                _ => failed(error),
            })?;
            let mut tasks = vec![
                tokio::spawn(requests::properties::refresh_at_intervals(Arc::clone(&shared))),
                tokio::spawn(requests::purge::purge(Arc::clone(&shared))),
                tokio::spawn(requests::indexing::maintain_indexes(Arc::clone(&shared))),
                tokio::spawn(requests::leases::renew_at_intervals(Arc::clone(&shared))),
            ];
            tasks.extend(shared.pool.nodes_to_watch().map(|node| tokio::spawn(node.watch())));
            let log = options.keep_changes.map(|keep| Arc::new(LogState::new(keep)));
            if let Some(log) = &log {
                shared.persist(async || shared.refresh_log(log).await).await.map_err(failed)?;
                let (of_decoder, of_watcher) = (settings.clone(), settings.clone());
                let decoding =
                    changes::decoder::decode_changes(Arc::clone(&shared), of_decoder, orders, Arc::clone(log));
                tasks.extend([
                    tokio::spawn(decoding),
                    tokio::spawn(changes::watching::watch_changes(Arc::clone(&shared), of_watcher, Arc::clone(log))),
                    tokio::spawn(changes::removal::trim_changes(Arc::clone(&shared), Arc::clone(log))),
                ]);
            } else if dialect != Dialect::YugabyteDb {
                let removal = changes::removal::remove_unused_log(Arc::clone(&shared), settings.clone(), orders);
                tasks.push(tokio::spawn(removal));
            }
            let connections_max = options.connections_max.max(1) as u64;
            Ok(Self { shared, tasks: Mutex::new(tasks), settings, connections_max, log, load: None })
        })
    }

    /// Returns the hosts, ports and database, for messages.
    pub fn place(&self) -> &str {
        &self.settings.place
    }

    /// Returns the change log, if it is kept.
    pub fn change_log(&self) -> Option<Arc<dyn ChangeLog>> {
        let log = Arc::clone(self.log.as_ref()?);
        Some(Arc::new(PostgresChanges { shared: Arc::clone(&self.shared), log }))
    }

    /// Returns the monitor of the load, if the database is a cluster and its load is measured.
    pub fn load(&self) -> Option<LoadMonitor> {
        self.load.clone()
    }

    /// Returns what requests and background tasks share.
    pub fn state(&self) -> &Arc<PostgresState> {
        &self.shared
    }

    /// Returns the connection to the database.
    pub fn connection(&self) -> &Settings {
        &self.settings
    }

    /// Adds a background task that runs until the engine is closed.
    pub fn add_task(&self, task: JoinHandle<()>) {
        self.tasks.lock().push(task);
    }

    /// Sets the monitor of the load.
    pub fn set_load(&mut self, load: LoadMonitor) {
        self.load = Some(load);
    }

    fn take_tasks(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.tasks.lock())
    }
}

#[async_trait]
impl Engine for Postgres {
    async fn create_table(&self, table: &TableKey) -> Result<(), CatalogError> {
        self.shared.create_table(table).await
    }

    async fn delete_table(&self, table: &TableKey) -> Result<(), CatalogError> {
        self.shared.delete_table(table).await
    }

    async fn table(&self, table: &TableKey) -> Result<Option<TableName>, Fault> {
        Ok(self.shared.look_up(table).await?.map(|listed| listed.name))
    }

    async fn accounts(&self) -> Result<Vec<AccountName>, Fault> {
        self.shared.accounts().await
    }

    async fn list_tables(&self, account: &AccountName, from: &str, limit: usize) -> Result<Vec<TableName>, Fault> {
        self.shared.list_tables(account, from, limit).await
    }

    async fn count_tables(&self, account: &AccountName) -> Result<u64, Fault> {
        self.shared.count_tables(account).await
    }

    async fn policies(&self, table: &TableKey) -> Result<StoredAccessPolicies, ReadError> {
        let listed = self.shared.look_up(table).await.map_err(ReadError::Fault)?;
        Ok(listed.ok_or(ReadError::TableNotFound)?.policies)
    }

    async fn set_policies(&self, table: &TableKey, policies: StoredAccessPolicies) -> Result<(), CatalogError> {
        self.shared.set_policies(table, &policies).await
    }

    async fn settings(&self, table: &TableKey) -> Result<TableSettings, ReadError> {
        let listed = self.shared.look_up(table).await.map_err(ReadError::Fault)?;
        Ok(listed.ok_or(ReadError::TableNotFound)?.settings)
    }

    async fn update_settings(&self, table: &TableKey, update: TableSettingsUpdate) -> Result<(), CatalogError> {
        self.shared.update_settings(table, update).await
    }

    async fn tables_to_sweep(&self) -> Result<Vec<(TableKey, Retention)>, Fault> {
        self.shared.tables_to_sweep().await
    }

    async fn indexes(&self, table: &TableKey) -> Result<Vec<IndexState>, ReadError> {
        self.shared.indexes(table).await
    }

    async fn get(&self, table: &TableKey, key: &EntityKey) -> Result<Option<Record>, ReadError> {
        self.shared.get(table, key).await
    }

    async fn scan_boxed(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: BoxedSink,
    ) -> Result<(BoxedSink, ScanEnd), ReadError> {
        self.shared.scan(table, scan, sink).await
    }

    async fn commit(&self, table: &TableKey, transaction: Transaction) -> Result<Vec<MutationResult>, CommitError> {
        self.shared.commit(table, transaction).await
    }

    /// Returns properties that, while the database responds, are at most [`PROPERTIES_VISIBLE_WITHIN`] old.
    fn service_properties(&self, account: &AccountName) -> Result<Arc<ServiceProperties>, Fault> {
        self.shared.check_open()?;
        Ok(self.shared.properties().get(account))
    }

    fn set_default_properties(&self, defaults: ServiceProperties) {
        self.shared.properties_mut().set_defaults(Arc::new(defaults));
    }

    async fn update_service_properties(
        &self,
        account: &AccountName,
        update: ServicePropertiesUpdate,
    ) -> Result<(), Fault> {
        self.shared.update_properties(account, update).await
    }

    fn figures(&self) -> Figures {
        let counts = &self.shared.pool.counts;
        let database = DatabaseFigures {
            connections_max: self.connections_max,
            nodes: self.shared.pool.nodes().iter().map(|node| node.figures()).collect(),
            retries: counts.retries(),
            load: self.load.as_ref().and_then(LoadMonitor::latest),
        };
        Figures {
            purge_backlog: counts.purge_backlog(),
            refusal: self.shared.check_open().err().map(|_| Refusal::Closed),
            database: Some(database),
            change_log: self.log.as_ref().map(|log| log.figures()),
            ..Figures::default()
        }
    }

    async fn close(&self) -> Result<(), Fault> {
        self.shared.check_open()?;
        self.shared.closing.cancel();
        for task in self.take_tasks() {
            task.abort();
            let _aborted = task.await;
        }
        self.shared.return_leases().await;
        // Connections in use are closed when they are returned.
        self.shared.pool.close();
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.shared.closing.cancel();
        for task in self.take_tasks() {
            task.abort();
        }
    }
}
