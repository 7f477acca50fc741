//! Authentication of requests, and what their credentials allow (specification 07, 08 and 09).
//!
//! `authentication.rs` finds the credential and checks it; the result is a [`Grant`]. Only `Grant::check` decides
//! whether an operation is allowed. It is called before a body is read, when the operation is known
//! ([`authorize`], and [`permitted_preference`] for the content of the response), and again for each entity, when its
//! keys are known (`OperationContext::allow`).
//!
//! This folder must not know how an operation is carried out.

mod authentication;
pub(crate) mod bearer;
mod delegation;
pub(crate) mod oauth;
mod shared_access;
mod unverified_tokens;
pub(crate) mod web_page;

pub(crate) use authentication::authenticate;

use crate::failure::Failure;
use crate::request::{Offered, OperationKind, VirtualTable, table_of};
use model::grant::EntityAccess;
use model::{Action, ChangesTable, Denial, Grant, OrderedView, Scope};
use wire::negotiation::Preference;
use wire::target::Resource;

/// Returns what the name of the table means, if it is not the name of a table. Contains only what the credential may
/// read.
pub(crate) fn authorize(
    grant: &Grant,
    kind: OperationKind,
    resource: &Resource<'_>,
    offered: Offered,
) -> Result<VirtualTable, Failure> {
    check(grant, kind, resource, offered).map_err(|denial| match denial {
        Denial::Operation if kind == OperationKind::GetUserDelegationKey => Failure::needs_bearer(),
        denial => denied(grant, kind, resource, denial),
    })
}

/// Returns the preference that the response honors. The response to a merge would contain properties that the client
/// did not send, so it contains none for a credential that must not read the table (02 §4.3).
pub(crate) fn permitted_preference(
    grant: &Grant,
    kind: OperationKind,
    resource: &Resource<'_>,
    preference: Option<Preference>,
) -> Option<Preference> {
    let is_merge = matches!(kind, OperationKind::MergeEntity | OperationKind::InsertOrMergeEntity);
    if is_merge && preference == Some(Preference::Content) {
        let table = table_of(resource).map_or("", |table| table.as_ref());
        grant.check(Action::Entities { table, access: EntityAccess::Read, key: None }).ok()?;
    }
    preference
}

fn check(
    grant: &Grant,
    kind: OperationKind,
    resource: &Resource<'_>,
    offered: Offered,
) -> Result<VirtualTable, Denial> {
    let table = table_of(resource).map_or("", |table| table.as_ref());
    // A view is not in the list of tables, so an operation on an entry of the list does not address a view.
    if !matches!(resource, Resource::Table(_)) {
        if offered.extensions {
            let views = OrderedView::meanings(table);
            if !views.is_empty() {
                return check_views(grant, kind, views).map(VirtualTable::Views);
            }
        }
        if offered.changes
            && let Some(changes) = ChangesTable::from_name(table)
        {
            return check_changes(grant, kind, &changes).map(|()| VirtualTable::Changes(changes));
        }
    }
    match (kind.info().action)(table) {
        Some(action) => grant.check(action).map(|()| VirtualTable::None),
        None => Ok(VirtualTable::None),
    }
}

/// Views can only be queried. A view may be read by whoever may read its table, so that the response does not depend on
/// tables that the credential does not cover.
fn check_views(grant: &Grant, kind: OperationKind, mut views: Vec<OrderedView>) -> Result<Vec<OrderedView>, Denial> {
    if !matches!(kind, OperationKind::QueryEntities | OperationKind::CountEntities) {
        return Err(Denial::Operation);
    }
    let mut denial = Denial::Table;
    views.retain(|view| {
        let read = Action::Entities { table: view.table.as_str(), access: EntityAccess::Read, key: None };
        grant.check(read).map_err(|reason| denial = reason).is_ok()
    });
    if views.is_empty() { Err(denial) } else { Ok(views) }
}

/// The change feed can only be read. The changes of a table may be read by whoever may read the table, and the changes
/// of all tables by whoever may read all tables.
fn check_changes(grant: &Grant, kind: OperationKind, changes: &ChangesTable) -> Result<(), Denial> {
    if !matches!(kind, OperationKind::QueryEntities | OperationKind::CountEntities | OperationKind::QueryEntity) {
        return Err(Denial::Operation);
    }
    let table = match changes {
        ChangesTable::Of(table) => table.as_str(),
        ChangesTable::All if matches!(grant.scope, Scope::Table { .. } | Scope::Delegated { .. }) => {
            return Err(Denial::Table);
        }
        // No role on a single table has this name.
        ChangesTable::All => "$Changes",
    };
    grant.check(Action::Entities { table, access: EntityAccess::Read, key: None })
}

fn denied(grant: &Grant, kind: OperationKind, resource: &Resource<'_>, denial: Denial) -> Failure {
    let table = table_of(resource).map_or("", |table| table.as_ref());
    let read = Action::Entities { table, access: EntityAccess::Read, key: None };
    let failure = Failure::denied(grant, (kind.info().action)(table).unwrap_or(read), denial);
    match &grant.scope {
        Scope::Roles(roles) | Scope::Delegated { roles, .. } => {
            failure.with_cause(format!("{} on {} is denied to {}", kind.name(), grant.account, roles.caller))
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
            assert!(authorize(&grant, update, &resource, Offered::default()).is_ok());
            let failure = authorize(&grant, upsert, &resource, Offered::default()).unwrap_err();
            assert_eq!(failure.error.code, ErrorCode::AuthorizationPermissionMismatch);
            assert_eq!(failure.layer, Layer::Service);
            assert!(failure.source.unwrap().to_string().ends_with("on orchardacct is denied to someone"));
        }
    }
}
