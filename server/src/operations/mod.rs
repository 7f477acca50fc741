//! The operations of the Table service. Those on one resource share a file.
//!
//! Each is a function, and the table of operations (`request/operation.rs`) determines which one runs. An
//! operation decodes the request, calls [`AccountTables`], and creates an [`OperationResponse`]. Code in this folder
//! must not depend on engines, throttling, quotas, or how a response becomes HTTP.

mod batch;
mod delete_entities;
mod get_entity;
mod insert_entity;
mod query_changes;
mod query_entities;
mod service;
mod stream_changes;
mod table_list;
mod table_settings;
mod update_entity;
mod written_entity;

use crate::failure::Failure;
use crate::request::{OperationContext, OperationKind, check_key_count, operation_table};
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use model::transaction::ContentBound;
use model::{Action, Mutation, MutationResult, Transaction};
use std::pin::pin;
use wire::defect::size_defect;
use wire::reason::ReasonKind;
use wire::target::Resource;
use wire::{ErrorCode, ServiceError};
use written_entity::WrittenEntity;

macro_rules! define_dispatch {
    ($($kind:ident $name:literal $run:path { $($row:tt)* })+) => {
        async fn dispatch(
            tables: &AccountTables<'_>,
            context: &OperationContext<'_>,
        ) -> Result<OperationResponse, Failure> {
            let wrong_key_count = check_key_count(context.account(), context.kind, &context.resource);
            if let Err(failure) = wrong_key_count {
                return Err(Box::pin(refuse_address(tables, context, failure)).await);
            }
            let is_nested = matches!(context.resource, Resource::Nested(_) | Resource::NestedEntity(_));
            if is_nested && context.kind != OperationKind::InsertEntity {
                let path = context.request.incoming.parts.uri.path();
                let reason = match path.ends_with("/$count") || path.ends_with("/%24count") {
                    true => ReasonKind::ExtensionsOff.because("Counting the entities of a table is an extension."),
                    false => ReasonKind::PathBelowTable.because(""),
                };
                let failure = Failure::service(ServiceError::from(ErrorCode::NotImplemented).because(reason));
                return Err(Box::pin(refuse_address(tables, context, failure)).await);
            }
            if let Some(table) = context.virtual_table.changes() {
                return Box::pin(query_changes::run(tables, context, table)).await;
            }
            match context.kind {
                $(OperationKind::$kind => $run(tables, context).await,)+
                OperationKind::Unknown
                | OperationKind::PreflightRequest
                | OperationKind::Explorer
                | OperationKind::Replication => Err(Failure::service(ErrorCode::NotImplemented)),
            }
        }
    };
}

operation_table!(define_dispatch);

/// Runs the operation that a request asks for.
pub(crate) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let work = pin!(dispatch(tables, context));
    match context.kind {
        // If the time is over, that is reported in a part of the response.
        OperationKind::EntityGroupTransaction => work.await,
        _ => context.in_time(work).await,
    }
}

/// Returns the failure for a URL that addresses neither entities nor an entity (02 §1). The service looks the table up
/// first. Below a table, only an insert is supported; it inserts into that table.
///
/// UNVERIFIED (02 §1): that any name below a table is treated like `Tables`, and the responses to methods other than
/// GET and DELETE.
async fn refuse_address(tables: &AccountTables<'_>, context: &OperationContext<'_>, failure: Failure) -> Failure {
    tables.check_exists(context.table()).await.err().unwrap_or(failure)
}

/// Decodes a request that writes an entity or deletes one. Returns `None` for all other requests.
fn decode_write(context: &OperationContext<'_>) -> Option<Result<(Mutation, Option<WrittenEntity>), Failure>> {
    let decoded = match context.kind {
        OperationKind::InsertEntity => {
            insert_entity::decode(context).map(|(mutation, inserted)| (mutation, Some(inserted)))
        }
        OperationKind::UpdateEntity
        | OperationKind::MergeEntity
        | OperationKind::InsertOrReplaceEntity
        | OperationKind::InsertOrMergeEntity => update_entity::decode(context),
        OperationKind::DeleteEntity => update_entity::decode_deletion(context).map(|mutation| (mutation, None)),
        _ => return None,
    };
    Some(decoded)
}

/// Adds the reason to a refusal because of the size of what the request contains. The request is decoded again, so that
/// requests that are not refused need not be measured.
fn of_size(failure: Failure, context: &OperationContext<'_>) -> Failure {
    let is_of_size = matches!(
        failure.error.code,
        ErrorCode::EntityTooLarge | ErrorCode::PropertyValueTooLarge | ErrorCode::TooManyProperties
    );
    let written = is_of_size.then(|| decode_write(context)).flatten().and_then(Result::ok);
    let defect = written.and_then(|(mutation, _)| size_defect(mutation.key(), mutation.properties()?));
    match defect {
        Some(defect) if defect.kind.codes().contains(&failure.error.code) => failure.because(defect),
        _ => failure,
    }
}

/// Commits one mutation if it is allowed. `entity` is `None` if the response neither contains nor locates the entity.
async fn commit(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
    mutation: Mutation,
    entity: Option<WrittenEntity>,
) -> Result<OperationResponse, Failure> {
    let needs_record = entity.as_ref().is_some_and(WrittenEntity::needs_record);
    let bytes_max = entity.as_ref().map_or(0, |entity| entity.response_bytes_max(context))
        + WrittenEntity::stored_bytes_max(needs_record);
    context.allow(Action::from_mutation(&mutation, context.table()))?;
    context.memory.acquire(bytes_max).await?;
    let returned = if needs_record { vec![0] } else { Vec::new() };
    let transaction = Transaction::single(mutation).returning(returned);
    let written = tables.commit(context.table(), transaction).await.map_err(|failure| of_size(failure, context));
    let written = written?.pop().unwrap_or(MutationResult::Deleted);
    written_entity::response(context, entity, written, &mut ContentBound::default())
}
