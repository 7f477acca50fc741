//! Whether the credential of a request allows what the request asks for, and how a denial is answered (08 §9).
//!
//! The decision is `model::Grant::check`. It is asked twice: once the operation is known, before a body is read, and
//! again for each entity, once its keys are known.

use crate::call::{Call, Headers};
use crate::failure::Failure;
use crate::route::Operation;
use model::grant::EntityAccess;
use model::{Action, Denial, Grant, Scope};
use tracing::info;
use wire::{ErrorCode, ServiceError};

/// Asks whether an operation that comes alone is allowed.
///
/// UNVERIFIED (08 §2): the code when the address names another table than the token.
pub(crate) fn authorize(grant: &Grant, operation: &Operation<'_>, headers: &Headers<'_>) -> Result<(), Failure> {
    let Some(action) = action(operation, headers) else { return Ok(()) };
    grant.check(action).map_err(|denial| match denial {
        Denial::Table => Failure::authentication("the address names another table than the shared access signature"),
        denial => denied(grant, operation, denial),
    })
}

/// Asks whether an operation that stands in a batch is allowed.
pub(crate) fn authorize_part(grant: &Grant, operation: &Operation<'_>, headers: &Headers<'_>) -> Result<(), Failure> {
    let Some(action) = action(operation, headers) else { return Ok(()) };
    grant.check(action).map_err(|denial| {
        let failure = denied(grant, operation, denial);
        // The failure of a part is answered inside the batch, so nobody else logs it.
        if let Some(source) = &failure.source {
            info!("{source}");
        }
        failure
    })
}

impl Call<'_> {
    /// Asks whether something may be done to an entity.
    pub(crate) fn allow(&self, action: Action<'_>) -> Result<(), Failure> {
        self.grant.check(action).map_err(answer)
    }
}

/// What an operation wants to do, as far as is known before its body is read; `None` if its parts are asked one by one.
fn action<'o>(operation: &'o Operation<'_>, headers: &Headers<'_>) -> Option<Action<'o>> {
    let entities = |table, access| Some(Action::Entities { table, access, key: None });
    // Without a condition these two create what is missing.
    let write = if headers.if_match.is_some() { EntityAccess::Update } else { EntityAccess::Upsert };
    match operation {
        Operation::QueryTables | Operation::GetTable(_) => Some(Action::QueryTables),
        Operation::CreateTable => Some(Action::CreateTable),
        Operation::DeleteTable(table) => Some(Action::DeleteTable { table }),
        Operation::GetTableAcl(table) => Some(Action::GetPolicies { table }),
        Operation::SetTableAcl(table) => Some(Action::SetPolicies { table }),
        Operation::QueryEntities(table) => entities(table, EntityAccess::Read),
        Operation::GetEntity(address) => entities(&address.table, EntityAccess::Read),
        Operation::InsertEntity(table) => entities(table, EntityAccess::Insert),
        Operation::UpdateEntity(address) | Operation::MergeEntity(address) => entities(&address.table, write),
        Operation::DeleteEntity(address) => entities(&address.table, EntityAccess::Delete),
        Operation::GetServiceProperties => Some(Action::GetServiceProperties),
        Operation::SetServiceProperties => Some(Action::SetServiceProperties),
        Operation::GetServiceStats => Some(Action::GetServiceStats),
        Operation::Batch => None,
    }
}

/// The answer to a denial; the log is told who was denied what, as far as the credential says who.
fn denied(grant: &Grant, operation: &Operation<'_>, denial: Denial) -> Failure {
    let failure = answer(denial);
    match &grant.scope {
        Scope::Roles(roles) => {
            failure.because(format!("{} on {} is denied to {}", operation.name(), grant.account, roles.caller))
        }
        Scope::Owner | Scope::Table { .. } | Scope::Account { .. } | Scope::Nothing(_) => failure,
    }
}

/// The answer to a denial.
///
/// UNVERIFIED (08 §6): the code of a write outside the key range, other than an insert.
fn answer(denial: Denial) -> Failure {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Layer;
    use crate::route::EntityAddress;
    use model::AccountName;
    use model::roles::{DataActions, RoleScope};

    #[test]
    fn a_condition_makes_an_upsert_an_update() {
        let mut roles = RoleScope::of("someone".into());
        roles.allow(None, DataActions::UPDATE_ENTITIES);
        let grant = Grant { account: AccountName::new("orchardacct").unwrap(), scope: Scope::Roles(roles) };
        let address = || EntityAddress { table: "harvest".into(), partition: "".into(), row: "".into() };
        for operation in [Operation::UpdateEntity(address()), Operation::MergeEntity(address())] {
            let with = |if_match| authorize(&grant, &operation, &Headers { if_match, ..Headers::default() });
            assert!(with(Some("*")).is_ok());
            let failure = with(None).unwrap_err();
            assert_eq!(failure.error.code, ErrorCode::AuthorizationPermissionMismatch);
            assert_eq!(failure.layer, Layer::Service);
            assert!(failure.source.unwrap().to_string().ends_with("on orchardacct is denied to someone"));
        }
    }
}
