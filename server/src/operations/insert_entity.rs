//! Insert Entity (specification 02 §5.1).

use super::commit;
use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use model::{DateTime, EntityKey, EntityView, Mutation, Record, RecordBuilder};
use wire::ErrorCode;
use wire::entity_body::KeyLocation;
use wire::negotiation::{ContentKind, Preference};
use wire::payload::{read_entity, write_single_entity};
use wire::size::{EntityBounds, UnwrittenEntity};
use wire::uri::write_entity_address;

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let (mutation, inserted) = match decode(context) {
        // The service looks up the table before it reports missing keys (recorded).
        Err(failure) if failure.error.code == ErrorCode::PropertiesNeedValue => {
            return Err(Box::pin(tables.check_exists(context.table())).await.err().unwrap_or(failure));
        }
        decoded => decoded?,
    };
    context.memory.acquire(inserted.response_bytes_max(context)).await?;
    let timestamp = commit(tables, context, mutation).await?.unwrap_or(DateTime::MIN);
    inserted.response(context, timestamp)
}

#[derive(Debug)]
pub(super) struct InsertedEntity {
    key: EntityKey,
    echo: Option<RecordBuilder>,
}

pub(super) fn decode(context: &OperationContext<'_>) -> Result<(Mutation, InsertedEntity), Failure> {
    let entity = read_entity(context.body_format, context.body, KeyLocation::Body, context.response.version)?;
    let (Some(partition), Some(row)) = (entity.partition, entity.row) else {
        return Err(Failure::service(ErrorCode::PropertiesNeedValue));
    };
    let (key, properties) = (EntityKey { partition, row }, entity.properties);
    let echo = (context.preference != Some(Preference::NoContent)).then(|| properties.clone());
    let inserted = InsertedEntity { key: key.clone(), echo };
    Ok((Mutation::Insert { key, properties }, inserted))
}

impl InsertedEntity {
    /// The limit also holds for the response as a part of a batch.
    pub(super) fn response_bytes_max(&self, context: &OperationContext<'_>) -> usize {
        let entity = UnwrittenEntity::unstored(&self.key, self.echo.as_ref());
        EntityBounds::new(&context.entity_context(None)).measured_bound(&entity, None)
    }

    pub(super) fn response(
        self,
        context: &OperationContext<'_>,
        timestamp: DateTime,
    ) -> Result<OperationResponse, Failure> {
        let Self { key, echo } = self;
        let (table, partition, row) = (context.table(), key.partition.as_str(), key.row.as_str());
        let mut location =
            Vec::with_capacity(context.response.base.len() + table.len() + partition.len() + row.len() + 32);
        location.extend_from_slice(context.response.base.as_bytes());
        location.push(b'/');
        write_entity_address(&mut location, table, partition, row);
        let mut content = Vec::new();
        if let Some(echo) = echo {
            let record: Record = echo.finish(timestamp);
            content.reserve(record.as_bytes().len() * 2);
            write_single_entity(&mut content, &context.entity_context(None), &EntityView::from_parts(&key, &record)?)?;
        }
        let content_type = context.content_type(ContentKind::Entry);
        let created = OperationResponse::created(context.preference, location, content_type, || content);
        Ok(OperationResponse { etag: Some(timestamp), ..created })
    }
}
