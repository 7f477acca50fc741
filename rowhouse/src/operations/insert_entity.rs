//! Insert Entity (specification 02 §5.1).

use super::commit;
use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use model::{DateTime, EntityKey, EntityView, Mutation, Record, RecordBuilder};
use store::Engine;
use wire::ErrorCode;
use wire::entity_body::KeyLocation;
use wire::negotiation::{ContentKind, Preference};
use wire::payload::{read_entity, write_single_entity};
use wire::uri::write_entity_address;

/// Inserts an entity whose keys stand in the body.
pub(crate) async fn run(engine: &impl Engine, call: &Call<'_>, table: &str, body: &[u8]) -> Result<Answer, Failure> {
    let (key, properties) = decode(call, body)?;
    // The answer shows the entity, so a copy stays here.
    let echo = (call.preference != Some(Preference::NoContent)).then(|| properties.clone());
    let mutation = Mutation::Insert { key: key.clone(), properties };
    let timestamp = commit(engine, call, table, mutation).await?.unwrap_or(DateTime::MIN);
    answer(call, table, &key, echo, timestamp)
}

/// The entity that the body describes.
pub(crate) fn decode(call: &Call<'_>, body: &[u8]) -> Result<(EntityKey, RecordBuilder), Failure> {
    let entity = read_entity(call.body_format, body, KeyLocation::Body)?;
    match (entity.partition, entity.row) {
        (Some(partition), Some(row)) => Ok((EntityKey { partition, row }, entity.properties)),
        _ => Err(Failure::service(ErrorCode::PropertiesNeedValue)),
    }
}

/// The answer to an insert that stored the entity with this Timestamp.
pub(crate) fn answer(
    call: &Call<'_>,
    table: &str,
    key: &EntityKey,
    echo: Option<RecordBuilder>,
    timestamp: DateTime,
) -> Result<Answer, Failure> {
    let (partition, row) = (key.partition.as_str(), key.row.as_str());
    let mut location = Vec::with_capacity(call.base.len() + table.len() + partition.len() + row.len() + 32);
    location.extend_from_slice(call.base.as_bytes());
    location.push(b'/');
    write_entity_address(&mut location, table, partition, row);
    let mut content = Vec::new();
    if let Some(echo) = echo {
        let record: Record = echo.finish(timestamp);
        content.reserve(record.as_bytes().len() * 2);
        write_single_entity(&mut content, &call.entity_form(table, None), &EntityView::of(key, &record)?)?;
    }
    let created = Answer::created(call.preference, location, call.content_type(ContentKind::Entry), || content);
    Ok(Answer { etag: Some(timestamp), ..created })
}
