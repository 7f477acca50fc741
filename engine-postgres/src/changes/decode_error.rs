//! The reasons why decoding stopped.

use crate::StoreError;
use crate::connections::attempt::{AttemptError, describe};
use crate::connections::replication::ReplicationError;
use engine::Fault;
use tokio_postgres::Error;

/// The reason why decoding stopped.
#[derive(Debug)]
pub enum DecodeError {
    /// The engine was closed.
    Closed,
    /// The database failed, or did not respond.
    Database(String),
    /// The order of changes cannot be determined.
    Unorderable(Unorderable),
}

/// An error: the order of changes cannot be determined.
#[derive(Debug, PartialEq, Eq)]
pub struct Unorderable(pub &'static str);

impl From<AttemptError> for DecodeError {
    fn from(error: AttemptError) -> Self {
        match error {
            AttemptError::Fault(Fault::Closed) => Self::Closed,
            AttemptError::Fault(fault) => Self::Database(fault.to_string()),
            AttemptError::Retry(reason) | AttemptError::RetryElsewhere(reason) => Self::Database(reason.to_string()),
        }
    }
}

impl From<Fault> for DecodeError {
    fn from(fault: Fault) -> Self {
        Self::from(AttemptError::Fault(fault))
    }
}

impl From<ReplicationError> for DecodeError {
    fn from(error: ReplicationError) -> Self {
        Self::Database(error.to_string())
    }
}

impl From<StoreError> for DecodeError {
    fn from(error: StoreError) -> Self {
        Self::Database(error.to_string())
    }
}

impl From<Error> for DecodeError {
    fn from(error: Error) -> Self {
        Self::Database(describe(&error))
    }
}

impl From<Unorderable> for DecodeError {
    fn from(error: Unorderable) -> Self {
        Self::Unorderable(error)
    }
}
