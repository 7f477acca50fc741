//! Set Table ACL (specification 02 §4.6, 10 §7).

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use crate::traces::step;
use std::pin::pin;
use store::{CatalogError, Engine};
use wire::{ErrorCode, acl};

/// Replaces the stored access policies of a table; they hold from the answer on.
pub(crate) async fn run(engine: &impl Engine, call: &Call<'_>, table: &str, body: &[u8]) -> Result<Answer, Failure> {
    let policies = acl::read(body).map_err(|_| Failure::service(ErrorCode::InvalidXmlDocument))?;
    step("write policies", pin!(engine.set_policies(&call.table(table)?, policies))).await.map_err(
        |error| match error {
            CatalogError::NotFound => Failure::service(ErrorCode::TableNotFound),
            error => error.into(),
        },
    )?;
    Ok(Answer::no_content())
}
