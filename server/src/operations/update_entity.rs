//! Update Entity and Insert Or Replace Entity (specification 02 §5.2, §5.4).

use super::commit_for_etag;
use super::merge_entity::decode_addressed;
use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use crate::route::EntityAddress;
use model::Mutation;
use store::Engine;
use wire::payload::EntityReader;

/// Replaces an entity; without `If-Match` it may be new.
pub(crate) async fn run(
    engine: &impl Engine,
    call: &Call<'_>,
    address: &EntityAddress<'_>,
    body: &[u8],
) -> Result<Answer, Failure> {
    let mutation = decode(call, address, body, &mut EntityReader::default())?;
    commit_for_etag(engine, call, &address.table, mutation).await
}

/// The mutation that the request describes.
pub(crate) fn decode<'b>(
    call: &Call<'_>,
    address: &EntityAddress<'_>,
    body: &'b [u8],
    reader: &mut EntityReader<'b>,
) -> Result<Mutation, Failure> {
    let (key, properties, condition) = decode_addressed(call, address, body, reader, "PUT")?;
    Ok(match condition {
        Some(condition) => Mutation::Replace { key, properties, condition },
        None => Mutation::InsertOrReplace { key, properties },
    })
}
