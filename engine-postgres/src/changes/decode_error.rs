//! The reason why decoding stopped.

use crate::StoreError;
use crate::changes::placements::Unorderable;
use crate::connections::attempt::{AttemptError, describe};
use crate::connections::replication::ReplicationError;
use engine::Fault;
use tokio_postgres::Error;

/// The reason why decoding stopped.
#[derive(Debug)]
pub(crate) enum DecodeError {
    Closed,
    Database(String),
    Unorderable(Unorderable),
}

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
