//! Whether a credential allows an operation: the action that the operation is, and what a denial is told.

use crate::call::Headers;
use crate::failure::Failure;
use crate::route::Operation;
use model::grant::Access;
use model::{Action, Denial, Grant, Scope};
use wire::ErrorCode;

/// Refuses an operation that the credential does not allow, whatever the entity.
///
/// A batch has to ask for each of its operations.
pub(crate) fn authorize(grant: &Grant, operation: &Operation<'_>, headers: &Headers<'_>) -> Result<(), Failure> {
    let Some(action) = action(operation, headers) else { return Ok(()) };
    grant.check(action).map_err(|denial| {
        let caller = match &grant.scope {
            Scope::Roles(roles) => &*roles.caller,
            Scope::Owner | Scope::Table { .. } | Scope::Account { .. } | Scope::Nothing(_) => "the credential",
        };
        let reason = format!("{} on {} is denied to {caller}", operation.name(), grant.account);
        Failure::denied(code(denial), reason)
    })
}

/// The action that an operation is; `None` for a batch.
fn action<'a>(operation: &'a Operation<'_>, headers: &Headers<'_>) -> Option<Action<'a>> {
    let entities = |table, access| Some(Action::Entities { table, access, key: None });
    let update = if headers.if_match.is_some() { Access::Update } else { Access::Upsert };
    match operation {
        Operation::QueryTables | Operation::GetTable(_) => Some(Action::QueryTables),
        Operation::CreateTable => Some(Action::CreateTable),
        Operation::DeleteTable(table) => Some(Action::DeleteTable { table }),
        Operation::QueryEntities(table) => entities(table, Access::Read),
        Operation::GetEntity(address) => entities(&address.table, Access::Read),
        Operation::InsertEntity(table) => entities(table, Access::Insert),
        Operation::UpdateEntity(address) | Operation::MergeEntity(address) => entities(&address.table, update),
        Operation::DeleteEntity(address) => entities(&address.table, Access::Delete),
        Operation::Batch => None,
    }
}

fn code(denial: Denial) -> ErrorCode {
    match denial {
        Denial::Permission => ErrorCode::AuthorizationPermissionMismatch,
        _ => ErrorCode::AuthorizationFailure,
    }
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
        let address = || EntityAddress { table: "harvest".into(), partition: String::new(), row: String::new() };
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
