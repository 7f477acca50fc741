//! The response to a write that contains or locates the entity. The client may prefer it with or without the entity
//! (specification 02 §4.3).
//!
//! Invariant: whether a response contains an entity is decided before the write, except that a transaction returns the
//! stored entities only while they fit.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use bytes::Bytes;
use model::limits::RETURNED_ENTITIES_BYTES_MAX;
use model::transaction::ContentBound;
use model::{DateTime, EntityKey, EntityView, MutationResult, Record, RecordBuilder};
use wire::negotiation::{ContentKind, Preference};
use wire::payload::write_single_entity;
use wire::size::{EntityBounds, UnwrittenEntity};
use wire::uri::write_entity_address;

#[derive(Debug)]
pub(super) struct WrittenEntity {
    key: EntityKey,
    is_insert: bool,
    content: WrittenContent,
}

#[derive(Debug)]
enum WrittenContent {
    /// The response contains no entity.
    Nothing,
    /// The entity consists of what the client sent, in the order in which it is stored.
    Sent(RecordBuilder),
    /// The entity also contains what was stored before, so only the engine knows it.
    Stored,
}

impl WrittenEntity {
    /// The service returns an inserted entity unless the client prefers that it does not.
    pub(super) fn inserted(context: &OperationContext<'_>, key: &EntityKey, properties: &RecordBuilder) -> Self {
        let content = match context.preference {
            Some(Preference::NoContent) => WrittenContent::Nothing,
            None | Some(Preference::Content) => WrittenContent::Sent(properties.clone()),
        };
        Self { key: key.clone(), is_insert: true, content }
    }

    /// Returns `None` if the response does not contain the entity, as usual.
    pub(super) fn updated(
        context: &OperationContext<'_>,
        key: &EntityKey,
        properties: &RecordBuilder,
        is_merge: bool,
    ) -> Option<Self> {
        let content = match context.preference? {
            Preference::NoContent => return None,
            Preference::Content if is_merge => WrittenContent::Stored,
            Preference::Content => WrittenContent::Sent(properties.clone().ordered()),
        };
        Some(Self { key: key.clone(), is_insert: false, content })
    }

    /// Whether the engine must return the stored record.
    pub(super) fn needs_record(&self) -> bool {
        matches!(self.content, WrittenContent::Stored)
    }

    /// Returns the maximum length of the response, also as a part of a batch, except for a stored entity: all stored
    /// entities of a request share [`RETURNED_ENTITIES_BYTES_MAX`].
    pub(super) fn response_bytes_max(&self, context: &OperationContext<'_>) -> usize {
        let echo = match &self.content {
            WrittenContent::Sent(properties) => Some(properties),
            WrittenContent::Nothing | WrittenContent::Stored => None,
        };
        let entity = UnwrittenEntity::unstored(&self.key, echo);
        EntityBounds::new(&context.entity_context(None)).measured_bound(&entity, None)
    }

    /// Returns the maximum memory for the stored entities in the response to a request, and for their records.
    pub(super) fn stored_bytes_max(is_needed: bool) -> usize {
        if is_needed { 2 * RETURNED_ENTITIES_BYTES_MAX } else { 0 }
    }

    fn response(
        self,
        context: &OperationContext<'_>,
        written: MutationResult,
        stored: &mut ContentBound,
    ) -> Result<OperationResponse, Failure> {
        let timestamp = written.timestamp().unwrap_or(DateTime::MIN);
        let record = match (self.content, written) {
            (WrittenContent::Sent(properties), _) => Some(properties.finish(timestamp)),
            (WrittenContent::Stored, MutationResult::Returned(record)) => {
                let entity = EntityView::from_parts(&self.key, &record)?;
                let bounds = EntityBounds::new(&context.entity_context(None));
                let bytes_max = bounds.measured_bound(&UnwrittenEntity::stored(&entity), None);
                stored.includes(bytes_max).then_some(record)
            }
            (WrittenContent::Nothing | WrittenContent::Stored, _) => None,
        };
        let content = record.map(|record| write(context, &self.key, &record)).transpose()?;
        let response = if self.is_insert {
            let content_type = context.content_type(ContentKind::Entry);
            let content = || content.unwrap_or_default();
            OperationResponse::created(context.preference, location(context, &self.key), content_type, content)
        } else {
            content.map_or_else(OperationResponse::no_content, |content| updated(context, content))
        };
        Ok(OperationResponse { etag: Some(timestamp), ..response })
    }
}

/// Returns the response to a write. `entity` is `None` if the response neither contains nor locates the entity.
///
/// `stored` bounds the stored entities in the response. An entity beyond the bound is left out, as if the client had
/// not asked for it: the write has been executed, so it is too late to refuse the request.
pub(super) fn response(
    context: &OperationContext<'_>,
    entity: Option<WrittenEntity>,
    written: MutationResult,
    stored: &mut ContentBound,
) -> Result<OperationResponse, Failure> {
    let Some(entity) = entity else {
        let (etag, preference) = (written.timestamp(), context.preference);
        return Ok(OperationResponse { etag, preference, ..OperationResponse::no_content() });
    };
    entity.response(context, written, stored)
}

/// An update never has a location, even if it creates the entity (02 §5.5).
///
/// UNVERIFIED (02 §4.3): everything about a response with content but its status and that it contains the entity.
fn updated(context: &OperationContext<'_>, content: Vec<u8>) -> OperationResponse {
    let response = OperationResponse::ok(context.content_type(ContentKind::Entry), vec![Bytes::from(content)]);
    OperationResponse { preference: Some(Preference::Content), ..response }
}

fn write(context: &OperationContext<'_>, key: &EntityKey, record: &Record) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::with_capacity(record.as_bytes().len() * 2);
    write_single_entity(&mut content, &context.entity_context(None), &EntityView::from_parts(key, record)?)?;
    Ok(content)
}

fn location(context: &OperationContext<'_>, key: &EntityKey) -> Vec<u8> {
    let (table, partition, row) = (context.table(), key.partition.as_str(), key.row.as_str());
    let mut location = Vec::with_capacity(context.response.base.len() + table.len() + partition.len() + row.len() + 32);
    location.extend_from_slice(context.response.base.as_bytes());
    location.push(b'/');
    write_entity_address(&mut location, table, partition, row);
    location
}
