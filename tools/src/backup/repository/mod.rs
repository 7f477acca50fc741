//! A repository: the place that stores backups, with their manifests and the chunks that they share.
//! `docs/backup-format.md` describes the format. This module must not know where snapshots come from.
//!
//! Invariants:
//!
//! 1. A manifest is written after all its chunks are durable. An interrupted backup therefore never looks complete, and
//!    the next backup reuses its chunks.
//! 2. A chunk is removed after every manifest that references it, and only by a process that holds the exclusive lock.
//! 3. Other users may have written anything to a repository: names are therefore checked before they are used, and
//!    files are accessed through `storage`. Files whose names Rowhouse does not assign are neither read nor removed.

mod chunk;
mod layers;
mod manifest;
mod names;
mod packed;
mod parts;
mod read_ahead;
mod storage;
mod transactions;

pub(super) use chunk::{
    ChunkContent, Chunker, ENTITY_BYTES_MAX, ENTITY_OVERHEAD_BYTES, check_entity, describe, each_entity, push_entity,
};
pub(super) use manifest::{
    AccountEntry, BackupManifest, ChunkEntry, ChunkFile, LogPosition, TableContent, TableEntry, name_of_time,
    seven_digits,
};
pub(super) use parts::{PartContent, PartName, PartRange};
pub(super) use transactions::{TRANSACTION_BYTES_MAX, push_transaction, skip_before};

use crate::backup::args::RepositoryAddress;
use anyhow::{Context, bail, ensure};
use chunk::CHUNK_FILE_BYTES_MAX;
use engine::ChangedTransaction;
use layers::LayerCache;
use manifest::MANIFEST_BYTES_MAX;
use model::DateTime;
use names::{chunk_folder, is_backup, is_chunk, is_incomplete, is_log};
use parking_lot::Mutex;
use parts::PART_FILE_BYTES_MAX;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use storage::{Area, ListedFile, Storage};

const MANIFEST_EXTENSION: &str = ".json";

/// While a repository is open, other processes that do not remove backups may use it.
#[derive(Debug)]
pub(super) struct Repository {
    storage: Box<dyn Storage>,
    layers: Mutex<LayerCache>,
}

#[derive(Debug)]
pub(super) struct StoredChunk {
    pub(super) file: ChunkFile,
    pub(super) is_new: bool,
}

/// A chunk as changes of layers.
#[derive(Debug)]
pub(super) struct LayeredChunk {
    /// The changes. They may be empty.
    pub(super) changes: ChunkContent,
    /// The size of what the layers contain for the chunk.
    pub(super) layers_bytes: usize,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RemovalSummary {
    pub(super) backups: u64,
    pub(super) chunks: u64,
    pub(super) parts: u64,
    pub(super) bytes: u64,
}

impl Repository {
    /// An empty place becomes a repository.
    pub(super) fn create_or_open(address: &RepositoryAddress) -> anyhow::Result<Self> {
        Ok(Self { storage: storage::create_or_open(address)?, layers: Mutex::default() })
    }

    pub(super) fn open(address: &RepositoryAddress) -> anyhow::Result<Self> {
        Ok(Self { storage: storage::open(address)?, layers: Mutex::default() })
    }

    /// The number of threads that should call [`Self::store`] at the same time.
    pub(super) fn writers(&self) -> usize {
        self.storage.writers()
    }

    /// Passes the results of `read`, which reads one file, to the sink in the order of the items. As many files are
    /// read at the same time as suits the storage.
    pub(super) fn read_ahead<T: Sync, R: Send>(
        &self,
        items: &[T],
        read: impl Fn(&T) -> R + Sync,
        sink: impl FnMut(&T, R) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        read_ahead::read_ahead(self.storage.readers(), items, read, sink)
    }

    /// Must be called before the first chunk of a backup is stored.
    pub(super) fn begin_backup(&self) -> anyhow::Result<()> {
        self.storage.begin_backup()
    }

    /// Returns the file of a chunk if it exists.
    pub(super) fn stored(&self, name: &str, bytes: u64) -> Option<ChunkFile> {
        let stored = self.storage.chunk_bytes(name, bytes)?;
        Some(ChunkFile { sha256: name.to_owned(), bytes, stored })
    }

    /// Does nothing if the file already exists. It is durable once [`Self::add`] has returned.
    pub(super) fn store(&self, name: String, content: &ChunkContent) -> anyhow::Result<StoredChunk> {
        let bytes = content.bytes.len() as u64;
        if let Some(file) = self.stored(&name, bytes) {
            return Ok(StoredChunk { file, is_new: false });
        }
        let file = chunk::encode(&content.bytes)?;
        let (path, stored) = (chunk_path(&name), file.len() as u64);
        self.storage.write(&path, file).with_context(|| format!("writing chunk {}", self.storage.path_of(&path)))?;
        Ok(StoredChunk { file: ChunkFile { sha256: name, bytes, stored }, is_new: true })
    }

    fn file(&self, ChunkFile { sha256, bytes, .. }: &ChunkFile) -> anyhow::Result<Vec<u8>> {
        let path = chunk_path(sha256);
        let place = self.storage.path_of(&path);
        let file = self.storage.read(&path, CHUNK_FILE_BYTES_MAX).with_context(|| format!("reading chunk {place}"))?;
        let file = file.with_context(|| format!("chunk {place} is missing"))?;
        let what = || format!("chunk {place} is damaged");
        let content = chunk::decode(sha256, &file).with_context(what)?;
        ensure!(content.len() as u64 == *bytes, "{}: its length differs from the manifest", what());
        Ok(content)
    }

    fn layers<'a>(&self, files: impl Iterator<Item = &'a ChunkFile>) -> anyhow::Result<Vec<Arc<Vec<u8>>>> {
        let layer = |file: &ChunkFile| LayerCache::get(&self.layers, &file.sha256, file.bytes, || self.file(file));
        files.map(layer).collect()
    }

    /// Returns the entities of a chunk of a table.
    pub(super) fn chunk(&self, table: &TableContent, index: usize) -> anyhow::Result<Vec<u8>> {
        let entry = table.chunks.get(index).context("the table has no such chunk")?;
        if entry.from.is_empty() {
            return self.file(&entry.file);
        }
        let layers = self.layers(entry.from.iter().filter_map(|layer| table.layers.get(*layer)))?;
        let next = table.chunks.get(index + 1).map(ChunkEntry::first);
        let is_after = |key: &[u8]| next.as_deref().is_some_and(|next| next <= key);
        let (entities, _) = layers::merge(&layers, &entry.first(), is_after)?;
        let content = layers::encode(entities.iter().take(usize::try_from(entry.entities)?))?;
        let is_intact = content.len() as u64 == entry.file.bytes && chunk::name(&content) == entry.file.sha256;
        ensure!(is_intact, "the layers of chunk {} have a different content than the manifest says", entry.file.sha256);
        Ok(content)
    }

    /// Compares a chunk with files that contain its former entities, the oldest first. Other chunks may use the same
    /// files.
    pub(super) fn layered<'a>(
        &self,
        content: &ChunkContent,
        files: impl Iterator<Item = &'a ChunkFile>,
    ) -> anyhow::Result<LayeredChunk> {
        let layers = self.layers(files)?;
        let (first, last) = content.first_and_last()?;
        let (before, layers_bytes) = layers::merge(&layers, first, |key| last < key)?;
        let (bytes, entities) = layers::changes(&before, &content.bytes)?;
        Ok(LayeredChunk { changes: ChunkContent { bytes, entities }, layers_bytes })
    }

    /// All chunks of the backup must already be stored. Returns the name of the backup.
    pub(super) fn add(&self, manifest: &BackupManifest) -> anyhow::Result<String> {
        let what = || format!("adding the backup to {}", self.storage.path_of(""));
        let folders: HashSet<&str> = manifest.files().map(|file| chunk_folder(&file.sha256)).collect();
        let folders: Vec<_> = folders.iter().map(|name| format!("{}/{name}", Area::Chunks.folder())).collect();
        // Also sync folders of chunks that already existed, because the process that wrote them may have exited before
        // it synced these folders.
        let folders = folders.iter().map(String::as_str).chain([Area::Chunks.folder()]);
        self.storage.sync(&folders.collect::<Vec<_>>()).with_context(what)?;
        let (id, bytes) = manifest.encode()?;
        let file = file(Area::Manifests, "", manifest_name(&id));
        self.storage.confirm().with_context(what)?;
        let written =
            self.storage.write(&file.path(), bytes).and_then(|()| self.storage.sync(&[Area::Manifests.folder()]));
        written.with_context(what)?;
        // If the manifest was delayed until another process could remove chunks, the backup may be incomplete.
        if let Err(error) = self.storage.confirm() {
            self.storage.remove(&[file]).context("removing a manifest")?;
            return Err(error.context(what()));
        }
        Ok(id)
    }

    /// Returns the oldest backup first.
    pub(super) fn backups(&self) -> anyhow::Result<Vec<String>> {
        let mut ids = Vec::new();
        self.storage.list(Area::Manifests, &mut |file| {
            ids.extend(file.name.strip_suffix(MANIFEST_EXTENSION).filter(|id| is_backup(id)).map(str::to_owned));
        })?;
        ids.sort_unstable();
        Ok(ids)
    }

    pub(super) fn manifest(&self, id: &str) -> anyhow::Result<BackupManifest> {
        let missing = || {
            let place = self.storage.path_of("");
            format!("there is no backup {id} in {place}; rowhouse backup --list shows the existing ones")
        };
        ensure!(is_backup(id), missing());
        let path = manifest_path(id);
        let bytes = self.storage.read(&path, MANIFEST_BYTES_MAX);
        match bytes.with_context(|| format!("reading {}", self.storage.path_of(&path)))? {
            None => bail!(missing()),
            Some(bytes) => BackupManifest::decode(id, &bytes),
        }
    }

    /// Returns the parts of all logs, in the order of their positions.
    pub(super) fn parts(&self) -> anyhow::Result<BTreeMap<String, Vec<PartName>>> {
        let mut logs: BTreeMap<String, Vec<PartName>> = BTreeMap::new();
        self.storage.list(Area::Logs, &mut |file| {
            if let Some(part) = PartName::parse(&file.name) {
                logs.entry(file.subfolder).or_default().push(part);
            }
        })?;
        for parts in logs.values_mut() {
            parts.sort_unstable();
        }
        Ok(logs)
    }

    /// Adds a part of a log, which is durable when this returns.
    pub(super) fn add_part(&self, log: &str, part: PartContent, until: Option<DateTime>) -> anyhow::Result<PartName> {
        ensure!(is_log(log), "'{log}' is not the name of a log");
        let (part, bytes) = part.finish(until)?;
        let path = part_path(log, &part);
        let folder = format!("{}/{log}", Area::Logs.folder());
        let written = self.storage.write(&path, bytes);
        let synced = written.and_then(|()| self.storage.sync(&[&folder, Area::Logs.folder(), ""]));
        synced.with_context(|| format!("writing {}", self.storage.path_of(&path)))?;
        Ok(part)
    }

    /// Reads and verifies a part. [`Self::each_transaction`] reads the transactions in it.
    pub(super) fn part(&self, log: &str, part: &PartName) -> anyhow::Result<Vec<u8>> {
        let path = part_path(log, part);
        let file = if part.is_empty() { Ok(None) } else { self.storage.read(&path, PART_FILE_BYTES_MAX) };
        let file = file.with_context(|| format!("reading part {} of the log", self.storage.path_of(&path)))?;
        part.content(file.as_deref()).with_context(|| self.describe_damage(log, part))
    }

    /// Passes the transactions in the content of a part to the sink.
    pub(super) fn each_transaction(
        &self,
        log: &str,
        part: &PartName,
        content: &[u8],
        sink: impl FnMut(ChangedTransaction) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        part.each_transaction(content, sink).with_context(|| self.describe_damage(log, part))
    }

    fn describe_damage(&self, log: &str, part: &PartName) -> String {
        format!("part {} of the log is damaged", self.storage.path_of(&part_path(log, part)))
    }

    /// Removes parts that are no longer wanted.
    pub(super) fn remove_parts(&self, log: &str, parts: &[PartName]) -> anyhow::Result<()> {
        let files: Vec<_> = parts.iter().map(|part| file(Area::Logs, log, part.to_string())).collect();
        self.storage.remove(&files).map(drop)
    }

    /// Keeps the newest `count` backups, and removes the others and the chunks that no kept backup needs.
    ///
    /// An interruption at any point is harmless, because the next call removes the rest. Fails without removing
    /// anything if the new backup would be removed, or if a backup to be kept cannot be read.
    pub(super) fn remove_old(self, count: usize, made: &str) -> anyhow::Result<RemovalSummary> {
        self.storage.begin_removal()?;
        let mut removed = RemovalSummary::default();
        let mut backups = self.backups()?;
        let old = backups.len().saturating_sub(count);
        let old: Vec<String> = backups.drain(..old).collect();
        ensure!(
            backups.iter().any(|id| id == made),
            "old backups were not removed: the new backup {made} is not among the newest {count}, because other backups \
             have later times. Perhaps the clock was set back; remove the others manually"
        );
        let mut needed = HashSet::new();
        // The position from which each log is needed.
        let mut positions = HashMap::new();
        self.read_ahead(
            &backups,
            |id| self.manifest(id),
            |_, manifest| {
                // An unreadable backup may need any chunk, and it cannot replace an older backup.
                let manifest = manifest.context("old backups were not removed")?;
                if let Some(LogPosition { id, position }) = &manifest.log {
                    positions
                        .entry(id.clone())
                        .and_modify(|first: &mut u64| *first = (*position).min(*first))
                        .or_insert(*position);
                }
                needed.extend(manifest.files().map(|file| file.sha256.clone()));
                Ok(())
            },
        )?;
        let old: Vec<_> = old.iter().map(|id| file(Area::Manifests, "", manifest_name(id))).collect();
        self.storage.remove(&old)?;
        self.storage.sync(&[Area::Manifests.folder()]).context("removing old backups")?;
        removed.backups = old.len() as u64;
        self.remove_chunks(&needed, &mut removed)?;
        self.remove_old_parts(&positions, &mut removed)?;
        Ok(removed)
    }

    fn remove_old_parts(&self, positions: &HashMap<String, u64>, removed: &mut RemovalSummary) -> anyhow::Result<()> {
        let mut old = Vec::new();
        let is_part = |name: &str| PartName::parse(name).is_some();
        self.storage.list(Area::Logs, &mut |file| {
            let part = PartName::parse(&file.name);
            let position = positions.get(&file.subfolder);
            let is_old = part.is_some_and(|part| position.is_none_or(|position| part.range.next < *position));
            if is_old || is_incomplete(&file.name, is_part) {
                removed.parts += u64::from(is_old);
                old.push(file);
            }
        })?;
        removed.bytes += self.storage.remove(&old)?;
        Ok(())
    }

    fn remove_chunks(&self, needed: &HashSet<String>, removed: &mut RemovalSummary) -> anyhow::Result<()> {
        let mut old = Vec::new();
        self.storage.list(Area::Chunks, &mut |file| {
            let is_here = |name: &str| is_chunk(name) && chunk_folder(name) == file.subfolder;
            let is_old = is_here(&file.name) && !needed.contains(&file.name);
            if is_old || is_incomplete(&file.name, is_here) {
                removed.chunks += u64::from(is_old);
                old.push(file);
            }
        })?;
        removed.bytes += self.storage.remove(&old)?;
        let mut incomplete = Vec::new();
        let is_manifest = |name: &str| name.strip_suffix(MANIFEST_EXTENSION).is_some_and(is_backup);
        self.storage.list(Area::Manifests, &mut |file| {
            incomplete.extend(is_incomplete(&file.name, is_manifest).then_some(file));
        })?;
        self.storage.remove(&incomplete).map(drop)
    }
}

fn file(area: Area, subfolder: &str, name: String) -> ListedFile {
    ListedFile { area, subfolder: subfolder.to_owned(), name, bytes: 0 }
}

fn chunk_path(name: &str) -> String {
    Area::Chunks.path(chunk_folder(name), name)
}

fn manifest_name(id: &str) -> String {
    format!("{id}{MANIFEST_EXTENSION}")
}

fn manifest_path(id: &str) -> String {
    Area::Manifests.path("", &manifest_name(id))
}

fn part_path(log: &str, part: &PartName) -> String {
    Area::Logs.path(log, &part.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::path::Path;

    const MANIFESTS: &str = "backups";
    const CHUNKS: &str = "chunks";

    fn open(path: &Path) -> Repository {
        Repository::create_or_open(&RepositoryAddress::Folder(path.to_owned())).unwrap()
    }

    fn add(repository: &Repository, time: &str) -> String {
        let stamp = DateTime::from_ticks(7).unwrap();
        repository.add(&BackupManifest::new(time.to_owned(), "0.1.0".to_owned(), stamp)).unwrap()
    }

    #[test]
    fn the_backup_just_made_stays_when_the_clock_went_back() {
        let folder = tempfile::tempdir().unwrap();
        let open = || open(folder.path());
        let later = [add(&open(), "2026-03-04T05:06:07.0000000Z"), add(&open(), "2026-03-05T05:06:07.0000000Z")];
        let repository = open();
        let made = add(&repository, "2026-03-01T05:06:07.0000000Z");
        let error = repository.remove_old(2, &made).unwrap_err().to_string();
        assert!(error.contains(&made), "{error}");
        assert_eq!(open().backups().unwrap().len(), 3);
        // A backup to be kept cannot be read, so no backup is removed. Otherwise, only the damaged backup would remain.
        let damaged = folder.path().join(MANIFESTS).join(format!("{}.json", later[0]));
        let intact = fs::read(&damaged).unwrap();
        fs::write(&damaged, "{}").unwrap();
        assert!(open().remove_old(2, &later[1]).is_err());
        assert_eq!(open().backups().unwrap().len(), 3);
        fs::write(&damaged, intact).unwrap();
        assert_eq!(open().remove_old(2, &later[1]).unwrap().backups, 1);
        assert_eq!(open().backups().unwrap(), later);
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_removed_through_links_or_without_a_name_of_ours() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("backups"), place.path().join("outside"));
        let chunk = "ab".repeat(32);
        let repository = || open(&root);
        let (early, late) = ("2026-03-04T05:06:07.0000000Z", "2026-03-05T05:06:07.0000000Z");
        let made = [add(&repository(), early), add(&repository(), late)];
        fs::create_dir(&outside).unwrap();
        for name in [&chunk, "foreign.new", "notes"] {
            fs::write(outside.join(name), b"foreign").unwrap();
        }
        let prefix = root.join(CHUNKS).join("ab");
        symlink(&outside, &prefix).unwrap();
        let error = repository().remove_old(1, &made[1]).unwrap_err().to_string();
        assert!(error.contains("is not a folder") && error.contains("remove it"), "{error}");
        fs::remove_file(&prefix).unwrap();
        fs::create_dir(&prefix).unwrap();
        fs::write(root.join(MANIFESTS).join("my.json"), b"foreign").unwrap();
        fs::write(prefix.join("my.new"), b"foreign").unwrap();
        assert_eq!(repository().backups().unwrap(), made[1..], "the first backup was removed before the chunks");
        symlink(outside.join(&chunk), prefix.join(&chunk)).unwrap();
        assert!(repository().remove_old(1, &made[1]).is_err());
        fs::remove_file(prefix.join(&chunk)).unwrap();
        fs::write(prefix.join(&chunk), b"not needed").unwrap();
        fs::write(prefix.join(format!("{chunk}.1-2.new")), b"interrupted").unwrap();
        assert_eq!(repository().remove_old(1, &made[1]).unwrap().chunks, 1);
        let names = fs::read_dir(&prefix).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["my.new"]);
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 3);
        assert!(root.join(MANIFESTS).join("my.json").exists());
    }

    #[test]
    fn old_parts_and_interrupted_writes_are_removed_and_nothing_else_in_a_log() {
        let place = tempfile::tempdir().unwrap();
        let (log, until) = ("0a".repeat(16), DateTime::from_ticks(90));
        let repository = open(place.path());
        let part = |first| repository.add_part(&log, PartContent::new(first), until).unwrap().to_string();
        let (old, needed) = (part(3), part(4));
        let folder = place.path().join("log").join(&log);
        let unfinished = names::incomplete_name(&format!("{needed}.17-0"));
        for file in [unfinished.as_str(), "my.new", "notes"] {
            fs::write(folder.join(file), b"half").unwrap();
        }
        let time = "2026-03-04T05:06:07.0000000Z".to_owned();
        let mut manifest = BackupManifest::new(time, "0.1.0".to_owned(), until.unwrap());
        manifest.log = Some(LogPosition { id: log.clone(), position: 4 });
        let made = repository.add(&manifest).unwrap();
        let bytes = fs::metadata(folder.join(&old)).unwrap().len() + 4;
        let removed = repository.remove_old(1, &made).unwrap();
        assert_eq!((removed.parts, removed.bytes), (1, bytes));
        let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [needed.as_str(), "my.new", "notes"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_chunk_or_a_manifest_without_end_is_not_read() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let repository = open(place.path());
        let name = "ab".repeat(32);
        let chunk = ChunkFile { sha256: name.clone(), bytes: 9, stored: 37 };
        let folder = place.path().join(CHUNKS).join("ab");
        fs::create_dir(&folder).unwrap();
        symlink("/dev/zero", folder.join(&name)).unwrap();
        let error = format!("{:#}", repository.file(&chunk).unwrap_err());
        assert!(error.contains("not a regular file"), "{error}");
        fs::remove_file(folder.join(&name)).unwrap();
        File::create(folder.join(&name)).unwrap().set_len(1 << 40).unwrap();
        let error = format!("{:#}", repository.file(&chunk).unwrap_err());
        assert!(error.contains("maximum for such a file"), "{error}");
        let id = "20260304T0506071234567Z-0123456789abcdef";
        let manifest = place.path().join(MANIFESTS).join(manifest_name(id));
        File::create(&manifest).unwrap().set_len(1 << 40).unwrap();
        assert!(repository.manifest(id).is_err());
        fs::remove_file(&manifest).unwrap();
        symlink("/dev/zero", &manifest).unwrap();
        assert!(repository.manifest(id).is_err());
        assert!(repository.manifest("../../etc/passwd").unwrap_err().to_string().contains("there is no backup"));
    }

    #[test]
    fn damage_of_a_later_backup_hides_no_earlier_one() {
        use super::super::read::BackupChoice;
        let folder = tempfile::tempdir().unwrap();
        let repository = open(folder.path());
        let early = add(&repository, "2026-03-04T05:06:07.0000000Z");
        let late = add(&repository, "2026-03-05T05:06:07.0000000Z");
        fs::write(folder.path().join(manifest_path(&late)), "{}").unwrap();
        let at = |text: &str| BackupChoice::At(DateTime::parse(text).unwrap()).find(&repository);
        assert_eq!(at("2026-03-04T05:06:07Z").unwrap().id, early);
        assert_eq!(at("2026-03-05T05:06:06.9999999Z").unwrap().id, early);
        assert!(at("2026-03-05T05:06:07Z").is_err());
        assert!(at("2026-03-04T05:06:06Z").is_err());
    }
}
