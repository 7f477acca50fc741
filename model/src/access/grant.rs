//! The actions that an authenticated request may perform (08 §3, §6, §9).
//!
//! Invariants:
//!
//! 1. Only [`Grant::check`] decides whether an action is allowed.
//! 2. No grant gives access to an entity outside its key range. Point operations are checked individually, and a query
//!    scans only the ranges that [`Grant::restrict`] returns. If [`Grant::is_confined`], nothing else may influence it.
//!
//! This module must not depend on how a credential is written or verified. Each kind of credential is a [`Scope`].

use crate::key::EntityKey;
use crate::mutation::Mutation;
use crate::name::AccountName;
use crate::permissions::Permissions;
use crate::range::KeyRange;
use crate::roles::{RequiredActions, RoleScope};
use core::net::IpAddr;

/// The access to one account that a credential allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The account. Access never extends beyond it.
    pub account: AccountName,
    /// The actions that are allowed in the account.
    pub scope: Scope,
}

/// The kinds of credentials, each with the access it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// An account key, which allows everything.
    Owner,
    /// A table SAS, which covers entities of one table.
    Table {
        /// The table, in any letter case.
        table: Box<str>,
        /// The actions that are allowed on the entities.
        permissions: Permissions,
        /// The key range of the entities.
        range: KeyRange,
    },
    /// An account SAS, which covers all resources of some types.
    Account {
        /// The types of resources.
        resources: ResourceTypes,
        /// The actions that are allowed on the resources.
        permissions: Permissions,
    },
    /// A bearer token, which allows whatever the roles of its principal allow.
    Roles(RoleScope),
    /// A user delegation SAS. It covers entities of one table, as far as the delegator may also access them.
    Delegated {
        /// The table, in any letter case.
        table: Box<str>,
        /// The actions that are allowed on the entities.
        permissions: Permissions,
        /// The key range of the entities.
        range: KeyRange,
        /// The roles of the delegator. The SAS allows nothing that these roles do not allow.
        roles: RoleScope,
    },
    /// A genuine credential that must not be used for this request at all.
    Nothing(Denial),
}

/// The types of resources that an account SAS covers: `srt` (08 §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceTypes {
    /// `s`: the service itself.
    pub service: bool,
    /// `c`: tables.
    pub container: bool,
    /// `o`: entities.
    pub object: bool,
}

/// The action of a request, as far as authorization is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// Get Table Service Properties.
    GetServiceProperties,
    /// Set Table Service Properties.
    SetServiceProperties,
    /// Get Table Service Stats.
    GetServiceStats,
    /// Get User Delegation Key, which requires a bearer token.
    GetUserDelegationKey,
    /// Get Cluster Load, which requires an account key.
    GetClusterLoad,
    /// Query Tables, including the query for a single table.
    QueryTables,
    /// Create Table.
    CreateTable,
    /// Delete Table.
    DeleteTable {
        /// The table name in the request; any string.
        table: &'a str,
    },
    /// Get Table ACL.
    GetPolicies {
        /// The table name in the request; any string.
        table: &'a str,
    },
    /// Set Table ACL.
    SetPolicies {
        /// The table name in the request; any string.
        table: &'a str,
    },
    /// An operation on entities.
    Entities {
        /// The table name in the request; any string.
        table: &'a str,
        /// The kind of access.
        access: EntityAccess,
        /// The entity's key; `None` for a query, or while the key is unknown.
        key: Option<&'a EntityKey>,
    },
}

/// The access of a request to entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntityAccess {
    /// Get or query.
    Read,
    /// Insert.
    Insert,
    /// Conditional update or merge.
    Update,
    /// Insert or replace, insert or merge.
    Upsert,
    /// Delete.
    Delete,
}

/// The reason why an action is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// The credential must not be used from this IP address.
    Source(IpAddr),
    /// The credential is restricted to HTTPS.
    Protocol,
    /// The credential is for other services.
    Service,
    /// The credential does not cover this kind of resource.
    ResourceType,
    /// The credential lacks a permission.
    Permission,
    /// No credential of this kind allows the operation.
    Operation,
    /// The credential is for a different table.
    Table,
    /// The entity to read lies outside the key range. It is reported as missing.
    OutsideReadRange,
    /// The entity to write lies outside the key range.
    Range,
}

impl<'a> Action<'a> {
    /// Returns the action that corresponds to a mutation of an entity.
    pub fn from_mutation(mutation: &'a Mutation, table: &'a str) -> Self {
        let access = match mutation {
            Mutation::Insert { .. } => EntityAccess::Insert,
            Mutation::Replace { .. } | Mutation::Merge { .. } => EntityAccess::Update,
            Mutation::InsertOrReplace { .. } | Mutation::InsertOrMerge { .. } => EntityAccess::Upsert,
            Mutation::Delete { .. } => EntityAccess::Delete,
        };
        Self::Entities { table, access, key: Some(mutation.key()) }
    }

    /// Returns the letter of the resource type that an account SAS needs for the action, and the permissions of which
    /// it needs one; `None` if no account SAS allows the action. A SAS for a table needs the same permissions on
    /// entities.
    pub fn required_letters(self) -> Option<(char, &'static [Permissions])> {
        Some(match self {
            Self::GetServiceProperties | Self::GetServiceStats => ('s', &[Permissions::READ]),
            Self::SetServiceProperties => ('s', &[Permissions::WRITE]),
            Self::QueryTables => ('c', &[Permissions::LIST]),
            Self::CreateTable => ('c', &[Permissions::CREATE, Permissions::WRITE]),
            Self::DeleteTable { .. } => ('c', &[Permissions::DELETE]),
            Self::Entities { access, .. } => ('o', access.required_permissions()),
            Self::GetPolicies { .. } | Self::SetPolicies { .. } | Self::GetUserDelegationKey | Self::GetClusterLoad => {
                return None;
            }
        })
    }
}

impl EntityAccess {
    /// Returns the sets of permissions of which the access requires one (08 §3).
    fn required_permissions(self) -> &'static [Permissions] {
        match self {
            Self::Read => &[Permissions::READ],
            Self::Insert => &[Permissions::ADD],
            Self::Update => &[Permissions::UPDATE],
            Self::Upsert => const { &[Permissions::ADD.union(Permissions::UPDATE)] },
            Self::Delete => &[Permissions::DELETE],
        }
    }
}

impl Grant {
    /// Returns the grant of an account key, which allows everything in an account.
    pub fn owner(account: AccountName) -> Self {
        Self { account, scope: Scope::Owner }
    }

    /// Checks whether an action is allowed. The error is the first denial in the order of 08 §9.
    pub fn check(&self, action: Action<'_>) -> Result<(), Denial> {
        match &self.scope {
            // A user delegation belongs to a principal, and account keys have none.
            Scope::Owner if action == Action::GetUserDelegationKey => Err(Denial::Operation),
            Scope::Owner => Ok(()),
            Scope::Table { table, permissions, range } => check_table(table, *permissions, range, action),
            Scope::Account { resources, permissions } => check_account(*resources, *permissions, action),
            Scope::Roles(roles) => check_roles(roles, action),
            Scope::Delegated { table, permissions, range, roles } => {
                check_table(table, *permissions, range, action)?;
                check_roles(roles, action)
            }
            Scope::Nothing(denial) => Err(*denial),
        }
    }

    /// Returns whether the grant covers whatever tables the account has, and not only a table with a certain name.
    pub fn covers_every_table(&self) -> bool {
        match &self.scope {
            Scope::Owner | Scope::Account { .. } => true,
            // No table has an empty name.
            Scope::Roles(_) => {
                self.check(Action::Entities { table: "", access: EntityAccess::Read, key: None }).is_ok()
            }
            Scope::Table { .. } | Scope::Delegated { .. } | Scope::Nothing(_) => false,
        }
    }

    /// Returns the parts of the given ranges that a query may scan.
    pub fn restrict(&self, ranges: Vec<KeyRange>) -> Vec<KeyRange> {
        match &self.scope {
            Scope::Owner | Scope::Account { .. } | Scope::Roles(_) => ranges,
            Scope::Table { range: own, .. } | Scope::Delegated { range: own, .. } => {
                ranges.iter().map(|range| range.intersect(own)).filter(|range| !range.is_empty()).collect()
            }
            Scope::Nothing(_) => Vec::new(),
        }
    }

    /// Returns whether the grant covers only a range of the keys of a table. What its holder learns must not depend on
    /// entities outside this range.
    pub fn is_confined(&self) -> bool {
        match &self.scope {
            Scope::Owner | Scope::Account { .. } | Scope::Roles(_) => false,
            Scope::Table { range, .. } | Scope::Delegated { range, .. } => *range != KeyRange::all(),
            Scope::Nothing(_) => true,
        }
    }
}

fn check_table(own: &str, permissions: Permissions, range: &KeyRange, action: Action<'_>) -> Result<(), Denial> {
    let Action::Entities { table, access, key } = action else { return Err(Denial::Operation) };
    if !access.required_permissions().iter().any(|required| permissions.contains(*required)) {
        return Err(Denial::Permission);
    }
    if !table.eq_ignore_ascii_case(own) {
        return Err(Denial::Table);
    }
    if key.is_some_and(|key| !range.contains(&key.encode())) {
        return Err(if access == EntityAccess::Read { Denial::OutsideReadRange } else { Denial::Range });
    }
    Ok(())
}

/// The matrix of 08 §3.
fn check_account(resources: ResourceTypes, permissions: Permissions, action: Action<'_>) -> Result<(), Denial> {
    let (resource, alternatives) = action.required_letters().ok_or(Denial::Operation)?;
    let covers = match resource {
        's' => resources.service,
        'c' => resources.container,
        _ => resources.object,
    };
    match (covers, alternatives.iter().any(|required| permissions.contains(*required))) {
        (false, _) => Err(Denial::ResourceType),
        (true, false) => Err(Denial::Permission),
        (true, true) => Ok(()),
    }
}

fn check_roles(roles: &RoleScope, action: Action<'_>) -> Result<(), Denial> {
    let (required, table) = match action {
        Action::GetServiceProperties | Action::GetServiceStats => (RequiredActions::READ_SERVICE, None),
        Action::SetServiceProperties => (RequiredActions::WRITE_SERVICE, None),
        Action::GetUserDelegationKey => (RequiredActions::DELEGATE, None),
        // The service has no role for it.
        Action::GetClusterLoad => return Err(Denial::Operation),
        Action::QueryTables => (RequiredActions::READ_TABLES, None),
        Action::CreateTable => (RequiredActions::CREATE_TABLE, None),
        Action::DeleteTable { table } => (RequiredActions::DELETE_TABLE, Some(table)),
        Action::GetPolicies { table } => (RequiredActions::GET_POLICIES, Some(table)),
        Action::SetPolicies { table } => (RequiredActions::SET_POLICIES, Some(table)),
        Action::Entities { table, access: EntityAccess::Read, .. } => (RequiredActions::READ_ENTITIES, Some(table)),
        Action::Entities { table, access: EntityAccess::Insert, .. } => (RequiredActions::INSERT, Some(table)),
        Action::Entities { table, access: EntityAccess::Update, .. } => (RequiredActions::UPDATE, Some(table)),
        Action::Entities { table, access: EntityAccess::Upsert, .. } => (RequiredActions::UPSERT, Some(table)),
        Action::Entities { table, access: EntityAccess::Delete, .. } => (RequiredActions::DELETE, Some(table)),
    };
    if roles.permits(required, table) { Ok(()) } else { Err(Denial::Permission) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edm::compare_ordinal;
    use crate::{Condition, KeyText, RecordBuilder};
    use proptest::prelude::*;
    use std::cmp::Ordering;

    const ACCESSES: [(EntityAccess, &str); 5] = [
        (EntityAccess::Read, "r"),
        (EntityAccess::Insert, "a"),
        (EntityAccess::Update, "u"),
        (EntityAccess::Upsert, "au"),
        (EntityAccess::Delete, "d"),
    ];
    const OTHER_ACTIONS: [Action<'static>; 10] = [
        Action::GetUserDelegationKey,
        Action::GetClusterLoad,
        Action::GetServiceProperties,
        Action::SetServiceProperties,
        Action::GetServiceStats,
        Action::QueryTables,
        Action::CreateTable,
        Action::DeleteTable { table: "harvest" },
        Action::GetPolicies { table: "harvest" },
        Action::SetPolicies { table: "harvest" },
    ];

    fn grant(scope: Scope) -> Grant {
        Grant { account: AccountName::new("orchardacct").unwrap(), scope }
    }

    fn on_table(letters: &str, range: KeyRange) -> Grant {
        grant(Scope::Table { table: "harvest".into(), permissions: Permissions::parse_table(letters).unwrap(), range })
    }

    fn delegated(grant: Grant) -> Grant {
        let Scope::Table { table, permissions, range } = grant.scope else { return grant };
        let mut roles = RoleScope::new("someone".into());
        roles.allow(None, crate::roles::DataActions::ALL);
        Grant { scope: Scope::Delegated { table, permissions, range, roles }, ..grant }
    }

    fn on_account(resources: &str, letters: &str) -> Grant {
        let has = |letter| resources.contains(letter);
        let resources = ResourceTypes { service: has('s'), container: has('c'), object: has('o') };
        grant(Scope::Account { resources, permissions: Permissions::parse_account(letters).unwrap() })
    }

    fn key(partition: &str, row: &str) -> EntityKey {
        EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() }
    }

    fn entities(access: EntityAccess) -> Action<'static> {
        Action::Entities { table: "Harvest", access, key: None }
    }

    #[test]
    fn a_table_sas_allows_exactly_its_letters_on_its_table() {
        for bits in 0..16 {
            let letters: String =
                "raud".chars().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, c)| c).collect();
            let grant = on_table(&letters, KeyRange::all());
            for (access, needed) in ACCESSES {
                let expected =
                    if needed.chars().all(|c| letters.contains(c)) { Ok(()) } else { Err(Denial::Permission) };
                assert_eq!(grant.check(entities(access)), expected, "{access:?} with '{letters}'");
            }
            for action in OTHER_ACTIONS {
                assert_eq!(grant.check(action), Err(Denial::Operation), "{action:?}");
            }
        }
        let elsewhere = Action::Entities { table: "Harvest2", access: EntityAccess::Read, key: None };
        assert_eq!(on_table("raud", KeyRange::all()).check(elsewhere), Err(Denial::Table));
    }

    #[test]
    fn a_delegated_sas_allows_what_its_letters_and_the_roles_of_the_delegator_both_allow() {
        use crate::roles::DataActions;
        for actions in [DataActions::NONE, DataActions::READER, DataActions::ADD_ENTITIES, DataActions::ALL] {
            let mut roles = RoleScope::new("someone".into());
            roles.allow(crate::roles::TablePattern::parse("harvest").as_ref(), actions);
            for letters in ["", "r", "a", "raud"] {
                let permissions = Permissions::parse_table(letters).unwrap();
                let (table, range) = (Box::from("harvest"), KeyRange::all());
                let delegated =
                    grant(Scope::Delegated { table, permissions, range: range.clone(), roles: roles.clone() });
                let (sas, token) = (on_table(letters, range), grant(Scope::Roles(roles.clone())));
                for action in OTHER_ACTIONS.into_iter().chain(ACCESSES.map(|(access, _)| entities(access))) {
                    let both = sas.check(action).is_ok() && token.check(action).is_ok();
                    assert_eq!(delegated.check(action).is_ok(), both, "{action:?} with '{letters}' and {actions:?}");
                }
            }
        }
    }

    #[test]
    fn the_matrix_of_an_account_sas() {
        use Denial::{Operation, Permission, ResourceType};
        for (action, resources, letters) in [
            (Action::GetServiceProperties, "s", &["r"][..]),
            (Action::SetServiceProperties, "s", &["w"]),
            (Action::GetServiceStats, "s", &["r"]),
            (Action::QueryTables, "c", &["l"]),
            (Action::CreateTable, "c", &["c", "w"]),
            (Action::DeleteTable { table: "harvest" }, "c", &["d"]),
            (entities(EntityAccess::Read), "o", &["r"]),
            (entities(EntityAccess::Insert), "o", &["a"]),
            (entities(EntityAccess::Update), "o", &["u"]),
            (entities(EntityAccess::Upsert), "o", &["au"]),
            (entities(EntityAccess::Delete), "o", &["d"]),
        ] {
            for resource in ["s", "c", "o"] {
                for letter in ["r", "w", "d", "l", "a", "c", "u", "au"] {
                    let expected = match (resources.contains(resource), letters.contains(&letter)) {
                        (false, _) => Err(ResourceType),
                        // The combination `au` also allows everything that each of its letters allows.
                        (true, false) if letter == "au" && letters.iter().any(|l| "au".contains(l)) => Ok(()),
                        (true, false) => Err(Permission),
                        (true, true) => Ok(()),
                    };
                    assert_eq!(on_account(resource, letter).check(action), expected, "{action:?} {resource} {letter}");
                }
            }
        }
        for action in [Action::GetPolicies { table: "harvest" }, Action::GetUserDelegationKey, Action::GetClusterLoad] {
            assert_eq!(on_account("sco", "rwdlacu").check(action), Err(Operation), "{action:?}");
        }
    }

    #[test]
    fn an_owner_may_do_everything_and_a_refused_credential_nothing() {
        let (owner, refused) = (grant(Scope::Owner), grant(Scope::Nothing(Denial::Protocol)));
        for action in OTHER_ACTIONS.into_iter().chain(ACCESSES.map(|(access, _)| entities(access))) {
            let is_for_principals = action == Action::GetUserDelegationKey;
            assert_eq!(owner.check(action), if is_for_principals { Err(Denial::Operation) } else { Ok(()) });
            assert_eq!(refused.check(action), Err(Denial::Protocol));
        }
        assert!(refused.restrict(vec![KeyRange::all()]).is_empty());
    }

    fn text() -> impl Strategy<Value = String> {
        proptest::collection::vec(prop_oneof![Just('a'), Just('b'), Just(' '), Just('\u{E000}'), Just('😀')], 0..3)
            .prop_map(|chars| chars.into_iter().collect())
    }

    /// A bound that may contain characters that are not allowed in keys.
    fn bound() -> impl Strategy<Value = Option<(String, Option<String>)>> {
        let any_text = || (text(), prop_oneof![Just(""), Just("\0"), Just("\u{1}"), Just("\0b")]);
        let any_text = move || any_text().prop_map(|(text, tail)| text + tail);
        proptest::option::of((any_text(), proptest::option::of(any_text())))
    }

    /// The rule of 08 §6, implemented literally.
    fn is_inside(key: &EntityKey, from: Option<(&str, Option<&str>)>, to: Option<(&str, Option<&str>)>) -> bool {
        let order = |(partition, row): (&str, Option<&str>)| {
            let by_row = row.map_or(Ordering::Equal, |row| compare_ordinal(key.row.as_str(), row));
            compare_ordinal(key.partition.as_str(), partition).then(by_row)
        };
        from.is_none_or(|from| order(from).is_ge()) && to.is_none_or(|to| order(to).is_le())
    }

    proptest! {
        #[test]
        fn a_key_range_confines_every_action(
            keys in (text(), text()), from in bound(), to in bound(), bits in 0usize..16, page in (text(), text()),
            is_delegated: bool,
        ) {
            fn pair(bound: Option<&(String, Option<String>)>) -> Option<(&str, Option<&str>)> {
                bound.map(|(partition, row)| (partition.as_str(), row.as_deref()))
            }
            let letters: String = "raud".chars().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, c)| c).collect();
            let grant = on_table(&letters, KeyRange::pairs(pair(from.as_ref()), pair(to.as_ref())));
            let grant = if is_delegated { delegated(grant) } else { grant };
            let key = key(&keys.0, &keys.1);
            let inside = is_inside(&key, pair(from.as_ref()), pair(to.as_ref()));
            let (properties, condition) = (RecordBuilder::default, Condition::Any);
            let mutations = [
                Mutation::Insert { key: key.clone(), properties: properties() },
                Mutation::Replace { key: key.clone(), properties: properties(), condition: condition.clone() },
                Mutation::Merge { key: key.clone(), properties: properties(), condition: condition.clone() },
                Mutation::InsertOrReplace { key: key.clone(), properties: properties() },
                Mutation::InsertOrMerge { key: key.clone(), properties: properties() },
                Mutation::Delete { key: key.clone(), condition },
            ];
            let needed = ["a", "u", "u", "au", "au", "d"];
            for (mutation, needed) in mutations.iter().zip(needed) {
                let allowed = grant.check(Action::from_mutation(mutation, "harvest")).is_ok();
                prop_assert_eq!(allowed, inside && needed.chars().all(|c| letters.contains(c)), "{:?}", mutation);
            }
            let read = Action::Entities { table: "harvest", access: EntityAccess::Read, key: Some(&key) };
            prop_assert_eq!(grant.check(read).is_ok(), inside && letters.contains('r'));
            // A query from any position returns the entities that are inside the range and not before the position.
            let position = crate::Position::new(&page.0, &page.1);
            let ranges = grant.restrict(vec![KeyRange::all()]);
            let seen = ranges.iter().any(|range| range.from_position(&position).contains(&key.encode()));
            prop_assert_eq!(seen, inside && key.encode().as_slice() >= position.as_bytes());
        }
    }
}
