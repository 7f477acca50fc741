//! Get Table Retention, an extension: how long the entities of a table exist.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use wire::table_retention;

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let retention = tables.retention(context.table()).await?;
    Ok(OperationResponse::xml(table_retention::write(retention.as_ref())))
}
