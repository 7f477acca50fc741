use super::read::each_entity_of_table;
use super::repository::{BackupManifest, Repository};
use super::selection::RestoreSelection;
use crate::terminal::Progress;
use anyhow::{Context, ensure};
use engine::Restore;
use engine_embedded::RestoredFolder;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(super) struct RestoreSummary {
    pub(super) tables: u64,
    pub(super) entities: u64,
}

/// Setting `stop` cancels the restore with an error. Servers then refuse the folder.
pub(super) fn restore(
    repository: &Repository,
    manifest: &BackupManifest,
    selection: &RestoreSelection,
    folder: &Path,
    progress: &Progress,
    stop: &AtomicBool,
) -> anyhow::Result<RestoreSummary> {
    let wanted = selection.choose(manifest)?;
    let last_stamp = manifest.last_stamp()?;
    progress.set_tables(wanted.len());
    let mut restored = RestoredFolder::begin(folder)?;
    // Service properties are restored only if all tables are restored.
    let accounts = if selection.is_all() { manifest.accounts.as_slice() } else { &[] };
    for entry in accounts {
        let (account, properties) = entry.decode()?;
        restored.properties(&account, &properties)?;
    }
    for table in &wanted {
        restored.table(&table.target)?;
        let mut count = 0;
        each_entity_of_table(repository, table.content, last_stamp, |key, record| {
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
