//! The access that roles allow (09 §5): the actions that an assignment grants, on an account or on tables.
//!
//! Invariants:
//!
//! 1. Nothing is allowed unless an assignment grants it.
//! 2. A grant on a table never extends to another table, nor to the account itself.
//!
//! This module must not depend on tokens, on claims or on how assignments are configured.

use std::fmt;
use std::sync::Arc;

/// A set of data actions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct DataActions(u16);

/// The optional prefix of action names.
const ACTION_PREFIX: &str = "Microsoft.Storage/storageAccounts/tableServices/";

macro_rules! actions {
    ($($(#[$doc:meta])* $constant:ident $name:literal $bit:literal)*) => {
        impl DataActions {
            $($(#[$doc])* pub const $constant: Self = Self(1 << $bit);)*
            const NAMED: &'static [(&'static str, Self)] = &[$(($name, Self::$constant)),*];
        }
    };
}

actions! {
    /// Get Table Service Properties, Get Table Service Stats.
    READ_SERVICE "read" 0
    /// Set Table Service Properties.
    WRITE_SERVICE "write" 1
    /// Query Tables.
    READ_TABLES "tables/read" 2
    /// Create Table.
    WRITE_TABLES "tables/write" 3
    /// Delete Table.
    DELETE_TABLES "tables/delete" 4
    /// Get Table ACL.
    GET_POLICIES "tables/getAcl/action" 5
    /// Set Table ACL.
    SET_POLICIES "tables/setAcl/action" 6
    /// Query Entities, Get Entity.
    READ_ENTITIES "tables/entities/read" 7
    /// All writes to entities except deletions.
    WRITE_ENTITIES "tables/entities/write" 8
    /// Insert Entity.
    ADD_ENTITIES "tables/entities/add/action" 9
    /// Update Entity, Merge Entity.
    UPDATE_ENTITIES "tables/entities/update/action" 10
    /// Delete Entity.
    DELETE_ENTITIES "tables/entities/delete" 11
    /// Get User Delegation Key.
    DELEGATE "generateUserDelegationKey/action" 12
}

impl DataActions {
    /// No action.
    pub const NONE: Self = Self(0);
    /// Every action.
    pub const ALL: Self = Self((1 << 13) - 1);
    /// The role Storage Table Data Reader. UNVERIFIED (09 §5): it lists tables as well as entities.
    pub const READER: Self = Self::READ_TABLES.union(Self::READ_ENTITIES);
    /// The role Storage Table Data Contributor (09 §5).
    pub const CONTRIBUTOR: Self = Self::READER
        .union(Self::WRITE_TABLES)
        .union(Self::DELETE_TABLES)
        .union(Self::WRITE_ENTITIES)
        .union(Self::ADD_ENTITIES)
        .union(Self::UPDATE_ENTITIES)
        .union(Self::DELETE_ENTITIES);

    /// Parses the name of an action, in any letter case, with or without the service's prefix.
    pub fn parse(name: &str) -> Option<Self> {
        let prefix = name.get(..ACTION_PREFIX.len()).filter(|start| start.eq_ignore_ascii_case(ACTION_PREFIX));
        let rest = prefix.and_then(|_| name.get(ACTION_PREFIX.len()..)).unwrap_or(name);
        Self::NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(rest)).map(|(_, action)| *action)
    }

    /// Returns the names of all actions, for use in messages.
    pub fn names() -> String {
        Self::NAMED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether this set contains all actions of the other set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Debug for DataActions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMED.iter().filter(|(_, action)| self.contains(*action)).map(|(name, _)| *name);
        f.debug_set().entries(names).finish()
    }
}

/// The alternative sets of actions that allow an operation (09 §5). All actions of at least one set are required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequiredActions(&'static [DataActions]);

impl RequiredActions {
    /// Get Table Service Properties, Get Table Service Stats.
    pub const READ_SERVICE: Self = Self(&[DataActions::READ_SERVICE]);
    /// Set Table Service Properties.
    pub const WRITE_SERVICE: Self = Self(&[DataActions::WRITE_SERVICE]);
    /// Query Tables.
    pub const READ_TABLES: Self = Self(&[DataActions::READ_TABLES]);
    /// Create Table.
    pub const CREATE_TABLE: Self = Self(&[DataActions::WRITE_TABLES]);
    /// Delete Table.
    pub const DELETE_TABLE: Self = Self(&[DataActions::DELETE_TABLES]);
    /// Get Table ACL.
    pub const GET_POLICIES: Self = Self(&[DataActions::GET_POLICIES]);
    /// Set Table ACL.
    pub const SET_POLICIES: Self = Self(&[DataActions::SET_POLICIES]);
    /// Query Entities, Get Entity.
    pub const READ_ENTITIES: Self = Self(&[DataActions::READ_ENTITIES]);
    /// Insert Entity.
    pub const INSERT: Self = Self(&[DataActions::WRITE_ENTITIES, DataActions::ADD_ENTITIES]);
    /// Insert Or Replace Entity, Insert Or Merge Entity.
    pub const UPSERT: Self =
        Self(&[DataActions::WRITE_ENTITIES, DataActions::ADD_ENTITIES.union(DataActions::UPDATE_ENTITIES)]);
    /// Update Entity, Merge Entity.
    pub const UPDATE: Self = Self(&[DataActions::WRITE_ENTITIES, DataActions::UPDATE_ENTITIES]);
    /// Delete Entity.
    pub const DELETE: Self = Self(&[DataActions::DELETE_ENTITIES]);
    /// Get User Delegation Key.
    pub const DELEGATE: Self = Self(&[DataActions::DELEGATE]);

    fn is_met_by(self, granted: DataActions) -> bool {
        self.0.iter().any(|set| granted.contains(*set))
    }
}

/// The tables that an assignment covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePattern {
    /// The lower-case name or prefix.
    folded: Box<str>,
    is_prefix: bool,
}

impl TablePattern {
    /// Parses a table name in any letter case, or a prefix followed by `*`. Returns `None` if no table can match.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |start| (start, true));
        let characters = name.bytes().all(|b| b.is_ascii_alphanumeric());
        let length = is_prefix || !name.is_empty();
        (characters && length).then(|| Self { folded: name.to_ascii_lowercase().into(), is_prefix })
    }

    fn matches(&self, table: &str) -> bool {
        let folded = table.to_ascii_lowercase();
        if self.is_prefix { folded.starts_with(&*self.folded) } else { folded == *self.folded }
    }
}

/// The access to one account that a caller's roles allow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleScope {
    /// The caller, for the log.
    pub caller: Arc<str>,
    account: DataActions,
    tables: Vec<(TablePattern, DataActions)>,
}

impl RoleScope {
    /// Returns a scope that allows the caller nothing.
    pub fn new(caller: Arc<str>) -> Self {
        Self { caller, ..Self::default() }
    }

    /// Allows actions on the tables that match a pattern or, if there is no pattern, on the whole account.
    pub fn allow(&mut self, tables: Option<&TablePattern>, actions: DataActions) {
        match tables {
            None => self.account = self.account.union(actions),
            Some(pattern) => self.tables.push((pattern.clone(), actions)),
        }
    }

    /// Returns whether an operation is allowed on a table or, if no table is given, on the account. The grants of
    /// several assignments are combined.
    pub fn permits(&self, required: RequiredActions, table: Option<&str>) -> bool {
        let tables = self.tables.iter().filter(|(pattern, _)| table.is_some_and(|table| pattern.matches(table)));
        required.is_met_by(tables.fold(self.account, |granted, (_, actions)| granted.union(*actions)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_REQUIRED: [RequiredActions; 13] = [
        RequiredActions::READ_SERVICE,
        RequiredActions::WRITE_SERVICE,
        RequiredActions::READ_TABLES,
        RequiredActions::CREATE_TABLE,
        RequiredActions::DELETE_TABLE,
        RequiredActions::GET_POLICIES,
        RequiredActions::SET_POLICIES,
        RequiredActions::READ_ENTITIES,
        RequiredActions::INSERT,
        RequiredActions::UPSERT,
        RequiredActions::UPDATE,
        RequiredActions::DELETE,
        RequiredActions::DELEGATE,
    ];

    fn on_account(actions: DataActions) -> RoleScope {
        let mut scope = RoleScope::new("someone".into());
        scope.allow(None, actions);
        scope
    }

    #[test]
    fn names_of_actions() {
        assert_eq!(DataActions::NAMED.iter().fold(DataActions::NONE, |all, (_, a)| all.union(*a)), DataActions::ALL);
        let full = "microsoft.storage/storageAccounts/tableServices/tables/entities/add/action";
        assert_eq!(DataActions::parse(full), Some(DataActions::ADD_ENTITIES));
        assert_eq!(DataActions::parse("tables/entities/read"), Some(DataActions::READ_ENTITIES));
        for unknown in ["", "*", "tables/*", "tables/entities", "Microsoft.Storage/storageAccounts/tableServices/", "ä"]
        {
            assert_eq!(DataActions::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn what_each_role_allows() {
        let allowed =
            |actions| ALL_REQUIRED.map(|required| u8::from(on_account(actions).permits(required, Some("harvest"))));
        assert_eq!(allowed(DataActions::NONE), [0; 13]);
        assert_eq!(allowed(DataActions::DELEGATE), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(allowed(DataActions::READER), [0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(allowed(DataActions::CONTRIBUTOR), [0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0]);
        assert_eq!(allowed(DataActions::ALL), [1; 13]);
        assert_eq!(allowed(DataActions::ADD_ENTITIES), [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(allowed(DataActions::UPDATE_ENTITIES), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        let both = DataActions::ADD_ENTITIES.union(DataActions::UPDATE_ENTITIES);
        assert_eq!(allowed(both), [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0]);
        assert_eq!(allowed(DataActions::WRITE_ENTITIES), [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0]);
    }

    #[test]
    fn a_grant_on_a_table_stays_there() {
        let mut scope = RoleScope::new("someone".into());
        scope.allow(TablePattern::parse("Harvest").as_ref(), DataActions::ALL);
        scope.allow(TablePattern::parse("log*").as_ref(), DataActions::READER);
        for required in ALL_REQUIRED {
            assert!(scope.permits(required, Some("harvest")) && scope.permits(required, Some("HARVEST")));
            assert!(!scope.permits(required, Some("harvest2")) && !scope.permits(required, Some("harves")));
            assert!(!scope.permits(required, None), "{required:?} on the account");
        }
        assert!(
            scope.permits(RequiredActions::READ_ENTITIES, Some("Logs2026"))
                && scope.permits(RequiredActions::READ_ENTITIES, Some("log"))
        );
        assert!(!scope.permits(RequiredActions::INSERT, Some("Logs2026")));
        // Grants are combined, even across scopes.
        scope.allow(None, DataActions::ADD_ENTITIES);
        scope.allow(TablePattern::parse("logs").as_ref(), DataActions::UPDATE_ENTITIES);
        assert!(
            scope.permits(RequiredActions::UPSERT, Some("logs"))
                && !scope.permits(RequiredActions::UPSERT, Some("log"))
        );
    }

    #[test]
    fn patterns_that_match_nothing_are_refused() {
        for bad in ["", "a/b", "a*b", "**", "a b", "é"] {
            assert_eq!(TablePattern::parse(bad), None, "{bad}");
        }
        assert!(TablePattern::parse("*").unwrap().matches("anything"));
    }
}
