//! Makes a backup of a snapshot: parts the entities into chunks, stores those that are not there, adds the manifest.
//!
//! Memory is bounded: a few chunks wait for those who hash, compress and write them, and the snapshot waits for these.

use super::block;
use super::chunk::{Chunker, Content};
use super::frames::{Frame, Receiver, Totals};
use super::manifest::{ChunkEntry, Manifest, TableContent};
use super::repository::{Repository, Stored};
use crate::endpoints::Progress;
use anyhow::{Context, anyhow, bail, ensure};
use model::DateTime;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Jobs, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Threads that hash, compress and write; most of their time goes into waiting for the disk.
const WRITERS: usize = 4;
/// Most chunks that wait for one of them.
const WAITING_CHUNKS_MAX: usize = 8;

/// What a backup added to its repository.
#[derive(Debug, Default)]
pub(super) struct Added {
    pub(super) id: String,
    pub(super) time: String,
    pub(super) tables: u64,
    pub(super) entities: u64,
    pub(super) bytes: u64,
    pub(super) chunks: u64,
    pub(super) new_chunks: u64,
    /// As they are stored.
    pub(super) new_bytes: u64,
}

/// Where a chunk stands: its table, and its place in it.
type Place = (usize, usize);

/// Makes a backup of what comes in. `stop` ends it early, with an error.
pub(super) fn create(
    input: impl Read,
    repository: &Repository,
    progress: &Progress,
    stop: &AtomicBool,
) -> anyhow::Result<Added> {
    let (jobs, waiting) = sync_channel(WAITING_CHUNKS_MAX);
    let waiting = Mutex::new(waiting);
    let (done, stored) = channel();
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            let (waiting, done) = (&waiting, done.clone());
            scope.spawn(move || store_chunks(repository, waiting, &done));
        }
        drop(done);
        let mut assembly = Assembly { jobs: Some(jobs), stored, chunks: Vec::new(), added: Added::default() };
        let manifest = assembly.receive(input, progress, stop)?;
        assembly.finish(manifest, repository)
    })
}

/// The work of one of the threads that store chunks.
fn store_chunks(
    repository: &Repository,
    waiting: &Mutex<Jobs<(Place, Content)>>,
    done: &Sender<anyhow::Result<(Place, Stored)>>,
) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((place, content)) = job else { return };
        if done.send(repository.store(&content).map(|stored| (place, stored))).is_err() {
            return;
        }
    }
}

/// The backup while its snapshot comes in.
struct Assembly {
    /// `None` once there are no more.
    jobs: Option<SyncSender<(Place, Content)>>,
    stored: Jobs<anyhow::Result<(Place, Stored)>>,
    /// Those of each table, as they become known.
    chunks: Vec<Vec<Option<ChunkEntry>>>,
    added: Added,
}

impl Assembly {
    /// Takes all of the snapshot; answers the manifest, in which the chunks are missing.
    fn receive(&mut self, input: impl Read, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<Manifest> {
        let mut frames = Receiver::new(input);
        let Some(Frame::Beginning(beginning)) = frames.next()? else {
            bail!("the snapshot does not begin as it should")
        };
        progress.set_tables(beginning.tables);
        let last_stamp = DateTime::from_ticks(beginning.last_stamp).context("the highest Timestamp is no instant")?;
        self.added.time.clone_from(&beginning.time);
        let mut manifest = Manifest::new(beginning.time, beginning.version, last_stamp);
        let mut chunker = Chunker::default();
        let mut totals = Totals::default();
        let mut last_key = Vec::new();
        while let Some(frame) = frames.next()? {
            ensure!(!stop.load(Ordering::Relaxed), "stopped");
            match frame {
                Frame::Beginning(_) => bail!("the snapshot begins twice"),
                Frame::Account(account) => manifest.accounts.push(account),
                Frame::Table(table) => {
                    self.end_table(std::mem::take(&mut chunker), progress)?;
                    manifest.tables.push(TableContent { table, entities: 0, bytes: 0, chunks: Vec::new() });
                    self.chunks.push(Vec::new());
                    last_key.clear();
                    totals.tables += 1;
                }
                Frame::Entities(bytes) => {
                    let table = manifest.tables.last_mut().context("the snapshot has entities without a table")?;
                    let mut rest = bytes.as_slice();
                    let before = table.entities;
                    while !rest.is_empty() {
                        let (key, record) = block::take(&mut rest).context("the entities cannot be told apart")?;
                        ensure!(last_key.as_slice() < key, "the entities of {} are not in order", table.table);
                        last_key.clear();
                        last_key.extend_from_slice(key);
                        table.entities += 1;
                        table.bytes += (block::ENTITY_OVERHEAD_BYTES + key.len() + record.len()) as u64;
                        if let Some(content) = chunker.push(key, record)? {
                            self.send(content)?;
                        }
                    }
                    totals.entities += table.entities - before;
                    progress.add_entities(table.entities - before);
                }
                Frame::End(sent) => {
                    ensure!(sent == totals, "{sent:?} were sent, and {totals:?} have arrived");
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

    /// Hands a chunk of the last table over, and hears of those that are done.
    fn send(&mut self, content: Content) -> anyhow::Result<()> {
        let table = self.chunks.len().saturating_sub(1);
        let chunks = self.chunks.last_mut().context("a chunk without a table")?;
        let place = (table, chunks.len());
        chunks.push(None);
        let jobs = self.jobs.as_ref().context("there were to be no more chunks")?;
        jobs.send((place, content)).map_err(|_| anyhow!("the threads that write chunks have ended"))?;
        while let Ok(result) = self.stored.try_recv() {
            self.note(result)?;
        }
        Ok(())
    }

    fn note(&mut self, result: anyhow::Result<(Place, Stored)>) -> anyhow::Result<()> {
        let ((table, index), stored) = result?;
        self.added.chunks += 1;
        if stored.is_new {
            self.added.new_chunks += 1;
            self.added.new_bytes += stored.entry.stored;
        }
        let slot = self.chunks.get_mut(table).and_then(|chunks| chunks.get_mut(index));
        *slot.context("a chunk that nobody sent was stored")? = Some(stored.entry);
        Ok(())
    }

    /// Waits until all chunks are stored, and adds the manifest.
    fn finish(mut self, mut manifest: Manifest, repository: &Repository) -> anyhow::Result<Added> {
        self.jobs = None;
        while let Ok(result) = self.stored.recv() {
            self.note(result)?;
        }
        for (table, chunks) in manifest.tables.iter_mut().zip(self.chunks) {
            let chunks: Option<Vec<_>> = chunks.into_iter().collect();
            table.chunks = chunks.context("a thread that writes chunks failed")?;
        }
        let (tables, entities, bytes) = (manifest.tables.len() as u64, manifest.entities(), manifest.bytes());
        let id = repository.add(&manifest)?;
        Ok(Added { id, tables, entities, bytes, ..self.added })
    }
}
