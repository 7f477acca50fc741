//! Get Table ACL (specification 02 §4.5, 10 §7).

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use crate::traces::step;
use std::pin::pin;
use store::Engine;
use wire::acl;

/// Answers the stored access policies of a table.
pub(crate) async fn run(engine: &impl Engine, call: &Call<'_>, table: &str) -> Result<Answer, Failure> {
    let policies = step("read policies", pin!(engine.policies(&call.table(table)?))).await?;
    Ok(Answer::xml(acl::write(&policies)))
}
