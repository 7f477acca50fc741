//! The operations of the Table service, one a file; the four ways to update an entity share one.
//!
//! Each has a function `run`, and the table of operations (`request/operation.rs`) says which one runs. An operation decodes
//! the request, calls [`AccountTables`], and makes an [`OperationResponse`]. It must not know engines,
//! throttling, quotas, or how a response becomes HTTP.

mod batch;
mod create_table;
mod delete_entity;
mod delete_table;
mod get_entity;
mod get_service_properties;
mod get_service_stats;
mod get_table;
mod get_table_acl;
mod insert_entity;
mod query_entities;
mod query_tables;
mod set_service_properties;
mod set_table_acl;
mod update_entity;

use crate::request::{Failure, OperationContext, OperationKind, operation_table};
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use model::{Action, DateTime, Mutation, Transaction, Written};
use store::Engine;
use wire::ErrorCode;

macro_rules! define_run {
    ($($kind:ident $name:literal $module:ident { $($row:tt)* })+) => {
        /// Runs the operation that the context names.
        pub(crate) async fn run<E: Engine>(
            tables: &AccountTables<'_, E>,
            context: &OperationContext<'_>,
        ) -> Result<OperationResponse, Failure> {
            match context.kind {
                $(OperationKind::$kind => $module::run(tables, context).await,)+
                OperationKind::Unknown | OperationKind::PreflightRequest => {
                    Err(Failure::service(ErrorCode::NotImplemented))
                }
            }
        }
    };
}

operation_table!(define_run);

/// Commits one mutation if it is allowed; returns the Timestamp of the entity if it was stored.
async fn commit<E: Engine>(
    tables: &AccountTables<'_, E>,
    context: &OperationContext<'_>,
    mutation: Mutation,
) -> Result<Option<DateTime>, Failure> {
    context.allow(Action::of(&mutation, context.table()))?;
    let written = tables.commit(context.table(), Transaction::single(mutation)).await?;
    Ok(written.first().and_then(|written| match written {
        Written::Stored(timestamp) => Some(*timestamp),
        Written::Deleted => None,
    }))
}
