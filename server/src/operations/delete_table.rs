//! Delete Table (specification 02 §4.4).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use engine::Engine;

pub(super) async fn run<E: Engine>(
    tables: &AccountTables<'_, E>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    tables.delete(context.table()).await?;
    Ok(OperationResponse::no_content())
}
