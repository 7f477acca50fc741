//! Authentication of requests, and what their credentials allow (specification 07, 08 and 09).
//!
//! `authentication.rs` finds the credential and checks it; the result is a [`Grant`]. Only `Grant::check` decides
//! whether an operation is allowed. It is called twice: before a body is read, when the operation is known
//! ([`authorize`]), and again for each entity, when its keys are known (`OperationContext::allow`).
//!
//! This folder must not know how an operation is carried out.

mod authentication;
pub(crate) mod bearer;
mod delegation;
pub(crate) mod oauth;
mod placeholder_keys;
mod shared_access;
mod unverified_tokens;
pub(crate) mod web_page;

pub(crate) use authentication::authenticate;

use crate::failure::Failure;
use crate::request::{OperationKind, table_of};
use model::{Denial, Grant, Scope};
use tracing::info;
use wire::target::Resource;

pub(crate) fn authorize(grant: &Grant, kind: OperationKind, resource: &Resource<'_>) -> Result<(), Failure> {
    check(grant, kind, resource).map_err(|denial| match denial {
        Denial::Operation if kind == OperationKind::GetUserDelegationKey => Failure::needs_bearer(),
        denial => denied(grant, kind, denial),
    })
}

pub(crate) fn authorize_part(grant: &Grant, kind: OperationKind, resource: &Resource<'_>) -> Result<(), Failure> {
    check(grant, kind, resource).map_err(|denial| {
        let failure = denied(grant, kind, denial);
        // The failure of a part appears in the response to the batch and is not logged elsewhere.
        if let Some(source) = &failure.source {
            info!("{source}");
        }
        failure
    })
}

fn check(grant: &Grant, kind: OperationKind, resource: &Resource<'_>) -> Result<(), Denial> {
    let table = table_of(resource).map_or("", |table| table.as_ref());
    match (kind.info().action)(table) {
        Some(action) => grant.check(action),
        None => Ok(()),
    }
}

fn denied(grant: &Grant, kind: OperationKind, denial: Denial) -> Failure {
    let failure = Failure::denied(denial);
    match &grant.scope {
        Scope::Roles(roles) | Scope::Delegated { roles, .. } => {
            failure.with_reason(format!("{} on {} is denied to {}", kind.name(), grant.account, roles.caller))
        }
        Scope::Owner | Scope::Table { .. } | Scope::Account { .. } | Scope::Nothing(_) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Layer;
    use model::AccountName;
    use model::roles::{DataActions, RoleScope};
    use wire::ErrorCode;

    #[test]
    fn a_condition_makes_an_upsert_an_update() {
        let mut roles = RoleScope::new("someone".into());
        roles.allow(None, DataActions::UPDATE_ENTITIES);
        let grant = Grant { account: AccountName::new("orchardacct").unwrap(), scope: Scope::Roles(roles) };
        let resource = Resource::Entity { table: "harvest".into(), partition: "".into(), row: "".into() };
        for (update, upsert) in [
            (OperationKind::UpdateEntity, OperationKind::InsertOrReplaceEntity),
            (OperationKind::MergeEntity, OperationKind::InsertOrMergeEntity),
        ] {
            assert!(authorize(&grant, update, &resource).is_ok());
            let failure = authorize(&grant, upsert, &resource).unwrap_err();
            assert_eq!(failure.error.code, ErrorCode::AuthorizationPermissionMismatch);
            assert_eq!(failure.layer, Layer::Service);
            assert!(failure.source.unwrap().to_string().ends_with("on orchardacct is denied to someone"));
        }
    }
}
