//! Update, Merge, Insert Or Replace, Insert Or Merge and Delete Entity (specification 02 §5.2 to §5.6).

use super::commit;
use super::written_entity::WrittenEntity;
use crate::failure::Failure;
use crate::request::{OperationContext, OperationKind, address_key};
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use model::Mutation;
use wire::entity_body::KeyLocation;
use wire::{ErrorCode, Version};

/// Without `If-Match`, the operation creates an entity that does not exist.
pub(super) async fn update(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let (mutation, updated) = decode(context)?;
    commit(tables, context, mutation, updated).await
}

pub(super) fn decode(context: &OperationContext<'_>) -> Result<(Mutation, Option<WrittenEntity>), Failure> {
    // No stored entity has a key that is too long, so such an entity is not found. An upsert does not look for an
    // entity (01 §3, UNVERIFIED for upserts).
    let too_long = match context.headers.if_match {
        Some(_) => ErrorCode::ResourceNotFound,
        None => ErrorCode::PropertyValueTooLarge,
    };
    let key = address_key(context.keys(), too_long)?;
    // Keys in the body are ignored, even if they name a different entity (01 §3).
    let properties = context.read_entity(KeyLocation::Address)?.properties;
    let is_merge = matches!(context.kind, OperationKind::MergeEntity | OperationKind::InsertOrMergeEntity);
    let condition = context.condition(if is_merge { "MERGE" } else { "PUT" }).map_err(Failure::query)?;
    if condition.is_none() && context.response.version < Version::UPSERT {
        // UNVERIFIED (01 §8): the error code in versions before upserts existed.
        return Err(Failure::service(ErrorCode::MissingRequiredHeader));
    }
    let updated = WrittenEntity::updated(context, &key, &properties, is_merge);
    let mutation = match (is_merge, condition) {
        (false, Some(condition)) => Mutation::Replace { key, properties, condition },
        (false, None) => Mutation::InsertOrReplace { key, properties },
        (true, Some(condition)) => Mutation::Merge { key, properties, condition },
        (true, None) => Mutation::InsertOrMerge { key, properties },
    };
    Ok((mutation, updated))
}

/// Delete Entity (specification 02 §5.6).
pub(super) async fn delete(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    commit(tables, context, decode_deletion(context)?, None).await
}

pub(super) fn decode_deletion(context: &OperationContext<'_>) -> Result<Mutation, Failure> {
    let key = address_key(context.keys(), ErrorCode::ResourceNotFound)?;
    let condition = context.condition("DELETE").map_err(Failure::query)?;
    // UNVERIFIED (01 §8): the error code for a request without `If-Match`.
    let condition = condition.ok_or_else(|| Failure::service(ErrorCode::MissingRequiredHeader))?;
    Ok(Mutation::Delete { key, condition })
}
