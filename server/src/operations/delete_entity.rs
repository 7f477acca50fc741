//! Delete Entity (specification 02 §5.6).

use super::commit;
use crate::failure::Failure;
use crate::request::{OperationContext, address_key};
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use model::Mutation;
use wire::ErrorCode;

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    commit(tables, context, decode(context)?).await?;
    Ok(OperationResponse::no_content())
}

pub(super) fn decode(context: &OperationContext<'_>) -> Result<Mutation, Failure> {
    let key = address_key(context.keys(), ErrorCode::ResourceNotFound)?;
    let condition = context.condition("DELETE").map_err(Failure::query)?;
    // UNVERIFIED (01 §8): the error code for a request without `If-Match`.
    let condition = condition.ok_or_else(|| Failure::service(ErrorCode::MissingRequiredHeader))?;
    Ok(Mutation::Delete { key, condition })
}
