//! One node of the database: its connections, and whether it responds.
//!
//! Invariants:
//!
//! 1. A connection is returned to the pool only after its work has completed. If the work was abandoned or failed, the
//!    connection is closed, which also ends its transaction. The next request therefore gets a clean session.
//! 2. The wait for a connection is bounded.
//! 3. If there are several nodes, an unresponsive one gets requests only if no other node responds. A separate
//!    connection, not a request, determines whether it responds again.

use crate::connections::attempt::{AttemptError, STATEMENT_TIME_MAX, describe, jittered};
use crate::connections::counts::{NodeCounts, RetryReason};
use crate::connections::dialect::Dialect;
use crate::connections::login::PoolConnect;
use crate::connections::routes::RequestMeter;
use crate::connections::settings::{NodeSettings, Settings};
use crate::connections::tls::Tls;
use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use engine::Fault;
use engine::figures::NodeFigures;
use engine::parts::monotonic;
use model::limits;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const POOL_WAIT_MAX: Duration = Duration::from_secs(limits::STORE_CONNECTION_WAIT_SECONDS_MAX);
/// Makes the database check, while it executes a statement, whether the client is still connected, because an abandoned
/// request must not hold locks. Not every database and operating system supports this setting.
const WATCH_CLIENT: &str = "SET client_connection_check_interval = '2s'";
/// The pause between two attempts to reach an unresponsive node, and the minimum time between two checks.
const CHECK_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The maximum time between two checks. Checks are needed because a node may become unresponsive without a failure.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(5);
/// Returns no row if the node was never part of a cluster.
const OWN_GROUP: &str = "SELECT groupid FROM pg_dist_local_group \
     WHERE EXISTS (SELECT FROM pg_dist_node WHERE pg_dist_node.groupid = pg_dist_local_group.groupid)";
/// The value for an unknown group. The numbers of Citus groups are not negative.
const NO_GROUP: i32 = -1;

/// The reason why a node that responds gets no requests.
const NOT_IN_CLUSTER: &str = "it does not belong to the Citus cluster (pg_dist_node)";

/// A node and its connections. Their number is bounded, and each is taken for one piece of work and then returned.
pub struct Node {
    settings: NodeSettings,
    tls: Tls,
    dialect: Dialect,
    pool: deadpool_postgres::Pool,
    pub(crate) counts: NodeCounts,
    /// The node's Citus group, as determined by the last new connection.
    group: Arc<AtomicI32>,
    /// Whether the node is checked regularly. Otherwise, each request determines for itself whether the node responds.
    is_watched: bool,
    is_down: AtomicBool,
    /// Notified when a failure may mean that the node does not respond.
    suspected: Notify,
}

impl Node {
    /// Connections are opened as needed.
    pub(crate) fn new(settings: &Settings, node: &NodeSettings, dialect: Dialect, connections_max: usize) -> Self {
        let connect = PoolConnect { login: node.login.clone(), tls: settings.tls.clone() };
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(node.login.without_password().clone(), connect, config);
        let session = session(dialect);
        let group = Arc::new(AtomicI32::new(NO_GROUP));
        let found = Arc::clone(&group);
        let has_groups = dialect == Dialect::Citus && settings.has_equal_nodes;
        let prepare = Hook::async_fn(move |client: &mut ClientWrapper, _| {
            let (session, found) = (session.clone(), Arc::clone(&found));
            Box::pin(async move {
                client.batch_execute(&session).await.map_err(HookError::Backend)?;
                if has_groups {
                    found.store(group_of(client).await.map_err(HookError::Backend)?, Ordering::Relaxed);
                }
                match client.batch_execute(WATCH_CLIENT).await {
                    Err(error) if error.code().is_none() => Err(HookError::Backend(error)),
                    _set_or_not_known => Ok(()),
                }
            })
        });
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(connections_max)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(POOL_WAIT_MAX))
            .create_timeout(Some(node.connect_time_max))
            .recycle_timeout(Some(node.connect_time_max))
            .post_create(prepare)
            .build();
        Self {
            settings: node.clone(),
            tls: settings.tls.clone(),
            dialect,
            pool: pool.expect("the runtime required for timeouts is set"),
            counts: NodeCounts::new(),
            group,
            is_watched: settings.has_equal_nodes,
            is_down: AtomicBool::new(false),
            suspected: Notify::new(),
        }
    }

    /// Returns the host and the port.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Returns whether the node responded last.
    pub fn is_up(&self) -> bool {
        !self.is_down.load(Ordering::Relaxed)
    }

    /// Returns whether the node is of a group.
    pub fn is_of(&self, group: i32) -> bool {
        self.group.load(Ordering::Relaxed) == group
    }

    /// If all connections are in use, waits for one.
    pub async fn take(self: &Arc<Self>) -> Result<Lease, AttemptError> {
        let began = monotonic::now();
        let taken = self.pool.get().await;
        // Count abandoned waits too, because they are the longest.
        self.counts.wait_time.record_time(began.elapsed());
        let trouble = match taken {
            Ok(object) => {
                if !self.is_watched {
                    self.is_down.store(false, Ordering::Relaxed);
                }
                return Ok(Lease { object: Some(object), node: Arc::clone(self), permit: None, meter: None });
            }
            Err(PoolError::Closed) => return Err(AttemptError::Fault(Fault::Closed)),
            Err(PoolError::Timeout(TimeoutType::Wait)) => {
                let text = "all connections to the database are in use";
                return Err(AttemptError::Fault(Fault::Unavailable(text.into())));
            }
            Err(PoolError::Timeout(_)) => {
                AttemptError::retry(RetryReason::Connection, "the database does not respond to a new connection")
            }
            Err(PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error))) => {
                // A login that is refused now may soon succeed, because passwords change.
                AttemptError::Retry(describe(&error).into())
            }
            Err(error) => AttemptError::Retry(error.to_string().into()),
        };
        self.is_down.store(true, Ordering::Relaxed);
        self.suspected.notify_one();
        Err(trouble)
    }

    /// Checks until the engine is closed whether the node responds: without delay after a failure, and more often while
    /// it does not respond.
    pub async fn watch(self: Arc<Self>) {
        let mut is_reported = !self.is_up();
        loop {
            tokio::time::sleep(jittered(CHECK_INTERVAL_MIN)).await;
            if self.is_up() {
                // If the timeout elapses, nothing failed, but the node may still be unresponsive.
                let _failed = timeout(jittered(CHECK_INTERVAL_MAX), self.suspected.notified()).await;
            }
            match self.check().await {
                Ok(()) => {
                    if std::mem::replace(&mut is_reported, false) {
                        tracing::info!(node = self.name(), "the database node responds again");
                    }
                }
                Err(what) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        tracing::warn!(
                            node = self.name(),
                            what,
                            "a database node does not respond; its requests go to other nodes"
                        );
                    }
                }
            }
        }
    }

    /// Checks whether the node responds. Connects to it without using the pool, because all pooled connections may be
    /// waiting for the node.
    pub async fn check(&self) -> Result<(), String> {
        let checked = match timeout(self.settings.connect_time_max, self.connect()).await {
            Ok(Ok(group)) => {
                self.group.store(group, Ordering::Relaxed);
                let is_stranger = group == NO_GROUP && self.dialect == Dialect::Citus;
                if is_stranger { Err(NOT_IN_CLUSTER.to_owned()) } else { Ok(()) }
            }
            // This error counts as a response: requests hold all the connections.
            Ok(Err(error)) if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) => Ok(()),
            Ok(Err(error)) => Err(describe(&error)),
            Err(_) => Err("no response in time".to_owned()),
        };
        self.is_down.store(checked.is_err(), Ordering::Relaxed);
        checked
    }

    async fn connect(&self) -> Result<i32, tokio_postgres::Error> {
        let (client, connection) = self.settings.login.connect(self.tls.clone()).await?;
        let asked = async move {
            match self.dialect {
                Dialect::Citus => group_of(&client).await,
                _other => client.batch_execute("").await.map(|()| NO_GROUP),
            }
        };
        // The connection closes when the client is dropped, which happens once the response has arrived.
        let (group, _ended) = tokio::join!(asked, connection);
        group
    }

    pub(crate) fn figures(&self) -> NodeFigures {
        let status = self.pool.status();
        NodeFigures {
            node: self.name().to_owned(),
            is_up: self.is_up(),
            connections: status.size as u64,
            connections_idle: status.available as u64,
            waiting: status.waiting as u64,
            wait_nanoseconds: self.counts.wait_time.read(),
            step_nanoseconds: self.counts.step_time.read(),
        }
    }

    /// Connections in use are closed when they are returned.
    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

/// Returns [`NO_GROUP`] if the node belongs to no Citus group.
async fn group_of(client: &Client) -> Result<i32, tokio_postgres::Error> {
    match client.query_opt(OWN_GROUP, &[]).await {
        Ok(row) => Ok(row.and_then(|row| row.try_get(0).ok()).unwrap_or(NO_GROUP)),
        Err(error) if error.code().is_some() => Ok(NO_GROUP),
        Err(error) => Err(error),
    }
}

/// A connection in use. It is closed if this value is dropped without a call to [`Lease::return_to_pool`].
pub struct Lease {
    object: Option<Object>,
    node: Arc<Node>,
    /// Held as long as the connection is in use.
    permit: Option<OwnedSemaphorePermit>,
    /// Measures what the connection is used for, if it is one partition.
    meter: Option<Box<dyn RequestMeter>>,
}

impl Lease {
    pub(crate) fn with_permit(mut self, permit: OwnedSemaphorePermit) -> Self {
        self.permit = Some(permit);
        self
    }

    pub(crate) fn with_meter(mut self, meter: Option<Box<dyn RequestMeter>>) -> Self {
        self.meter = meter;
        self
    }

    /// Ends the work and returns the connection, so that another request may take it.
    pub fn return_to_pool(mut self) {
        drop(self.object.take());
    }

    /// Records the time that the database took to respond to a step. This method does not wrap the step, because the
    /// wrapper would hold the step's future twice, and the futures of commits are large.
    pub(crate) fn record_step(&self, began: Instant) {
        let time = began.elapsed();
        self.node.counts.step_time.record_time(time);
        if let Some(meter) = &self.meter {
            meter.add_time(time);
        }
    }

    /// Records that the database returned rows.
    pub(crate) fn record_rows(&self, rows: usize) {
        if let Some(meter) = &self.meter {
            meter.add_read_rows(rows);
        }
    }

    /// Records that the database was asked to change rows.
    pub(crate) fn record_write(&self, rows: usize) {
        if let Some(meter) = &self.meter {
            meter.add_written_rows(rows);
        }
    }
}

impl Deref for Lease {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.object.as_ref().expect("a lease holds its connection until it is returned")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
            // The node may be unresponsive.
            self.node.suspected.notify_one();
        }
    }
}

fn session(dialect: Dialect) -> String {
    let mut text = format!(
        "SET default_transaction_isolation = 'read committed'; SET lock_timeout = '{}s'; SET statement_timeout = '{}s'; SET idle_in_transaction_session_timeout = '{}s';",
        limits::STORE_LOCK_SECONDS_MAX,
        STATEMENT_TIME_MAX.as_secs(),
        limits::STORE_IDLE_TRANSACTION_SECONDS_MAX
    );
    if dialect.has_planner_settings() {
        // Every statement identifies its rows by a prefix of a primary key, so the only good plan uses the index of
        // that key. Without statistics, for example on a newly filled table, the planner may choose a different plan.
        text.push_str(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; \
             SET plan_cache_mode = force_generic_plan;",
        );
    }
    text
}
