//! What clients may do with the tables of metrics: read them, and delete entities from them (specification 10 §8).

use crate::request::Failure;
use model::{MetricsTable, Mutation, TableName};
use wire::ErrorCode;

/// The tables of metrics that each account has.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetricsTables {
    /// Whether requests to the secondary endpoint are served, so that there are tables for them.
    pub(super) has_secondary: bool,
}

impl MetricsTables {
    /// The table of this name, if it is one of these.
    pub(super) fn table(self, name: &str) -> Option<TableName> {
        let table = MetricsTable::of_name(name).filter(|table| self.has_secondary || !table.is_secondary());
        table.map(TableName::of_metrics)
    }
}

/// Refuses mutations of a table of metrics other than deletions, with the index of the first of them.
pub(super) fn check_mutations(mutations: &[Mutation]) -> Result<(), (usize, Failure)> {
    match mutations.iter().position(|mutation| !matches!(mutation, Mutation::Delete { .. })) {
        None => Ok(()),
        Some(index) => Err((index, written_by_server())),
    }
}

/// UNVERIFIED (10 §8): the code for writing into a table of metrics, and for deleting one.
pub(super) fn written_by_server() -> Failure {
    Failure::service(ErrorCode::AuthorizationFailure)
}
