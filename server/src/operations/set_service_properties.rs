//! Set Table Service Properties (specification 10 §1).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use model::cors::CorsError;
use wire::ErrorCode;
use wire::service_properties::{self, ServicePropertiesError};

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let update = service_properties::read(context.body, context.response.version).map_err(refusal)?;
    tables.update_service_properties(update).await?;
    Ok(OperationResponse::accepted())
}

/// Returns the failure for rejected XML; the log shows the cause.
///
/// UNVERIFIED (10 §1): the responses to too many rules, invalid `Days`, missing elements and an empty root were
/// recorded, and the response to a rule with too many origins or headers was tested. The codes for all other errors,
/// and for an empty body, are derived from these.
fn refusal(refusal: ServicePropertiesError) -> Failure {
    let code = match refusal {
        ServicePropertiesError::Cors(
            CorsError::Origins | CorsError::Methods | CorsError::Headers | CorsError::Item | CorsError::MaxAge,
        ) => ErrorCode::InvalidXmlNodeValue,
        _ => ErrorCode::InvalidXmlDocument,
    };
    Failure { source: Some(Box::new(refusal)), ..Failure::service(code) }
}
