use super::coverage::{Continuation, Target};
use super::replay::{Replay, RestorableState};
use super::repository::{BackupManifest, Repository};
use super::selection::{RestoreSelection, RestoredTable};
use crate::terminal::Progress;
use anyhow::{Context, ensure};
use engine::Restore;
use engine_embedded::RestoredFolder;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(super) struct RestoreSummary {
    pub(super) tables: u64,
    pub(super) entities: u64,
}

/// What is restored.
pub(super) struct RestoreSource {
    pub(super) repository: Repository,
    pub(super) manifest: BackupManifest,
    /// The log to replay on the backup, and how far.
    pub(super) log: Option<(Continuation, Target)>,
    /// The folder in which a temporary folder is created if changes do not fit in memory.
    pub(super) scratch: PathBuf,
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

/// Restores the selected tables under their own names. Also returns them.
pub(super) fn restore_unnamed<'s>(
    source: &'s RestoreSource,
    selection: &RestoreSelection,
    folder: &Path,
    progress: &Progress,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<RestoredTable<'s>>> {
    let state = source.state(selection, stop)?;
    let wanted = selection.choose(&state.tables)?;
    let own_name = |table: &RestoredTable<'s>| RestoredTable { target: table.source.table.clone(), ..table.clone() };
    let mut unnamed: Vec<_> = wanted.iter().map(own_name).collect();
    unnamed.sort_unstable_by_key(|table| table.source.number);
    unnamed.dedup_by_key(|table| table.source.number);
    write(source, state, unnamed, false, folder, progress, stop)?;
    Ok(wanted)
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
    let mut entities = state.into_entities(&source.repository);
    for table in &wanted {
        restored.table(&table.target)?;
        let mut count = 0;
        entities.each(&table.source, |key, record| {
            ensure!(!stop.load(Ordering::Relaxed), "stopped");
            restored.entity(key, record)?;
            count += 1;
            if count % 256 == 0 {
                progress.add_entities(256);
            }
            Ok(())
        })?;
        progress.add_entities(count % 256);
        progress.add_table();
    }
    restored.finish(last_stamp).context("completing the folder")?;
    let (tables, entities) = progress.done();
    Ok(RestoreSummary { tables, entities })
}
