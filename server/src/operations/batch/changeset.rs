//! Changesets. Each is executed as one transaction.

use super::mixed;
use super::part::Part;
use super::response::{BatchResponse, EMPTY_PART_BYTES, FailureForm, is_fault};
use crate::failure::{Failure, RefusedOperation, Stage};
use crate::operations::written_entity::{self, WrittenEntity};
use crate::operations::{decode_write, of_size};
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use model::transaction::{ContentBound, TransactionError};
use model::{Action, Mutation, MutationResult, Transaction};
use tracing::debug;
use wire::batch::{Changeset, is_of_execution, names_index};
use wire::error::too_many_changes;
use wire::payload::ResponseContext;
use wire::reason::ReasonKind;
use wire::{ErrorCode, ServiceError, Version};

pub(super) async fn run<'a>(
    tables: &AccountTables<'_>,
    batch: &OperationContext<'a>,
    changeset: &'a Changeset<'a>,
    response: &mut BatchResponse<'_>,
) -> Result<(), Failure> {
    if batch.request.incoming.target.secondary {
        let error = ServiceError::from(ErrorCode::InsufficientAccountPermissions);
        return Err(Failure::service(error.because(ReasonKind::SecondaryReadOnly.because(""))));
    }
    response.start_changeset(changeset.operations.len());
    let parts: Vec<Part<'_>> = changeset.operations.iter().map(|request| Part::new(batch, request)).collect();
    if let Err(failure) = batch.in_time(execute(tables, batch, &parts, changeset.operations_sent, response)).await {
        match failure.refused {
            Some(refused) => respond_refused(batch, &parts, failure, refused, response),
            None if is_fault(&failure) => {
                // UNVERIFIED (05 §5.1): the last operation determines the form, as if storage had refused it.
                let form = parts.last().map_or_else(FailureForm::default, |part| part.failure_form(batch));
                response.failure(failure, None, FailureForm { was_executed: true, ..form });
            }
            None => return Err(failure),
        }
    }
    response.end_changeset();
    Ok(())
}

fn respond_refused(
    batch: &OperationContext<'_>,
    parts: &[Part<'_>],
    failure: Failure,
    RefusedOperation { index, by }: RefusedOperation,
    response: &mut BatchResponse<'_>,
) {
    debug!(target: "rowhouse::batch", operations = parts.len(), index, code = failure.error.code.as_str(), "refused");
    // The length of a key is checked with the operation, but counts as an error of the transaction (05 §5.1).
    let was_executed = by != Stage::Decoding || is_of_execution(failure.error.code);
    let is_indexed = names_index(failure.error.code, parts.len(), batch.response.dialect);
    let form = parts.get(index).map_or_else(FailureForm::default, |part| part.failure_form(batch));
    // If storage refuses an operation, the service echoes the Content-ID of the last one (recorded; 05 §5).
    let content_id = match by {
        Stage::Decoding | Stage::Transaction => form.content_id,
        Stage::Storage => parts.last().and_then(|part| part.request.content_id),
    };
    response.failure(failure, is_indexed.then_some(index), FailureForm { content_id, was_executed, ..form });
}

/// Executes a changeset as one transaction, and writes the responses if it was committed.
///
/// The order of the checks follows 06 §6: the number of operations; then for each operation its head and body, its
/// table, its partition, and whether its entity occurred before; then the existence of the table; then the entities.
///
/// UNVERIFIED (05 §5.2, 06 §6): that the number of operations is checked before the partitions, that partitions and
/// duplicates are checked operation by operation, and that the headers of the hundredth operation determine the form of
/// the response to a longer changeset.
async fn execute<'a>(
    tables: &AccountTables<'_>,
    batch: &OperationContext<'a>,
    parts: &'a [Part<'a>],
    operations_sent: usize,
    response: &mut BatchResponse<'_>,
) -> Result<(), Failure> {
    let operations_max = batch.response.dialect.operations_max();
    if operations_sent > operations_max {
        let detail = format!("The changeset has {operations_sent} operations; the limit is {operations_max}.");
        let error = ServiceError::invalid_input(too_many_changes(operations_max));
        let error = error.because(ReasonKind::BatchTooLong.because(detail));
        return Err(in_transaction(operations_max - 1, error));
    }
    if let Some(first) = parts.first() {
        first.note_table(tables, batch);
    }
    let DecodedOperations { operations, mutations, refused: undecodable } = decode_all(batch, parts);
    // Operations after one that breaks a rule are not checked, so the rules are checked on the decoded operations.
    let transaction = match Transaction::in_dialect(batch.response.dialect, mutations) {
        Ok(transaction) => Some(transaction),
        Err(TransactionError::Empty) => None,
        Err(error) => return Err(broken_rule(error, &batch.response)),
    };
    if let Some(undecodable) = undecodable {
        return Err(undecodable);
    }
    let (Some((transaction, combined)), Some(first)) = (transaction, operations.first()) else { return Ok(()) };
    let needs_record = |(index, operation): (usize, &DecodedOperation<'_>)| operation.needs_record().then_some(index);
    let mut returned: Vec<usize> = operations.iter().enumerate().filter_map(needs_record).collect();
    if let Some(combined) = &combined {
        returned = combined.places(&returned);
    }
    let response_bytes: usize = operations.iter().map(DecodedOperation::response_bytes_max).sum();
    batch.memory.acquire(response_bytes + WrittenEntity::stored_bytes_max(!returned.is_empty())).await?;
    let written = tables.commit(first.context.table(), transaction.returning(returned)).await.map_err(|failure| {
        let failure = match (failure.refused, &combined) {
            (Some(refused), Some(combined)) => failure.of_operation(combined.first_origin(refused.index), refused.by),
            _ => failure,
        };
        let refused = failure.refused.and_then(|refused| operations.get(refused.index));
        match refused {
            Some(operation) => of_size(failure, &operation.context),
            None => failure,
        }
    })?;
    let written = match &combined {
        Some(combined) => combined.results(&written),
        None => written,
    };
    let mut stored = ContentBound::default();
    let of_operation = |(operation, written): (DecodedOperation<'_>, MutationResult)| {
        let answered = (operation.context.kind, operation.context.data_service_version);
        Ok((answered, operation.response(written, &mut stored)?))
    };
    // The response to a changeset reports a failure in its only part.
    let responses = operations.into_iter().zip(written).map(of_operation).collect::<Result<Vec<_>, Failure>>()?;
    for (part, (answered, response_part)) in parts.iter().zip(responses) {
        response.success(part.request.content_id, answered, response_part);
    }
    Ok(())
}

/// UNVERIFIED (05 §5.2): the first version with the code for duplicates. It is one between two recorded versions.
fn broken_rule(error: TransactionError, response: &ResponseContext<'_>) -> Failure {
    let because = |code, reason| ServiceError::from(code).because(reason);
    match error {
        TransactionError::Empty => in_transaction(0, ErrorCode::InvalidInput),
        TransactionError::TooMany => in_transaction(response.dialect.operations_max() - 1, ErrorCode::InvalidInput),
        TransactionError::DifferentPartition(index) => {
            let reason =
                ReasonKind::BatchPartitions.because("The PartitionKey differs from the one of the operations before.");
            in_transaction(index, because(ErrorCode::CommandsInBatchActOnDifferentPartitions, reason))
        }
        TransactionError::DuplicateEntity(index) => {
            let is_specific = response.version >= Version::SPECIFIC_ERRORS;
            let code = if is_specific { ErrorCode::InvalidDuplicateRow } else { ErrorCode::InvalidInput };
            let reason = ReasonKind::BatchDuplicate.because("An operation before it is on the same entity.");
            in_transaction(index, because(code, reason))
        }
    }
}

fn in_transaction(index: usize, error: impl Into<ServiceError>) -> Failure {
    Failure::service(error).of_operation(index, Stage::Transaction)
}

struct DecodedOperation<'a> {
    context: OperationContext<'a>,
    /// `None` if the response neither contains nor locates the entity.
    entity: Option<WrittenEntity>,
}

impl DecodedOperation<'_> {
    /// Returns the maximum length of the operation's part of the response. Copies of request data in such a part are
    /// charged to the memory for the body.
    fn response_bytes_max(&self) -> usize {
        self.entity.as_ref().map_or(0, |entity| entity.response_bytes_max(&self.context)) + EMPTY_PART_BYTES
    }

    fn needs_record(&self) -> bool {
        self.entity.as_ref().is_some_and(WrittenEntity::needs_record)
    }

    fn response(self, written: MutationResult, stored: &mut ContentBound) -> Result<OperationResponse, Failure> {
        written_entity::response(&self.context, self.entity, written, stored)
    }
}

struct DecodedOperations<'a> {
    operations: Vec<DecodedOperation<'a>>,
    mutations: Vec<Mutation>,
    /// The first operation that cannot be decoded, or that names a different table than the first operation.
    refused: Option<Failure>,
}

/// UNVERIFIED (05 §5.2): the error code for operations on different tables.
fn decode_all<'a>(batch: &OperationContext<'a>, parts: &'a [Part<'a>]) -> DecodedOperations<'a> {
    let mut decoded = DecodedOperations {
        operations: Vec::with_capacity(parts.len()),
        mutations: Vec::with_capacity(parts.len()),
        refused: None,
    };
    for (index, part) in parts.iter().enumerate() {
        match part.open(batch).and_then(decode) {
            Ok((operation, mutation)) => {
                let table =
                    decoded.operations.first().map_or_else(|| operation.context.table(), |first| first.context.table());
                if !operation.context.table().eq_ignore_ascii_case(table) {
                    let error = ServiceError::from(ErrorCode::CommandsInBatchActOnDifferentPartitions);
                    let reason = ReasonKind::BatchTables.because("The table differs from the one of operation 0.");
                    decoded.refused = Some(in_transaction(index, error.because(reason)));
                    break;
                }
                decoded.operations.push(operation);
                decoded.mutations.push(mutation);
            }
            Err(failure) => {
                decoded.refused = Some(failure.of_operation(index, Stage::Decoding));
                break;
            }
        }
    }
    decoded
}

fn decode(context: OperationContext<'_>) -> Result<(DecodedOperation<'_>, Mutation), Failure> {
    // UNVERIFIED (05 §5.2): the error code for a query in a changeset.
    let (mutation, entity) = decode_write(&context).unwrap_or_else(|| Err(mixed("A query is in a changeset.")))?;
    context.allow(Action::from_mutation(&mutation, context.table()))?;
    Ok((DecodedOperation { context, entity }, mutation))
}
