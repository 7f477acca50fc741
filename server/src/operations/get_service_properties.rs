//! Get Table Service Properties (specification 10 §1).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use wire::service_properties;

#[allow(clippy::unused_async, reason = "the table of operations calls all operations the same way")]
pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let properties = tables.service_properties()?;
    Ok(OperationResponse::xml(service_properties::write(&properties, context.response.version)))
}
