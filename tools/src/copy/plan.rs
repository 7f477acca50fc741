//! Determines which tables are copied, and to where.

use crate::endpoints::{Source, TableSelection, list_accounts};
use anyhow::{bail, ensure};
use engine::TableKey;
use model::AccountName;
use std::collections::HashSet;

#[derive(Debug, Clone)]
pub(crate) struct TableCopy {
    pub(crate) from: TableKey,
    pub(crate) to: TableKey,
}

impl TableCopy {
    /// Returns the name of the table in the state file: the account and the table of the source.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.from.account, self.from.name)
    }
}

#[derive(Debug)]
pub(super) struct Plan {
    /// Each account of the source, with the corresponding account of the target.
    pub(super) accounts: Vec<(AccountName, AccountName)>,
    pub(super) tables: Vec<TableCopy>,
}

#[derive(Debug, Default)]
pub(super) struct CopySelection {
    pub(super) account: Option<AccountName>,
    pub(super) to_account: Option<AccountName>,
    pub(super) tables: TableSelection,
}

impl Plan {
    /// If the target has only one account, all tables are copied into that account. The targets must be distinct.
    pub(super) fn from_tables(mut tables: Vec<TableCopy>, only: Option<&AccountName>) -> anyhow::Result<Self> {
        let (mut sources, mut targets) = (HashSet::new(), HashSet::new());
        for table in &mut tables {
            if let Some(only) = only {
                table.to.account = only.clone();
            }
            let name = |key: &TableKey| (key.account.clone(), key.name.folded().to_owned());
            ensure!(targets.insert(name(&table.to)), "two tables would be copied to '{}'", table.to.name);
            ensure!(sources.insert(name(&table.from)), "the table '{}' is given twice", table.from.name);
        }
        let accounts: HashSet<_> =
            tables.iter().map(|table| (table.from.account.clone(), table.to.account.clone())).collect();
        Ok(Self { accounts: accounts.into_iter().collect(), tables })
    }

    /// `only` is the only account that the target can have. The target is not read, so a source that cannot be read
    /// fails before a target is created.
    pub(super) async fn make(
        from: &dyn Source,
        only: Option<&AccountName>,
        selection: &CopySelection,
    ) -> anyhow::Result<Self> {
        let accounts = accounts(from, only, selection).await?;
        let mut tables = Vec::new();
        for (source, target) in &accounts {
            let wanted = selection.tables.find(from, source).await?.into_iter();
            tables.extend(wanted.map(|name| TableCopy {
                from: TableKey { account: source.clone(), name: name.clone() },
                to: TableKey { account: target.clone(), name },
            }));
        }
        let found: HashSet<&str> = tables.iter().map(|table| table.from.name.folded()).collect();
        if let Some(missing) = selection.tables.names().iter().find(|name| !found.contains(name.folded())) {
            bail!("--from has no table '{missing}'");
        }
        Ok(Self { accounts, tables })
    }
}

async fn accounts(
    from: &dyn Source,
    only: Option<&AccountName>,
    selection: &CopySelection,
) -> anyhow::Result<Vec<(AccountName, AccountName)>> {
    let mut accounts = from.accounts().await?;
    if let Some(wanted) = &selection.account {
        ensure!(
            accounts.contains(wanted),
            "--from has no account '{wanted}'; its accounts are {}",
            list_accounts(&accounts)
        );
        accounts.retain(|account| account == wanted);
    }
    let target = match (only, &selection.to_account) {
        (Some(only), Some(wanted)) if only != wanted => bail!("--to is the account '{only}', not '{wanted}'"),
        (Some(only), _) => Some(only),
        (None, wanted) => wanted.as_ref(),
    };
    let Some(target) = target else { return Ok(accounts.iter().map(|name| (name.clone(), name.clone())).collect()) };
    ensure!(
        accounts.len() <= 1,
        "--from has several accounts ({}), but --to is a single account: choose one with --account",
        list_accounts(&accounts)
    );
    Ok(accounts.into_iter().map(|name| (name, target.clone())).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::endpoints::EngineEndpoint;
    use engine::{Engine, Memory};
    use model::TableName;
    use model::clock::SystemClock;
    use std::sync::Arc;

    pub(in super::super) fn table_copy(account: &str, table: &str) -> TableCopy {
        let key = TableKey { account: AccountName::new(account).unwrap(), name: TableName::new(table).unwrap() };
        TableCopy { from: key.clone(), to: key }
    }

    async fn source() -> EngineEndpoint {
        let engine = Memory::new(SystemClock);
        for (account, table) in [("apple", "Cars"), ("apple", "LogsA"), ("apple", "logsb"), ("melon", "Cars")] {
            engine.create_table(&table_copy(account, table).from).await.unwrap();
        }
        EngineEndpoint(Arc::new(engine))
    }

    fn selection(account: Option<&str>, to_account: Option<&str>, tables: &[&str]) -> CopySelection {
        let tables: Vec<String> = tables.iter().map(|&text| text.to_owned()).collect();
        CopySelection {
            account: account.and_then(AccountName::new),
            to_account: to_account.and_then(AccountName::new),
            tables: TableSelection::parse(&tables).unwrap(),
        }
    }

    #[tokio::test]
    async fn what_is_chosen_and_what_it_becomes() {
        let from = source().await;
        for (selection, expected) in [
            (selection(None, None, &[]), "apple/Cars apple/LogsA apple/logsb melon/Cars"),
            (selection(Some("apple"), None, &["LOG*"]), "apple/LogsA apple/logsb"),
            (selection(Some("apple"), Some("pear"), &["cars", "logsb"]), "pear/Cars pear/logsb"),
            (selection(None, None, &["cars"]), "apple/Cars melon/Cars"),
        ] {
            let plan = Plan::make(&from, None, &selection).await.unwrap();
            let targets: Vec<String> =
                plan.tables.iter().map(|table| format!("{}/{}", table.to.account, table.to.name)).collect();
            assert_eq!(targets.join(" "), expected);
        }
        for (selection, expected) in [
            (selection(Some("ghost"), None, &[]), "its accounts are apple, melon"),
            (selection(None, Some("pear"), &[]), "--account"),
            (selection(None, None, &["cars", "trucks"]), "no table 'trucks'"),
        ] {
            let error = Plan::make(&from, None, &selection).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
