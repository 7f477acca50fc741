//! Delete Entity (specification 02 §5.6).

use super::commit;
use crate::answer::Answer;
use crate::call::{Call, address_key};
use crate::failure::Failure;
use crate::route::EntityAddress;
use model::Mutation;
use store::Engine;
use wire::ErrorCode;

/// Deletes an entity that fulfils the condition.
pub(crate) async fn run(engine: &impl Engine, call: &Call<'_>, address: &EntityAddress<'_>) -> Result<Answer, Failure> {
    commit(engine, call, &address.table, decode(call, address)?).await?;
    Ok(Answer::no_content())
}

/// The mutation that the request describes.
pub(crate) fn decode(call: &Call<'_>, address: &EntityAddress<'_>) -> Result<Mutation, Failure> {
    let key = address_key(&address.partition, &address.row, ErrorCode::ResourceNotFound)?;
    let condition = call.condition("DELETE").map_err(Failure::service)?;
    // UNVERIFIED (01 §8): the code without `If-Match`.
    let condition = condition.ok_or_else(|| Failure::service(ErrorCode::MissingRequiredHeader))?;
    Ok(Mutation::Delete { key, condition })
}
