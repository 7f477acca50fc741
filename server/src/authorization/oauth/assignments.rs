//! Role assignments: which principal has which role on which accounts and tables. They come from the configuration and
//! from roles that tokens name (specification 09 §5).
//!
//! This module must not know how a token is checked.

use super::claims::Principal;
use crate::reload::Files;
use crate::toml_file::parse_toml;
use anyhow::{Context, bail, ensure};
use model::AccountName;
use model::roles::{DataActions, RoleScope, TablePattern};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// The built-in roles: a short name, the name in Azure, and its ID in Azure.
const BUILT_IN: [(&[&str], DataActions); 4] = [
    (&["reader", "Storage Table Data Reader", "76199698-9eea-4c19-bc75-cec21354c6b6"], DataActions::READER),
    (
        &["contributor", "Storage Table Data Contributor", "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3"],
        DataActions::CONTRIBUTOR,
    ),
    (&["delegator", "Storage Table Delegator", "965033a5-c8eb-4f35-b82f-fef460a3606d"], DataActions::DELEGATE),
    (&["owner"], DataActions::ALL),
];

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AssignmentSection {
    principal: PrincipalSection,
    role: String,
    scope: String,
}

/// All fields that are given must match.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct PrincipalSection {
    issuer: Option<String>,
    oid: Option<String>,
    sub: Option<String>,
    #[serde(alias = "appid", alias = "azp", alias = "client_id")]
    client: Option<String>,
    group: Option<String>,
    app_role: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AssignmentFile {
    #[serde(default)]
    assignments: Vec<AssignmentSection>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Roles(HashMap<String, DataActions>);

#[derive(Debug, Clone, Default)]
pub(crate) struct Assignments(Vec<Assignment>);

#[derive(Debug, Clone)]
struct Assignment {
    /// The index of the issuer in the configuration. The same ID at another issuer is a different principal.
    issuer: usize,
    principal: PrincipalSection,
    actions: DataActions,
    scope: AssignmentScope,
}

#[derive(Debug, Clone)]
struct AssignmentScope {
    account: AccountName,
    /// `None` for the whole account.
    tables: Option<TablePattern>,
}

impl Roles {
    /// `own` maps the name of each configured role to the actions that it allows.
    pub(crate) fn new(own: &BTreeMap<String, Vec<String>>) -> anyhow::Result<Self> {
        let built_in =
            BUILT_IN.iter().flat_map(|(names, actions)| names.iter().map(|name| ((*name).to_owned(), *actions)));
        let mut roles: HashMap<String, DataActions> = built_in.collect();
        for (name, names) in own {
            let mut actions = DataActions::NONE;
            for action in names {
                let action = DataActions::parse(action).with_context(|| {
                    format!("role '{name}' has the unknown action '{action}': give one of {}", DataActions::names())
                })?;
                actions = actions.union(action);
            }
            ensure!(
                roles.insert(name.clone(), actions).is_none(),
                "the role '{name}' is built in: give yours a different name"
            );
        }
        Ok(Self(roles))
    }

    fn get(&self, name: &str) -> anyhow::Result<DataActions> {
        self.0.get(name).copied().with_context(|| {
            format!("there is no role '{name}'; the built-in roles are reader, contributor, delegator and owner")
        })
    }
}

impl Assignments {
    /// `issuers` holds the names of each issuer in the configuration.
    pub(crate) fn new(sections: &[AssignmentSection], roles: &Roles, issuers: &[&[String]]) -> anyhow::Result<Self> {
        let assignment = |section: &AssignmentSection| -> anyhow::Result<Assignment> {
            Ok(Assignment {
                issuer: section.principal.issuer_index(issuers)?,
                principal: section.principal.checked()?,
                actions: roles.get(&section.role)?,
                scope: AssignmentScope::parse(&section.scope)?,
            })
        };
        let numbered = sections.iter().enumerate();
        numbered
            .map(|(index, section)| assignment(section).with_context(|| format!("assignment {}", index + 1)))
            .collect::<anyhow::Result<_>>()
            .map(Self)
    }

    pub(crate) fn from_file(files: &Files<1>, roles: &Roles, issuers: &[&[String]]) -> anyhow::Result<Self> {
        let ([path], [content]) = (&files.paths, &files.contents);
        let text = std::str::from_utf8(content).context("the file is not UTF-8");
        text.and_then(|text| Self::parse(text, roles, issuers)).with_context(|| path.display().to_string())
    }

    fn parse(text: &str, roles: &Roles, issuers: &[&[String]]) -> anyhow::Result<Self> {
        let file: AssignmentFile = parse_toml(text, &[])?;
        Self::new(&file.assignments, roles, issuers)
    }

    /// Makes the roles in an issuer's tokens valid in the given scopes. A token may use the names of built-in roles and
    /// the names that `values` maps to roles.
    pub(crate) fn assign_token_roles(
        &mut self,
        issuer: usize,
        scopes: &[String],
        values: &BTreeMap<String, String>,
        roles: &Roles,
    ) -> anyhow::Result<()> {
        ensure!(
            values.is_empty() || !scopes.is_empty(),
            "values have no effect without scopes: add scopes or remove values"
        );
        let in_azure = BUILT_IN.iter().flat_map(|(names, actions)| {
            names.iter().skip(1).filter(|name| !values.contains_key(**name)).map(|name| ((*name).to_owned(), *actions))
        });
        let mut mapped: Vec<(String, DataActions)> = in_azure.collect();
        for (value, role) in values {
            mapped.push((value.clone(), roles.get(role)?));
        }
        for scope in scopes {
            let scope = AssignmentScope::parse(scope)?;
            self.0.extend(mapped.iter().map(|(value, actions)| Assignment {
                issuer,
                principal: PrincipalSection { app_role: Some(value.clone()), ..PrincipalSection::default() },
                actions: *actions,
                scope: scope.clone(),
            }));
        }
        Ok(())
    }

    pub(crate) fn allow(&self, scope: &mut RoleScope, issuer: usize, principal: &Principal, account: &AccountName) {
        for assignment in &self.0 {
            let is_in_scope = assignment.issuer == issuer && assignment.scope.account == *account;
            if is_in_scope && assignment.principal.matches(principal) {
                scope.allow(assignment.scope.tables.as_ref(), assignment.actions);
            }
        }
    }
}

impl PrincipalSection {
    fn issuer_index(&self, issuers: &[&[String]]) -> anyhow::Result<usize> {
        match (&self.issuer, issuers) {
            (Some(name), _) => issuers
                .iter()
                .position(|names| names.contains(name))
                .with_context(|| format!("there is no issuer '{name}'")),
            (None, [_]) => Ok(0),
            (None, _) => bail!("the principal needs an issuer because several are configured: add issuer"),
        }
    }

    fn checked(&self) -> anyhow::Result<Self> {
        let given = [&self.oid, &self.sub, &self.client, &self.group, &self.app_role];
        ensure!(
            given.iter().any(|value| value.is_some()) && given.iter().all(|value| value.as_deref() != Some("")),
            "the principal is not identified: give one or more of oid, sub, client, group and app-role"
        );
        Ok(self.clone())
    }

    fn matches(&self, principal: &Principal) -> bool {
        let is = |own: &Option<String>, value: &Option<String>| own.is_none() || own == value;
        let is_in = |own: &Option<String>, values: &[String]| own.as_ref().is_none_or(|own| values.contains(own));
        is(&self.oid, &principal.oid)
            && is(&self.sub, &principal.sub)
            && is(&self.client, &principal.client)
            && is_in(&self.group, &principal.groups)
            && is_in(&self.app_role, &principal.roles)
    }
}

impl AssignmentScope {
    /// Parses `account`, `account/table` or `account/start*`.
    fn parse(scope: &str) -> anyhow::Result<Self> {
        let (account, tables) =
            scope.split_once('/').map_or((scope, None), |(account, tables)| (account, Some(tables)));
        let parsed = match (AccountName::new(account), tables.map(TablePattern::parse)) {
            (Some(account), None) => Some(Self { account, tables: None }),
            (Some(account), Some(Some(tables))) => Some(Self { account, tables: Some(tables) }),
            _ => None,
        };
        parsed.with_context(|| format!("the scope '{scope}' is invalid: give account, account/table or account/start*"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::roles::RequiredActions;

    fn issuers() -> Vec<Vec<String>> {
        vec![vec!["https://one".into(), "https://uno".into()], vec!["https://two".into()]]
    }

    fn read(text: &str) -> anyhow::Result<Assignments> {
        let own = BTreeMap::from([("appender".to_owned(), vec!["tables/entities/add/action".to_owned()])]);
        let issuers = issuers();
        let names: Vec<_> = issuers.iter().map(Vec::as_slice).collect();
        Assignments::parse(text, &Roles::new(&own).unwrap(), &names)
    }

    fn permits(
        assignments: &Assignments,
        issuer: usize,
        principal: &Principal,
        needs: RequiredActions,
        table: Option<&str>,
    ) -> bool {
        let mut scope = RoleScope::new("x".into());
        assignments.allow(&mut scope, issuer, principal, &AccountName::new("orchardacct").unwrap());
        scope.permits(needs, table)
    }

    #[test]
    fn principals_and_scopes() {
        let assignments = read(
            r#"
            [[assignments]]
            principal = { issuer = "https://uno", oid = "o", client = "c" }
            role = "reader"
            scope = "orchardacct"
            [[assignments]]
            principal = { issuer = "https://one", group = "g" }
            role = "appender"
            scope = "orchardacct/log*"
            [[assignments]]
            principal = { issuer = "https://one", app-role = "r" }
            role = "owner"
            scope = "otheracct"
            "#,
        )
        .unwrap();
        let all = Principal {
            oid: Some("o".into()),
            client: Some("c".into()),
            groups: vec!["g".into()],
            roles: vec!["r".into()],
            ..Principal::default()
        };
        let reads = |issuer, principal: &Principal| {
            permits(&assignments, issuer, principal, RequiredActions::READ_TABLES, None)
        };
        assert!(reads(0, &all));
        assert!(!reads(1, &all), "the same ID from another issuer is a different principal");
        assert!(!reads(0, &Principal { client: None, ..all.clone() }), "all given fields must match");
        assert!(!reads(0, &Principal { oid: None, sub: Some("o".into()), ..all.clone() }));
        let inserts =
            |principal: &Principal, table| permits(&assignments, 0, principal, RequiredActions::INSERT, Some(table));
        assert!(inserts(&all, "Logs") && !inserts(&all, "harvest"));
        assert!(!inserts(&Principal { groups: vec![], ..all.clone() }, "Logs"));
        assert!(!permits(&assignments, 0, &all, RequiredActions::READ_SERVICE, None), "owner of another account");
    }

    #[test]
    fn roles_that_tokens_name() {
        let roles = Roles::new(&BTreeMap::new()).unwrap();
        let values = BTreeMap::from([("tables.write".to_owned(), "contributor".to_owned())]);
        let mut assignments = Assignments::default();
        assignments.assign_token_roles(1, &["orchardacct/harvest".into()], &values, &roles).unwrap();
        let principal = |role: &str| Principal { roles: vec![role.into()], ..Principal::default() };
        let may = |issuer, role, needs, table| permits(&assignments, issuer, &principal(role), needs, Some(table));
        assert!(may(1, "tables.write", RequiredActions::UPSERT, "harvest"));
        assert!(may(1, "Storage Table Data Reader", RequiredActions::READ_ENTITIES, "harvest"));
        assert!(!may(1, "Storage Table Data Reader", RequiredActions::INSERT, "harvest"));
        assert!(!may(1, "tables.write", RequiredActions::UPSERT, "other"));
        assert!(!may(0, "tables.write", RequiredActions::UPSERT, "harvest"));
        assert!(
            !may(1, "owner", RequiredActions::READ_ENTITIES, "harvest"),
            "short names are valid only in the configuration"
        );
        assert!(assignments.assign_token_roles(1, &[], &values, &roles).is_err());
    }

    #[test]
    fn mistakes_are_named() {
        let with = |principal: &str, role: &str, scope: &str| {
            let text = format!("[[assignments]]\nprincipal = {principal}\nrole = \"{role}\"\nscope = \"{scope}\"");
            format!("{:#}", read(&text).unwrap_err())
        };
        for (message, part) in [
            (with("{ oid = \"o\" }", "reader", "orchardacct"), "needs an issuer"),
            (with("{ issuer = \"https://three\", oid = \"o\" }", "reader", "orchardacct"), "no issuer 'https://three'"),
            (with("{ issuer = \"https://one\" }", "reader", "orchardacct"), "one or more of"),
            (with("{ issuer = \"https://one\", oid = \"\" }", "reader", "orchardacct"), "one or more of"),
            (
                with("{ issuer = \"https://one\", upn = \"u\" }", "reader", "orchardacct"),
                "line 2, column 39: unknown option",
            ),
            (with("{ issuer = \"https://one\", oid = \"o\" }", "god", "orchardacct"), "no role 'god'"),
            (with("{ issuer = \"https://one\", oid = \"o\" }", "reader", "*"), "the scope '*'"),
            (with("{ issuer = \"https://one\", oid = \"o\" }", "reader", "orchardacct/"), "the scope"),
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
}
