//! Connections to the database: a bounded number, each taken for one piece of work and given back.
//!
//! Invariants:
//!
//! 1. A connection is given back only when its work has ended. If the work was dropped half-way, or failed, the connection is
//!    closed, and with it its transaction: the next request that takes a connection has a fresh session.
//! 2. The wait for a connection is bounded.

use super::attempt::{STATEMENT_TIME_MAX, Trouble, describe};
use super::counts::{PostgresCounts, Retry};
use super::dialect::Dialect;
use super::settings::Settings;
use crate::engine::Fault;
use crate::monotonic;
use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use model::limits;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a request waits for one of the connections.
const POOL_WAIT_MAX: Duration = Duration::from_secs(limits::STORE_CONNECTION_WAIT_SECONDS_MAX);
/// Lets the database check, while it works on a statement, whether the client is still connected: a request that was given up
/// must not hold locks. Not every database and system can.
const WATCH_CLIENT: &str = "SET client_connection_check_interval = '2s'";

pub(super) struct Pool {
    pool: deadpool_postgres::Pool,
    pub(super) counts: Arc<PostgresCounts>,
}

impl Pool {
    /// A pool without connections; they are opened as they are needed.
    pub(super) fn new(settings: &Settings, dialect: Dialect, connections_max: usize) -> Self {
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(settings.config.clone(), settings.tls.clone(), config);
        let session = session(dialect);
        let prepare = Hook::async_fn(move |client: &mut ClientWrapper, _| {
            let session = session.clone();
            Box::pin(async move {
                client.batch_execute(&session).await.map_err(HookError::Backend)?;
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
            .create_timeout(Some(settings.connect_time_max))
            .recycle_timeout(Some(settings.connect_time_max))
            .post_create(prepare)
            .build();
        let pool = pool.expect("the runtime that the time limits need is named");
        Self { pool, counts: Arc::new(PostgresCounts::new()) }
    }

    /// Takes a connection; waits for one if all are taken.
    pub(super) async fn take(&self) -> Result<Lease, Trouble> {
        let began = monotonic::now();
        let taken = self.pool.get().await;
        // Waits that were given up count too: they are the longest.
        self.counts.wait_time.record_time(began.elapsed());
        match taken {
            Ok(object) => Ok(Lease { object: Some(object), counts: Arc::clone(&self.counts) }),
            Err(PoolError::Closed) => Err(Trouble::Fault(Fault::Closed)),
            Err(PoolError::Timeout(TimeoutType::Wait)) => {
                Err(Trouble::Fault(Fault::Unavailable("all connections to the database are taken".into())))
            }
            Err(PoolError::Timeout(_)) => {
                Err(Trouble::again(Retry::Connection, "the database does not answer a new connection"))
            }
            Err(PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error))) => {
                // A login that is refused now may succeed soon: passwords change.
                Err(Trouble::Again(describe(&error).into()))
            }
            Err(error) => Err(Trouble::Again(error.to_string().into())),
        }
    }

    /// Takes a connection to the node that has a partition, if it is known.
    pub(super) async fn take_for(&self, _partition: &[u8]) -> Result<Lease, Trouble> {
        self.take().await
    }

    /// Open connections, those that are not in use, and the number of requests that wait for one.
    pub(super) fn status(&self) -> (u64, u64, u64) {
        let status = self.pool.status();
        (status.size as u64, status.available as u64, status.waiting as u64)
    }

    /// Closes the connections that are not in use, and the others when they are given back.
    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// A connection that was taken. Dropped without [`Lease::give_back`], it is closed.
pub(super) struct Lease {
    object: Option<Object>,
    counts: Arc<PostgresCounts>,
}

impl Lease {
    /// Ends the work, so that another request may take the connection.
    pub(super) fn give_back(mut self) {
        drop(self.object.take());
    }

    /// Counts the time that the database needed to answer a step. It is not wrapped around the step, since that would
    /// hold its future twice, and those of commits are large.
    pub(super) fn note_step(&self, began: Instant) {
        self.counts.step_time.record_time(began.elapsed());
    }
}

impl Deref for Lease {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.object.as_ref().expect("a lease has its connection until it is given back")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}

/// The settings of every session.
fn session(dialect: Dialect) -> String {
    let mut text = format!(
        "SET statement_timeout = '{}s'; SET idle_in_transaction_session_timeout = '{}s';",
        STATEMENT_TIME_MAX.as_secs(),
        limits::STORE_IDLE_TRANSACTION_SECONDS_MAX
    );
    if dialect.has_planner_settings() {
        // Every statement names its rows by the beginning of a primary key, so the one good plan is its index. Without
        // statistics, on a table that was just filled, the planner may choose another one.
        text.push_str(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; \
             SET plan_cache_mode = force_generic_plan;",
        );
    }
    text
}
