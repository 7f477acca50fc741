//! Memory is bounded: each range that is being read has one page and its encoded text in memory.

use crate::endpoints::{Query, Source, split};
use crate::export::assemble::{TableFile, assemble, part_path};
use crate::export::state::{ExportState, TablePart};
use crate::export::target::ExportTarget;
use crate::file::remove_file;
use crate::formats::{CsvSpool, ExportedRetention, ExportedTable, FileFormat, encode_policies, write_line};
use crate::runtime::{TASK_FAILED, for_each_table, next_result};
use crate::terminal::{Progress, is_broken_pipe};
use anyhow::{Context, anyhow, ensure};
use client::PropertyBag;
use engine::TableKey;
use model::TableSettings;
use model::limits::PAGE_RESULTS_MAX;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, block_in_place, spawn_blocking};

/// The minimum interval between two writes of a part's progress, each of which syncs the part's file.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// The weight of a table in the progress. All ranges of a table have the same weight, because their sizes are unknown.
pub(super) const TABLE_WORK: u64 = 10_000;

pub(super) struct FileExport {
    pub(super) source: Arc<dyn Source>,
    pub(super) target: ExportTarget,
    pub(super) format: FileFormat,
    pub(super) query: Query,
    pub(super) with_timestamps: bool,
    pub(super) with_policies: bool,
    pub(super) state: ExportState,
    pub(super) progress: Arc<Progress>,
    pub(super) readers: Arc<Semaphore>,
    pub(super) parallel: usize,
}

impl FileExport {
    pub(super) async fn run(self: Arc<Self>, tables: &[TableKey]) -> anyhow::Result<()> {
        for_each_table(tables, |table| &table.name, |table| Arc::clone(&self).export(table)).await
    }

    /// Completes a file that an earlier run began.
    async fn export(self: Arc<Self>, table: TableKey) -> anyhow::Result<()> {
        let name = &table.name;
        let file = self.target.file(name, self.format);
        let known = self.state.table(name.as_str()).unwrap_or_default();
        let mut work_left = TABLE_WORK;
        if known.done.is_none() {
            let mut parts = known.parts;
            if parts.is_empty() {
                let filter = self.query.filter.as_deref();
                let ranges = split(Arc::clone(&self.source), table.clone(), filter, self.parallel).await?;
                parts = ranges.into_iter().map(TablePart::new).collect();
                self.state.begin(name, parts.clone())?;
            }
            let count = parts.len();
            let part_work = TABLE_WORK / (count as u64 + 1);
            work_left -= part_work * count as u64;
            let entities = self.read_parts(&table, &file, parts, part_work).await?;
            let policies = if self.with_policies { Some(self.source.policies(&table).await?) } else { None };
            let settings = if self.with_policies { self.source.settings(&table).await? } else { None };
            let TableSettings { retention, indexes } = settings.unwrap_or_default();
            let (format, with_timestamps, path) = (self.format, self.with_timestamps, file.clone());
            let assembled = spawn_blocking(move || assemble(&path, count, format, with_timestamps));
            let TableFile { bytes, sha256 } = assembled.await.context(TASK_FAILED)??;
            let exported = ExportedTable {
                name: name.to_string(),
                file: file.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default(),
                entities,
                bytes,
                sha256,
                policies: policies.as_ref().map(encode_policies),
                retention: retention.as_ref().map(ExportedRetention::new),
                indexes: indexes.iter().map(|property| property.as_str().to_owned()).collect(),
            };
            self.state.complete(name, exported)?;
        }
        // An earlier run may have been interrupted after it recorded the progress above. Remove the last part first: if
        // this run is killed, the remaining parts still begin with number 0, where the next run looks for them.
        let mut left = 0;
        while part_path(&file, left).exists() {
            left += 1;
        }
        for number in (0..left).rev() {
            remove_file(&part_path(&file, number))?;
        }
        self.progress.add_work(work_left);
        self.progress.add_table();
        Ok(())
    }

    /// Returns the number of entities in the parts.
    async fn read_parts(
        self: &Arc<Self>,
        table: &TableKey,
        file: &Path,
        parts: Vec<TablePart>,
        part_work: u64,
    ) -> anyhow::Result<u64> {
        let mut running = JoinSet::new();
        for (number, part) in parts.into_iter().enumerate() {
            let (this, table, path) = (Arc::clone(self), table.clone(), part_path(file, number));
            running.spawn(async move { this.read_part(&table, number, part, path).await });
        }
        let mut entities = 0;
        while let Some(count) = next_result(&mut running).await? {
            entities += count;
            self.progress.add_work(part_work);
        }
        Ok(entities)
    }

    async fn read_part(
        &self,
        table: &TableKey,
        number: usize,
        mut part: TablePart,
        path: PathBuf,
    ) -> anyhow::Result<u64> {
        let _permit = self.readers.acquire().await?;
        let mut file = block_in_place(|| continue_file(&path, part.bytes))?;
        let query =
            Query { filter: part.range.filter(self.query.filter.as_deref()), select: self.query.select.clone() };
        let mut saved = Instant::now();
        let mut text = Vec::new();
        while !part.is_done {
            let page = self.source.page(table, &query, part.next().as_ref(), PAGE_RESULTS_MAX).await?;
            block_in_place(|| {
                text.clear();
                write_lines(&mut text, &page.entities, self.with_timestamps)?;
                file.write_all(&text).with_context(|| format!("writing {}", path.display()))?;
                let entities = page.entities.len() as u64;
                part.advance(text.len() as u64, entities, page.next);
                self.progress.add_entities(entities);
                if part.is_done || saved.elapsed() >= SAVE_INTERVAL {
                    file.sync_data().with_context(|| format!("writing {}", path.display()))?;
                    self.state.advance(&table.name, number, &part)?;
                    saved = Instant::now();
                }
                anyhow::Ok(())
            })?;
        }
        Ok(part.entities)
    }
}

pub(super) fn write_lines(out: &mut Vec<u8>, entities: &[PropertyBag], with_timestamps: bool) -> anyhow::Result<()> {
    for entity in entities {
        write_line(out, entity, with_timestamps).map_err(|_| anyhow!("an entity is damaged"))?;
        out.push(b'\n');
    }
    Ok(())
}

/// Truncates data that was written after the state was last recorded.
fn continue_file(path: &Path, bytes: u64) -> anyhow::Result<File> {
    let what = || format!("writing {}", path.display());
    let mut file = File::options().create(true).append(true).open(path).with_context(what)?;
    let length = file.metadata().with_context(what)?.len();
    ensure!(
        length >= bytes,
        "{} is shorter than recorded in the state file: delete the state file to start over",
        path.display()
    );
    file.set_len(bytes).and_then(|()| file.flush()).with_context(what)?;
    Ok(file)
}

/// Writes JSON Lines page by page, but CSV only once all entities have been read.
pub(super) async fn stream(
    source: &dyn Source,
    table: &TableKey,
    query: &Query,
    format: FileFormat,
    with_timestamps: bool,
) -> anyhow::Result<()> {
    let mut spool = match format {
        FileFormat::Jsonl => None,
        FileFormat::Csv => Some(CsvSpool::new(with_timestamps)?),
    };
    let mut next = None;
    let mut text = Vec::new();
    loop {
        let page = source.page(table, query, next.as_ref(), PAGE_RESULTS_MAX).await?;
        let has_reader = block_in_place(|| {
            if let Some(spool) = &mut spool {
                return spool.push(&page.entities).map(|()| true);
            }
            text.clear();
            write_lines(&mut text, &page.entities, with_timestamps)?;
            let mut out = std::io::stdout().lock();
            has_reader(out.write_all(&text).and_then(|()| out.flush()).context("writing to standard output"))
        })?;
        if !has_reader {
            return Ok(());
        }
        match page.next {
            None => break,
            following => next = following,
        }
    }
    match spool {
        Some(spool) => block_in_place(|| has_reader(spool.write_to(&mut std::io::stdout().lock()))).map(drop),
        None => Ok(()),
    }
}

/// A reader that stops early, as `head` does, is not an error.
fn has_reader(written: anyhow::Result<()>) -> anyhow::Result<bool> {
    match written {
        Err(error) if is_broken_pipe(&error) => Ok(false),
        result => result.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_reader_that_stops_early_is_no_error() {
        let failed = |kind: ErrorKind| has_reader(Err(Error::from(kind)).context("writing"));
        assert!(!failed(ErrorKind::BrokenPipe).unwrap());
        assert!(failed(ErrorKind::StorageFull).is_err());
        assert!(has_reader(Ok(())).unwrap());
    }
}
