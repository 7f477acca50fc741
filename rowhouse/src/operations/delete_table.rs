//! Delete Table (specification 02 §4.4).

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use crate::traces::step;
use model::TableName;
use std::pin::pin;
use store::{Engine, TableKey};
use wire::ErrorCode;

/// Deletes a table; its name is free at once.
pub(crate) async fn run(engine: &impl Engine, call: &Call<'_>, name: &str) -> Result<Answer, Failure> {
    call.check_deletion(name)?;
    let name = TableName::new(name).map_err(|_| Failure::service(ErrorCode::ResourceNotFound))?;
    let table = TableKey { account: call.grant.account.clone(), name };
    step("delete table", pin!(engine.delete_table(&table))).await?;
    call.table_is_gone(&table);
    Ok(Answer::no_content())
}
