//! Merge Entity and Insert Or Merge Entity (specification 02 §5.3, §5.5).

use super::commit_for_etag;
use crate::answer::Answer;
use crate::call::{Call, address_key};
use crate::failure::Failure;
use crate::route::EntityAddress;
use model::{Condition, EntityKey, Mutation, RecordBuilder};
use store::Engine;
use wire::entity_body::{EntityBody, Keys};
use wire::payload::EntityReader;
use wire::{ErrorCode, ServiceError, Version};

/// Sets properties of an entity; without `If-Match` it may be new.
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
    let (key, properties, condition) = decode_addressed(call, address, body, reader, "MERGE")?;
    Ok(match condition {
        Some(condition) => Mutation::Merge { key, properties, condition },
        None => Mutation::InsertOrMerge { key, properties },
    })
}

/// What an update and a merge have in common: the entity is addressed, and the body sets its properties.
pub(crate) fn decode_addressed<'b>(
    call: &Call<'_>,
    address: &EntityAddress<'_>,
    body: &'b [u8],
    reader: &mut EntityReader<'b>,
    method: &str,
) -> Result<(EntityKey, RecordBuilder, Option<Condition>), Failure> {
    // A key that is too long names no entity, but an upsert cannot fail to find one (01 §3, UNVERIFIED for upserts).
    let too_long = match call.headers.if_match {
        Some(_) => ErrorCode::ResourceNotFound,
        None => ErrorCode::PropertyValueTooLarge,
    };
    let key = address_key(&address.partition, &address.row, too_long).map_err(Failure::query)?;
    let entity = reader.read(call.body_format, body, Keys::InTarget)?;
    check_body_keys(&key, &entity).map_err(Failure::service)?;
    let condition = call.condition(method).map_err(Failure::service)?;
    if condition.is_none() && call.version < Version::UPSERT {
        // UNVERIFIED (01 §8): the code before upserts existed.
        return Err(Failure::service(ErrorCode::MissingRequiredHeader));
    }
    Ok((key, entity.properties, condition))
}

/// Keys in the body may be left out, but may not name another entity than the address.
///
/// UNVERIFIED (01 §3): what the service does with other keys in the body.
fn check_body_keys(key: &EntityKey, entity: &EntityBody) -> Result<(), ServiceError> {
    let same = entity.partition.as_ref().is_none_or(|partition| *partition == key.partition)
        && entity.row.as_ref().is_none_or(|row| *row == key.row);
    if same { Ok(()) } else { Err(ErrorCode::InvalidInput.into()) }
}
