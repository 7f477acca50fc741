//! The state that a backup and the log that continues it lead to.
//!
//! The log is read once. The catalog is kept in memory; the last change of each entity is sorted by table and key, so
//! that it can be merged into the entities of the backup, which are in the same order.

mod sorting;

use super::coverage::{Continuation, Target};
use super::read::each_entity_of_table;
use super::repository::{AccountEntry, BackupManifest, PartName, Repository, TableContent};
use anyhow::{Context, bail, ensure};
use engine::{ChangeEffect, ChangedTransaction, SnapshotTable, TableKey};
use model::{AccountName, DateTime, ServiceProperties, StoredAccessPolicies, TableSettings};
use sorting::{SortedChanges, Sorter};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// A table at the target.
#[derive(Debug, Clone)]
pub(super) struct RestorableTable<'m> {
    pub(super) table: SnapshotTable,
    /// `None` if the table was created after the backup.
    content: Option<&'m TableContent>,
    /// Identifies the table among the sorted changes. A table that was deleted and created again has another number.
    pub(super) number: u32,
}

/// A backup, or the state that the log leads to from it.
pub(super) struct RestorableState<'m> {
    pub(super) accounts: Vec<(AccountName, ServiceProperties)>,
    /// The tables in the order of their numbers.
    pub(super) tables: Vec<RestorableTable<'m>>,
    pub(super) last_stamp: DateTime,
    /// An upper bound of the Timestamps in the backup.
    backup_stamp: DateTime,
    changes: SortedChanges,
}

impl<'m> RestorableState<'m> {
    /// Returns the state of the backup itself.
    pub(super) fn new(manifest: &'m BackupManifest) -> anyhow::Result<Self> {
        let mut tables = Vec::new();
        for (number, content) in (0..).zip(&manifest.tables) {
            tables.push(RestorableTable { table: content.table.decode()?, content: Some(content), number });
        }
        let accounts = manifest.accounts.iter().map(AccountEntry::decode).collect::<anyhow::Result<_>>()?;
        let last_stamp = manifest.last_stamp()?;
        Ok(Self { accounts, tables, last_stamp, backup_stamp: last_stamp, changes: SortedChanges::default() })
    }

    pub(super) fn into_entities(self, repository: &Repository) -> RestorableEntities<'_> {
        RestorableEntities { repository, backup_stamp: self.backup_stamp, changes: self.changes }
    }
}

/// The entities of a state.
pub(super) struct RestorableEntities<'r> {
    repository: &'r Repository,
    backup_stamp: DateTime,
    changes: SortedChanges,
}

impl RestorableEntities<'_> {
    /// Passes the entities of a table to the sink in order, each as its key inside the table and its record. Must be
    /// called for tables in the order of their numbers.
    pub(super) fn each(
        &mut self,
        table: &RestorableTable<'_>,
        mut sink: impl FnMut(&[u8], &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Self { repository, backup_stamp, changes } = self;
        changes.skip_to(table.number)?;
        if let Some(content) = table.content {
            each_entity_of_table(repository, content, *backup_stamp, |key, record| {
                while let Some(change) = changes.next_up_to(table.number, Some(key))? {
                    if let Some(changed) = &change.record {
                        sink(&change.key, changed)?;
                    }
                    if change.key == key {
                        return Ok(());
                    }
                }
                sink(key, record)
            })?;
        }
        while let Some(change) = changes.next_up_to(table.number, None)? {
            if let Some(changed) = &change.record {
                sink(&change.key, changed)?;
            }
        }
        Ok(())
    }
}

/// Replays a log on the state of a backup.
pub(super) struct Replay<'m, F> {
    state: RestorableState<'m>,
    /// The tables by account and folded name.
    tables: BTreeMap<(AccountName, String), RestorableTable<'m>>,
    accounts: BTreeMap<AccountName, ServiceProperties>,
    next_number: u32,
    sorter: Sorter,
    /// Returns whether the entities of a table are needed.
    is_wanted: F,
}

impl<'m, F: Fn(&TableKey) -> bool> Replay<'m, F> {
    /// If the changes need more memory than there is for them, they are sorted in `scratch`.
    pub(super) fn new(manifest: &'m BackupManifest, scratch: PathBuf, is_wanted: F) -> anyhow::Result<Self> {
        let mut state = RestorableState::new(manifest)?;
        let next_number = u32::try_from(state.tables.len())?;
        let tables =
            std::mem::take(&mut state.tables).into_iter().map(|table| (name(&table.table.table), table)).collect();
        let accounts = std::mem::take(&mut state.accounts).into_iter().collect();
        Ok(Self { state, tables, accounts, next_number, sorter: Sorter::new(scratch), is_wanted })
    }

    /// Reads the log up to the target.
    pub(super) fn run(
        mut self,
        repository: &Repository,
        continuation: &Continuation,
        target: Target,
        stop: &AtomicBool,
    ) -> anyhow::Result<RestorableState<'m>> {
        let log = &continuation.log.id;
        let mut next = continuation.log.position;
        // Even if later parts are damaged, earlier states can be restored.
        let is_needed = |part: &&PartName| !part.is_empty() && !target.is_before(&part.range);
        let parts: Vec<_> = continuation.parts.iter().filter(is_needed).collect();
        repository.read_ahead(
            &parts,
            |part| repository.part(log, part),
            |part, content| {
                let before = next.saturating_sub(1);
                let content = content.with_context(|| {
                    format!("the log is intact only up to position {before}; pass --to {before} to restore the state up to there")
                })?;
                repository.each_transaction(log, part, &content, |transaction| {
                    ensure!(!stop.load(Ordering::Relaxed), "stopped");
                    // Parts may overlap.
                    if transaction.position >= next && target.includes(&transaction) {
                        next = transaction.position + 1;
                        let position = transaction.position;
                        self.apply(transaction).with_context(|| format!("transaction {position} of the log"))?;
                    }
                    Ok(())
                })
            },
        )?;
        self.finish()
    }

    fn apply(&mut self, transaction: ChangedTransaction) -> anyhow::Result<()> {
        self.state.last_stamp = self.state.last_stamp.max(transaction.time);
        for change in transaction.changes {
            match change.effect {
                ChangeEffect::Put { table, key, record } => {
                    let Some(known) = self.tables.get(&name(&table)) else {
                        bail!("table {} does not exist", table.name)
                    };
                    if (self.is_wanted)(&table) {
                        self.sorter.push(known.number, key, Some(record.as_bytes().to_vec()))?;
                    }
                }
                ChangeEffect::Delete { table, key, .. } => {
                    // The table may already have been deleted.
                    if let Some(known) = self.tables.get(&name(&table)).filter(|_| (self.is_wanted)(&table)) {
                        self.sorter.push(known.number, key, None)?;
                    }
                }
                ChangeEffect::CreateTable { table, created } => self.create(&table, created)?,
                ChangeEffect::DeleteTable { table } => {
                    ensure!(self.tables.remove(&name(&table)).is_some(), "table {} does not exist", table.name);
                }
                ChangeEffect::SetTable { table, policies, settings } => {
                    let known = self.tables.get_mut(&name(&table));
                    let known = known.with_context(|| format!("table {} does not exist", table.name))?;
                    (known.table.policies, known.table.settings) = (policies, settings);
                }
                ChangeEffect::SetProperties { account, properties } => {
                    self.accounts.insert(account, *properties);
                }
            }
        }
        Ok(())
    }

    fn create(&mut self, key: &TableKey, created: DateTime) -> anyhow::Result<()> {
        let (policies, settings) = (StoredAccessPolicies::default(), TableSettings::default());
        let table = SnapshotTable { table: key.clone(), created, policies, settings };
        let table = RestorableTable { table, content: None, number: self.next_number };
        self.next_number = self.next_number.checked_add(1).context("the log creates too many tables")?;
        ensure!(self.tables.insert(name(key), table).is_none(), "table {} already exists", key.name);
        Ok(())
    }

    fn finish(self) -> anyhow::Result<RestorableState<'m>> {
        let mut tables: Vec<_> = self.tables.into_values().collect();
        tables.sort_unstable_by_key(|table| table.number);
        Ok(RestorableState {
            accounts: self.accounts.into_iter().collect(),
            tables,
            changes: self.sorter.finish()?,
            ..self.state
        })
    }
}

fn name(key: &TableKey) -> (AccountName, String) {
    (key.account.clone(), key.name.folded().to_owned())
}
