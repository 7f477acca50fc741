//! Set Table Service Properties (specification 10 §1).

use crate::request::{Failure, OperationContext};
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use store::Engine;
use wire::{ErrorCode, service_properties};

/// Replaces the sections that the body has.
pub(super) async fn run<E: Engine>(
    tables: &AccountTables<'_, E>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let update = service_properties::read(context.body, context.version).map_err(refusal)?;
    tables.update_service_properties(update).await?;
    Ok(OperationResponse::accepted())
}

/// Every error of the document has the same code; the log shows the cause.
///
/// UNVERIFIED (10 §1): recorded are too many rules, bad `Days`, missing elements and an empty root; that every other
/// error, and an empty body, has this code too.
fn refusal(refusal: service_properties::ServicePropertiesError) -> Failure {
    Failure { source: Some(Box::new(refusal)), ..Failure::service(ErrorCode::InvalidXmlDocument) }
}
