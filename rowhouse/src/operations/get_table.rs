//! Read one entry of the table list (specification 02 §4.2).

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use crate::traces::step;
use bytes::Bytes;
use model::TableName;
use std::pin::pin;
use store::{Engine, TableKey};
use wire::ErrorCode;
use wire::negotiation::ContentKind;
use wire::payload::write_single_table;

/// Answers the entry with the spelling of the table's creation.
pub(crate) async fn run(engine: &impl Engine, call: &Call<'_>, name: &str) -> Result<Answer, Failure> {
    let not_found = || Failure::service(ErrorCode::ResourceNotFound);
    let spelling = if let Some(name) = call.metrics_table(name) {
        name
    } else {
        let name = TableName::new(name).map_err(|_| not_found())?;
        let table = TableKey { account: call.grant.account.clone(), name };
        step("look up table", pin!(engine.table(&table))).await?.ok_or_else(not_found)?
    };
    let mut body = Vec::new();
    write_single_table(&mut body, call.form(), spelling.as_str());
    Ok(Answer::ok(call.content_type(ContentKind::Entry), vec![Bytes::from(body)]))
}
