//! Set Table Retention, an extension: changes how long the entities of a table exist.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use wire::{ErrorCode, table_retention};

/// The retention takes effect before the response is sent.
pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let retention = table_retention::read(context.body);
    let retention = retention.map_err(|_| Failure::service(ErrorCode::InvalidXmlDocument))?;
    tables.set_retention(context.table(), retention).await?;
    Ok(OperationResponse::no_content())
}
