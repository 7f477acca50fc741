//! The rules for metrics tables: clients can read them and delete entities from them (specification 10 §8).

use crate::failure::{Failure, Stage};
use model::{MetricsTable, Mutation, TableName};
use wire::reason::ReasonKind;
use wire::{ErrorCode, ServiceError};

#[derive(Debug, Clone, Copy)]
pub(super) struct MetricsTables {
    /// Whether the secondary endpoint, whose requests have their own metrics tables, is served.
    pub(super) has_secondary: bool,
}

impl MetricsTables {
    pub(super) fn table(self, name: &str) -> Option<TableName> {
        let table = MetricsTable::from_name(name).filter(|table| self.has_secondary || !table.is_secondary());
        table.map(TableName::from_metrics_table)
    }
}

/// Rejects mutations of a metrics table other than deletions.
pub(super) fn check_mutations(mutations: &[Mutation]) -> Result<(), Failure> {
    match mutations.iter().position(|mutation| !matches!(mutation, Mutation::Delete { .. })) {
        None => Ok(()),
        Some(index) => Err(read_only_failure().of_operation(index, Stage::Decoding)),
    }
}

/// UNVERIFIED (10 §8): the error code.
pub(super) fn read_only_failure() -> Failure {
    let reason = ReasonKind::AnalyticsTable.because("");
    Failure::service(ServiceError::from(ErrorCode::AuthorizationFailure).because(reason))
}
