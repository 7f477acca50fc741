//! Query Entities with both keys in the URL: a point read (specification 02 §5.7).

use crate::failure::Failure;
use crate::request::{OperationContext, address_key};
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use bytes::Bytes;
use model::grant::EntityAccess;
use model::{Action, EntityView};
use wire::ErrorCode;
use wire::negotiation::ContentKind;
use wire::payload::write_single_entity;
use wire::size::{EntityBounds, UnwrittenEntity};

/// An empty `$select` is not a projection here (02 §5.7). In an entity-set query, it appears in the context URL.
pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    context.options.check_supported().map_err(Failure::service)?;
    let select = context.select()?.filter(|select| !select.is_all());
    let key = address_key(context.keys(), ErrorCode::ResourceNotFound)?;
    context.allow(Action::Entities { table: context.table(), access: EntityAccess::Read, key: Some(&key) })?;
    let record = tables.get(context.table(), &key).await?;
    let record = record.ok_or_else(|| Failure::service(ErrorCode::ResourceNotFound))?;
    let view = EntityView::from_parts(&key, &record)?;
    let form = context.entity_context(select.as_ref());
    let bytes_max = EntityBounds::new(&form).measured_bound(&UnwrittenEntity::stored(&view), select.as_ref());
    context.memory.acquire(bytes_max).await?;
    let mut body = Vec::with_capacity(bytes_max.min(record.as_bytes().len() * 2 + 512));
    write_single_entity(&mut body, &form, &view)?;
    let response = OperationResponse::ok(context.content_type(ContentKind::Entry), vec![Bytes::from(body)]);
    Ok(OperationResponse { etag: Some(view.record.timestamp()), ..response })
}
