//! Query Entities on one address: a point read (specification 02 §5.7).

use crate::answer::Answer;
use crate::call::{Call, address_key};
use crate::failure::Failure;
use crate::route::EntityAddress;
use crate::traces::step;
use bytes::Bytes;
use model::grant::EntityAccess;
use model::{Action, EntityView};
use std::pin::pin;
use store::{Engine, ReadError};
use wire::ErrorCode;
use wire::negotiation::ContentKind;
use wire::payload::write_single_entity;

/// Reads one entity.
///
/// An empty `$select` is no projection here (02 §5.7); on a set it is shown in the context address.
pub(crate) async fn run(engine: &impl Engine, call: &Call<'_>, address: &EntityAddress<'_>) -> Result<Answer, Failure> {
    call.options.check_supported().map_err(Failure::service)?;
    let select = call.select().map_err(Failure::service)?.filter(|select| !select.is_all());
    let key = address_key(&address.partition, &address.row, ErrorCode::ResourceNotFound)?;
    call.allow(Action::Entities { table: &address.table, access: EntityAccess::Read, key: Some(&key) })?;
    let table = call.table_to_read(&address.table)?;
    call.admit_entities(&table, &address.partition, 1)?;
    let record = match step("get entity", pin!(engine.get(&table, &key))).await {
        // Into a table of metrics nothing was written yet.
        Err(ReadError::TableNotFound) if table.name.is_of_metrics() => None,
        record => record?,
    };
    let record = record.ok_or_else(|| Failure::service(ErrorCode::ResourceNotFound))?;
    let view = EntityView::of(&key, &record)?;
    let mut body = Vec::with_capacity(record.as_bytes().len() * 2 + 512);
    write_single_entity(&mut body, &call.entity_form(&address.table, select.as_ref()), &view)?;
    let answer = Answer::ok(call.content_type(ContentKind::Entry), vec![Bytes::from(body)]);
    Ok(Answer { etag: Some(view.record.timestamp()), ..answer })
}
