//! The operations of the Table service, one a file, but for the two ways to update an entity.

pub(crate) mod batch;
pub(crate) mod create_table;
pub(crate) mod delete_entity;
pub(crate) mod delete_table;
pub(crate) mod get_entity;
pub(crate) mod get_service_properties;
pub(crate) mod get_service_stats;
pub(crate) mod get_table;
pub(crate) mod get_table_acl;
pub(crate) mod insert_entity;
pub(crate) mod query_entities;
pub(crate) mod query_tables;
pub(crate) mod set_service_properties;
pub(crate) mod set_table_acl;
pub(crate) mod update_entity;

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use crate::quota::Room;
use crate::traces::step;
use model::{Action, DateTime, Mutation, MutationError, Transaction, Written};
use std::pin::pin;
use store::{CommitError, Engine, TableKey};

/// Commits a transaction for which there is room, and says what became of it.
///
/// An account has its tables of metrics whether anything was written into them yet or not: if not, it is the entity that
/// is missing.
async fn commit_transaction(
    engine: &impl Engine,
    table: &TableKey,
    room: Room<'_>,
    transaction: Transaction,
) -> Result<Vec<Written>, CommitError> {
    let committed = step("commit", pin!(engine.commit(table, transaction))).await;
    room.settle(&committed);
    match committed {
        Err(CommitError::TableNotFound) if table.name.is_of_metrics() => {
            Err(CommitError::Refused(0, MutationError::NotFound))
        }
        committed => committed,
    }
}

/// Commits one mutation if it is allowed, and answers the Timestamp of the entity if it was stored.
async fn commit(
    engine: &impl Engine,
    call: &Call<'_>,
    table: &str,
    mutation: Mutation,
) -> Result<Option<DateTime>, Failure> {
    call.allow(Action::of(&mutation, table))?;
    let table = call.table_to_change(table, std::iter::once(&mutation)).map_err(|(_, failure)| failure)?;
    call.admit_entities(&table, mutation.key().partition.as_str(), 1)?;
    let room = call.take_room(&table, std::slice::from_ref(&mutation))?;
    let written = commit_transaction(engine, &table, room, Transaction::single(mutation)).await?;
    Ok(written.first().and_then(|written| match written {
        Written::Stored(timestamp) => Some(*timestamp),
        Written::Deleted => None,
    }))
}

/// Commits one mutation that is answered by the new ETag and nothing else.
async fn commit_for_etag(
    engine: &impl Engine,
    call: &Call<'_>,
    table: &str,
    mutation: Mutation,
) -> Result<Answer, Failure> {
    let etag = commit(engine, call, table, mutation).await?;
    Ok(Answer { etag, ..Answer::no_content() })
}
