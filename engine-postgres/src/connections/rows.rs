//! Runs statements on a connection, and reads their rows.

use crate::connections::attempt::{ATTEMPT_TIME_MAX, AttemptError};
use crate::connections::counts::RetryReason;
use crate::connections::node::Lease;
use engine::Fault;
use engine::parts::monotonic;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// Runs a read-only statement with a timeout.
pub async fn read(lease: &Lease, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, AttemptError> {
    let rows = timeout(ATTEMPT_TIME_MAX, async {
        let statement = lease.prepare_cached(sql).await?;
        let began = monotonic::now();
        let rows = lease.query(&statement, values).await;
        lease.record_step(began);
        lease.record_rows(rows.as_ref().map_or(0, Vec::len));
        rows
    });
    rows.await.map_err(|_| no_response())?.map_err(|error| AttemptError::before_commit(&error))
}

/// Runs a write statement that is a transaction by itself. Returns the number of changed rows.
pub(crate) async fn write(lease: &Lease, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, AttemptError> {
    let statement = timeout(ATTEMPT_TIME_MAX, lease.prepare_cached(sql)).await.map_err(|_| no_response())?;
    let statement = statement.map_err(|error| AttemptError::before_commit(&error))?;
    let began = monotonic::now();
    let written = timeout(ATTEMPT_TIME_MAX, lease.execute(&statement, values)).await;
    lease.record_step(began);
    match written {
        Ok(written) => written.map_err(|error| AttemptError::at_call(&error)),
        Err(_) => Err(AttemptError::no_response_to("a write")),
    }
}

/// Returns the failure of an attempt to which the database does not respond.
pub fn no_response() -> AttemptError {
    AttemptError::retry(RetryReason::Timeout, "the database does not respond")
}

/// Reads a column of a row. Fails if its type does not match the schema.
pub fn column<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, index: usize) -> Result<T, Fault> {
    row.try_get(index).map_err(|error| Fault::Damaged(format!("a value from the database cannot be read: {error}")))
}

/// Runs a statement that begins a transaction or rolls it back.
pub(crate) async fn control(lease: &Lease, sql: &str) -> Result<(), AttemptError> {
    let began = monotonic::now();
    let done = timeout(ATTEMPT_TIME_MAX, lease.batch_execute(sql)).await.map_err(|_| no_response())?;
    lease.record_step(began);
    done.map_err(|error| AttemptError::before_commit(&error))
}

pub(crate) async fn end(lease: &Lease) -> Result<(), AttemptError> {
    let began = monotonic::now();
    let done = timeout(ATTEMPT_TIME_MAX, lease.batch_execute("COMMIT")).await;
    lease.record_step(began);
    match done {
        Ok(done) => done.map_err(|error| AttemptError::at_commit(&error)),
        Err(_) => Err(AttemptError::no_response_to("a commit")),
    }
}
