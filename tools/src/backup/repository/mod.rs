//! A repository: the folder that stores backups, with their manifests and the chunks that they share.
//! `docs/backup-format.md` describes the format. This module must not know where snapshots come from.
//!
//! Invariants:
//!
//! 1. A manifest is written after all its chunks are on disk. An interrupted backup therefore never looks complete, and
//!    the next backup reuses its chunks.
//! 2. A chunk is removed after every manifest that references it, and only by a process that holds the exclusive lock.
//! 3. Only the owner can read the files.
//! 4. Other users may have written anything to a repository: names are therefore checked before they are used, and
//!    files are accessed through `folder.rs`. Files whose names Rowhouse does not assign are neither read nor removed.

mod chunk;
mod entity_bytes;
mod folder;
mod manifest;
mod names;
mod packed;
mod parts;
mod transactions;

pub(super) use chunk::{ChunkContent, Chunker};
pub(super) use entity_bytes::{
    ENTITY_BYTES_MAX, ENTITY_OVERHEAD_BYTES, check_entity, describe, each_entity, push_entity,
};
pub(super) use manifest::{
    AccountEntry, BackupManifest, ChunkEntry, LogPosition, TableContent, TableEntry, name_of_time, seven_digits,
};
pub(super) use parts::{PartContent, PartFolder, PartName, PartRange};
pub(super) use transactions::{TRANSACTION_BYTES_MAX, push_transaction};

use anyhow::{Context, bail, ensure};
use chunk::CHUNK_FILE_BYTES_MAX;
use folder::Folder;
use manifest::MANIFEST_BYTES_MAX;
use names::{is_backup, is_chunk, is_chunk_folder, is_incomplete, is_log};
use packed::PackedHeader;
use platform::Access;
use platform::files::{exposure_warning, private_folder, sync_folder};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MARKER: &str = "rowhouse.backups";
const MARKER_TEXT: &str = "rowhouse backups\nformat 1\nWritten by Rowhouse. Do not edit or delete this file.\n";
const LOCK: &str = "rowhouse.lock";
const MANIFESTS: &str = "backups";
const CHUNKS: &str = "chunks";
/// The folder of the parts of change logs, which continue the backups.
const LOGS: &str = "log";
const MANIFEST_EXTENSION: &str = ".json";
const MARKER_BYTES_MAX: u64 = 4096;

const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The lock is shared with other processes that do not remove backups.
#[derive(Debug)]
pub(super) struct Repository {
    root: Folder,
    chunks: Folder,
    manifests: Folder,
    lock: File,
    /// Keeps the names of unfinished files distinct.
    unfinished: AtomicU64,
}

#[derive(Debug)]
pub(super) struct StoredChunk {
    pub(super) entry: ChunkEntry,
    pub(super) is_new: bool,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RemovalSummary {
    pub(super) backups: u64,
    pub(super) chunks: u64,
    pub(super) parts: u64,
    pub(super) bytes: u64,
}

impl Repository {
    /// A missing or empty folder becomes a repository.
    pub(super) fn create_or_open(path: &Path) -> anyhow::Result<Self> {
        let is_empty = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let was_begun = !path.join(MARKER).exists() && path.join(names::incomplete_name(MARKER)).exists();
        if is_empty || was_begun {
            create(path).with_context(|| format!("creating a repository in {}", path.display()))?;
        }
        Self::open_or_advise(path, "pass a missing or empty folder to start a new repository")
    }

    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        ensure!(path.exists(), "there is no backup repository at {}", path.display());
        Self::open_or_advise(path, "pass the folder that 'rowhouse backup --to' wrote")
    }

    fn open_or_advise(path: &Path, advice: &str) -> anyhow::Result<Self> {
        let root = Folder::open(path).ok();
        let marker = root.and_then(|root| Some((root.read(MARKER, MARKER_BYTES_MAX).ok()?, root)));
        let (marker, root) = marker.with_context(|| {
            format!("{} is not a backup repository: it contains no readable file {MARKER}; {advice}", path.display())
        })?;
        ensure!(
            marker == MARKER_TEXT.as_bytes(),
            "{} is damaged, or was written by a later version of Rowhouse",
            root.path_of(MARKER).display()
        );
        // Some file systems lock only files that are open for writing. For a user without write access, the file is
        // opened for reading.
        let lock = root.file(LOCK, Access::ReadWrite).or_else(|_| root.file(LOCK, Access::Read));
        let lock = lock.with_context(|| format!("opening the lock {}", root.path_of(LOCK).display()))?;
        wait_for(|| lock.try_lock_shared()).with_context(|| {
            format!("another process is removing old backups from {}; try again later", path.display())
        })?;
        if let Some(warning) = exposure_warning(path) {
            tracing::warn!("{warning}");
        }
        let folder = |name| root.folder(name)?.with_context(|| format!("{} is missing", root.path_of(name).display()));
        let (chunks, manifests) = (folder(CHUNKS)?, folder(MANIFESTS)?);
        Ok(Self { root, chunks, manifests, lock, unfinished: AtomicU64::new(0) })
    }

    /// Does nothing if the chunk already exists. The chunk is durable once [`Self::add`] has returned.
    pub(super) fn store(&self, content: &ChunkContent) -> anyhow::Result<StoredChunk> {
        let name = chunk::name(&content.bytes);
        let folder = self.chunks.open_or_create_folder(chunk_folder(&name))?;
        let bytes = content.bytes.len() as u64;
        let entry = |stored| ChunkEntry { sha256: name.clone(), bytes, stored, entities: content.entities };
        if let Some(stored) = complete_chunk(&folder, &name, bytes) {
            return Ok(StoredChunk { entry: entry(stored), is_new: false });
        }
        let file = chunk::encode(&content.bytes)?;
        self.write(&folder, &name, &file)
            .with_context(|| format!("writing chunk {}", folder.path_of(&name).display()))?;
        Ok(StoredChunk { entry: entry(file.len() as u64), is_new: true })
    }

    pub(super) fn chunk(&self, entry: &ChunkEntry) -> anyhow::Result<Vec<u8>> {
        let name = &entry.sha256;
        let prefix = chunk_folder(name);
        let path = self.chunks.path_of(prefix).join(name);
        let missing = || format!("chunk {} is missing", path.display());
        let folder = self.chunks.folder(prefix)?.with_context(missing)?;
        let file = match folder.read(name, CHUNK_FILE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(missing()),
            file => file.with_context(|| format!("reading chunk {}", path.display()))?,
        };
        let what = || format!("chunk {} is damaged", path.display());
        let content = chunk::decode(name, &file).with_context(what)?;
        ensure!(content.len() as u64 == entry.bytes, "{}: its length differs from the manifest", what());
        Ok(content)
    }

    /// All chunks of the backup must already be stored. Returns the name of the backup.
    pub(super) fn add(&self, manifest: &BackupManifest) -> anyhow::Result<String> {
        let what = || format!("adding the backup to {}", self.root.path_of("").display());
        let folders: HashSet<&str> = manifest.chunks().map(|entry| chunk_folder(&entry.sha256)).collect();
        // Also sync folders of chunks that already existed, because the process that wrote them may have exited before
        // it synced these folders.
        for name in folders {
            if let Some(folder) = self.chunks.folder(name)? {
                folder.sync().with_context(what)?;
            }
        }
        self.chunks.sync().with_context(what)?;
        let (id, bytes) = manifest.encode()?;
        self.write(&self.manifests, &manifest_name(&id), &bytes).with_context(what)?;
        self.manifests.sync().with_context(what)?;
        Ok(id)
    }

    /// Returns the oldest backup first.
    pub(super) fn backups(&self) -> anyhow::Result<Vec<String>> {
        let names = self.manifests.names()?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(MANIFEST_EXTENSION)).filter(|id| is_backup(id));
        let mut ids: Vec<String> = ids.map(str::to_owned).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    pub(super) fn manifest(&self, id: &str) -> anyhow::Result<BackupManifest> {
        let missing = || {
            let root = self.root.path_of("");
            format!("there is no backup {id} in {}; rowhouse backup --list shows the existing ones", root.display())
        };
        ensure!(is_backup(id), missing());
        let name = manifest_name(id);
        match self.manifests.read(&name, MANIFEST_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(missing()),
            bytes => {
                let path = self.manifests.path_of(&name);
                BackupManifest::decode(id, &bytes.with_context(|| format!("reading {}", path.display()))?)
            }
        }
    }

    /// Returns the parts of a log, or `None` if none was ever written.
    pub(super) fn log(&self, id: &str) -> anyhow::Result<Option<PartFolder>> {
        ensure!(is_log(id), "'{id}' is not the name of a log");
        let logs = self.root.folder(LOGS)?;
        Ok(logs.map(|logs| logs.folder(id)).transpose()?.flatten().map(PartFolder))
    }

    pub(super) fn create_log(&self, id: &str) -> anyhow::Result<PartFolder> {
        ensure!(is_log(id), "'{id}' is not the name of a log");
        let logs = self.root.open_or_create_folder(LOGS)?;
        let folder = logs.open_or_create_folder(id)?;
        logs.sync().and_then(|()| self.root.sync()).context("creating the folder of a log")?;
        Ok(PartFolder(folder))
    }

    /// Returns the identifiers of the logs.
    pub(super) fn logs(&self) -> anyhow::Result<Vec<String>> {
        let logs = self.root.folder(LOGS)?;
        let mut names = logs.map(|logs| logs.names()).transpose()?.unwrap_or_default();
        names.retain(|name| is_log(name));
        names.sort_unstable();
        Ok(names)
    }

    /// Keeps the newest `count` backups, and removes the others and the chunks that no kept backup needs.
    ///
    /// An interruption at any point is harmless, because the next call removes the rest. Fails without removing
    /// anything if the new backup would be removed, or if a backup to be kept cannot be read.
    pub(super) fn remove_old(self, count: usize, made: &str) -> anyhow::Result<RemovalSummary> {
        // Both locks are on the same file, so the shared lock is released first. Another process that gets the lock in
        // between does no harm.
        self.lock.unlock().context("unlocking the repository")?;
        wait_for(|| self.lock.try_lock()).with_context(|| {
            format!(
                "old backups were not removed, because another process is using {}; the next backup removes them",
                self.root.path_of("").display()
            )
        })?;
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
        for id in &backups {
            // An unreadable backup may need any chunk, and it cannot replace an older backup.
            let manifest = self.manifest(id).context("old backups were not removed")?;
            if let Some(LogPosition { id, position }) = &manifest.log {
                positions
                    .entry(id.clone())
                    .and_modify(|first: &mut u64| *first = (*position).min(*first))
                    .or_insert(*position);
            }
            needed.extend(manifest.chunks().map(|entry| entry.sha256.clone()));
        }
        for id in old {
            remove(&self.manifests, &manifest_name(&id))?;
            removed.backups += 1;
        }
        self.manifests.sync().context("removing old backups")?;
        self.remove_chunks(&needed, &mut removed)?;
        self.remove_parts(&positions, &mut removed)?;
        Ok(removed)
    }

    fn remove_parts(&self, positions: &HashMap<String, u64>, removed: &mut RemovalSummary) -> anyhow::Result<()> {
        for id in self.logs()? {
            let Some(log) = self.log(&id)? else { continue };
            let mut parts = log.names()?;
            if let Some(position) = positions.get(&id) {
                parts.retain(|part| part.range.next < *position);
            }
            removed.parts += parts.len() as u64;
            removed.bytes += log.remove(&parts)? + log.remove_incomplete()?;
        }
        Ok(())
    }

    fn remove_chunks(&self, needed: &HashSet<String>, removed: &mut RemovalSummary) -> anyhow::Result<()> {
        for prefix in self.chunks.names()?.iter().filter(|name| is_chunk_folder(name)) {
            let Some(folder) = self.chunks.folder(prefix)? else { continue };
            let is_here = |name: &str| is_chunk(name) && chunk_folder(name) == prefix;
            for name in folder.names()? {
                if is_here(&name) && !needed.contains(&name) {
                    removed.bytes += remove(&folder, &name)?;
                    removed.chunks += 1;
                } else if is_incomplete(&name, is_here) {
                    removed.bytes += remove(&folder, &name)?;
                }
            }
        }
        let is_manifest = |name: &str| name.strip_suffix(MANIFEST_EXTENSION).is_some_and(is_backup);
        for name in self.manifests.names()?.iter().filter(|name| is_incomplete(name, is_manifest)) {
            remove(&self.manifests, name)?;
        }
        Ok(())
    }

    fn write(&self, folder: &Folder, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let number = self.unfinished.fetch_add(1, Ordering::Relaxed);
        folder.write(name, &names::incomplete_name(&format!("{name}.{}-{number}", std::process::id())), bytes)
    }
}

fn chunk_folder(name: &str) -> &str {
    name.get(..2).unwrap_or_default()
}

fn manifest_name(id: &str) -> String {
    format!("{id}{MANIFEST_EXTENSION}")
}

/// Returns the length of the file.
fn remove(folder: &Folder, name: &str) -> anyhow::Result<u64> {
    folder.remove(name).with_context(|| format!("removing {}", folder.path_of(name).display()))
}

/// Returns the length of a chunk file if its header and its length are correct. Does not read the content.
fn complete_chunk(folder: &Folder, name: &str, content_bytes: u64) -> Option<u64> {
    let mut file = folder.file(name, Access::Read).ok()?;
    let mut beginning = [0; packed::HEADER_BYTES];
    file.read_exact(&mut beginning).ok()?;
    let header = PackedHeader::decode(chunk::MAGIC, &beginning)?;
    let length = file.metadata().ok()?.len();
    (header.content_bytes == content_bytes && header.file_bytes == length).then_some(length)
}

/// The marker is written last.
fn create(path: &Path) -> anyhow::Result<()> {
    private_folder().recursive(true).create(path)?;
    let root = Folder::open(path)?;
    let unfinished = names::incomplete_name(MARKER);
    let mut marker = root.file(&unfinished, Access::WriteOrCreate)?;
    marker.set_len(0)?;
    marker.write_all(MARKER_TEXT.as_bytes())?;
    marker.sync_all()?;
    root.open_or_create_folder(CHUNKS)?;
    root.open_or_create_folder(MANIFESTS)?;
    root.file(LOCK, Access::WriteOrCreate)?.sync_all()?;
    root.rename(&unfinished, MARKER)?;
    root.sync()?;
    match path.canonicalize()?.parent() {
        Some(parent) => Ok(sync_folder(parent)?),
        None => Ok(()),
    }
}

fn wait_for(lock: impl Fn() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match lock() {
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIMEOUT => {
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
        let repository = || Repository::create_or_open(&root).unwrap();
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

    #[cfg(unix)]
    #[test]
    fn a_chunk_or_a_manifest_without_end_is_not_read() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let repository = Repository::create_or_open(place.path()).unwrap();
        let name = "ab".repeat(32);
        let entry = ChunkEntry { sha256: name.clone(), bytes: 9, stored: 37, entities: 1 };
        let folder = place.path().join(CHUNKS).join("ab");
        fs::create_dir(&folder).unwrap();
        symlink("/dev/zero", folder.join(&name)).unwrap();
        let error = format!("{:#}", repository.chunk(&entry).unwrap_err());
        assert!(error.contains("not a regular file"), "{error}");
        fs::remove_file(folder.join(&name)).unwrap();
        File::create(folder.join(&name)).unwrap().set_len(1 << 40).unwrap();
        let error = format!("{:#}", repository.chunk(&entry).unwrap_err());
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
        let repository = Repository::create_or_open(folder.path()).unwrap();
        let early = add(&repository, "2026-03-04T05:06:07.0000000Z");
        let late = add(&repository, "2026-03-05T05:06:07.0000000Z");
        fs::write(repository.manifests.path_of(&manifest_name(&late)), "{}").unwrap();
        let at = |text: &str| BackupChoice::At(DateTime::parse(text).unwrap()).find(&repository);
        assert_eq!(at("2026-03-04T05:06:07Z").unwrap().0, early);
        assert_eq!(at("2026-03-05T05:06:06.9999999Z").unwrap().0, early);
        assert!(at("2026-03-05T05:06:07Z").is_err());
        assert!(at("2026-03-04T05:06:06Z").is_err());
    }
}
