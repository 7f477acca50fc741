//! Set Table Service Properties (specification 10 §1).

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use crate::traces::step;
use std::pin::pin;
use store::Engine;
use wire::{ErrorCode, service_properties};

/// Replaces the sections that the body has.
pub(crate) async fn run(engine: &impl Engine, call: &Call<'_>, body: &[u8]) -> Result<Answer, Failure> {
    let update = service_properties::read(body, call.version).map_err(refusal)?;
    step("write service properties", pin!(engine.update_service_properties(&call.grant.account, update))).await?;
    Ok(Answer::accepted())
}

/// One code for whatever is wrong with the document; the log is told what it is.
///
/// UNVERIFIED (10 §1): recorded are too many rules, bad `Days`, missing elements and an empty root; that every other
/// fault, and a body without a byte, is answered alike.
fn refusal(refusal: service_properties::Refusal) -> Failure {
    Failure { source: Some(Box::new(refusal)), ..Failure::service(ErrorCode::InvalidXmlDocument) }
}
