use super::coverage::{Continuation, Target};
use super::replay::{Replay, RestorableState};
use super::repository::{BackupManifest, Repository};
use super::selection::{RestoreSelection, RestoredTable};
use crate::terminal::Progress;
use anyhow::{Context, ensure};
use engine::{Restore, TableKey};
use engine_embedded::RestoredFolder;
use model::clock::SystemClock;
use model::{Clock, Expiry, RecordView, Visibility};
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
