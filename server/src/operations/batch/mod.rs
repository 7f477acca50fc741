//! Entity group transactions, and queries in a batch (specification 05).
//!
//! The functions for single operations also decode the operations of a changeset. The decoded operations become one
//! transaction, which is committed as a whole. If an operation has an error, the transaction fails, and the response
//! has one part, which contains the index of that operation. If the server is too busy, runs out of time, or fails, the
//! response has one part, too, but without an index.

mod changeset;
mod part;
mod response;

use super::{get_entity, query_changes, query_entities};
use crate::failure::{Failure, Layer};
use crate::request::{OperationContext, OperationKind};
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use part::Part;
use response::{BatchResponse, FailureForm, is_fault};
use wire::batch::{Batch, BatchError, PartRequest, read};
use wire::negotiation::DataServiceVersion;
use wire::reason::ReasonKind;
use wire::{ErrorCode, ServiceError};

/// The response is 202 even if operations of the batch fail.
pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    // Boxed, so that the future of every request does not reserve space for a batch.
    Box::pin(execute(tables, context)).await
}

/// UNVERIFIED (05 §2, §5.3; 11 §9): the error for a media type other than the batch media type, and that this error is
/// not framed as a part; the error for a batch that is too large in one dialect.
async fn execute(tables: &AccountTables<'_>, context: &OperationContext<'_>) -> Result<OperationResponse, Failure> {
    let dialect = context.response.dialect;
    if context.body.len() > dialect.batch_bytes_max() {
        let detail = format!("The batch has {} bytes; the limit is {}.", context.body.len(), dialect.batch_bytes_max());
        let error = ServiceError::from(ErrorCode::RequestBodyTooLarge);
        return Err(Failure::service(error.because(ReasonKind::BodyTooLarge.because(detail))));
    }
    let mut response = BatchResponse::new(context);
    match read(context.headers.content_type.unwrap_or_default(), context.body, dialect.operations_max()) {
        Ok(Batch::Changeset(changeset)) => {
            changeset::run(tables, context, &changeset, &mut response).await?;
            if changeset.is_followed {
                refuse(context, &mut response, "The batch has a second changeset, which was not executed.");
            }
        }
        Ok(Batch::Single(request)) => {
            run_query(tables, context, &request, &mut response).await;
            return Ok(response.finish());
        }
        Ok(Batch::Mixed) => refuse(context, &mut response, "The batch combines a query with other parts."),
        Err(error) => {
            let refused = ServiceError::malformed_body().because(error.reason());
            match error {
                BatchError::ContentType => return Err(Failure::service(refused)),
                BatchError::Malformed(_) => {}
                BatchError::MalformedChangeset(..) => response.start_changeset(1),
            }
            response.unreadable(refused);
        }
    }
    Ok(response.finish())
}

/// Refuses parts that a batch must not combine with others; they are not executed.
///
/// UNVERIFIED (05 §5.2): the error code and the form of the response, and that the first of two changesets is executed.
fn refuse(context: &OperationContext<'_>, response: &mut BatchResponse<'_>, detail: &'static str) {
    let form = FailureForm { format: Some(context.response.format), ..FailureForm::default() };
    response.failure(mixed(detail), Some(0), form);
}

/// Returns the failure of an operation that the batch must not contain at this position.
fn mixed(detail: &'static str) -> Failure {
    Failure::query(ServiceError::from(ErrorCode::InvalidInput).because(ReasonKind::BatchMixed.because(detail)))
}

/// Executes a query that is a part of the batch, outside any changeset (05 §4.1).
///
/// UNVERIFIED (05 §5.1): that a failure of the server has the same form as in a transaction.
async fn run_query<'a>(
    tables: &AccountTables<'_>,
    batch: &OperationContext<'a>,
    request: &'a PartRequest<'a>,
    response: &mut BatchResponse<'_>,
) {
    let part = Part::new(batch, request);
    part.note_table(tables, batch);
    match batch.in_time(query(tables, batch, &part)).await {
        Ok((answered, answer)) => response.success(request.content_id, answered, answer),
        Err(failure) => {
            let was_executed = failure.layer == Layer::Service;
            let form = FailureForm { was_executed, preference: None, ..part.failure_form(batch) };
            let index = (!is_fault(&failure)).then_some(0);
            response.failure(failure, index, form);
        }
    }
}

/// UNVERIFIED (05 §4.1): that a query need not specify both keys.
async fn query<'a>(
    tables: &AccountTables<'_>,
    batch: &OperationContext<'a>,
    part: &'a Part<'a>,
) -> Result<((OperationKind, DataServiceVersion), OperationResponse), Failure> {
    let operation = part.open(batch)?;
    let response = match (operation.kind, operation.virtual_table.changes()) {
        (OperationKind::QueryEntity | OperationKind::QueryEntities, Some(table)) => {
            Box::pin(query_changes::run(tables, &operation, table)).await?
        }
        (OperationKind::QueryEntity, None) => get_entity::run(tables, &operation).await?,
        (OperationKind::QueryEntities, None) => query_entities::run(tables, &operation).await?,
        // UNVERIFIED (05 §1): the error code for a write outside a changeset.
        _ => return Err(mixed("A write is outside a changeset.")),
    };
    Ok(((operation.kind, operation.data_service_version), response))
}
