//! Finds a backup in a repository, and reads the entities of a table. Everything is verified as it is read.

use super::coverage::{CoveringBackup, time_in_name};
use super::repository::{Repository, TableContent, check_entity, describe, each_entity, name_of_time};
use anyhow::{Context, ensure};
use model::DateTime;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BackupChoice {
    Latest,
    Named(String),
    At(DateTime),
}

impl BackupChoice {
    pub(super) fn find(&self, repository: &Repository) -> anyhow::Result<CoveringBackup> {
        let ids = repository.backups()?;
        let id = match self {
            Self::Named(id) => id,
            Self::Latest => ids.last().context("the repository has no backup yet")?,
            Self::At(instant) => {
                // The names contain the times, so later backups are not read, even if they are damaged.
                let last = name_of_time(*instant);
                let id = ids.iter().rev().find(|id| time_in_name(id) <= last.as_str());
                id.with_context(|| {
                    format!(
                        "there is no backup from {instant} or earlier; rowhouse backup --list shows the existing ones"
                    )
                })?
            }
        };
        Ok(CoveringBackup { id: id.clone(), manifest: repository.manifest(id)?, log: None })
    }
}

/// Passes the entities of a table to the sink in order, each as its key inside the table and its record.
///
/// The hashes, the key order, each key and each record are checked before the sink sees an entity; the counts are
/// checked afterwards.
pub(super) fn each_entity_of_table(
    repository: &Repository,
    table: &TableContent,
    last_stamp: DateTime,
    mut sink: impl FnMut(&[u8], &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut count = 0;
    let mut last_key: Option<Vec<u8>> = None;
    let chunks: Vec<_> = table.chunks.iter().enumerate().collect();
    repository
        .read_ahead(
            &chunks,
            |(index, _)| repository.chunk(table, *index),
            |(_, entry), content| {
                let content = content?;
                let before = count;
                each_entity(&content, |entity| {
                    let (key, record) = entity;
                    ensure!(last_key.as_deref().is_none_or(|last| last < key), "its entities are out of order");
                    last_key.get_or_insert_default().clear();
                    last_key.get_or_insert_default().extend_from_slice(key);
                    let stamp = check_entity(entity).with_context(|| describe(entity))?;
                    ensure!(stamp <= last_stamp, "{} has a later Timestamp than the backup", describe(entity));
                    count += 1;
                    sink(key, record)
                })
                .with_context(|| format!("chunk {}", entry.file.sha256))?;
                ensure!(
                    count - before == entry.entities,
                    "chunk {} contains a different number of entities than the manifest",
                    entry.file.sha256
                );
                Ok(())
            },
        )
        .with_context(|| format!("table {}", table.table))?;
    ensure!(count == table.entities, "table {} has {count} entities instead of {}", table.table, table.entities);
    Ok(())
}
