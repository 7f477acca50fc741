//! Update, Merge, Insert Or Replace and Insert Or Merge Entity (specification 02 §5.2 to §5.5).

use super::commit_for_etag;
use crate::answer::Answer;
use crate::call::{Call, address_key};
use crate::failure::Failure;
use crate::route::EntityAddress;
use model::{EntityKey, Mutation};
use store::Engine;
use wire::entity_body::{EntityBody, KeyLocation};
use wire::payload::read_entity;
use wire::{ErrorCode, ServiceError, Version};

/// What becomes of the properties that the body does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Update {
    /// They are removed.
    Replace,
    /// They stay.
    Merge,
}

/// Sets properties of an entity; without `If-Match` it may be new.
pub(crate) async fn run(
    engine: &impl Engine,
    call: &Call<'_>,
    update: Update,
    address: &EntityAddress<'_>,
    body: &[u8],
) -> Result<Answer, Failure> {
    let mutation = decode(call, update, address, body)?;
    commit_for_etag(engine, call, &address.table, mutation).await
}

/// The mutation that the request describes.
pub(crate) fn decode(
    call: &Call<'_>,
    update: Update,
    address: &EntityAddress<'_>,
    body: &[u8],
) -> Result<Mutation, Failure> {
    // A key that is too long names no entity, but an upsert cannot fail to find one (01 §3, UNVERIFIED for upserts).
    let too_long = match call.headers.if_match {
        Some(_) => ErrorCode::ResourceNotFound,
        None => ErrorCode::PropertyValueTooLarge,
    };
    let key = address_key(&address.partition, &address.row, too_long)?;
    let entity = read_entity(call.body_format, body, KeyLocation::Address)?;
    check_body_keys(&key, &entity).map_err(Failure::service)?;
    let method = match update {
        Update::Replace => "PUT",
        Update::Merge => "MERGE",
    };
    let condition = call.condition(method).map_err(Failure::service)?;
    if condition.is_none() && call.version < Version::UPSERT {
        // UNVERIFIED (01 §8): the code before upserts existed.
        return Err(Failure::service(ErrorCode::MissingRequiredHeader));
    }
    let properties = entity.properties;
    Ok(match (update, condition) {
        (Update::Replace, Some(condition)) => Mutation::Replace { key, properties, condition },
        (Update::Replace, None) => Mutation::InsertOrReplace { key, properties },
        (Update::Merge, Some(condition)) => Mutation::Merge { key, properties, condition },
        (Update::Merge, None) => Mutation::InsertOrMerge { key, properties },
    })
}

/// Keys in the body may be left out, but may not name another entity than the address.
///
/// UNVERIFIED (01 §3): what the service does with other keys in the body.
fn check_body_keys(key: &EntityKey, entity: &EntityBody) -> Result<(), ServiceError> {
    let same = entity.partition.as_ref().is_none_or(|partition| *partition == key.partition)
        && entity.row.as_ref().is_none_or(|row| *row == key.row);
    if same { Ok(()) } else { Err(ErrorCode::InvalidInput.into()) }
}
