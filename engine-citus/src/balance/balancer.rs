//! Moves and splits shards, one at a time.
//!
//! Invariants:
//!
//! 1. Only the holder of a lease decides. While a step runs, its session holds a lock on the coordinator, so that there
//!    is no second step even if another server takes over the lease.
//! 2. A step is one function of Citus, or a split and the move of a piece. As far as clients can see, each function is
//!    a transaction. If this server dies, the coordinator notices that the connection is closed, cancels the function,
//!    and Citus removes what is left of it.
//! 3. A step that failed stops the balancer for an hour, and so does the maximum number of steps an hour. Both are
//!    recorded in the database, so they hold for all servers together.
//! 4. A step that makes no progress is cancelled, and has failed.
//! 5. A step has no recorded end if its server died, or if a node was still down when it ended. It counts, but does not
//!    stop the balancer. While a node is down, a step cannot begin, because its record is replicated to all nodes.

use crate::balance::average::Average;
use crate::balance::report::{PastStep, read_report, read_steps};
use crate::balance::stalled::wait_until_stalled;
use engine::load::Step;
use engine::parts::monotonic;
use engine::{BoxFuture, LoadMonitor};
use engine_postgres::parts::{AttemptError, BALANCE_LEASE, PostgresState, Session, Settings};
use engine_postgres::parts::{describe, jittered, on_coordinator};
use engine_postgres::{Password, StoreError};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

const INTERVAL: Duration = Duration::from_secs(10);
/// The number of successive observations that must ask for a step.
const OBSERVATIONS: u32 = 3;
const PAUSE: Duration = Duration::from_hours(1);
const READ_TIME_MAX: Duration = Duration::from_secs(10);
/// The maximum number of times that a function is called if it ends in deadlocks.
const ATTEMPTS: u32 = 10;
/// The maximum number of attempts to record the end of a step.
const END_ATTEMPTS: u32 = 5;
const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);

/// The failure of a step that was cancelled.
const STALLED: &str = "it made no progress for a minute; a node may have been restarted";

/// Ends when the session ends.
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtextextended('rowhouse balance', 0))";
/// A step takes as long as copying a shard takes. If this server disappears, the database notices within two seconds.
const SESSION: &str = "SET statement_timeout = 0; SET client_connection_check_interval = '2s'";
/// A new node has no copies of the small tables, which it needs before it gets a shard.
const PREPARE_NODES: &str = "SELECT replicate_reference_tables('force_logical')";
const MOVE: &str = "SELECT citus_move_shard_placement($1::bigint, $2::integer, $3::integer, 'force_logical')";
const SPLIT: &str = "SELECT citus_split_shard_by_split_points($1::bigint, $2::text[], $3::integer[], 'force_logical')";
/// The node of a shard and its highest hash.
const PLACE: &str = "SELECT n.nodeid, s.shardmaxvalue FROM pg_dist_shard s JOIN pg_dist_placement USING (shardid) \
     JOIN pg_dist_node n USING (groupid) WHERE s.shardid = $1 AND n.noderole = 'primary'";
const PIECE: &str =
    "SELECT shardid FROM pg_dist_shard WHERE logicalrelid = 'rowhouse_entities'::regclass AND shardmaxvalue = $1";
const BEGIN: &str = "INSERT INTO rowhouse_balance_steps (began, step) VALUES ($1, $2)";
const END: &str = "UPDATE rowhouse_balance_steps SET ended = now(), error = $2 WHERE began = $1";
const FORGET: &str = "DELETE FROM rowhouse_balance_steps WHERE began < now() - interval '30 days'";

/// What a server does about an uneven load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// Nothing, and it measures nothing.
    Off,
    /// It measures, and logs what should be done.
    Suggest,
    /// It moves and splits shards, at most this many times an hour.
    Auto {
        /// The maximum number of steps an hour.
        steps_max: u32,
    },
}

/// What became of a step.
pub(crate) enum Taken {
    Completed,
    /// It was not begun.
    Not(&'static str),
}

/// Observes the cluster until the engine is closed. Publishes what it observes, whether or not this server decides.
pub(crate) async fn balance_cluster(
    shared: Arc<PostgresState>,
    settings: Settings,
    balance: Balance,
    monitor: LoadMonitor,
) {
    let (mut observed, mut suggested, mut average) = (0, None, Average::default());
    loop {
        tokio::time::sleep(jittered(INTERVAL)).await;
        let step = match step_to_take(&shared, &monitor, &mut average).await {
            Ok(step) => step,
            Err(trouble) => {
                tracing::debug!(?trouble, "the load of the cluster could not be read");
                None
            }
        };
        observed = if step.is_some() { observed + 1 } else { 0 };
        let Some(step) = step.filter(|_| observed >= OBSERVATIONS) else { continue };
        match balance {
            Balance::Off => {}
            Balance::Suggest => {
                let text = step.to_string();
                if suggested.as_ref() != Some(&text) {
                    tracing::info!(step = text, "the load of the nodes is uneven; --balance auto would do this");
                    suggested = Some(text);
                }
            }
            Balance::Auto { steps_max } => {
                let taken = take(&settings, &step, Some(steps_max));
                match while_observing(&shared, &monitor, &mut average, taken).await {
                    Ok(Taken::Completed) => tracing::info!(%step, "the step is completed"),
                    Ok(Taken::Not(why)) => tracing::info!(%step, why, "the load of the nodes is uneven"),
                    Err(error) => tracing::warn!(%error, "the load of the nodes could not be balanced"),
                }
                observed = 0;
            }
        }
    }
}

/// Returns why no step may be taken now.
fn obstacle(steps: &[PastStep], now: SystemTime, steps_max: u32) -> Option<&'static str> {
    let recent = steps.iter().filter(|step| now.duration_since(step.began).unwrap_or_default() < PAUSE);
    let (count, has_failed) =
        recent.fold((0_u32, false), |(count, has_failed), step| (count + 1, has_failed || step.error.is_some()));
    if has_failed {
        Some("a step failed less than an hour ago")
    } else if count >= steps_max {
        Some("the maximum number of steps in an hour is reached")
    } else {
        None
    }
}

/// Publishes the load. Returns the step that should be taken, if this server is the one that decides.
async fn step_to_take(
    shared: &PostgresState,
    monitor: &LoadMonitor,
    average: &mut Average,
) -> Result<Option<Step>, AttemptError> {
    let step = observe(shared, monitor, average).await?;
    Ok(if shared.hold_lease(BALANCE_LEASE).await? { step } else { None })
}

/// Publishes the load, and returns the step that should be taken.
async fn observe(
    shared: &PostgresState,
    monitor: &LoadMonitor,
    average: &mut Average,
) -> Result<Option<Step>, AttemptError> {
    let lease = shared.pool.take().await?;
    let read = timeout(READ_TIME_MAX, read_report(&lease)).await;
    let (cluster, report) = read
        .map_err(|_| AttemptError::Retry("the database does not respond".into()))?
        .map_err(|error| AttemptError::before_commit(&error))?;
    lease.return_to_pool();
    average.add(&cluster, monotonic::now());
    let step = report.step.clone().filter(|step| average.permits(&cluster, step));
    monitor.publish(report);
    Ok(step)
}

/// Waits for the step. At the same time, publishes the load, and renews the lease, so that no other server waits for
/// the lock in vain.
async fn while_observing<T>(
    shared: &PostgresState,
    monitor: &LoadMonitor,
    average: &mut Average,
    step: impl Future<Output = T>,
) -> T {
    let observing = async {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(trouble) = step_to_take(shared, monitor, average).await {
                tracing::debug!(?trouble, "the load could not be read, or the lease could not be renewed");
            }
        }
    };
    tokio::select! {
        taken = step => taken,
        never = observing => never,
    }
}

/// Takes a step, and waits until it is completed.
pub fn take_step<'a>(
    step: &'a Step,
    url: &'a str,
    password: Option<&'a Password>,
) -> BoxFuture<'a, Result<(), StoreError>> {
    Box::pin(async move {
        match take(&Settings::new(url, password)?, step, None).await? {
            Taken::Completed => Ok(()),
            Taken::Not(why) => Err(StoreError::new(format!("the step was not taken: {why}"))),
        }
    })
}

/// Takes a step, at most the given number in an hour. If another step is running, returns that as an obstacle.
pub(crate) async fn take(settings: &Settings, step: &Step, steps_max: Option<u32>) -> Result<Taken, StoreError> {
    let error = |error| StoreError::from_postgres(&settings.place, &error);
    let session = on_coordinator(settings).await?;
    let client = &session.client;
    client.batch_execute(SESSION).await.map_err(error)?;
    if !client.query_one(LOCK, &[]).await.and_then(|row| row.try_get(0)).map_err(error)? {
        return Ok(Taken::Not("another step is running"));
    }
    let began: SystemTime =
        client.query_one("SELECT now()", &[]).await.and_then(|row| row.try_get(0)).map_err(error)?;
    if let Some(steps_max) = steps_max
        && let Some(why) = obstacle(&read_steps(client).await.map_err(error)?, began, steps_max)
    {
        return Ok(Taken::Not(why));
    }
    let text = step.to_string();
    client.execute(FORGET, &[]).await.map_err(error)?;
    client.execute(BEGIN, &[&began, &text]).await.map_err(error)?;
    tracing::info!(step = text, "balancing the load of the nodes");
    let (taken, is_stalled) = Box::pin(perform_unless_stalled(&session, step, settings)).await;
    let failure = taken.as_ref().err().map(|error| if is_stalled { STALLED.to_owned() } else { describe(error) });
    // The first attempts can fail because a node has been restarted since.
    let recorded = repeat(client, END, &[&began, &failure], END_ATTEMPTS, |_| true).await;
    session.close().await;
    match failure {
        None => recorded.map(|()| Taken::Completed).map_err(error),
        Some(failure) => Err(StoreError::new(format!("could not {text}: {failure}"))),
    }
}

/// Performs a step, and cancels it if it makes no progress. Also returns whether it was cancelled.
async fn perform_unless_stalled(session: &Session, step: &Step, settings: &Settings) -> (Result<(), Error>, bool) {
    let mut performed = pin!(perform(&session.client, step));
    let mut is_stalled = false;
    loop {
        tokio::select! {
            performed = &mut performed => return (performed, is_stalled),
            () = wait_until_stalled(settings) => {
                is_stalled = true;
                // If this fails, it is repeated.
                let _cancelled = session.cancel(settings).await;
            }
        }
    }
}

async fn perform(client: &Client, step: &Step) -> Result<(), Error> {
    execute(client, PREPARE_NODES, &[]).await?;
    let (shard, points, nodes) = match step {
        Step::Move { shard, from, to } => return execute(client, MOVE, &[shard, from, to]).await,
        Step::Split { shard, points, nodes } => (shard, points, nodes),
    };
    let place = client.query_one(PLACE, &[shard]).await?;
    let (own, last): (i32, String) = (place.try_get(0)?, place.try_get(1)?);
    // If Citus splits a shard onto its own node, the split can hang while there are writes (citusdata/citus#6790). The
    // piece therefore goes to another node first; the last one in the plan is the one that got least.
    let elsewhere = nodes.iter().rev().copied().find(|node| *node != own).unwrap_or(own);
    let first_nodes: Vec<i32> = nodes.iter().map(|node| if *node == own { elsewhere } else { *node }).collect();
    let points: Vec<String> = points.iter().map(i32::to_string).collect();
    execute(client, SPLIT, &[shard, &points, &first_nodes]).await?;
    for (last, _) in points.iter().chain([&last]).zip(nodes).filter(|(_, node)| **node == own) {
        let piece: i64 = client.query_one(PIECE, &[last]).await?.try_get(0)?;
        execute(client, MOVE, &[&piece, &elsewhere, &own]).await?;
    }
    Ok(())
}

/// Calls a function of Citus, and repeats it if it was rolled back by a deadlock. Tables that are created and deleted
/// lock the catalog, which a new node needs.
async fn execute(client: &Client, function: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<(), Error> {
    let is_deadlock = |error: &Error| error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED);
    repeat(client, function, parameters, ATTEMPTS, is_deadlock).await
}

/// Executes a statement, and repeats it after the errors that `may_repeat` selects.
async fn repeat(
    client: &Client,
    statement: &str,
    parameters: &[&(dyn ToSql + Sync)],
    attempts: u32,
    may_repeat: impl Fn(&Error) -> bool,
) -> Result<(), Error> {
    for _ in 1..attempts {
        match client.execute(statement, parameters).await {
            Err(error) if may_repeat(&error) => tokio::time::sleep(jittered(ATTEMPT_PAUSE)).await,
            other => return other.map(drop),
        }
    }
    client.execute(statement, parameters).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_and_the_budget_stop_further_steps() {
        let now = SystemTime::now();
        let step = |minutes: u64, error: Option<&str>| PastStep {
            began: now - Duration::from_secs(60 * minutes),
            step: String::new(),
            ended: Some(now),
            error: error.map(str::to_owned),
        };
        assert_eq!(obstacle(&[], now, 1), None);
        assert_eq!(obstacle(&[step(61, Some("failed")), step(59, None)], now, 2), None);
        let interrupted = PastStep { ended: None, ..step(59, None) };
        assert_eq!(obstacle(std::slice::from_ref(&interrupted), now, 2), None);
        assert!(obstacle(&[interrupted], now, 1).is_some());
        assert!(obstacle(&[step(61, None), step(59, None)], now, 1).is_some());
        assert!(obstacle(&[step(59, Some("failed"))], now, 9).is_some());
        assert!(obstacle(&[], now, 0).is_some());
    }
}
