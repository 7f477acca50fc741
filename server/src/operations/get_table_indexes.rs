//! Get Table Indexes, an extension: the indexed properties of a table, and whether each index is ready.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use engine::IndexState;
use wire::table_indexes::{self, TableIndex};

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let states = tables.indexes(context.table()).await?;
    let index = |IndexState { property, is_ready }| TableIndex { property, is_ready };
    let list: Vec<_> = states.into_iter().map(index).collect();
    Ok(OperationResponse::xml(table_indexes::write(&list)))
}
