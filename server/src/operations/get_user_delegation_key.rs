//! Get User Delegation Key (specification 08 §11).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use wire::sas::user_delegation::KeyInfo;
use wire::{ErrorCode, Version};

#[allow(clippy::unused_async, reason = "the table of operations calls all operations the same way")]
pub(super) async fn run(_: &AccountTables<'_>, context: &OperationContext<'_>) -> Result<OperationResponse, Failure> {
    check_version(context.response.version)?;
    let info = KeyInfo::read(context.body, context.response.now).map_err(Failure::service)?;
    // `authorize` admits only requests with a token.
    let delegator = context.request.delegator.as_ref().ok_or_else(Failure::needs_bearer)?;
    Ok(OperationResponse::xml(delegator.issue(&info, context.response.version)))
}

/// UNVERIFIED (08 §11.1): the error code, which is the same as for an operation that no version has.
fn check_version(version: Version) -> Result<(), Failure> {
    if version < Version::USER_DELEGATION {
        return Err(Failure::query(ErrorCode::InvalidQueryParameterValue));
    }
    Ok(())
}
