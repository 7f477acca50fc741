//! Which tables of a backup are wanted, and under which names.

use super::manifest::{Manifest, TableContent};
use anyhow::{Context, bail, ensure};
use model::{AccountName, TableName};
use std::collections::HashSet;
use store::SnapshotTable;

/// A wish: a table of one account or of whichever has it, and its new name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    account: Option<AccountName>,
    name: TableName,
    new_name: TableName,
}

/// The tables that are wanted: all if no wish is given.
#[derive(Debug, Default)]
pub(super) struct RestoreSelection(Vec<Wish>);

/// A table of a backup, as what it is to be restored.
#[derive(Debug)]
pub(super) struct Wanted<'m> {
    pub(super) content: &'m TableContent,
    pub(super) target: SnapshotTable,
}

impl RestoreSelection {
    /// Reads texts such as `Cars`, `Cars=Old` and `account/Cars=Old`.
    pub(super) fn parse(texts: &[String]) -> anyhow::Result<Self> {
        let table = |name: &str| {
            TableName::new(name)
                .map_err(|_| anyhow::anyhow!("'{name}' is not a table name: that has 3 to 63 letters and digits"))
        };
        let parse = |text: &String| {
            let (old, new) = text.split_once('=').unwrap_or((text, ""));
            let (account, name) = match old.split_once('/') {
                Some((account, name)) => {
                    let what = || format!("'{account}' is not an account name");
                    (Some(AccountName::new(account).with_context(what)?), table(name)?)
                }
                None => (None, table(old)?),
            };
            let new_name = if text.contains('=') { table(new)? } else { name.clone() };
            anyhow::Ok(Wish { account, name, new_name })
        };
        texts.iter().map(parse).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Whether everything is wanted as it is.
    pub(super) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// The tables that are wanted. Each wish must name exactly one, and no two may get the same name.
    pub(super) fn choose<'m>(&self, manifest: &'m Manifest) -> anyhow::Result<Vec<Wanted<'m>>> {
        let mut tables = Vec::new();
        for content in &manifest.tables {
            tables.push((content, content.table.decode()?));
        }
        if self.is_all() {
            return Ok(tables.into_iter().map(|(content, target)| Wanted { content, target }).collect());
        }
        let mut wanted = Vec::new();
        let mut taken = HashSet::new();
        for wish in &self.0 {
            let is_meant = |table: &SnapshotTable| {
                table.table.name == wish.name
                    && wish.account.as_ref().is_none_or(|account| *account == table.table.account)
            };
            let mut found = tables.iter().filter(|(_, table)| is_meant(table));
            let Some((content, table)) = found.next() else { bail!("the backup has no table '{}'", wish.name) };
            ensure!(found.next().is_none(), "several accounts have a table '{0}'; say ACCOUNT/{0}", wish.name);
            let mut target = table.clone();
            target.table.name = wish.new_name.clone();
            let is_new = taken.insert((target.table.account.clone(), target.table.name.folded().to_owned()));
            ensure!(is_new, "two tables are to become '{}'", wish.new_name);
            wanted.push(Wanted { content, target });
        }
        Ok(wanted)
    }
}
