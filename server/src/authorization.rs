//! Whether the credential of a request allows what the request asks for, and how a denial is answered (08 §9).
//!
//! The decision is `model::Grant::check`. It is asked twice: once the operation is known, before a body is read, and
//! again for each entity, once its keys are known.

use crate::call::{Call, Headers};
use crate::failure::Failure;
use crate::route::Operation;
use model::grant::Access;
use model::{Action, Denial, Grant};
use wire::{ErrorCode, ServiceError};

/// Asks whether an operation that comes alone is allowed.
///
/// UNVERIFIED (08 §2): the code when the address names another table than the token.
pub(crate) fn authorize(grant: &Grant, operation: &Operation<'_>, headers: &Headers<'_>) -> Result<(), Failure> {
    let Some(action) = action(operation, headers) else { return Ok(()) };
    grant.check(action).map_err(|denial| match denial {
        Denial::Table => Failure::authentication("the address names another table than the shared access signature"),
        denial => denied(denial),
    })
}

/// Asks whether an operation that stands in a batch is allowed.
pub(crate) fn authorize_part(grant: &Grant, operation: &Operation<'_>, headers: &Headers<'_>) -> Result<(), Failure> {
    action(operation, headers).map_or(Ok(()), |action| grant.check(action).map_err(denied))
}

impl Call<'_> {
    /// Asks whether something may be done to an entity.
    pub(crate) fn allow(&self, action: Action<'_>) -> Result<(), Failure> {
        self.grant.check(action).map_err(denied)
    }
}

/// What an operation wants to do, as far as is known before its body is read; `None` if its parts are asked one by one.
fn action<'o>(operation: &'o Operation<'_>, headers: &Headers<'_>) -> Option<Action<'o>> {
    let entities = |table, access| Some(Action::Entities { table, access, key: None });
    // Without a condition these two create what is missing.
    let write = if headers.if_match.is_some() { Access::Update } else { Access::Upsert };
    match operation {
        Operation::QueryTables | Operation::GetTable(_) => Some(Action::QueryTables),
        Operation::CreateTable => Some(Action::CreateTable),
        Operation::DeleteTable(_) => Some(Action::DeleteTable),
        Operation::GetTableAcl(_) | Operation::SetTableAcl(_) => Some(Action::Policies),
        Operation::QueryEntities(table) => entities(table, Access::Read),
        Operation::GetEntity(address) => entities(&address.table, Access::Read),
        Operation::InsertEntity(table) => entities(table, Access::Insert),
        Operation::UpdateEntity(address) | Operation::MergeEntity(address) => entities(&address.table, write),
        Operation::DeleteEntity(address) => entities(&address.table, Access::Delete),
        Operation::GetServiceProperties => Some(Action::GetServiceProperties),
        Operation::SetServiceProperties => Some(Action::SetServiceProperties),
        Operation::GetServiceStats => Some(Action::GetServiceStats),
        Operation::Batch => None,
    }
}

/// The answer to a denial.
///
/// UNVERIFIED (08 §6): the code of a write outside the key range, other than an insert.
fn denied(denial: Denial) -> Failure {
    Failure::service(match denial {
        Denial::Source(address) => ServiceError::new(
            ErrorCode::AuthorizationSourceIPMismatch,
            format!("This request is not authorized to perform this operation using this source IP {address}."),
        ),
        Denial::Protocol => ErrorCode::AuthorizationProtocolMismatch.into(),
        Denial::Service => ErrorCode::AuthorizationServiceMismatch.into(),
        Denial::ResourceType => ErrorCode::AuthorizationResourceTypeMismatch.into(),
        Denial::Permission => ErrorCode::AuthorizationPermissionMismatch.into(),
        Denial::Operation | Denial::Table | Denial::Range => ErrorCode::AuthorizationFailure.into(),
        Denial::Invisible => ErrorCode::ResourceNotFound.into(),
    })
}
