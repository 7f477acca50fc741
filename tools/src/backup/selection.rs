use super::repository::{BackupManifest, TableContent};
use crate::names::{parse_account, parse_table};
use anyhow::{bail, ensure};
use engine::SnapshotTable;
use model::{AccountName, TableName};
use std::collections::HashSet;

#[derive(Debug, Clone, PartialEq, Eq)]
struct TableRequest {
    /// `None` if the account is not given. In that case, only one account may have a table with this name.
    account: Option<AccountName>,
    name: TableName,
    new_name: TableName,
}

/// If there are no requests, all tables are restored.
#[derive(Debug, Default)]
pub(super) struct RestoreSelection(Vec<TableRequest>);

#[derive(Debug)]
pub(super) struct RestoredTable<'m> {
    pub(super) content: &'m TableContent,
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

    /// Each request must match exactly one table, and the new names must be distinct.
    pub(super) fn choose<'m>(&self, manifest: &'m BackupManifest) -> anyhow::Result<Vec<RestoredTable<'m>>> {
        let mut tables = Vec::new();
        for content in &manifest.tables {
            tables.push((content, content.table.decode()?));
        }
        if self.is_all() {
            return Ok(tables.into_iter().map(|(content, target)| RestoredTable { content, target }).collect());
        }
        let mut wanted = Vec::new();
        let mut names = HashSet::new();
        for request in &self.0 {
            let is_requested = |table: &SnapshotTable| {
                table.table.name == request.name
                    && request.account.as_ref().is_none_or(|account| *account == table.table.account)
            };
            let mut found = tables.iter().filter(|(_, table)| is_requested(table));
            let Some((content, table)) = found.next() else { bail!("the backup has no table '{}'", request.name) };
            ensure!(found.next().is_none(), "several accounts have a table '{0}': pass ACCOUNT/{0}", request.name);
            let mut target = table.clone();
            target.table.name = request.new_name.clone();
            let is_new = names.insert((target.table.account.clone(), target.table.name.folded().to_owned()));
            ensure!(is_new, "two tables would be restored as '{}'", request.new_name);
            wanted.push(RestoredTable { content, target });
        }
        Ok(wanted)
    }
}
