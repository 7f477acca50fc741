//! Fills a new data folder with a backup.

use super::manifest::Manifest;
use super::read::each_entity;
use super::repository::Repository;
use super::tables::RestoreSelection;
use crate::endpoints::Progress;
use anyhow::{Context, ensure};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Restore, RestoredFolder};

/// What was restored.
#[derive(Debug)]
pub(super) struct Restored {
    pub(super) tables: u64,
    pub(super) entities: u64,
}

/// Restores into a folder. `stop` ends it early, with an error; the folder is then refused by servers.
pub(super) fn restore(
    repository: &Repository,
    manifest: &Manifest,
    selection: &RestoreSelection,
    folder: &Path,
    progress: &Progress,
    stop: &AtomicBool,
) -> anyhow::Result<Restored> {
    let wanted = selection.choose(manifest)?;
    let last_stamp = manifest.last_stamp()?;
    progress.set_tables(wanted.len());
    let mut restored = RestoredFolder::begin(folder)?;
    // Those who want some tables want nothing else.
    let accounts = if selection.is_all() { manifest.accounts.as_slice() } else { &[] };
    for entry in accounts {
        let (account, properties) = entry.decode()?;
        restored.properties(&account, &properties)?;
    }
    for table in &wanted {
        restored.table(&table.target)?;
        let mut count = 0;
        each_entity(repository, table.content, last_stamp, |key, record| {
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
    Ok(Restored { tables, entities })
}
