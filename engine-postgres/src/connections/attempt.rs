//! Classifies failures of the database and decides when an operation is retried.
//!
//! Invariant: [`AttemptError::Retry`] and [`AttemptError::RetryElsewhere`] mean that nothing was changed. If that is
//! not certain, the failure is an [`AttemptError::Fault`].

use crate::connections::counts::{PostgresCounts, RetryReason};
use engine::Fault;
use engine::parts::monotonic;
use model::limits;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;

pub(crate) const ATTEMPTS_TIME_MAX: Duration = Duration::from_secs(limits::STORE_ATTEMPTS_SECONDS_MAX);
/// The timeout for one statement, including waits for locks. Each session sets it in the database.
pub(crate) const STATEMENT_TIME_MAX: Duration = Duration::from_secs(limits::STORE_STATEMENT_SECONDS_MAX);
/// The timeout for one attempt, after which its connection counts as lost.
pub(crate) const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(limits::STORE_ATTEMPT_SECONDS_MAX);
/// The minimum and maximum wait between two attempts, before jitter reduces it by up to half.
const WAIT_MIN: Duration = Duration::from_millis(2);
const WAIT_MAX: Duration = Duration::from_millis(250);

/// Why an attempt failed, and whether there may be another one.
#[derive(Debug)]
pub enum AttemptError {
    /// Nothing happened, and a retry may succeed.
    Retry(Box<dyn Error + Send + Sync>),
    /// Nothing happened, and a retry over another connection may succeed: this connection is broken, or it leads to a
    /// database that no longer accepts writes.
    RetryElsewhere(Box<dyn Error + Send + Sync>),
    /// A retry is useless, or it is not known what happened.
    Fault(Fault),
}

impl AttemptError {
    /// Classifies the failure of a statement that has no effect until a commit that has not been sent yet.
    pub fn before_commit(error: &tokio_postgres::Error) -> Self {
        let retry = match error.code() {
            Some(&(SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED)) => RetryReason::Timeout,
            Some(_) => RetryReason::Conflict,
            None => RetryReason::Connection,
        };
        let reason = Box::new(Reason { text: describe(error), retry });
        match error.code() {
            Some(code) if TRANSIENT_STATES.contains(code) || has_message(error, &TRANSIENT_MESSAGES) => {
                Self::Retry(reason)
            }
            Some(_) if names_moved_shard(error) => Self::Retry(reason),
            Some(_) if is_of_connection(error) => Self::RetryElsewhere(reason),
            Some(_) => Self::Fault(Fault::Storage(reason)),
            // There is no response: the connection broke.
            None => Self::RetryElsewhere(reason),
        }
    }

    /// Classifies the failure of a commit, or of a statement that takes effect by itself.
    pub(crate) fn at_commit(error: &tokio_postgres::Error) -> Self {
        match error.code() {
            // The database reports that it rolled the transaction back.
            Some(&(SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED)) => {
                Self::Retry(Box::new(Reason { text: describe(error), retry: RetryReason::Conflict }))
            }
            // The database no longer accepts writes, so it did not perform this one either.
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => {
                Self::RetryElsewhere(Box::new(Reason { text: describe(error), retry: RetryReason::Connection }))
            }
            Some(_) if is_refusal_to_node(error) => Self::before_commit(error),
            _ => Self::Fault(Fault::Unknown(describe(error).into())),
        }
    }

    /// Classifies the failure of a statement that changes entities and is a transaction by itself. The contacted node
    /// may have forwarded the statement. In that case, an error about a connection or a timeout does not show whether
    /// another node executed it.
    pub(crate) fn at_call(error: &tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if ROLLED_BACK_STATES.contains(code) => Self::before_commit(error),
            Some(code) if TRANSIENT_STATES.contains(code) || is_of_connection(error) => Self::at_commit(error),
            Some(_) => Self::before_commit(error),
            None => Self::at_commit(error),
        }
    }

    /// Reclassifies the failure of a change that may be repeated.
    pub(crate) fn repeatable(self) -> Self {
        match self {
            Self::Fault(Fault::Unknown(reason)) => Self::RetryElsewhere(reason),
            other => other,
        }
    }

    pub(crate) fn no_response_to(what: &str) -> Self {
        Self::Fault(Fault::Unknown(format!("the database does not respond to {what}").into()))
    }

    /// Returns the failure for a cached table that has been deleted or has changed; a different table may have the name
    /// now. On Citus, a change does not become visible on all nodes at the same time.
    pub(crate) fn table_changed() -> Self {
        Self::retry(RetryReason::Conflict, "the table was deleted or changed, or its shards are being moved")
    }

    pub(crate) fn retry(retry: RetryReason, reason: &'static str) -> Self {
        Self::Retry(Box::new(Reason { text: reason.to_owned(), retry }))
    }
}

/// SQL states of transient errors: the statement may succeed when retried.
const TRANSIENT_STATES: [SqlState; 5] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::QUERY_CANCELED,
    // Two transactions inserted the same key, and the other one was first.
    SqlState::UNIQUE_VIOLATION,
];
/// SQL states that mean that the database has rolled back the transaction.
const ROLLED_BACK_STATES: [SqlState; 5] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::UNIQUE_VIOLATION,
    SqlState::READ_ONLY_SQL_TRANSACTION,
];
/// SQL states of errors after which a retry needs another connection.
const RECONNECT_STATES: [SqlState; 6] = [
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
    SqlState::TOO_MANY_CONNECTIONS,
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    // The database became a replica, and another server became the primary.
    SqlState::READ_ONLY_SQL_TRANSACTION,
];

/// The beginnings of the messages that Citus 13 sends with `XX000` although the statement may succeed when retried.
///
/// Either the shard was split or moved since the statement was planned (`metadata_cache.c`, `metadata_utility.c` and
/// `multi_physical_planner.c`). Or it was moved since a call was sent to its node. That node copies new entities to the
/// shard, and repeats the error of the other node without its SQL state (`ReportCopyError`).
const TRANSIENT_MESSAGES: [&str; 6] = [
    "could not find valid entry for shard",
    "no active placements were found for shard",
    "could not find any healthy placement for shard",
    "duplicate key value violates unique constraint",
    "deadlock detected",
    "canceling statement due to",
];
/// The beginnings of the messages that Citus 13 sends with `XX000` when it loses another node. The first five are its
/// own (`remote_commands.c`, `remote_transaction.c`, `placement_connection.c` and `adaptive_executor.c`). The others
/// come from libpq, whose failures have no code (`fe-misc.c`, `fe-secure.c` and `fe-secure-openssl.c`):
/// `ReportResultError` repeats them.
const LOST_NODE_MESSAGES: [&str; 12] = [
    // The contacted node shuts down while it waits for another node.
    "postmaster was shut down, exiting",
    "failed to prepare transaction",
    "failure on connection marked as essential",
    "could not commit transaction for shard",
    "execution cannot recover from multiple connection failures",
    "server closed the connection unexpectedly",
    "could not receive data from server",
    "could not send data to server",
    "no connection to the server",
    "connection not open",
    "SSL connection has been closed unexpectedly",
    "SSL SYSCALL error",
];

/// Returns whether a Citus node could not forward a statement because nothing listens at the other node's address.
fn is_refusal_to_node(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        *error.code() == SqlState::CONNECTION_FAILURE && error.message().contains("Connection refused")
    })
}

/// Returns whether Citus removed a shard that it had moved after it had planned the statement. The name of a shard is
/// the name of the table with an underscore and a number.
fn names_moved_shard(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        let mut words = error.message().split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        *error.code() == SqlState::UNDEFINED_TABLE
            && words.any(|word| {
                let number = word.rsplit_once('_').filter(|(table, _)| table.starts_with("rowhouse_"));
                number.is_some_and(|(_, number)| number.bytes().all(|digit| digit.is_ascii_digit()))
            })
    })
}

/// Returns whether a statement that failed with this error may succeed over another connection.
fn is_of_connection(error: &tokio_postgres::Error) -> bool {
    let Some(refusal) = error.as_db_error() else { return false };
    let code = refusal.code();
    RECONNECT_STATES.contains(code)
        || code.code().starts_with("08")
        // The other node was lost while rows were copied to it (`ReportCopyError` of Citus).
        || (*code == SqlState::IO_ERROR && refusal.message().starts_with("failed to complete COPY"))
        || has_message(error, &LOST_NODE_MESSAGES)
}

/// Returns whether the state of an error is `XX000`, and its message has one of the beginnings.
fn has_message(error: &tokio_postgres::Error, beginnings: &[&str]) -> bool {
    error.as_db_error().is_some_and(|error| {
        *error.code() == SqlState::INTERNAL_ERROR
            && beginnings.iter().any(|beginning| error.message().starts_with(beginning))
    })
}

pub(crate) struct Attempts {
    began: Instant,
    wait: Duration,
    counts: Arc<PostgresCounts>,
}

impl Attempts {
    pub(crate) fn new(counts: &Arc<PostgresCounts>) -> Self {
        Self { began: monotonic::now(), wait: WAIT_MIN, counts: Arc::clone(counts) }
    }

    /// An error means that there must not be another attempt.
    pub(crate) async fn next(&mut self, trouble: AttemptError) -> Result<(), Fault> {
        let (reason, retry) = match trouble {
            AttemptError::Fault(fault) => return Err(fault),
            // If no reason is recorded, no connection could be obtained.
            AttemptError::Retry(reason) => {
                let retry = reason.downcast_ref::<Reason>().map_or(RetryReason::Connection, |reason| reason.retry);
                (reason, retry)
            }
            AttemptError::RetryElsewhere(reason) => (reason, RetryReason::Connection),
        };
        if self.began.elapsed() >= ATTEMPTS_TIME_MAX {
            return Err(Fault::Unavailable(reason));
        }
        self.counts.retry(retry);
        tracing::debug!(%reason, "retrying");
        tokio::time::sleep(jittered(self.wait)).await;
        self.wait = (self.wait * 2).min(WAIT_MAX);
        Ok(())
    }
}

/// Returns a random duration between half of `time` and all of it, so that colliding requests do not collide again.
pub fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[derive(Debug)]
struct Reason {
    text: String,
    retry: RetryReason,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Reason {}

/// Describes an error. The details are omitted, because the database may quote data in them.
pub fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(refusal) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", refusal.message(), refusal.code().code());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_spread_and_bounded() {
        for _ in 0..100 {
            let wait = jittered(Duration::from_millis(100));
            assert!((50..=100).contains(&wait.as_millis()), "{wait:?}");
        }
    }

    #[tokio::test]
    async fn a_fault_is_not_tried_again() {
        let counts = Arc::new(PostgresCounts::new());
        let mut attempts = Attempts::new(&counts);
        attempts.next(AttemptError::retry(RetryReason::Timeout, "first")).await.unwrap();
        attempts.next(AttemptError::RetryElsewhere("gone".into())).await.unwrap();
        assert_eq!(counts.retries(), [("conflict", 0), ("timeout", 1), ("connection", 1)]);
        assert!(matches!(attempts.next(AttemptError::Fault(Fault::Closed)).await, Err(Fault::Closed)));
        attempts.began = Instant::now().checked_sub(ATTEMPTS_TIME_MAX).unwrap();
        assert!(matches!(
            attempts.next(AttemptError::retry(RetryReason::Conflict, "last")).await,
            Err(Fault::Unavailable(_))
        ));
    }
}
