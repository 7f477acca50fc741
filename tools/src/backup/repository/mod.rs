//! A repository: the folder that keeps backups, with their manifests and the chunks that they share.
//! `docs/backup-format.md` describes it. This module must not know where snapshots come from.
//!
//! Invariants:
//!
//! 1. A manifest is written after all its chunks are on disk. So an interrupted backup never looks complete, and the
//!    next one uses its chunks.
//! 2. A chunk is removed after every manifest that names it, and only by a process that has the exclusive lock.
//! 3. Only the owner may read the files.

mod chunk;
mod entity_bytes;
mod manifest;

pub(super) use chunk::{ChunkContent, Chunker};
pub(super) use entity_bytes::{
    ENTITY_BYTES_MAX, ENTITY_OVERHEAD_BYTES, check_entity, describe, each_entity, push_entity,
};
pub(super) use manifest::{
    AccountEntry, BackupManifest, ChunkEntry, TableContent, TableEntry, name_of_time, seven_digits,
};

use crate::clock;
use anyhow::{Context, bail, ensure};
use chunk::ChunkHeader;
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MARKER: &str = "rowhouse.backups";
const MARKER_TEXT: &str = "rowhouse backups\nformat 1\nWritten by Rowhouse. Do not edit or delete this file.\n";
const LOCK: &str = "rowhouse.lock";
const MANIFESTS: &str = "backups";
const CHUNKS: &str = "chunks";
/// The suffix of files that are not complete yet.
const UNFINISHED: &str = ".new";
const MANIFEST_EXTENSION: &str = ".json";

/// How long to wait for the lock of a repository.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// An open repository, with a lock that it shares with other processes that do not remove backups.
#[derive(Debug)]
pub(super) struct Repository {
    path: PathBuf,
    lock: File,
    /// The number of the next unfinished file, so that their names differ.
    unfinished: AtomicU64,
}

/// A chunk that is in the repository.
#[derive(Debug)]
pub(super) struct StoredChunk {
    pub(super) entry: ChunkEntry,
    /// It was not there before.
    pub(super) is_new: bool,
}

/// What was removed with old backups.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RemovedData {
    pub(super) backups: u64,
    pub(super) chunks: u64,
    pub(super) bytes: u64,
}

impl Repository {
    /// Opens a repository to add a backup. A missing or empty folder becomes a repository.
    pub(super) fn create_or_open(path: &Path) -> anyhow::Result<Self> {
        let is_empty = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let was_begun = !path.join(MARKER).exists() && path.join(unfinished(MARKER)).exists();
        if is_empty || was_begun {
            create(path).with_context(|| format!("making a repository in {}", path.display()))?;
        }
        Self::open(path)
    }

    /// Opens a repository that exists.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let marker = fs::read_to_string(path.join(MARKER));
        ensure!(
            marker.is_ok(),
            "{} is not a folder of backups: it has no file {MARKER} that can be read; name a missing or an empty folder \
             to begin a new one",
            path.display()
        );
        ensure!(
            marker.is_ok_and(|text| text == MARKER_TEXT),
            "{} is damaged, or written by a later version of Rowhouse",
            path.join(MARKER).display()
        );
        // Some file systems lock only files that are open for writing. A user who may only read falls back to reading.
        let lock = File::options().read(true).write(true).open(path.join(LOCK));
        let lock = lock
            .or_else(|_| File::open(path.join(LOCK)))
            .with_context(|| format!("opening the lock in {}", path.display()))?;
        wait_for(|| lock.try_lock_shared())
            .with_context(|| format!("another process removes old backups from {}; try again later", path.display()))?;
        Ok(Self { path: path.to_owned(), lock, unfinished: AtomicU64::new(0) })
    }

    /// Stores a chunk, unless it is there already. It is durable once [`Self::add`] has returned.
    pub(super) fn store(&self, content: &ChunkContent) -> anyhow::Result<StoredChunk> {
        let name = chunk::name(&content.bytes);
        let path = self.chunk_path(&name);
        let bytes = content.bytes.len() as u64;
        let entry = |stored| ChunkEntry { sha256: name.clone(), bytes, stored, entities: content.entities };
        if let Some(stored) = complete_chunk(&path, bytes) {
            return Ok(StoredChunk { entry: entry(stored), is_new: false });
        }
        let file = chunk::encode(&content.bytes)?;
        self.write(&path, &file).with_context(|| format!("writing the chunk {}", path.display()))?;
        Ok(StoredChunk { entry: entry(file.len() as u64), is_new: true })
    }

    /// The content of a chunk, checked.
    pub(super) fn chunk(&self, entry: &ChunkEntry) -> anyhow::Result<Vec<u8>> {
        let path = self.chunk_path(&entry.sha256);
        let what = || format!("the chunk {} is damaged", path.display());
        let file = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => bail!("the chunk {} is missing", path.display()),
            file => file.with_context(|| format!("reading the chunk {}", path.display()))?,
        };
        let content = chunk::decode(&entry.sha256, &file).with_context(what)?;
        ensure!(content.len() as u64 == entry.bytes, "{}: it has another length than its manifest says", what());
        Ok(content)
    }

    /// Adds a backup whose chunks are all stored; returns its name.
    pub(super) fn add(&self, manifest: &BackupManifest) -> anyhow::Result<String> {
        let what = || format!("adding the backup to {}", self.path.display());
        let folders: HashSet<PathBuf> =
            manifest.chunks().filter_map(|entry| Some(self.chunk_path(&entry.sha256).parent()?.to_owned())).collect();
        // Folders of chunks that existed, too: the process that wrote them may have ended before it synced.
        for folder in folders.iter().chain([&self.path.join(CHUNKS)]) {
            sync_folder(folder).with_context(what)?;
        }
        let (id, bytes) = manifest.encode()?;
        self.write(&self.manifest_path(&id), &bytes).with_context(what)?;
        sync_folder(&self.path.join(MANIFESTS)).with_context(what)?;
        Ok(id)
    }

    /// The names of the backups, the oldest first.
    pub(super) fn backups(&self) -> anyhow::Result<Vec<String>> {
        let names = names(&self.path.join(MANIFESTS))?;
        let mut ids: Vec<String> =
            names.iter().filter_map(|name| Some(name.strip_suffix(MANIFEST_EXTENSION)?.to_owned())).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// The manifest of a backup.
    pub(super) fn manifest(&self, id: &str) -> anyhow::Result<BackupManifest> {
        let path = self.manifest_path(id);
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!(
                    "there is no backup {id} in {}; rowhouse backup --list shows those that there are",
                    self.path.display()
                )
            }
            bytes => BackupManifest::decode(id, &bytes.with_context(|| format!("reading {}", path.display()))?),
        }
    }

    /// Keeps the newest `count` backups, and removes the others and the chunks that no kept backup needs.
    ///
    /// It may be interrupted at any point: the next call removes the rest. It is an error, and nothing is removed, if
    /// the backup just made would be removed, or if a kept one cannot be read.
    pub(super) fn remove_old(self, count: usize, made: &str) -> anyhow::Result<RemovedData> {
        // Both locks are on the same file, so the shared one is released first. Another process in between does no
        // harm.
        self.lock.unlock().context("unlocking the repository")?;
        wait_for(|| self.lock.try_lock()).with_context(|| {
            format!(
                "old backups are not removed, because another process works on {}; the next backup removes them",
                self.path.display()
            )
        })?;
        let mut removed = RemovedData::default();
        let mut backups = self.backups()?;
        let old = backups.len().saturating_sub(count);
        let old: Vec<String> = backups.drain(..old).collect();
        ensure!(
            backups.iter().any(|id| id == made),
            "old backups are not removed: the backup just made, {made}, is not among the newest {count}, because others \
             have later times. Perhaps the clock was set back; remove the others by hand"
        );
        let mut needed = HashSet::new();
        for id in &backups {
            // A backup that cannot be read may need any chunk, and cannot replace an old one.
            let manifest = self.manifest(id).context("old backups are not removed")?;
            needed.extend(manifest.chunks().map(|entry| entry.sha256.clone()));
        }
        for id in old {
            let path = self.manifest_path(&id);
            fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
            removed.backups += 1;
        }
        sync_folder(&self.path.join(MANIFESTS)).context("removing old backups")?;
        self.remove_chunks(&needed, &mut removed)?;
        Ok(removed)
    }

    /// Removes chunks that are not needed, and files that were never completed.
    fn remove_chunks(&self, needed: &HashSet<String>, removed: &mut RemovedData) -> anyhow::Result<()> {
        for (name, path) in self.chunk_files()? {
            if !needed.contains(&name) {
                let what = || format!("removing {}", path.display());
                removed.bytes += fs::metadata(&path).with_context(what)?.len();
                removed.chunks += u64::from(!name.ends_with(UNFINISHED));
                fs::remove_file(&path).with_context(what)?;
            }
        }
        let folder = self.path.join(MANIFESTS);
        for name in names(&folder)?.iter().filter(|name| name.ends_with(UNFINISHED)) {
            fs::remove_file(folder.join(name)).context("removing files of interrupted backups")?;
        }
        Ok(())
    }

    /// The files of chunks by name, with unfinished ones.
    fn chunk_files(&self) -> anyhow::Result<BTreeMap<String, PathBuf>> {
        let chunks = self.path.join(CHUNKS);
        let mut files = BTreeMap::new();
        for folder in names(&chunks)? {
            let folder = chunks.join(folder);
            files.extend(names(&folder)?.into_iter().map(|name| (name.clone(), folder.join(name))));
        }
        Ok(files)
    }

    fn chunk_path(&self, name: &str) -> PathBuf {
        self.path.join(CHUNKS).join(name.get(..2).unwrap_or_default()).join(name)
    }

    fn manifest_path(&self, id: &str) -> PathBuf {
        self.path.join(MANIFESTS).join(format!("{id}{MANIFEST_EXTENSION}"))
    }

    /// Writes a file under a temporary name, syncs it, and renames it.
    fn write(&self, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let number = self.unfinished.fetch_add(1, Ordering::Relaxed);
        let name = path.file_name().context("a file without a name")?.to_string_lossy();
        let temporary = path.with_file_name(unfinished(&format!("{name}.{}-{number}", std::process::id())));
        let open = || File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        let mut file = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = path.parent().context("a file without a folder")?;
                DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
                open()?
            }
            file => file?,
        };
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        Ok(())
    }
}

/// The length of the file of a chunk, if its header and length are right. Its content is not read.
fn complete_chunk(path: &Path, content_bytes: u64) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let mut beginning = [0; chunk::HEADER_BYTES];
    file.read_exact(&mut beginning).ok()?;
    let header = ChunkHeader::decode(&beginning)?;
    let length = file.metadata().ok()?.len();
    (header.content_bytes == content_bytes && header.file_bytes == length).then_some(length)
}

/// Makes a repository in a missing or empty folder. The marker comes last.
fn create(path: &Path) -> anyhow::Result<()> {
    let folder = |path: &Path| DirBuilder::new().mode(0o700).recursive(true).create(path);
    folder(path)?;
    let file = |name: &str| File::options().write(true).create(true).truncate(true).mode(0o600).open(path.join(name));
    let mut marker = file(&unfinished(MARKER))?;
    marker.write_all(MARKER_TEXT.as_bytes())?;
    marker.sync_all()?;
    folder(&path.join(CHUNKS))?;
    folder(&path.join(MANIFESTS))?;
    file(LOCK)?.sync_all()?;
    fs::rename(path.join(unfinished(MARKER)), path.join(MARKER))?;
    sync_folder(path)?;
    match path.canonicalize()?.parent() {
        Some(parent) => Ok(sync_folder(parent)?),
        None => Ok(()),
    }
}

fn unfinished(name: &str) -> String {
    format!("{name}{UNFINISHED}")
}

fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let read = || -> std::io::Result<Vec<String>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    read().with_context(|| format!("reading {}", folder.display()))
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    match File::open(path) {
        // No chunk with this prefix was ever stored.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        folder => folder?.sync_all(),
    }
}

fn wait_for(lock: impl Fn() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    let began = clock::instant();
    loop {
        match lock() {
            Err(TryLockError::WouldBlock) if clock::elapsed_since(began) < LOCK_TIMEOUT => {
                std::thread::sleep(LOCK_POLL_INTERVAL);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::DateTime;

    fn add(repository: &Repository, time: &str) -> String {
        let stamp = DateTime::from_ticks(7).unwrap();
        repository.add(&BackupManifest::new(time.to_owned(), "0.1.0".to_owned(), stamp)).unwrap()
    }

    #[test]
    fn the_backup_just_made_stays_when_the_clock_went_back() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Repository::create_or_open(folder.path()).unwrap();
        let later = [add(&open(), "2026-03-04T05:06:07.0000000Z"), add(&open(), "2026-03-05T05:06:07.0000000Z")];
        let repository = open();
        let made = add(&repository, "2026-03-01T05:06:07.0000000Z");
        let error = repository.remove_old(2, &made).unwrap_err().to_string();
        assert!(error.contains(&made), "{error}");
        assert_eq!(open().backups().unwrap().len(), 3);
        // A kept backup cannot be read: none is removed, or the damaged one would be the only one left.
        let damaged = folder.path().join(MANIFESTS).join(format!("{}.json", later[0]));
        let intact = fs::read(&damaged).unwrap();
        fs::write(&damaged, "{}").unwrap();
        assert!(open().remove_old(2, &later[1]).is_err());
        assert_eq!(open().backups().unwrap().len(), 3);
        fs::write(&damaged, intact).unwrap();
        assert_eq!(open().remove_old(2, &later[1]).unwrap().backups, 1);
        assert_eq!(open().backups().unwrap(), later);
    }

    #[test]
    fn damage_of_a_later_backup_hides_no_earlier_one() {
        use super::super::read::BackupChoice;
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::create_or_open(folder.path()).unwrap();
        let early = add(&repository, "2026-03-04T05:06:07.0000000Z");
        let late = add(&repository, "2026-03-05T05:06:07.0000000Z");
        fs::write(repository.manifest_path(&late), "{}").unwrap();
        let at = |text: &str| BackupChoice::At(DateTime::parse(text).unwrap()).find(&repository);
        assert_eq!(at("2026-03-04T05:06:07Z").unwrap().0, early);
        assert_eq!(at("2026-03-05T05:06:06.9999999Z").unwrap().0, early);
        assert!(at("2026-03-05T05:06:07Z").is_err());
        assert!(at("2026-03-04T05:06:06Z").is_err());
    }
}
