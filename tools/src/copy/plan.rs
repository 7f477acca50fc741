//! Which tables are copied to which.

use crate::endpoints::{Place, TableSelection};
use anyhow::{bail, ensure};
use model::AccountName;
use std::collections::HashSet;
use store::TableKey;

/// A table to copy.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) from: TableKey,
    pub(crate) to: TableKey,
}

impl Task {
    /// What the table is called in the state file and for people: account and table of the source.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.from.account, self.from.name)
    }
}

/// What is copied.
#[derive(Debug)]
pub(super) struct Plan {
    /// Accounts of the source and what they become.
    pub(super) accounts: Vec<(AccountName, AccountName)>,
    pub(super) tables: Vec<Task>,
}

/// Which part of the source is wanted.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) account: Option<AccountName>,
    pub(super) to_account: Option<AccountName>,
    pub(super) tables: TableSelection,
}

impl Plan {
    /// These tables, into the only account of the target if it has only one. No two may become one table.
    pub(super) fn of_tables(mut tables: Vec<Task>, only: Option<&AccountName>) -> anyhow::Result<Self> {
        let (mut sources, mut targets) = (HashSet::new(), HashSet::new());
        for task in &mut tables {
            if let Some(only) = only {
                task.to.account = only.clone();
            }
            let name = |key: &TableKey| (key.account.clone(), key.name.folded().to_owned());
            ensure!(targets.insert(name(&task.to)), "two tables are to become '{}'", task.to.name);
            ensure!(sources.insert(name(&task.from)), "the table '{}' is named twice", task.from.name);
        }
        let accounts: HashSet<_> =
            tables.iter().map(|task| (task.from.account.clone(), task.to.account.clone())).collect();
        Ok(Self { accounts: accounts.into_iter().collect(), tables })
    }

    /// Finds what the source has and what it becomes in the target.
    pub(super) async fn make(from: &dyn Place, to: &dyn Place, selection: &Selection) -> anyhow::Result<Self> {
        let accounts = accounts(from, to, selection).await?;
        let mut tables = Vec::new();
        for (source, target) in &accounts {
            let wanted = selection.tables.of(from, source).await?.into_iter();
            tables.extend(wanted.map(|name| Task {
                from: TableKey { account: source.clone(), name: name.clone() },
                to: TableKey { account: target.clone(), name },
            }));
        }
        let found: HashSet<&str> = tables.iter().map(|task| task.from.name.folded()).collect();
        if let Some(missing) = selection.tables.names().iter().find(|name| !found.contains(name.folded())) {
            bail!("--from has no table '{missing}'");
        }
        Ok(Self { accounts, tables })
    }
}

async fn accounts(
    from: &dyn Place,
    to: &dyn Place,
    selection: &Selection,
) -> anyhow::Result<Vec<(AccountName, AccountName)>> {
    let mut accounts = from.accounts().await?;
    if let Some(wanted) = &selection.account {
        ensure!(accounts.contains(wanted), "--from has no account '{wanted}'; it has {}", listed(&accounts));
        accounts.retain(|account| account == wanted);
    }
    let target = match (to.only_account(), &selection.to_account) {
        (Some(only), Some(wanted)) if only != wanted => bail!("--to is the account '{only}', not '{wanted}'"),
        (Some(only), _) => Some(only),
        (None, wanted) => wanted.as_ref(),
    };
    let Some(target) = target else { return Ok(accounts.iter().map(|name| (name.clone(), name.clone())).collect()) };
    ensure!(
        accounts.len() <= 1,
        "--from has several accounts ({}) and --to is one: choose one with --account",
        listed(&accounts)
    );
    Ok(accounts.into_iter().map(|name| (name, target.clone())).collect())
}

fn listed(accounts: &[AccountName]) -> String {
    if accounts.is_empty() {
        return "none".to_owned();
    }
    accounts.iter().map(AccountName::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::endpoints::EnginePlace;
    use model::TableName;
    use model::clock::SystemClock;
    use store::{Engine, Memory};

    pub(in super::super) fn task(account: &str, table: &str) -> Task {
        let key = TableKey { account: AccountName::new(account).unwrap(), name: TableName::new(table).unwrap() };
        Task { from: key.clone(), to: key }
    }

    async fn source() -> EnginePlace<Memory<SystemClock>> {
        let engine = Memory::new(SystemClock);
        for (account, table) in [("apple", "Cars"), ("apple", "LogsA"), ("apple", "logsb"), ("melon", "Cars")] {
            engine.create_table(&task(account, table).from).await.unwrap();
        }
        EnginePlace(engine)
    }

    fn selection(account: Option<&str>, to_account: Option<&str>, tables: &[&str]) -> Selection {
        let tables: Vec<String> = tables.iter().map(|&text| text.to_owned()).collect();
        Selection {
            account: account.and_then(AccountName::new),
            to_account: to_account.and_then(AccountName::new),
            tables: TableSelection::parse(&tables).unwrap(),
        }
    }

    #[tokio::test]
    async fn what_is_chosen_and_what_it_becomes() {
        let (from, to) = (source().await, EnginePlace(Memory::new(SystemClock)));
        for (selection, expected) in [
            (selection(None, None, &[]), "apple/Cars apple/LogsA apple/logsb melon/Cars"),
            (selection(Some("apple"), None, &["LOG*"]), "apple/LogsA apple/logsb"),
            (selection(Some("apple"), Some("pear"), &["cars", "logsb"]), "pear/Cars pear/logsb"),
            (selection(None, None, &["cars"]), "apple/Cars melon/Cars"),
        ] {
            let plan = Plan::make(&from, &to, &selection).await.unwrap();
            let targets: Vec<String> =
                plan.tables.iter().map(|task| format!("{}/{}", task.to.account, task.to.name)).collect();
            assert_eq!(targets.join(" "), expected);
        }
        for (selection, told) in [
            (selection(Some("ghost"), None, &[]), "it has apple, melon"),
            (selection(None, Some("pear"), &[]), "--account"),
            (selection(None, None, &["cars", "trucks"]), "no table 'trucks'"),
        ] {
            let error = Plan::make(&from, &to, &selection).await.unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
