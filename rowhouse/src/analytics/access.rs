//! What clients may do with the tables of metrics: read them, and delete what is in them (specification 10 §8).

use super::Analytics;
use crate::call::Call;
use crate::failure::Failure;
use model::{MetricsTable, Mutation, TableName};
use store::TableKey;
use wire::ErrorCode;

impl Analytics {
    /// The table of this name, if it is one that every account has.
    fn table(&self, name: &str) -> Option<MetricsTable> {
        MetricsTable::of_name(name).filter(|table| self.has_secondary || !table.is_secondary())
    }
}

impl Call<'_> {
    /// The table of metrics of this name. An account has it whether anything was written into it yet or not.
    pub(crate) fn metrics_table(&self, name: &str) -> Option<TableName> {
        self.analytics?.table(name).map(TableName::of_metrics)
    }

    /// The table whose entities are read.
    pub(crate) fn table_to_read(&self, name: &str) -> Result<TableKey, Failure> {
        match self.metrics_table(name) {
            Some(name) => Ok(TableKey { account: self.grant.account.clone(), name }),
            None => self.table(name),
        }
    }

    /// The table whose entities are changed. Nobody but the server itself writes metrics, but whoever may delete
    /// entities may delete them. A refusal comes with the mutation that is at fault.
    pub(crate) fn table_to_change<'m>(
        &self,
        name: &str,
        mut mutations: impl Iterator<Item = &'m Mutation>,
    ) -> Result<TableKey, (usize, Failure)> {
        let Some(name) = self.metrics_table(name) else { return self.table(name).map_err(|failure| (0, failure)) };
        match mutations.position(|mutation| !matches!(mutation, Mutation::Delete { .. })) {
            None => Ok(TableKey { account: self.grant.account.clone(), name }),
            Some(writing) => Err((writing, metrics_are_written_by_the_server())),
        }
    }

    /// Refuses to delete a table of metrics.
    pub(crate) fn check_deletion(&self, name: &str) -> Result<(), Failure> {
        self.metrics_table(name).map_or(Ok(()), |_| Err(metrics_are_written_by_the_server()))
    }
}

/// UNVERIFIED (10 §8): the code for writing into a table of metrics, and for deleting one.
fn metrics_are_written_by_the_server() -> Failure {
    Failure::service(ErrorCode::AuthorizationFailure)
}
