//! Reads all backups of a repository, and says what is wrong with them.

use super::chunk;
use super::manifest::{ChunkEntry, Manifest, TableContent};
use super::read::check_entity;
use super::repository::Repository;
use crate::endpoints::Progress;
use anyhow::{Context, ensure};
use model::DateTime;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Verified {
    pub(super) backups: u64,
    /// Different ones.
    pub(super) chunks: u64,
    /// Of their files.
    pub(super) bytes: u64,
    /// The damaged backups, and what is wrong with each.
    pub(super) damaged: BTreeMap<String, Vec<String>>,
}

/// What a chunk holds, as far as others need to know.
#[derive(Debug)]
struct Facts {
    first: Vec<u8>,
    last: Vec<u8>,
    entities: u64,
    latest: DateTime,
}

/// What is known of the chunks that were read: each is read once, however many backups have it.
struct Verification<'a> {
    repository: &'a Repository,
    progress: &'a Progress,
    stop: &'a AtomicBool,
    chunks: HashMap<String, Result<Facts, String>>,
    bytes: u64,
}

/// Reads everything.
pub(super) fn verify(repository: &Repository, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<Verified> {
    let mut verification = Verification { repository, progress, stop, chunks: HashMap::new(), bytes: 0 };
    let mut verified = Verified::default();
    let ids = repository.backups()?;
    let manifests: Vec<_> = ids.iter().map(|id| repository.manifest(id)).collect();
    progress.set_tables(manifests.iter().flatten().map(|manifest| manifest.tables.len()).sum());
    for (id, manifest) in ids.into_iter().zip(manifests) {
        verified.backups += 1;
        let wrong = match manifest {
            Ok(manifest) => verification.backup(&manifest)?,
            Err(error) => vec![format!("{error:#}")],
        };
        if !wrong.is_empty() {
            verified.damaged.insert(id, wrong);
        }
    }
    verified.chunks = verification.chunks.len() as u64;
    verified.bytes = verification.bytes;
    Ok(verified)
}

impl Verification<'_> {
    fn backup(&mut self, manifest: &Manifest) -> anyhow::Result<Vec<String>> {
        let mut wrong = Vec::new();
        let mut note = |result: anyhow::Result<()>| wrong.extend(result.err().map(|error| format!("{error:#}")));
        for account in &manifest.accounts {
            note(account.decode().map(drop));
        }
        note(manifest.instant().map(drop));
        // Without it nothing is later than the backup.
        let last_stamp = manifest.last_stamp();
        let latest = last_stamp.as_ref().map_or(DateTime::MAX, |stamp| *stamp);
        note(last_stamp.map(drop));
        for table in &manifest.tables {
            note(table.table.decode().map(drop));
            self.read_chunks(table)?;
            note(self.table(table, latest).with_context(|| format!("the table {}", table.table)));
            self.progress.add_table();
        }
        Ok(wrong)
    }

    /// Reads those chunks of a table that were not read yet. An error is not damage.
    fn read_chunks(&mut self, table: &TableContent) -> anyhow::Result<()> {
        for entry in &table.chunks {
            if !self.chunks.contains_key(&entry.sha256) {
                ensure!(!self.stop.load(Ordering::Relaxed), "stopped");
                let facts = self.repository.chunk(entry).and_then(|content| facts(&content));
                self.progress.add_entities(entry.entities);
                self.bytes += entry.stored;
                self.chunks.insert(entry.sha256.clone(), facts.map_err(|error| format!("{error:#}")));
            }
        }
        Ok(())
    }

    /// Whether the chunks of a table go together.
    fn table(&self, table: &TableContent, latest: DateTime) -> anyhow::Result<()> {
        let (mut entities, mut bytes) = (0, 0);
        let mut last: Option<&[u8]> = None;
        for entry in &table.chunks {
            let ChunkEntry { sha256, .. } = entry;
            let known = self.chunks.get(sha256).context("a chunk was not read")?;
            let facts = known.as_ref().map_err(|wrong| anyhow::anyhow!("{wrong}"))?;
            ensure!(facts.entities == entry.entities, "the chunk {sha256} has {} entities", facts.entities);
            ensure!(last.is_none_or(|last| last < facts.first.as_slice()), "the chunk {sha256} is not in order");
            ensure!(facts.latest <= latest, "an entity of the chunk {sha256} is later than the whole backup");
            last = Some(&facts.last);
            entities += entry.entities;
            bytes += entry.bytes;
        }
        ensure!(entities == table.entities, "it has {entities} entities instead of {}", table.entities);
        ensure!(bytes == table.bytes, "it has {bytes} bytes instead of {}", table.bytes);
        Ok(())
    }
}

/// Reads all of a chunk.
fn facts(content: &[u8]) -> anyhow::Result<Facts> {
    let mut facts: Option<Facts> = None;
    chunk::each_entity(content, |(key, record)| {
        let stamp = check_entity(key, record).with_context(|| format!("the entity {}", key.escape_ascii()))?;
        let facts = match &mut facts {
            None => facts.insert(Facts { first: key.to_vec(), last: key.to_vec(), entities: 0, latest: stamp }),
            Some(facts) => {
                ensure!(facts.last.as_slice() < key, "its entities are not in order");
                facts.last.clear();
                facts.last.extend_from_slice(key);
                facts
            }
        };
        facts.entities += 1;
        facts.latest = facts.latest.max(stamp);
        Ok(())
    })?;
    facts.context("a chunk has no entities")
}
