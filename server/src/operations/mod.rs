//! The operations of the Table service, one a file.

pub(crate) mod batch;
pub(crate) mod create_table;
pub(crate) mod delete_entity;
pub(crate) mod delete_table;
pub(crate) mod get_entity;
pub(crate) mod get_table;
pub(crate) mod insert_entity;
pub(crate) mod merge_entity;
pub(crate) mod query_entities;
pub(crate) mod query_tables;
pub(crate) mod update_entity;

use crate::failure::Failure;
use model::{DateTime, Mutation, Transaction, Written};
use store::{Engine, TableKey};

/// Commits one mutation, and answers the Timestamp of the entity if it was stored.
async fn commit(engine: &impl Engine, table: &TableKey, mutation: Mutation) -> Result<Option<DateTime>, Failure> {
    let written = engine.commit(table, Transaction::single(mutation)).await?;
    Ok(written.first().and_then(|written| match written {
        Written::Stored(timestamp) => Some(*timestamp),
        Written::Deleted => None,
    }))
}
