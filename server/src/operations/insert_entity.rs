//! Insert Entity (specification 02 §5.1).

use super::commit;
use super::written_entity::WrittenEntity;
use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use model::{EntityKey, Mutation};
use wire::ErrorCode;
use wire::entity_body::KeyLocation;

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
    commit(tables, context, mutation, Some(inserted)).await
}

pub(super) fn decode(context: &OperationContext<'_>) -> Result<(Mutation, WrittenEntity), Failure> {
    let entity = context.read_entity(KeyLocation::Body)?;
    let (Some(partition), Some(row)) = (entity.partition, entity.row) else {
        return Err(Failure::service(ErrorCode::PropertiesNeedValue));
    };
    let (key, properties) = (EntityKey { partition, row }, entity.properties);
    let inserted = WrittenEntity::inserted(context, &key, &properties);
    Ok((Mutation::Insert { key, properties }, inserted))
}
