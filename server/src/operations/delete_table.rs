//! Delete Table (specification 02 §4.4).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    tables.delete(context.table()).await?;
    Ok(OperationResponse::no_content())
}
