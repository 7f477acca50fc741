//! Memory is bounded: each range that is being read has one page in memory, and the range whose turn it is another one.

use crate::endpoints::{Page, Pages, Query, Source, split};
use crate::export::lines::{PartFile, TableFile, TableLines, convert_to_csv, csv_lines_path, new_path, part_path};
use crate::export::state::{ExportProgress, ExportState, TablePart};
use crate::export::target::ExportTarget;
use crate::file::{remove_file, sync_name};
use crate::formats::{CsvSpool, ExportedRetention, ExportedTable, FileFormat, encode_policies, write_line};
use crate::runtime::{TASK_FAILED, for_each_table, next_result};
use crate::state_file::SAVE_INTERVAL;
use crate::terminal::{Progress, is_broken_pipe};
use anyhow::{Context, anyhow};
use client::PropertyBag;
use engine::TableKey;
use model::TableSettings;
use model::limits::TABLE_RANGES_MAX;
use platform::files::rename;
use std::future::pending;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{JoinSet, block_in_place, spawn_blocking};

/// The size of the parts in which lines are written, in bytes.
const LINES_BYTES: usize = 64 * 1024;
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

/// Where the lines of a part are written.
enum Output {
    /// To the file of the table, because it contains all parts before this one.
    Table(Box<TableLines>),
    /// To the part's own file, until the parts before it are complete and the file of the table arrives.
    Part(Box<PartFile>, oneshot::Receiver<TableLines>),
}

impl FileExport {
    pub(super) async fn run(self: Arc<Self>, tables: &[TableKey]) -> anyhow::Result<()> {
        for_each_table(tables, |table| &table.name, |table| Arc::clone(&self).export(table)).await
    }

    /// Completes a file that an earlier run began.
    async fn export(self: Arc<Self>, table: TableKey) -> anyhow::Result<()> {
        let name = &table.name;
        let file = self.target.file(name, self.format);
        let mut known = self.state.table(name.as_str()).unwrap_or_default();
        let mut work_left = TABLE_WORK;
        if known.done.is_none() {
            if known.parts.is_empty() {
                let filter = self.query.filter.as_deref();
                let ranges = split(Arc::clone(&self.source), table.clone(), filter, self.parallel).await?;
                known.parts = ranges.into_iter().map(TablePart::new).collect();
                self.state.begin(name, known.parts.clone())?;
            }
            let count = known.parts.len() as u64;
            let part_work = TABLE_WORK / (count + 1);
            work_left -= part_work * count;
            let (lines, entities) = self.read_parts(&table, &file, known, part_work).await?;
            let policies = if self.with_policies { Some(self.source.policies(&table).await?) } else { None };
            let settings = if self.with_policies { self.source.settings(&table).await? } else { None };
            let TableSettings { retention, indexes } = settings.unwrap_or_default();
            let TableFile { bytes, sha256 } = match self.format {
                FileFormat::Jsonl => lines.finish(),
                FileFormat::Csv => self.convert(&file).await?,
            };
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
        block_in_place(|| publish(&file))?;
        self.progress.add_work(work_left);
        self.progress.add_table();
        Ok(())
    }

    async fn convert(&self, file: &Path) -> anyhow::Result<TableFile> {
        let (lines, csv, with_timestamps) = (csv_lines_path(file), new_path(file), self.with_timestamps);
        spawn_blocking(move || convert_to_csv(&lines, &csv, with_timestamps)).await.context(TASK_FAILED)?
    }

    /// Returns the lines of all parts, and the number of entities in them. After a failure, no task is still writing.
    async fn read_parts(
        self: &Arc<Self>,
        table: &TableKey,
        file: &Path,
        known: ExportProgress,
        part_work: u64,
    ) -> anyhow::Result<(TableLines, u64)> {
        let mut running = JoinSet::new();
        let read = self.read_parts_in(&mut running, table, file, known, part_work).await;
        running.shutdown().await;
        read
    }

    async fn read_parts_in(
        self: &Arc<Self>,
        running: &mut JoinSet<anyhow::Result<u64>>,
        table: &TableKey,
        file: &Path,
        known: ExportProgress,
        part_work: u64,
    ) -> anyhow::Result<(TableLines, u64)> {
        let ExportProgress { parts, joined, bytes, .. } = known;
        let path = if self.format == FileFormat::Csv { csv_lines_path(file) } else { new_path(file) };
        let mut first = Some(block_in_place(|| TableLines::resume(path, bytes))?);
        let mut entities = parts.iter().take(joined).map(|part| part.entities).sum::<u64>();
        self.progress.add_work(part_work * joined as u64);
        let count = parts.len();
        let (_, mut turn) = oneshot::channel();
        let mut end = |read: u64| {
            entities += read;
            self.progress.add_work(part_work);
        };
        for (number, part) in parts.into_iter().enumerate().skip(joined) {
            // Parts begin in key order, so the part whose turn it is never waits for another one.
            let permit = loop {
                tokio::select! {
                    permit = Arc::clone(&self.readers).acquire_owned() => break permit?,
                    Some(ended) = running.join_next() => end(ended.context(TASK_FAILED)??),
                }
            };
            let (following, next_turn) = oneshot::channel();
            let turn = std::mem::replace(&mut turn, next_turn);
            let reader = PartReader {
                export: Arc::clone(self),
                table: table.clone(),
                number,
                part,
                is_last: number + 1 == count,
                following,
            };
            running.spawn(reader.run(first.take(), turn, part_path(file, number), permit));
        }
        while let Some(read) = next_result(running).await? {
            end(read);
        }
        Ok((turn.await?, entities))
    }
}

/// Reads a part of a table.
struct PartReader {
    export: Arc<FileExport>,
    table: TableKey,
    number: usize,
    part: TablePart,
    is_last: bool,
    /// Gets the file of the table once it contains this part.
    following: oneshot::Sender<TableLines>,
}

impl PartReader {
    /// Returns the number of entities in the part. The first part gets the file of the table, the other parts wait for
    /// their turn.
    async fn run(
        mut self,
        first: Option<TableLines>,
        turn: oneshot::Receiver<TableLines>,
        path: PathBuf,
        permit: OwnedSemaphorePermit,
    ) -> anyhow::Result<u64> {
        let mut output = match first {
            Some(lines) => Output::Table(Box::new(lines)),
            None => Output::Part(Box::new(block_in_place(|| PartFile::resume(path, &mut self.part))?), turn),
        };
        if !self.part.is_done {
            let (range, query) = (&self.part.range, &self.export.query);
            let query = Query { filter: range.filter(query.filter.as_deref()), select: query.select.clone() };
            let mut pages = Pages::new(&self.export.source, &self.table, query, self.part.next());
            loop {
                // The other parts are read at the same time, so they need not be read ahead.
                pages.reads_ahead = matches!(output, Output::Table(_));
                let Some(page) = pages.next().await? else { break };
                self.export.progress.add_entities(page.entities.len() as u64);
                output = block_in_place(|| self.write(output, page))?;
            }
        }
        drop(permit);
        let mut lines = match output {
            Output::Table(lines) => *lines,
            Output::Part(own, turn) => match turn.await {
                Ok(lines) => block_in_place(|| lines.with_part(*own))?,
                // An earlier part failed, and the caller is about to report that.
                Err(_) => pending().await,
            },
        };
        block_in_place(|| self.save(&mut lines, self.is_last))?;
        // The receiver is gone if another part failed.
        drop(self.following.send(lines));
        Ok(self.part.entities)
    }

    /// Writes the lines of a page. The file of the table is used as soon as it arrives.
    fn write(&mut self, output: Output, page: Page) -> anyhow::Result<Output> {
        let mut output = match output {
            Output::Part(own, mut turn) if !turn.is_empty() => {
                let table = turn.try_recv().context("the file of the table arrived")?;
                Output::Table(Box::new(table.with_part(*own)?))
            }
            output => output,
        };
        write_lines(&page.entities, self.export.with_timestamps, |lines| match &mut output {
            Output::Table(table) => table.append(lines),
            Output::Part(own, _) => own.append(lines),
        })?;
        self.part.advance(page.entities.len() as u64, page.next);
        match &mut output {
            Output::Table(table) => self.save(table, false)?,
            Output::Part(own, _) => {
                own.describe(&mut self.part);
                self.export.state.advance(&self.table.name, self.number, &self.part)?;
            }
        }
        Ok(output)
    }

    /// Records the part if that is due.
    fn save(&self, lines: &mut TableLines, is_due: bool) -> anyhow::Result<()> {
        let record = |bytes| self.export.state.join(&self.table.name, self.number, &self.part, bytes);
        if is_due || lines.saved.elapsed() >= SAVE_INTERVAL { lines.save(record) } else { Ok(()) }
    }
}

/// Gives the complete file of a table its name, and removes the files from which it was made.
fn publish(file: &Path) -> anyhow::Result<()> {
    let new = new_path(file);
    // An earlier run may have been interrupted after any step.
    if new.exists() {
        rename(&new, file).and_then(|()| sync_name(file)).with_context(|| format!("writing {}", file.display()))?;
    }
    remove_file(&csv_lines_path(file))?;
    (0..TABLE_RANGES_MAX).try_for_each(|number| remove_file(&part_path(file, number)))
}

/// Writes entities in parts, because the lines of a page take several MiB.
fn write_lines(
    entities: &[PropertyBag],
    with_timestamps: bool,
    mut write: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for entity in entities {
        write_line(&mut lines, entity, with_timestamps).map_err(|_| anyhow!("an entity is damaged"))?;
        lines.push(b'\n');
        if lines.len() >= LINES_BYTES {
            write(&lines)?;
            lines.clear();
        }
    }
    write(&lines)
}

/// Writes JSON Lines page by page, but CSV only once all entities have been read.
pub(super) async fn stream(
    source: &Arc<dyn Source>,
    table: &TableKey,
    query: Query,
    format: FileFormat,
    with_timestamps: bool,
) -> anyhow::Result<()> {
    let mut spool = match format {
        FileFormat::Jsonl => None,
        FileFormat::Csv => Some(CsvSpool::new(with_timestamps)?),
    };
    let mut pages = Pages::new(source, table, query, None);
    while let Some(page) = pages.next().await? {
        let has_reader = block_in_place(|| {
            if let Some(spool) = &mut spool {
                return spool.push(&page.entities).map(|()| true);
            }
            let mut out = std::io::stdout().lock();
            let write = |lines: &[u8]| out.write_all(lines).context("writing to standard output");
            let written = write_lines(&page.entities, with_timestamps, write);
            has_reader(written.and_then(|()| out.flush().context("writing to standard output")))
        })?;
        if !has_reader {
            return Ok(());
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
    use crate::endpoints::faulty_source::{FaultySource, table};
    use crate::export::state::ExportOptions;
    use std::io::{Error, ErrorKind};
    use std::sync::atomic::Ordering;

    const ROWS: usize = 1000;

    /// Exports the table, and continues if an earlier run failed. Returns the number of entities that were read, and
    /// the number of them that another run does not read again.
    async fn run(source: &Arc<FaultySource>, file: &Path, parallel: usize) -> (anyhow::Result<u64>, u64) {
        let format = FileFormat::from_path(file).unwrap();
        let target = ExportTarget::File(file.to_owned());
        let options = ExportOptions {
            from: "a".to_owned(),
            account: "acct".to_owned(),
            file_format: format,
            filter: None,
            select: Vec::new(),
            with_timestamps: false,
            skip_policies: true,
        };
        let export = Arc::new(FileExport {
            source: Arc::clone(source) as Arc<dyn Source>,
            state: ExportState::open(target.state(), options).unwrap(),
            target,
            format,
            query: Query::default(),
            with_timestamps: false,
            with_policies: false,
            progress: Arc::new(Progress::new("exporting", 1)),
            readers: Arc::new(Semaphore::new(parallel)),
            parallel,
        });
        let result = Arc::clone(&export).run(&[table()]).await;
        let result = result.map(|()| export.progress.done().1);
        let parts = export.state.table("cars").unwrap_or_default().parts;
        let recorded = parts.iter().map(|part| part.entities).sum();
        (export.state.finish(result), recorded)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn an_export_that_failed_anywhere_is_resumed_with_the_same_result() {
        let folder = tempfile::tempdir().unwrap();
        let source = FaultySource::of_rows(ROWS, 50).await;
        for (parallel, extension) in [(1, "jsonl"), (4, "jsonl"), (4, "csv")] {
            let path = |name: &str| folder.path().join(format!("{name}-{parallel}.{extension}"));
            let whole = path("whole");
            source.fail_at(usize::MAX);
            assert_eq!(run(&source, &whole, parallel).await.0.unwrap(), ROWS as u64);
            let requests = source.pages.load(Ordering::Relaxed);
            let expected = std::fs::read(&whole).unwrap();
            let lines = std::str::from_utf8(&expected).unwrap().lines().count();
            assert_eq!(lines, ROWS + usize::from(extension == "csv"));
            let mut kept = 0;
            for number in (0..requests).step_by(7) {
                let parted = path("parted");
                source.fail_at(number);
                let (failed, recorded) = run(&source, &parted, parallel).await;
                assert!(format!("{:#}", failed.unwrap_err()).contains("table 'cars': planted"), "{number}");
                assert!(!parted.exists(), "{number}: it would look complete");
                source.fail_at(usize::MAX);
                let (read, _) = run(&source, &parted, parallel).await;
                assert_eq!(read.unwrap() + recorded, ROWS as u64, "{number}: entities are read once");
                assert!(std::fs::read(&parted).unwrap() == expected, "{number}");
                kept += recorded;
                std::fs::remove_file(parted).unwrap();
            }
            assert!(kept > 0 || parallel == 1, "no part outlived a failure");
        }
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["whole-1.jsonl", "whole-4.csv", "whole-4.jsonl"], "nothing else remains");
    }

    #[test]
    fn a_reader_that_stops_early_is_no_error() {
        let failed = |kind: ErrorKind| has_reader(Err(Error::from(kind)).context("writing"));
        assert!(!failed(ErrorKind::BrokenPipe).unwrap());
        assert!(failed(ErrorKind::StorageFull).is_err());
        assert!(has_reader(Ok(())).unwrap());
    }
}
