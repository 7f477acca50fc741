//! Creates a backup from a snapshot: splits the entities into chunks, stores the new ones, and adds the manifest.
//!
//! Memory is bounded: only a few chunks wait for the threads that hash, compress and write them. If more chunks would
//! have to wait, the reader of the snapshot pauses.

use super::repository::{
    BackupManifest, ChunkContent, ChunkEntry, Chunker, ENTITY_OVERHEAD_BYTES, LogPosition, Repository, StoredChunk,
    each_entity,
};
use super::snapshot::{Frame, FrameReader, SnapshotTotals};
use crate::terminal::Progress;
use anyhow::{Context, anyhow, bail, ensure};
use model::DateTime;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

const WAITING_CHUNKS_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct BackupSummary {
    pub(super) id: String,
    pub(super) time: String,
    pub(super) tables: u64,
    pub(super) entities: u64,
    pub(super) bytes: u64,
    pub(super) chunks: u64,
    pub(super) new_chunks: u64,
    pub(super) new_bytes: u64,
    pub(super) log: Option<LogPosition>,
}

type ChunkPosition = (usize, usize);

/// [`Repository::begin_backup`] must have been called. Setting `stop` cancels the backup with an error.
pub(super) fn create(
    input: impl Read,
    repository: &Repository,
    progress: &Progress,
    stop: &AtomicBool,
) -> anyhow::Result<BackupSummary> {
    let (jobs, waiting) = sync_channel(WAITING_CHUNKS_MAX);
    let waiting = Mutex::new(waiting);
    let (done, stored) = channel();
    thread::scope(|scope| {
        for _ in 0..repository.writers() {
            let (waiting, done) = (&waiting, done.clone());
            scope.spawn(move || store_chunks(repository, waiting, &done));
        }
        drop(done);
        let summary = BackupSummary::default();
        let mut assembly = BackupBuilder { jobs: Some(jobs), stored, chunks: Vec::new(), summary };
        let manifest = assembly.receive(input, progress, stop)?;
        assembly.finish(manifest, repository)
    })
}

fn store_chunks(
    repository: &Repository,
    waiting: &Mutex<Receiver<(ChunkPosition, ChunkContent)>>,
    done: &Sender<anyhow::Result<(ChunkPosition, StoredChunk)>>,
) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((position, content)) = job else { return };
        if done.send(repository.store(&content).map(|stored| (position, stored))).is_err() {
            return;
        }
    }
}

struct BackupBuilder {
    /// `None` once all chunks have been sent.
    jobs: Option<SyncSender<(ChunkPosition, ChunkContent)>>,
    stored: Receiver<anyhow::Result<(ChunkPosition, StoredChunk)>>,
    /// `None` until the chunk is stored.
    chunks: Vec<Vec<Option<ChunkEntry>>>,
    summary: BackupSummary,
}

impl BackupBuilder {
    /// The returned manifest does not contain the chunks yet.
    fn receive(&mut self, input: impl Read, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<BackupManifest> {
        let mut frames = FrameReader::new(input);
        let header = frames.header()?;
        progress.set_tables(header.tables);
        let last_stamp = DateTime::from_ticks(header.last_stamp).context("the highest Timestamp is invalid")?;
        self.summary.time.clone_from(&header.time);
        let mut manifest = BackupManifest::new(header.time, header.version, last_stamp);
        self.summary.log.clone_from(&header.log);
        manifest.log = header.log;
        let mut chunker = Chunker::default();
        let mut totals = SnapshotTotals::default();
        let mut last_key = Vec::new();
        while let Some(frame) = frames.next()? {
            ensure!(!stop.load(Ordering::Relaxed), "stopped");
            match frame {
                Frame::Header(_) => bail!("the snapshot has two headers"),
                Frame::Account(account) => manifest.accounts.push(account),
                Frame::Table(table) => {
                    self.end_table(std::mem::take(&mut chunker), progress)?;
                    manifest.add_table(table);
                    self.chunks.push(Vec::new());
                    last_key.clear();
                    totals.tables += 1;
                }
                Frame::Entities(bytes) => {
                    let table =
                        manifest.tables.last_mut().context("the snapshot contains entities before the first table")?;
                    let before = table.entities;
                    each_entity(&bytes, |(key, record)| {
                        ensure!(last_key.as_slice() < key, "the entities of {} are out of order", table.table);
                        last_key.clear();
                        last_key.extend_from_slice(key);
                        table.entities += 1;
                        table.bytes += (ENTITY_OVERHEAD_BYTES + key.len() + record.len()) as u64;
                        if let Some(content) = chunker.push(key, record)? {
                            self.send(content)?;
                        }
                        Ok(())
                    })?;
                    totals.entities += table.entities - before;
                    progress.add_entities(table.entities - before);
                }
                Frame::End(sent) => {
                    ensure!(sent == totals, "{sent:?} were sent, but {totals:?} arrived");
                }
            }
        }
        self.end_table(chunker, progress)?;
        Ok(manifest)
    }

    fn end_table(&mut self, chunker: Chunker, progress: &Progress) -> anyhow::Result<()> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        if let Some(content) = chunker.finish() {
            self.send(content)?;
        }
        progress.add_table();
        Ok(())
    }

    fn send(&mut self, content: ChunkContent) -> anyhow::Result<()> {
        let table = self.chunks.len().saturating_sub(1);
        let chunks = self.chunks.last_mut().context("a chunk before the first table")?;
        let position = (table, chunks.len());
        chunks.push(None);
        let jobs = self.jobs.as_ref().context("a chunk after the last one")?;
        jobs.send((position, content)).map_err(|_| anyhow!("the chunk writer threads have stopped"))?;
        while let Ok(result) = self.stored.try_recv() {
            self.record(result)?;
        }
        Ok(())
    }

    fn record(&mut self, result: anyhow::Result<(ChunkPosition, StoredChunk)>) -> anyhow::Result<()> {
        let ((table, index), stored) = result?;
        self.summary.chunks += 1;
        if stored.is_new {
            self.summary.new_chunks += 1;
            self.summary.new_bytes += stored.entry.stored;
        }
        let slot = self.chunks.get_mut(table).and_then(|chunks| chunks.get_mut(index));
        *slot.context("a chunk was stored that had not been sent")? = Some(stored.entry);
        Ok(())
    }

    fn finish(mut self, mut manifest: BackupManifest, repository: &Repository) -> anyhow::Result<BackupSummary> {
        self.jobs = None;
        while let Ok(result) = self.stored.recv() {
            self.record(result)?;
        }
        for (table, chunks) in manifest.tables.iter_mut().zip(self.chunks) {
            let chunks: Option<Vec<_>> = chunks.into_iter().collect();
            table.chunks = chunks.context("a chunk writer thread panicked")?;
        }
        let (tables, entities, bytes) = (manifest.tables.len() as u64, manifest.entities(), manifest.bytes());
        let id = repository.add(&manifest)?;
        Ok(BackupSummary { id, tables, entities, bytes, ..self.summary })
    }
}
