//! Creates a backup from a snapshot: splits the entities into chunks, stores the new ones, and adds the manifest.
//!
//! A chunk that differs little from the last backup becomes a layered chunk: only its changes are stored, together with
//! the changes of the following chunks. What a backup writes is therefore in proportion to the changes. So that the
//! number of layers is bounded, some of the changed chunks are stored whole again: as many bytes as were changed, and
//! a small part of all data.
//!
//! Memory is bounded: only a few chunks wait for the threads that hash, compare, compress and write them. If more
//! chunks would have to wait, the reader of the snapshot pauses.

use super::base::{BaseBackup, BaseTable, PlacedChunk, Placement, place};
use super::repository::{
    BackupManifest, ChunkContent, ChunkEntry, ChunkFile, Chunker, ENTITY_OVERHEAD_BYTES, LayeredChunk, LogPosition,
    Repository, StoredChunk, each_entity,
};
use super::snapshot::{Frame, FrameReader, SnapshotTotals};
use crate::terminal::Progress;
use anyhow::{Context, anyhow, bail, ensure};
use model::DateTime;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

const WAITING_CHUNKS_MAX: usize = 8;
/// A chunk with fewer layers is stored whole only if its layers are twice as large as the chunk.
const LAYERS_MIN: usize = 16;
/// A chunk with more layers is stored whole even if this exceeds, for one chunk of the backup, what may be rewritten.
const LAYERS_MAX: usize = 64;
/// The part of all data that may be rewritten in addition to what has changed: one byte in so many.
const REWRITTEN_PART: usize = 160;

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

type Job<'s> = Box<dyn FnOnce() + Send + 's>;

/// [`Repository::begin_backup`] must have been called. Setting `stop` cancels the backup with an error.
pub(super) fn create(
    input: impl Read,
    repository: &Repository,
    progress: &Progress,
    stop: &AtomicBool,
) -> anyhow::Result<BackupSummary> {
    let base = BaseBackup::find(repository)?;
    let (jobs, waiting) = sync_channel::<Job<'_>>(WAITING_CHUNKS_MAX);
    let waiting = Mutex::new(waiting);
    thread::scope(|scope| {
        for _ in 0..repository.writers() {
            scope.spawn(|| {
                let next = || waiting.lock().recv();
                while let Ok(job) = next() {
                    job();
                }
            });
        }
        let mut assembly = BackupBuilder {
            repository,
            base: &base,
            jobs,
            ahead_max: WAITING_CHUNKS_MAX + repository.writers(),
            placed: VecDeque::new(),
            stored: VecDeque::new(),
            tables: Vec::new(),
            table: 0,
            may_rewrite: 0,
            summary: BackupSummary::default(),
        };
        let manifest = assembly.receive(input, progress, stop)?;
        assembly.finish(manifest)
    })
}

struct BackupBuilder<'s> {
    repository: &'s Repository,
    base: &'s BaseBackup,
    jobs: SyncSender<Job<'s>>,
    ahead_max: usize,
    /// In key order.
    placed: VecDeque<(usize, Receiver<anyhow::Result<PlacedChunk>>)>,
    stored: VecDeque<(Slot, Receiver<anyhow::Result<StoredChunk>>)>,
    tables: Vec<NewTable<'s>>,
    /// The table to which chunks are being added.
    table: usize,
    /// How many bytes of chunks with many layers may be stored whole. Negative if a chunk exceeded it.
    may_rewrite: i64,
    summary: BackupSummary,
}

/// The place of a file in a table.
#[derive(Clone, Copy)]
enum Slot {
    Chunk(usize, usize),
    Layer(usize, usize),
}

#[derive(Default)]
struct NewTable<'s> {
    base: Option<&'s BaseTable>,
    /// The layers of the chunks are files of the base, followed by the new layers.
    chunks: Vec<ChunkEntry>,
    /// Empty until it is stored.
    layers: Vec<ChunkFile>,
    /// The next layer.
    changes: ChunkContent,
}

impl<'s> BackupBuilder<'s> {
    /// The returned manifest does not contain the chunks yet.
    fn receive(&mut self, input: impl Read, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<BackupManifest> {
        let mut frames = FrameReader::new(input);
        let header = frames.header()?;
        progress.set_tables(header.tables);
        // A snapshot is sent while it is read, so its size is unknown. It is probably similar to the last one.
        progress.expect_entities(self.base.entities);
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
                    let base = manifest.tables.last().and_then(|table| self.base.table(table));
                    self.tables.push(NewTable { base, ..NewTable::default() });
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
        if self.tables.is_empty() {
            return Ok(());
        }
        if let Some(content) = chunker.finish() {
            self.send(content)?;
        }
        progress.add_table();
        Ok(())
    }

    fn run<T: Send + 's>(&self, work: impl FnOnce() -> T + Send + 's) -> anyhow::Result<Receiver<T>> {
        let (done, result) = sync_channel(1);
        let job = Box::new(move || drop(done.send(work())));
        self.jobs.send(job).map_err(|_| anyhow!("the chunk writer threads have stopped"))?;
        Ok(result)
    }

    fn send(&mut self, content: ChunkContent) -> anyhow::Result<()> {
        let repository = self.repository;
        let base = self.tables.last().context("a chunk before the first table")?.base;
        let work = move || place(base, content, repository);
        self.placed.push_back((self.tables.len() - 1, self.run(work)?));
        self.receive_placed(self.ahead_max)
    }

    fn receive_placed(&mut self, left_max: usize) -> anyhow::Result<()> {
        while self.placed.len() > left_max
            && let Some((table, placed)) = self.placed.pop_front()
        {
            let placed = placed.recv().context("a chunk writer thread panicked")??;
            if self.table != table {
                self.end_layer()?;
                self.table = table;
            }
            self.add(placed)?;
        }
        Ok(())
    }

    /// Adds the next chunk to its table.
    fn add(&mut self, PlacedChunk { name, content, placement }: PlacedChunk) -> anyhow::Result<()> {
        let bytes = content.bytes.len();
        self.may_rewrite += i64::try_from(bytes / REWRITTEN_PART)?;
        let mut file = ChunkFile { sha256: name.clone(), bytes: bytes as u64, stored: 0 };
        let new = self.tables.get_mut(self.table).context("a chunk of no table")?;
        let mut from = Vec::new();
        let mut is_rewritten = false;
        match placement {
            Placement::Whole(stored) => {
                self.summary.count(&stored);
                file = stored.file;
            }
            Placement::Unchanged(files) => from = files,
            Placement::Changed(LayeredChunk { changes, layers_bytes }, files) => {
                let has_many = files.len() >= LAYERS_MIN.max(self.base.many_layers) || layers_bytes >= 2 * bytes;
                let may_exceed = files.len() >= LAYERS_MAX && self.may_rewrite > 0;
                is_rewritten = has_many && (may_exceed || self.may_rewrite >= i64::try_from(bytes)?);
                if is_rewritten {
                    self.may_rewrite -= i64::try_from(bytes)?;
                } else {
                    self.may_rewrite += i64::try_from(changes.bytes.len())?;
                    from = files;
                    if !changes.bytes.is_empty() {
                        from.push(new.former_files() + new.layers.len());
                        new.changes.append(&changes);
                    }
                }
            }
        }
        let is_full = new.changes.is_full();
        new.chunks.push(ChunkEntry::new(file, &content, from)?);
        if is_rewritten {
            let slot = Slot::Chunk(self.table, new.chunks.len() - 1);
            self.store(slot, name, content)?;
        }
        if is_full { self.end_layer() } else { Ok(()) }
    }

    fn end_layer(&mut self) -> anyhow::Result<()> {
        let Some(new) = self.tables.get_mut(self.table).filter(|new| !new.changes.bytes.is_empty()) else {
            return Ok(());
        };
        let changes = std::mem::take(&mut new.changes);
        let slot = Slot::Layer(self.table, new.layers.len());
        new.layers.push(ChunkFile::default());
        self.store(slot, changes.name(), changes)
    }

    fn store(&mut self, slot: Slot, name: String, content: ChunkContent) -> anyhow::Result<()> {
        let repository = self.repository;
        self.stored.push_back((slot, self.run(move || repository.store(name, &content))?));
        self.receive_stored(self.ahead_max)
    }

    fn receive_stored(&mut self, left_max: usize) -> anyhow::Result<()> {
        while self.stored.len() > left_max
            && let Some((slot, stored)) = self.stored.pop_front()
        {
            let stored = stored.recv().context("a chunk writer thread panicked")??;
            self.summary.count(&stored);
            let file = match slot {
                Slot::Chunk(table, chunk) => self
                    .tables
                    .get_mut(table)
                    .and_then(|table| table.chunks.get_mut(chunk))
                    .map(|chunk| &mut chunk.file),
                Slot::Layer(table, layer) => self.tables.get_mut(table).and_then(|table| table.layers.get_mut(layer)),
            };
            *file.context("a chunk was stored that had not been sent")? = stored.file;
        }
        Ok(())
    }

    fn finish(mut self, mut manifest: BackupManifest) -> anyhow::Result<BackupSummary> {
        self.receive_placed(0)?;
        self.end_layer()?;
        self.receive_stored(0)?;
        for (index, table) in self.tables.into_iter().enumerate() {
            let (layers, chunks) = table.finish()?;
            manifest.set_chunks(index, layers, chunks);
        }
        let (tables, entities, bytes) = (manifest.tables.len() as u64, manifest.entities(), manifest.bytes());
        let chunks = manifest.files().count() as u64;
        let id = self.repository.add(&manifest)?;
        Ok(BackupSummary { id, tables, entities, bytes, chunks, ..self.summary })
    }
}

impl BackupSummary {
    fn count(&mut self, stored: &StoredChunk) {
        if stored.is_new {
            self.new_chunks += 1;
            self.new_bytes += stored.file.stored;
        }
    }
}

impl NewTable<'_> {
    fn former_files(&self) -> usize {
        self.base.map_or(0, |base| base.files.len())
    }

    /// Returns the layers that chunks need, and the chunks.
    fn finish(mut self) -> anyhow::Result<(Vec<ChunkFile>, Vec<ChunkEntry>)> {
        let files: Vec<_> = self.base.iter().flat_map(|base| &base.files).chain(&self.layers).collect();
        let used: BTreeSet<_> = self.chunks.iter().flat_map(|chunk| &chunk.from).copied().collect();
        let numbers: BTreeMap<_, _> = used.iter().copied().zip(0..).collect();
        for layer in self.chunks.iter_mut().flat_map(|chunk| &mut chunk.from) {
            *layer = *numbers.get(layer).context("a layer has no number")?;
        }
        let layers = used.iter().filter_map(|file| files.get(*file)).map(|file| (*file).clone()).collect();
        Ok((layers, self.chunks))
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::each_entity_of_table;
    use super::super::repository::{TableEntry, push_entity, seven_digits};
    use super::super::{RepositoryAddress, verify};
    use super::*;
    use engine::{SnapshotTable, TableKey};
    use model::{AccountName, EdmValue, EntityKey, RecordBuilder, StoredAccessPolicies, TableName, TableSettings};
    use std::path::Path;
    use tempfile::TempDir;
    use test_support::Random;

    const TABLES: [&str; 3] = ["Cars", "Log", "Other"];

    type Entities = BTreeMap<Vec<u8>, Vec<u8>>;
    type Tables = BTreeMap<&'static str, Entities>;

    /// Returns the size of the changes. A deleted entity has the size of its key.
    fn changed_bytes(before: &Tables, after: &Tables) -> u64 {
        let mut bytes = 0;
        for (table, entities) in after {
            let none = Entities::new();
            let former = before.get(table).unwrap_or(&none);
            let written = entities.iter().filter(|(key, record)| former.get(*key) != Some(*record));
            let deleted = former.keys().filter(|key| !entities.contains_key(*key));
            bytes += written.map(|(key, record)| ENTITY_OVERHEAD_BYTES + key.len() + record.len()).sum::<usize>();
            bytes += deleted.map(|key| ENTITY_OVERHEAD_BYTES + key.len()).sum::<usize>();
        }
        bytes as u64
    }

    /// Data, and the backups of it.
    struct Place {
        folder: TempDir,
        random: Random,
        tables: Tables,
        /// The backups and their contents, the oldest first.
        backups: BTreeMap<String, Tables>,
        time: i64,
    }

    impl Place {
        fn new(seed: u64) -> Self {
            let (folder, random) = (tempfile::tempdir().unwrap(), Random::new(seed));
            let time = 140_000_000_000_000_000;
            Self { folder, random, tables: Tables::new(), backups: BTreeMap::new(), time }
        }

        fn address(&self) -> RepositoryAddress {
            RepositoryAddress::Folder(self.folder.path().join("backups"))
        }

        fn now(&self) -> DateTime {
            DateTime::from_ticks(self.time).unwrap()
        }

        fn put(&mut self, table: &'static str, key: Vec<u8>, bytes: usize) {
            self.time += 1;
            let value: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| self.random.number().to_be_bytes()).collect();
            let mut record = RecordBuilder::default();
            record.push("Value", EdmValue::Binary(&value));
            let record = record.finish(self.now()).as_bytes().to_vec();
            self.tables.entry(table).or_default().insert(key, record);
        }

        /// Inserts entities with random keys.
        fn insert(&mut self, table: &'static str, count: usize, bytes_max: usize) {
            for _ in 0..count {
                let (partition, row) = (self.random.index(5), self.random.number() % 1_000_000);
                let key = EntityKey::new(&format!("p{partition}"), &format!("{row:06}")).unwrap().encode();
                let bytes = self.random.index(bytes_max);
                self.put(table, key, bytes);
            }
        }

        /// Overwrites, deletes and inserts scattered entities.
        fn change(&mut self, table: &'static str, count: usize, bytes_max: usize) {
            for _ in 0..count {
                let keys = self.tables.get(table).map_or(0, Entities::len);
                let kind = self.random.index(4);
                if keys == 0 || kind == 0 {
                    self.insert(table, 1, bytes_max);
                    continue;
                }
                let entities = self.tables.get_mut(table).unwrap();
                let (partition, row) = (self.random.index(5), self.random.index(1_000_000));
                let from = EntityKey::new(&format!("p{partition}"), &format!("{row:06}")).unwrap().encode();
                let found = entities.range(from..).next().or_else(|| entities.first_key_value());
                let key = found.unwrap().0.clone();
                if kind == 1 {
                    entities.remove(&key);
                } else {
                    let bytes = self.random.index(bytes_max);
                    self.put(table, key, bytes);
                }
            }
        }

        /// The snapshot as a server sends it, whose clock may be slow.
        fn snapshot(&self, slow_by: i64) -> Vec<u8> {
            let mut out = Vec::new();
            let mut frame = |tag: u8, bytes: &[u8]| {
                out.push(tag);
                out.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
                out.extend_from_slice(bytes);
            };
            let (time, count) = (DateTime::from_ticks(self.time - slow_by).unwrap(), self.tables.len());
            let time = seven_digits(time);
            let header = format!(r#"{{"time":"{time}","version":"0","last_stamp":{},"tables":{count}}}"#, self.time);
            frame(b'H', header.as_bytes());
            for (name, entities) in &self.tables {
                let table = SnapshotTable {
                    table: TableKey { account: AccountName::new("acct").unwrap(), name: TableName::new(name).unwrap() },
                    created: DateTime::MIN,
                    policies: StoredAccessPolicies::default(),
                    settings: TableSettings::default(),
                };
                frame(b'T', &serde_json::to_vec(&TableEntry::new(&table)).unwrap());
                for (key, record) in entities {
                    let mut bytes = Vec::new();
                    push_entity(&mut bytes, key, record).unwrap();
                    frame(b'E', &bytes);
                }
            }
            let entities: usize = self.tables.values().map(Entities::len).sum();
            frame(b'Z', format!(r#"{{"tables":{count},"entities":{entities}}}"#).as_bytes());
            out
        }

        /// Returns the size of the new files, and of the changes since the newest backup.
        fn back_up(&mut self, keep: Option<usize>, slow_by: i64) -> (u64, u64) {
            self.time += 1;
            let former = files(self.folder.path());
            let changed = self.backups.values().next_back().map_or(0, |before| changed_bytes(before, &self.tables));
            let repository = Repository::create_or_open(&self.address()).unwrap();
            let (progress, stop) = (Progress::new("backing up", 0), AtomicBool::new(false));
            let summary = create(self.snapshot(slow_by).as_slice(), &repository, &progress, &stop).unwrap();
            let written = files(self.folder.path());
            let written = written.iter().filter(|(path, _)| !former.contains_key(*path)).map(|(_, bytes)| bytes).sum();
            self.backups.insert(summary.id.clone(), self.tables.clone());
            if let Some(count) = keep {
                repository.remove_old(count, &summary.id).unwrap();
                while self.backups.len() > count {
                    self.backups.pop_first();
                }
            }
            (written, changed)
        }

        fn newest(&self) -> BackupManifest {
            let (id, _) = self.backups.last_key_value().unwrap();
            Repository::open(&self.address()).unwrap().manifest(id).unwrap()
        }

        fn check_backups(&self) {
            let repository = Repository::open(&self.address()).unwrap();
            for (id, expected) in &self.backups {
                let manifest = repository.manifest(id).unwrap();
                let mut found = BTreeMap::new();
                for table in &manifest.tables {
                    let entities: &mut Entities = found.entry(table.table.to_string()).or_default();
                    each_entity_of_table(&repository, table, manifest.last_stamp().unwrap(), |key, record| {
                        entities.insert(key.to_vec(), record.to_vec());
                        Ok(())
                    })
                    .unwrap();
                }
                let expected: BTreeMap<_, _> =
                    expected.iter().map(|(name, entities)| (format!("acct/{name}"), entities.clone())).collect();
                assert!(found == expected, "backup {id} has other entities");
            }
            assert!(verify(&self.address(), true, false).unwrap());
        }
    }

    fn files(folder: &Path) -> BTreeMap<std::path::PathBuf, u64> {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                files.extend(self::files(&entry.path()));
            } else {
                files.insert(entry.path(), entry.metadata().unwrap().len());
            }
        }
        files
    }

    /// An increment writes at most three times the changes and one percent of a full backup. Each backup can be
    /// restored, even if older ones have been removed.
    #[test]
    fn an_increment_is_proportional_to_the_changes() {
        for seed in 0..8 {
            let mut place = Place::new(seed);
            let bytes_max = 1 + [150, 700, 2000][place.random.index(3)];
            for (table, bytes) in TABLES.into_iter().zip([1_000_000, 200_000, 700_000]) {
                place.insert(table, bytes / bytes_max, bytes_max);
            }
            let (full, _) = place.back_up(None, 0);
            for round in 0..12 {
                let kind = place.random.index(8);
                for table in TABLES {
                    let count = place.tables.get(table).map_or(0, Entities::len);
                    let part = [count, 1000, 100, 20, 3][place.random.index(5)].max(1);
                    match kind {
                        0 => {}
                        1 => place.insert(table, 1 + count / 100, bytes_max),
                        // The table is deleted, and created again.
                        2 if table == "Log" => {
                            let former = place.tables.remove(table).unwrap_or_default();
                            let step = 1 + place.random.index(3);
                            former.into_keys().step_by(step).for_each(|key| place.put(table, key, 100));
                        }
                        // An older copy of the data folder is put back.
                        3 if table == "Cars" => place.tables.clone_from(place.backups.values().next().unwrap()),
                        _ => place.change(table, count / part, bytes_max),
                    }
                }
                let (keep, slow_by) = match place.random.index(4) {
                    0 => (Some(3), 0),
                    1 => (None, 1000),
                    _ => (None, 0),
                };
                let (written, changed) = place.back_up(keep, slow_by);
                let bound = 3 * changed + full / 100;
                assert!(written <= bound, "{seed}.{round}: {written} of {full} bytes written for {changed}");
            }
            place.check_backups();
        }
    }

    #[test]
    fn a_chunk_is_stored_whole_again_before_it_has_too_many_layers() {
        let mut place = Place::new(0);
        place.insert("Cars", 2000, 1000);
        let (full, _) = place.back_up(None, 0);
        let (mut total, mut total_changed) = (0, 0);
        for _ in 0..120 {
            place.change("Cars", 20, 1000);
            let (written, changed) = place.back_up(Some(1), 0);
            total += written;
            total_changed += changed;
        }
        let layers = place.newest().tables.iter().flat_map(|table| &table.chunks).map(|chunk| chunk.from.len()).max();
        assert!(layers.unwrap() <= LAYERS_MAX + 10, "{layers:?}");
        assert!(total <= 3 * total_changed + 120 * full / 100, "{total} bytes written for {total_changed}");
        let stored: u64 = files(place.folder.path()).values().sum();
        assert!(stored <= 3 * full, "{stored} bytes instead of {full}");
        place.check_backups();
    }

    #[test]
    fn a_backup_does_not_rely_on_a_missing_layer() {
        let mut place = Place::new(0);
        place.insert("Cars", 1000, 1000);
        place.back_up(None, 0);
        place.change("Cars", 10, 1000);
        place.back_up(Some(1), 0);
        for kind in ["former", "changes"] {
            let layers = &place.newest().tables[0].layers;
            let layer = if kind == "former" { layers.first() } else { layers.last() };
            let name = layer.unwrap().sha256.clone();
            let chunks = place.folder.path().join("backups/chunks");
            std::fs::remove_file(chunks.join(&name[..2]).join(&name)).unwrap();
            assert!(!verify(&place.address(), true, false).unwrap(), "{kind}");
            // The next backups do without it.
            place.change("Cars", 5, 1000);
            place.back_up(Some(1), 0);
            place.check_backups();
            place.change("Cars", 5, 1000);
            place.back_up(Some(1), 0);
            place.check_backups();
        }
    }
}
