//! Reading a backup: which one, which of its tables, and their entities, all of it checked.

use super::chunk;
use super::manifest::{Manifest, TableContent, name_of_time};
use super::repository::Repository;
use anyhow::{Context, ensure};
use model::{DateTime, EntityView, KeyText, RecordView};
use std::sync::mpsc::sync_channel;
use std::thread;

/// How many chunks are read ahead.
const CHUNKS_AHEAD: usize = 4;

/// Which backup of a repository is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    Latest,
    Named(String),
    /// The newest that is not after this instant.
    At(DateTime),
}

impl Choice {
    /// The backup, and its name.
    pub(super) fn find(&self, repository: &Repository) -> anyhow::Result<(String, Manifest)> {
        let ids = repository.backups()?;
        match self {
            Self::Named(id) => Ok((id.clone(), repository.manifest(id)?)),
            Self::Latest => {
                let id = ids.last().context("there is no backup yet")?;
                Ok((id.clone(), repository.manifest(id)?))
            }
            Self::At(instant) => {
                // The names tell the times, so that damage of a later backup is no hindrance.
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

/// Reads a table, and gives its entities to the sink in order: key bytes inside the table, record bytes.
///
/// Everything is checked before it is given: hashes, counts, the order of keys, each key, each record.
pub(super) fn each_entity(
    repository: &Repository,
    table: &TableContent,
    last_stamp: DateTime,
    mut sink: impl FnMut(&[u8], &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut count = 0;
    let mut last_key: Option<Vec<u8>> = None;
    each_chunk(repository, table, |entry, content| {
        let before = count;
        chunk::each_entity(content, |(key, record)| {
            ensure!(last_key.as_deref().is_none_or(|last| last < key), "its entities are not in order");
            last_key.get_or_insert_default().clear();
            last_key.get_or_insert_default().extend_from_slice(key);
            let stamp = check_entity(key, record).with_context(|| format!("the entity {}", key.escape_ascii()))?;
            ensure!(stamp <= last_stamp, "the entity {} is later than the whole backup", key.escape_ascii());
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
    mut sink: impl FnMut(&super::manifest::ChunkEntry, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (ahead, chunks) = sync_channel(CHUNKS_AHEAD);
    thread::scope(|scope| {
        scope.spawn(move || {
            for entry in &table.chunks {
                if ahead.send((entry, repository.chunk(entry))).is_err() {
                    // Nobody wants more.
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

/// Reads all of an entity; answers its Timestamp.
pub(super) fn check_entity(key: &[u8], record: &[u8]) -> anyhow::Result<DateTime> {
    let entity = EntityView::new(key, record).map_err(|_| anyhow::anyhow!("its key or its record cannot be read"))?;
    let is_key = |text: &str| KeyText::new(text).is_ok();
    ensure!(is_key(&entity.key.partition) && is_key(&entity.key.row), "its key is not one that an entity can have");
    let record: RecordView<'_> = entity.record;
    record.check().context("its record")?;
    Ok(record.timestamp())
}
