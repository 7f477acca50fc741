use super::replay::RestorableTable;
use crate::names::{parse_account, parse_table};
use anyhow::{bail, ensure};
use engine::{SnapshotTable, TableKey};
use model::{AccountName, TableName};
use std::collections::HashSet;

#[derive(Debug, Clone, PartialEq, Eq)]
struct TableRequest {
    /// `None` if the account is not given. In that case, only one account may have a table with this name.
    account: Option<AccountName>,
    name: TableName,
    new_name: TableName,
}

impl TableRequest {
    fn matches(&self, table: &TableKey) -> bool {
        table.name == self.name && self.account.as_ref().is_none_or(|account| *account == table.account)
    }
}

/// If there are no requests, all tables are restored.
#[derive(Debug, Default)]
pub(super) struct RestoreSelection(Vec<TableRequest>);

#[derive(Debug, Clone)]
pub(super) struct RestoredTable<'m> {
    pub(super) source: RestorableTable<'m>,
    pub(super) target: SnapshotTable,
}

impl RestoreSelection {
    pub(super) fn parse(texts: &[String]) -> anyhow::Result<Self> {
        let parse = |text: &String| {
            let (old, new) = text.split_once('=').unwrap_or((text, ""));
            let (account, name) = match old.split_once('/') {
                Some((account, name)) => (Some(parse_account(account)?), parse_table(name)?),
                None => (None, parse_table(old)?),
            };
            let new_name = if text.contains('=') { parse_table(new)? } else { name.clone() };
            anyhow::Ok(TableRequest { account, name, new_name })
        };
        texts.iter().map(parse).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Returns true if everything is restored under its original name.
    pub(super) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a table of this name may be restored.
    pub(super) fn wants(&self, table: &TableKey) -> bool {
        self.is_all() || self.0.iter().any(|request| request.matches(table))
    }

    /// Each request must match exactly one table, and the new names must be distinct.
    pub(super) fn choose<'m>(&self, tables: &[RestorableTable<'m>]) -> anyhow::Result<Vec<RestoredTable<'m>>> {
        let restored =
            |table: &RestorableTable<'m>| RestoredTable { source: table.clone(), target: table.table.clone() };
        if self.is_all() {
            return Ok(tables.iter().map(restored).collect());
        }
        let mut wanted = Vec::new();
        let mut names = HashSet::new();
        for request in &self.0 {
            let mut found = tables.iter().filter(|table| request.matches(&table.table.table));
            let Some(table) = found.next() else {
                bail!(
                    "there is no table '{}' in the state to restore; if it was deleted, pass an earlier time with --to, or an \
                     earlier backup with --backup",
                    request.name
                )
            };
            ensure!(found.next().is_none(), "several accounts have a table '{0}': pass ACCOUNT/{0}", request.name);
            let mut restored = restored(table);
            restored.target.table.name = request.new_name.clone();
            let target = &restored.target.table;
            let is_new = names.insert((target.account.clone(), target.name.folded().to_owned()));
            ensure!(is_new, "two tables would be restored as '{}'", request.new_name);
            wanted.push(restored);
        }
        Ok(wanted)
    }
}
