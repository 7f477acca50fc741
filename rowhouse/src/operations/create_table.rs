//! Create Table (specification 02 §4.3).

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use crate::traces::step;
use model::TableName;
use model::name::TableNameError;
use std::pin::pin;
use store::{Engine, TableKey};
use wire::negotiation::ContentKind;
use wire::payload::{read_table, write_single_table};
use wire::uri::write_table_address;
use wire::{ErrorCode, ServiceError};

/// Creates a table.
pub(crate) async fn run(engine: &impl Engine, call: &Call<'_>, body: &[u8]) -> Result<Answer, Failure> {
    let name = read_table(call.body_format, body)?;
    // UNVERIFIED (01 §2): the code for a body without a name.
    let name = name.ok_or_else(|| Failure::service(ErrorCode::PropertiesNeedValue))?;
    let name = TableName::new(&name).map_err(|error| Failure::service(name_error(error)))?;
    let _is_first = call.named.set(name.clone());
    let table = TableKey { account: call.grant.account.clone(), name };
    let _turn = call.admit_table(engine, &table).await?;
    step("create table", pin!(engine.create_table(&table))).await?;
    let mut location = format!("{}/", call.base).into_bytes();
    write_table_address(&mut location, table.name.as_str());
    Ok(Answer::created(call.preference, location, call.content_type(ContentKind::Entry), || {
        let mut body = Vec::new();
        write_single_table(&mut body, call.form(), table.name.as_str());
        body
    }))
}

/// The errors of 01 §2.
fn name_error(error: TableNameError) -> ServiceError {
    match error {
        TableNameError::Length => ServiceError::new(
            ErrorCode::OutOfRangeInput,
            "The specified resource name length is not within the permissible limits.",
        ),
        TableNameError::Characters => ErrorCode::InvalidResourceName.into(),
        TableNameError::Reserved => ErrorCode::InvalidInput.into(),
    }
}
