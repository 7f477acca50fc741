//! Get Table Service Properties (specification 10 §1).

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use store::Engine;
use wire::service_properties;

/// Answers all sections, as the version of the request shows them.
pub(crate) fn run(engine: &impl Engine, call: &Call<'_>) -> Result<Answer, Failure> {
    let properties = engine.service_properties(&call.grant.account)?;
    Ok(Answer::xml(service_properties::write(&properties, call.version)))
}
