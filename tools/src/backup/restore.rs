use crate::backup::coverage::{Continuation, Target};
use crate::backup::replay::{Replay, RestorableState, RestorableTable};
use crate::backup::repository::{BackupManifest, Repository};
use crate::option_values::{parse_account, parse_table};
use crate::terminal::Progress;
use anyhow::{Context, bail, ensure};
use engine::{Restore, SnapshotTable, TableKey};
use engine_embedded::RestoredFolder;
use model::clock::SystemClock;
use model::{AccountName, Clock, Expiry, RecordView, TableName, Visibility};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(super) struct RestoreSummary {
    pub(super) tables: u64,
    pub(super) entities: u64,
    /// The number of expired entities of each table that has any. They do not exist for clients.
    pub(super) expired: Vec<(TableKey, u64)>,
}

/// What is restored.
pub(super) struct RestoreSource {
    pub(super) repository: Repository,
    pub(super) manifest: BackupManifest,
    /// The log to replay on the backup, and how far.
    pub(super) log: Option<(Continuation, Target)>,
    /// The folder in which a temporary folder is created if changes do not fit in memory.
    pub(super) scratch: PathBuf,
    /// The tables get no retention.
    pub(super) without_retention: bool,
}

impl RestoreSource {
    /// Reads the log. Of the changes of entities, only those of tables that are selected are kept.
    fn state(&self, selection: &RestoreSelection, stop: &AtomicBool) -> anyhow::Result<RestorableState<'_>> {
        match &self.log {
            None => RestorableState::new(&self.manifest),
            Some((continuation, target)) => {
                let replay = Replay::new(&self.manifest, self.scratch.clone(), |table| selection.wants(table))?;
                replay.run(&self.repository, continuation, *target, stop)
            }
        }
    }
}

/// Setting `stop` cancels the restore with an error. Servers then refuse the folder.
pub(super) fn restore(
    source: &RestoreSource,
    selection: &RestoreSelection,
    folder: &Path,
    progress: &Progress,
    stop: &AtomicBool,
) -> anyhow::Result<RestoreSummary> {
    let state = source.state(selection, stop)?;
    let wanted = selection.choose(&state.tables)?;
    write(source, state, wanted, selection.is_all(), folder, progress, stop)
}

/// Restores the selected tables under their own names. Returns them with the new names.
pub(super) fn restore_unnamed<'s>(
    source: &'s RestoreSource,
    selection: &RestoreSelection,
    folder: &Path,
    progress: &Progress,
    stop: &AtomicBool,
) -> anyhow::Result<(Vec<RestoredTable<'s>>, RestoreSummary)> {
    let state = source.state(selection, stop)?;
    let wanted = selection.choose(&state.tables)?;
    let own_name = |table: &RestoredTable<'s>| RestoredTable { target: table.source.table.clone(), ..table.clone() };
    let mut unnamed: Vec<_> = wanted.iter().map(own_name).collect();
    unnamed.sort_unstable_by_key(|table| table.source.number);
    unnamed.dedup_by_key(|table| table.source.number);
    let summary = write(source, state, unnamed, false, folder, progress, stop)?;
    Ok((wanted, summary))
}

fn write(
    source: &RestoreSource,
    state: RestorableState<'_>,
    mut wanted: Vec<RestoredTable<'_>>,
    with_properties: bool,
    folder: &Path,
    progress: &Progress,
    stop: &AtomicBool,
) -> anyhow::Result<RestoreSummary> {
    progress.set_tables(wanted.len());
    progress.expect_entities(wanted.iter().map(|table| table.source.entities()).sum());
    // The changes are in this order.
    wanted.sort_unstable_by_key(|table| table.source.number);
    let mut restored = RestoredFolder::begin(folder)?;
    // Service properties are restored only if all tables are restored.
    for (account, properties) in state.accounts.iter().filter(|_| with_properties) {
        restored.properties(account, properties)?;
    }
    let last_stamp = state.last_stamp;
    let now = SystemClock.now();
    let mut expired = Vec::new();
    let mut entities = state.into_entities(&source.repository);
    for table in &mut wanted {
        let settings = &mut table.target.settings;
        settings.retention = settings.retention.take().filter(|_| !source.without_retention);
        let expiry = Expiry::new(settings.retention.as_ref(), Visibility::Live, now);
        restored.table(&table.target)?;
        let (mut count, mut expired_count) = (0, 0);
        entities.each(&table.source, |key, record| {
            ensure!(!stop.load(Ordering::Relaxed), "stopped");
            restored.entity(key, record)?;
            let is_expired = expiry.may_hide() && RecordView::new(record).is_ok_and(|record| !expiry.sees(record));
            expired_count += u64::from(is_expired);
            count += 1;
            if count % 256 == 0 {
                progress.add_entities(256);
            }
            Ok(())
        })?;
        progress.add_entities(count % 256);
        progress.add_table();
        if expired_count > 0 {
            expired.push((table.target.table.clone(), expired_count));
        }
    }
    restored.finish(last_stamp).context("completing the folder")?;
    let (tables, entities) = progress.done();
    Ok(RestoreSummary { tables, entities, expired })
}

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
