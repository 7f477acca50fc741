//! The operations on the policies and settings of a table. What they change takes effect before the response is sent,
//! except that new indexes are built afterwards.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use engine::IndexState;
use wire::reason::Reason;
use wire::table_indexes::{self, TableIndex};
use wire::{ErrorCode, ServiceError, acl, table_retention};

/// Get Table ACL (specification 02 §4.5, 10 §7).
pub(super) async fn get_acl(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let policies = tables.policies(context.table()).await?;
    Ok(OperationResponse::xml(acl::write(&policies)))
}

/// Set Table ACL (specification 02 §4.6, 10 §7).
pub(super) async fn set_acl(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let policies = acl::read(context.body).map_err(invalid)?;
    tables.set_policies(context.table(), policies).await?;
    Ok(OperationResponse::no_content())
}

fn invalid(reason: Reason) -> Failure {
    Failure::service(ServiceError::from(ErrorCode::InvalidXmlDocument).because(reason))
}

/// Get Table Retention, an extension: how long the entities of a table exist.
pub(super) async fn get_retention(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let retention = tables.retention(context.table()).await?;
    Ok(OperationResponse::xml(table_retention::write(retention.as_ref())))
}

/// Set Table Retention, an extension: changes how long the entities of a table exist.
pub(super) async fn set_retention(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let retention = table_retention::read(context.body);
    let retention = retention.map_err(invalid)?;
    tables.set_retention(context.table(), retention).await?;
    Ok(OperationResponse::no_content())
}

/// Get Table Indexes, an extension: the indexed properties of a table, and whether each index is ready.
pub(super) async fn get_indexes(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let states = tables.indexes(context.table()).await?;
    let index = |IndexState { property, is_ready }| TableIndex { property, is_ready };
    let list: Vec<_> = states.into_iter().map(index).collect();
    Ok(OperationResponse::xml(table_indexes::write(&list)))
}

/// Set Table Indexes, an extension: replaces the list of the indexed properties of a table.
pub(super) async fn set_indexes(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let list = table_indexes::read(context.body).map_err(Failure::service)?;
    tables.set_indexes(context.table(), list.into_iter().map(|index| index.property).collect()).await?;
    Ok(OperationResponse::no_content())
}
