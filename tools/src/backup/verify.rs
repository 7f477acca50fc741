use super::args::RepositoryAddress;
use super::coverage::ListedParts;
use super::repository::{
    BackupManifest, PartName, PartRange, Repository, TableContent, check_entity, describe, each_entity,
};
use crate::runtime::run_blocking;
use crate::terminal::{HumanCount, Progress, counted, print, print_line};
use anyhow::{Context, anyhow, ensure};
use model::DateTime;
use object_storage::StorageError;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of a verification; `--json` prints it.
#[derive(Debug, Default, Serialize)]
struct VerificationReport {
    backups: u64,
    chunks: u64,
    /// The parts of logs.
    parts: u64,
    bytes: u64,
    damaged: BTreeMap<String, Vec<String>>,
    /// The logs with problems.
    damaged_logs: BTreeMap<String, Vec<String>>,
}

#[derive(Debug)]
struct ChunkSummary {
    first: Vec<u8>,
    last: Vec<u8>,
    entities: u64,
    latest: DateTime,
}

/// Each chunk is verified once, however many backups share it.
struct Verification<'a> {
    repository: &'a Repository,
    progress: &'a Progress,
    stop: &'a AtomicBool,
    /// By [`TableContent::identity`].
    chunks: HashMap<String, Result<ChunkSummary, String>>,
}

/// Prints the problems. Returns true if there are no problems.
pub(crate) fn verify(address: &RepositoryAddress, is_quiet: bool, as_json: bool) -> anyhow::Result<bool> {
    let repository = Repository::open(address)?;
    let report = run_blocking("verifying", is_quiet, move |progress, stop| read_all(&repository, progress, stop))?;
    // Without a backup, nothing can be restored.
    let is_intact = report.backups > 0 && report.damaged.is_empty() && report.damaged_logs.is_empty();
    if as_json {
        print(&format_args!("{}\n", serde_json::to_string(&report).context("writing JSON")?))?;
        return Ok(is_intact);
    }
    if report.backups == 0 {
        let what = "the repository contains no backup: none was completed, or the manifests were removed from its folder backups";
        print_line(what)?;
    }
    for (id, problems) in &report.damaged {
        problems.iter().try_for_each(|problem| print_line(format_args!("backup {id}: {problem}")))?;
    }
    for (id, problems) in &report.damaged_logs {
        problems.iter().try_for_each(|problem| print_line(format_args!("log {id}: {problem}")))?;
    }
    if !is_quiet {
        let backups = counted(report.backups, "backup", "backups");
        let chunks = counted(report.chunks, "chunk", "chunks");
        let (bytes, ruined) = (HumanCount(report.bytes), damaged(report.damaged.len(), "backup", "backups"));
        print_line(format_args!("{backups}, {chunks} of {bytes} bytes; {ruined}"))?;
        if report.parts > 0 {
            let parts = counted(report.parts, "part", "parts");
            print_line(format_args!("{parts} of the log; {}", damaged(report.damaged_logs.len(), "log", "logs")))?;
        }
    }
    Ok(is_intact)
}

fn damaged(count: usize, one: &str, several: &str) -> String {
    format!("{} {} damaged", counted(count as u64, one, several), if count == 1 { "is" } else { "are" })
}

fn read_all(repository: &Repository, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<VerificationReport> {
    let mut verification = Verification { repository, progress, stop, chunks: HashMap::new() };
    let mut report = VerificationReport::default();
    // Listed before the backups: a part that is listed continues a backup that is listed.
    let parts = ListedParts::list(repository)?;
    let ids = repository.backups()?;
    let manifests: Vec<_> = ids.iter().map(|id| damage(repository.manifest(id))).collect::<anyhow::Result<_>>()?;
    progress.set_tables(manifests.iter().flatten().map(|manifest| manifest.tables.len()).sum());
    for (id, parts) in parts.iter() {
        report.parts += parts.len() as u64;
        let backups = manifests.iter().flatten().filter_map(|manifest| manifest.log.as_ref());
        let backups = backups.filter(|log| log.id == id).map(|log| log.position).collect();
        let problems = log_problems(repository, id, parts, backups, stop)?;
        if !problems.is_empty() {
            report.damaged_logs.insert(id.to_owned(), problems);
        }
    }
    let files: HashMap<_, _> = manifests
        .iter()
        .flatten()
        .flat_map(BackupManifest::files)
        .map(|file| (file.sha256.clone(), file.stored))
        .collect();
    let chunks = manifests.iter().flatten().flat_map(|manifest| &manifest.tables);
    let chunks = chunks.flat_map(|table| table.chunks.iter().map(|entry| (table.identity(entry), entry.entities)));
    progress.expect_entities(chunks.collect::<HashMap<_, _>>().into_values().sum());
    for (id, manifest) in ids.iter().zip(manifests) {
        report.backups += 1;
        let problems = match manifest {
            Ok(manifest) => verification.backup(&manifest)?,
            Err(damage) => vec![damage],
        };
        if !problems.is_empty() {
            report.damaged.insert(id.clone(), problems);
        }
    }
    report.chunks = files.len() as u64;
    report.bytes = files.values().sum();
    if !report.damaged.is_empty() || !report.damaged_logs.is_empty() {
        // Commands that read object storage take no lock.
        let remaining = repository.backups()?;
        ensure!(
            ids.iter().all(|id| remaining.contains(id)),
            "another process removed old backups during the verification; run it again"
        );
    }
    Ok(report)
}

/// `backups` are the positions at which the log continues backups. An error means that the command was stopped.
fn log_problems(
    repository: &Repository,
    id: &str,
    parts: &[PartName],
    mut backups: Vec<u64>,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    backups.sort_unstable();
    let mut backups = backups.into_iter().peekable();
    // The position to which the log leads without a gap.
    let mut reached = None;
    for part in parts {
        let PartRange { first, next, .. } = part.range;
        while let Some(position) = backups.next_if(|position| *position <= first) {
            reached = reached.max(Some(position));
        }
        if let Some(position) = reached.filter(|position| *position < first) {
            problems.push(format!("the parts from position {position} to {first} are missing"));
        }
        // Without a backup in it or before it, the part is not needed and is removed with the next old backup.
        while backups.next_if(|position| *position <= next).is_some() || reached.is_some_and(|position| position < next)
        {
            reached = Some(next);
        }
    }
    let read = |part: &PartName| {
        let content = repository.part(id, part)?;
        repository.each_transaction(id, part, &content, |_| Ok(()))
    };
    repository.read_ahead(parts, read, |_, result| {
        ensure!(!stop.load(Ordering::Relaxed), "stopped");
        problems.extend(damage(result)?.err());
        Ok(())
    })?;
    Ok(problems)
}

/// Returns damage as the inner error. The outer error means that the repository could not be read.
fn damage<T>(result: anyhow::Result<T>) -> anyhow::Result<Result<T, String>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => {
            let mut failures = error.chain().filter_map(|cause| cause.downcast_ref());
            match failures.find(|failure| !matches!(failure, StorageError::TooLarge(_))) {
                Some(_) => Err(error),
                None => Ok(Err(format!("{error:#}"))),
            }
        }
    }
}

impl Verification<'_> {
    fn backup(&mut self, manifest: &BackupManifest) -> anyhow::Result<Vec<String>> {
        let mut problems = Vec::new();
        let mut record = |result: anyhow::Result<()>| problems.extend(result.err().map(|error| format!("{error:#}")));
        for account in &manifest.accounts {
            record(account.decode().map(drop));
        }
        record(manifest.instant().map(drop));
        // If this Timestamp is invalid, no entity counts as too late.
        let last_stamp = manifest.last_stamp();
        let latest = last_stamp.as_ref().map_or(DateTime::MAX, |stamp| *stamp);
        record(last_stamp.map(drop));
        for table in &manifest.tables {
            record(table.table.decode().map(drop));
            self.read_chunks(table)?;
            record(self.table(table, latest).with_context(|| format!("table {}", table.table)));
            self.progress.add_table();
        }
        Ok(problems)
    }

    /// Reads only chunks that have not been read yet. Damage is recorded. An error means that the command was stopped.
    fn read_chunks(&mut self, table: &TableContent) -> anyhow::Result<()> {
        let mut names = HashSet::new();
        let mut new: Vec<_> = table.chunks.iter().map(|entry| table.identity(entry)).enumerate().collect();
        new.retain(|(_, name)| !self.chunks.contains_key(name) && names.insert(name.clone()));
        let read =
            |(index, _): &(usize, String)| self.repository.chunk(table, *index).and_then(|content| summarize(&content));
        let Self { repository, progress, stop, chunks } = self;
        repository.read_ahead(&new, read, |(_, name), summary| {
            ensure!(!stop.load(Ordering::Relaxed), "stopped");
            progress.add_entities(summary.as_ref().map_or(0, |summary| summary.entities));
            chunks.insert(name.clone(), damage(summary)?);
            Ok(())
        })
    }

    /// Compares the chunks of a table with each other and with the manifest. The totals of the manifest have already
    /// been checked.
    fn table(&self, table: &TableContent, latest: DateTime) -> anyhow::Result<()> {
        let mut last: Option<&[u8]> = None;
        for entry in &table.chunks {
            let sha256 = &entry.file.sha256;
            let known = self.chunks.get(&table.identity(entry)).context("a chunk has not been read")?;
            let chunk = known.as_ref().map_err(|damage| anyhow!("{damage}"))?;
            ensure!(
                chunk.entities == entry.entities,
                "chunk {sha256} contains {} entities, but the manifest lists {}",
                chunk.entities,
                entry.entities
            );
            ensure!(last.is_none_or(|last| last < chunk.first.as_slice()), "chunk {sha256} is out of order");
            ensure!(chunk.latest <= latest, "an entity in chunk {sha256} has a later Timestamp than the backup");
            last = Some(&chunk.last);
        }
        Ok(())
    }
}

fn summarize(content: &[u8]) -> anyhow::Result<ChunkSummary> {
    let mut summary: Option<ChunkSummary> = None;
    each_entity(content, |entity| {
        let (key, _) = entity;
        let stamp = check_entity(entity).with_context(|| describe(entity))?;
        let summary = match &mut summary {
            None => {
                summary.insert(ChunkSummary { first: key.to_vec(), last: key.to_vec(), entities: 0, latest: stamp })
            }
            Some(summary) => {
                ensure!(summary.last.as_slice() < key, "its entities are out of order");
                summary.last.clear();
                summary.last.extend_from_slice(key);
                summary
            }
        };
        summary.entities += 1;
        summary.latest = summary.latest.max(stamp);
        Ok(())
    })?;
    summary.context("a chunk has no entities")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_that_cannot_be_read_is_not_damaged() {
        let failed = |error: StorageError| damage::<()>(Err(anyhow::Error::new(error).context("reading chunk x")));
        let error = failed(StorageError::Unreachable("no answer".to_owned())).unwrap_err();
        assert_eq!(format!("{error:#}"), "reading chunk x: no answer");
        assert!(failed(StorageError::TooLarge(9)).unwrap().unwrap_err().contains("larger than 9 bytes"));
        assert_eq!(damage::<()>(Err(anyhow!("its hash is wrong"))).unwrap(), Err("its hash is wrong".to_owned()));
    }
}
