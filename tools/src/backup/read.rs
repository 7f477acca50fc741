//! Finds a backup in a repository, and reads the entities of a table; all that is read is checked.

use super::repository::{
    BackupManifest, ChunkEntry, Repository, TableContent, check_entity, describe, each_entity, name_of_time,
};
use anyhow::{Context, ensure};
use model::DateTime;
use std::sync::mpsc::sync_channel;
use std::thread;

/// How many chunks are read ahead.
const CHUNKS_AHEAD_MAX: usize = 4;

/// The wanted backup of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BackupChoice {
    Latest,
    Named(String),
    /// The newest that is not after this instant.
    At(DateTime),
}

impl BackupChoice {
    /// The name and the manifest of the backup.
    pub(super) fn find(&self, repository: &Repository) -> anyhow::Result<(String, BackupManifest)> {
        let ids = repository.backups()?;
        match self {
            Self::Named(id) => Ok((id.clone(), repository.manifest(id)?)),
            Self::Latest => {
                let id = ids.last().context("the repository has no backup yet")?;
                Ok((id.clone(), repository.manifest(id)?))
            }
            Self::At(instant) => {
                // The names have the times, so that later backups need not be read and may be damaged.
                let last = name_of_time(*instant);
                let id = ids.iter().rev().find(|id| id.split('-').next().is_some_and(|time| time <= last.as_str()));
                let id = id.with_context(|| {
                    format!(
                        "there is no backup from {instant} or before; rowhouse backup --list shows those that there are"
                    )
                })?;
                Ok((id.clone(), repository.manifest(id)?))
            }
        }
    }
}

/// Reads a table, and passes its entities to the sink in order: key inside the table, record.
///
/// Hashes, the order of keys, each key and each record are checked before the sink sees an entity, counts afterwards.
pub(super) fn each_entity_of_table(
    repository: &Repository,
    table: &TableContent,
    last_stamp: DateTime,
    mut sink: impl FnMut(&[u8], &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut count = 0;
    let mut last_key: Option<Vec<u8>> = None;
    each_chunk(repository, table, |entry, content| {
        let before = count;
        each_entity(content, |entity| {
            let (key, record) = entity;
            ensure!(last_key.as_deref().is_none_or(|last| last < key), "its entities are not in order");
            last_key.get_or_insert_default().clear();
            last_key.get_or_insert_default().extend_from_slice(key);
            let stamp = check_entity(entity).with_context(|| describe(entity))?;
            ensure!(stamp <= last_stamp, "{} is later than the whole backup", describe(entity));
            count += 1;
            sink(key, record)
        })
        .with_context(|| format!("the chunk {}", entry.sha256))?;
        ensure!(count - before == entry.entities, "the chunk {} has another number of entities", entry.sha256);
        Ok(())
    })
    .with_context(|| format!("the table {}", table.table))?;
    ensure!(count == table.entities, "the table {} has {count} entities instead of {}", table.table, table.entities);
    Ok(())
}

/// Reads the chunks of a table in order, some of them ahead.
fn each_chunk(
    repository: &Repository,
    table: &TableContent,
    mut sink: impl FnMut(&ChunkEntry, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (ahead, chunks) = sync_channel(CHUNKS_AHEAD_MAX);
    thread::scope(|scope| {
        scope.spawn(move || {
            for entry in &table.chunks {
                if ahead.send((entry, repository.chunk(entry))).is_err() {
                    // The receiver ended with an error.
                    return;
                }
            }
        });
        for (entry, content) in chunks {
            sink(entry, &content?)?;
        }
        Ok(())
    })
}
