//! Entity group transactions, and queries in a batch (specification 05).
//!
//! The operations of a change set are decoded by the same functions as operations that come alone, become one
//! transaction, and are committed at once. What is wrong with an operation fails the transaction and is answered by one
//! part, which names the index of that operation. What is wrong with the server fails the whole request.

mod answers;
mod decode;
mod part;

use super::{commit_transaction, get_entity, query_entities};
use crate::answer::Answer;
use crate::call::Call;
use crate::failure::{Failure, Layer};
use crate::quota::Room;
use crate::route::Operation;
use crate::second_thread::SecondThread;
use answers::{Answers, FailureForm, is_fault};
use decode::{Decoded, SHARED_BYTES_MIN, Step, decode_all};
use model::limits::TRANSACTION_OPERATIONS_MAX;
use model::transaction::TransactionError;
use model::{DateTime, MutationError, Transaction, Written};
use part::Part;
use store::{CommitError, Engine, TableKey};
use tracing::debug;
use wire::batch::{Batch, BatchError, Changeset, PartRequest, read};
use wire::error::TOO_MANY_CHANGES;
use wire::{ErrorCode, ServiceError};

/// What a batch needs to know beside its call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// The domains under which accounts are addressed host style.
    pub(crate) domains: &'a [String],
    /// Whether the batch came to the secondary endpoint, which takes queries only.
    pub(crate) is_secondary: bool,
    /// The id of the request, for the messages of errors.
    pub(crate) request_id: &'a str,
    /// What to share the decoding of many operations with, if there is a processor for it.
    pub(crate) second_thread: Option<&'a SecondThread>,
}

/// Executes a batch. The answer is 202 whatever becomes of its operations.
///
/// UNVERIFIED (05 §2, §5.3): the error for a media type that is no batch, which is answered without a frame.
pub(crate) async fn run(
    engine: &impl Engine,
    call: &Call<'_>,
    surroundings: &Surroundings<'_>,
    body: &[u8],
) -> Result<Answer, Failure> {
    let second_thread = surroundings.second_thread.filter(|_| body.len() >= SHARED_BYTES_MIN);
    let surroundings = &Surroundings { second_thread, ..*surroundings };
    if let Some(second) = second_thread {
        second.wake();
    }
    let mut answers = Answers::new(surroundings.request_id, call.now);
    match read(call.headers.content_type.unwrap_or_default(), body) {
        Ok(Batch::Changeset(changeset)) => {
            run_changeset(engine, call, surroundings, &changeset, &mut answers).await?;
            if changeset.is_followed {
                refuse(call, &mut answers);
            }
        }
        Ok(Batch::Single(request)) => {
            run_query(engine, call, surroundings, &request, &mut answers).await?;
            return Ok(Answer { is_of_query: true, ..answers.finish() });
        }
        Ok(Batch::Mixed) => refuse(call, &mut answers),
        Err(BatchError::ContentType) => return Err(Failure::service(ServiceError::malformed_body())),
        Err(BatchError::Malformed(why)) => {
            debug!(target: "rowhouse::batch", why, "the batch cannot be read");
            answers.unreadable();
        }
    }
    Ok(answers.finish())
}

/// Answers what may not stand beside something else in a batch, none of which is executed.
///
/// UNVERIFIED (05 §5.2): code and form; and that of two change sets the first is executed.
fn refuse(call: &Call<'_>, answers: &mut Answers<'_>) {
    let error = ServiceError::from(ErrorCode::InvalidInput).at_index(0);
    let form = FailureForm { format: Some(call.format), ..FailureForm::default() };
    answers.failure(&error, Layer::Query, form);
}

/// Answers a query that stands in the batch itself (05 §4.1).
async fn run_query<'a>(
    engine: &impl Engine,
    batch: &Call<'a>,
    surroundings: &Surroundings<'_>,
    request: &'a PartRequest<'a>,
    answers: &mut Answers<'_>,
) -> Result<(), Failure> {
    let part = Part::new(batch, surroundings, request);
    part.note_table(batch);
    match query(engine, batch, &part).await {
        Ok(answer) => answers.success(request.content_id, part.data_service_version(), answer),
        Err(failure) if is_fault(&failure) => return Err(failure),
        Err(failure) => {
            let form = FailureForm {
                content_id: request.content_id,
                format: part.format(batch).ok(),
                preference: None,
                was_executed: failure.layer == Layer::Service,
            };
            answers.failure(&failure.error.at_index(0), failure.layer, form);
        }
    }
    Ok(())
}

async fn query(engine: &impl Engine, batch: &Call<'_>, part: &Part<'_>) -> Result<Answer, Failure> {
    let (call, operation) = part.open(batch)?;
    match operation {
        Operation::GetEntity(address) => get_entity::run(engine, &call, &address).await,
        Operation::QueryEntities(table) => query_entities::run(engine, &call, &table).await,
        // UNVERIFIED (05 §1): the code for a write that stands in no change set.
        _ => Err(Failure::query(ErrorCode::InvalidInput)),
    }
}

/// Why a change set did not happen.
enum Stop {
    /// One of its operations was refused.
    Refused(Refused),
    /// The server failed.
    Fault(Failure),
}

/// The operation that fails its change set.
struct Refused {
    index: usize,
    failure: Failure,
    /// Whether the operation was decoded and its table found, so that it was up to the transaction.
    was_executed: bool,
}

impl Refused {
    /// An operation that could not be decoded, or that has no table.
    fn early(index: usize, failure: Failure) -> Self {
        // The length of a key is judged with the operation, but counts as a matter of the transaction (05 §5.1).
        let was_executed = is_of_execution(failure.error.code);
        Self { index, failure, was_executed }
    }

    /// An operation that the transaction cannot hold.
    fn late(index: usize, error: impl Into<ServiceError>) -> Self {
        Self { index, failure: Failure::service(error), was_executed: true }
    }
}

/// The codes that carry no index if the change set has one operation (05 §5.1).
fn is_of_execution(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::EntityAlreadyExists
            | ErrorCode::EntityTooLarge
            | ErrorCode::PropertyValueTooLarge
            | ErrorCode::ResourceNotFound
            | ErrorCode::TooManyProperties
            | ErrorCode::UpdateConditionNotSatisfied
    )
}

async fn run_changeset<'a>(
    engine: &impl Engine,
    batch: &Call<'a>,
    surroundings: &Surroundings<'_>,
    changeset: &'a Changeset<'a>,
    answers: &mut Answers<'_>,
) -> Result<(), Failure> {
    if surroundings.is_secondary {
        return Err(Failure::at(Layer::FrontEnd, ErrorCode::InsufficientAccountPermissions));
    }
    let parts = Part::all(batch, surroundings, &changeset.operations);
    answers.start_changeset(parts.len());
    match execute(engine, batch, surroundings, &parts, changeset.is_too_long, answers).await {
        Ok(()) => {}
        Err(Stop::Refused(refused)) => answer_refused(batch, &parts, &refused, answers),
        Err(Stop::Fault(failure)) => return Err(failure),
    }
    answers.end_changeset();
    Ok(())
}

/// Writes the one part that answers a change set which did not happen.
fn answer_refused(batch: &Call<'_>, parts: &[Part<'_>], refused: &Refused, answers: &mut Answers<'_>) {
    let Refused { index, failure, was_executed } = refused;
    debug!(target: "rowhouse::batch", operations = parts.len(), index, code = failure.error.code.as_str(), "refused");
    let is_indexed = parts.len() > 1 || !(*was_executed && is_of_execution(failure.error.code));
    let error = if is_indexed { failure.error.at_index(*index) } else { failure.error.clone() };
    let part = parts.get(*index);
    let form = FailureForm {
        content_id: part.and_then(|part| part.request.content_id),
        format: part.and_then(|part| part.format(batch).ok()),
        preference: part.and_then(|part| part.preference),
        was_executed: *was_executed,
    };
    answers.failure(&error, failure.layer, form);
}

/// Executes a change set as one transaction, and answers it if it happened. The checks are in the order of 06 §6: the count;
/// operation by operation what it says, its table, its partition, and whether its entity came before; the table; the
/// entities.
///
/// UNVERIFIED (05 §5.2, 06 §6): that the count comes before the partitions, and partitions and duplicates are found
/// operation by operation; and that the headers of the hundredth operation shape the answer to a change set of more.
async fn execute(
    engine: &impl Engine,
    batch: &Call<'_>,
    surroundings: &Surroundings<'_>,
    parts: &[Part<'_>],
    is_too_long: bool,
    answers: &mut Answers<'_>,
) -> Result<(), Stop> {
    let refused = |refused| Err(Stop::Refused(refused));
    if is_too_long {
        let error = ServiceError::invalid_input(TOO_MANY_CHANGES);
        return refused(Refused::late(TRANSACTION_OPERATIONS_MAX - 1, error));
    }
    let Decoded { steps, mutations, refused: undecodable } = decode_all(surroundings.second_thread, batch, parts);
    // An operation behind one that breaks a rule is not looked at, so the rules are checked on what was decoded.
    let transaction = match Transaction::new(mutations) {
        Ok(transaction) => Some(transaction),
        Err(TransactionError::Empty) => None,
        Err(error) => return refused(broken_rule(error)),
    };
    if let Some(undecodable) = undecodable {
        return refused(undecodable);
    }
    let (Some(transaction), Some(first)) = (transaction, steps.first()) else { return Ok(()) };
    let table = match first.call.table_to_change(&first.table, transaction.mutations().iter()) {
        Ok(table) => table,
        Err((index, failure)) => return refused(Refused::early(index, failure)),
    };
    let partition = transaction.mutations().first().map_or("", |mutation| mutation.key().partition.as_str());
    first.call.admit_entities(&table, partition, transaction.mutations().len()).map_err(Stop::Fault)?;
    let room = match first.call.take_room(&table, transaction.mutations()) {
        Ok(room) => room,
        Err(failure) => return refused(Refused::early(0, failure)),
    };
    let commit = commit(engine, &table, room, transaction);
    let shows_entities = steps.iter().any(Step::shows_entity);
    let steps = parts.iter().zip(steps);
    if shows_entities {
        let written = commit.await?;
        for ((part, step), written) in steps.zip(written) {
            let answer = step.answer(written).map_err(Stop::Fault)?;
            answers.success(part.request.content_id, part.data_service_version(), answer);
        }
        return Ok(());
    }
    // Such answers are known but for the Timestamp, so they are written while the engine works.
    let ahead = async {
        for (part, step) in steps {
            let answer = step.answer(Written::Stored(DateTime::MIN)).map_err(Stop::Fault)?;
            answers.ahead(part.request.content_id, part.data_service_version(), answer);
        }
        Ok(())
    };
    let (written, ahead) = tokio::join!(biased; commit, ahead);
    match ahead.and(written) {
        Ok(written) => answers.committed(&written),
        Err(stop) => {
            answers.refused();
            return Err(stop);
        }
    }
    Ok(())
}

async fn commit(
    engine: &impl Engine,
    table: &TableKey,
    room: Room<'_>,
    transaction: Transaction,
) -> Result<Vec<Written>, Stop> {
    commit_transaction(engine, table, room, transaction).await.map_err(|error| match error {
        CommitError::Fault(_) | CommitError::Refused(_, MutationError::DamagedRecord) => Stop::Fault(error.into()),
        CommitError::TableNotFound => Stop::Refused(Refused::early(0, error.into())),
        CommitError::Refused(index, _) => Stop::Refused(Refused { index, failure: error.into(), was_executed: true }),
    })
}

fn broken_rule(error: TransactionError) -> Refused {
    match error {
        TransactionError::Empty => Refused::late(0, ErrorCode::InvalidInput),
        TransactionError::TooMany => Refused::late(TRANSACTION_OPERATIONS_MAX - 1, ErrorCode::InvalidInput),
        TransactionError::DifferentPartition(index) => {
            Refused::late(index, ErrorCode::CommandsInBatchActOnDifferentPartitions)
        }
        TransactionError::DuplicateEntity(index) => Refused::late(index, ErrorCode::InvalidDuplicateRow),
    }
}
