//! Set Table Indexes, an extension: replaces the list of the indexed properties of a table.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use wire::table_indexes;

/// New indexes are built after the response is sent.
pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let list = table_indexes::read(context.body).map_err(Failure::service)?;
    tables.set_indexes(context.table(), list.into_iter().map(|index| index.property).collect()).await?;
    Ok(OperationResponse::no_content())
}
