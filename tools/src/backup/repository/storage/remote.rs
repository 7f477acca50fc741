//! A repository in object storage.
//!
//! Objects are written completely or not at all, and are durable when the storage has confirmed them. Commands that
//! only read take no lock, so that they can run with credentials that only allow reading.

use super::super::names::{chunk_folder, is_chunk};
use super::super::packed;
use super::lease::{Lease, LeaseKind};
use super::{Area, ListedFile, MARKER, MARKER_BYTES_MAX, MARKER_TEXT, Storage};
use anyhow::{Context, bail, ensure};
use object_storage::{ListedObject, ObjectStorage};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The threads mostly wait for the storage. Each holds a chunk.
const WRITERS: usize = 16;
const READERS: usize = 8;
/// The number of objects that are removed between two confirmations of the lock.
const REMOVED_AT_ONCE: usize = 1000;

#[derive(Debug)]
pub(super) struct RemoteStorage {
    objects: ObjectStorage,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lease: Option<Lease>,
    /// The sizes of the files of chunks by their hashes.
    chunks: HashMap<ChunkHash, u64>,
}

/// The two halves of a hash.
type ChunkHash = (u128, u128);

impl RemoteStorage {
    /// A place without objects becomes a repository.
    pub(super) fn create_or_open(objects: &ObjectStorage) -> anyhow::Result<Self> {
        if !has_marker(objects)? {
            let is_empty = objects.is_empty().with_context(|| format!("listing {objects}"))?;
            ensure!(
                is_empty,
                "{objects} is not a backup repository: it contains objects, but no {MARKER}; pass a prefix without objects to start \
                 a new repository"
            );
            let written = objects.put(MARKER, MARKER_TEXT.as_bytes().to_vec());
            written.with_context(|| format!("creating a repository in {objects}"))?;
        }
        Ok(Self { objects: objects.clone(), state: Mutex::default() })
    }

    pub(super) fn open(objects: &ObjectStorage) -> anyhow::Result<Self> {
        ensure!(has_marker(objects)?, "there is no backup repository at {objects}: there is no object {MARKER}");
        Ok(Self { objects: objects.clone(), state: Mutex::default() })
    }
}

/// The first request fails soon if the storage is unreachable.
fn has_marker(objects: &ObjectStorage) -> anyhow::Result<bool> {
    let marker = objects.impatient().get(MARKER, MARKER_BYTES_MAX);
    let Some(marker) = marker.with_context(|| format!("opening the repository {objects}"))? else { return Ok(false) };
    ensure!(
        marker == MARKER_TEXT.as_bytes(),
        "{} is damaged, or was written by a later version of Rowhouse",
        objects.address_of(MARKER)
    );
    Ok(true)
}

fn hash(name: &str) -> Option<ChunkHash> {
    let (first, second) = name.split_at_checked(name.len() / 2)?;
    Some((u128::from_str_radix(first, 16).ok()?, u128::from_str_radix(second, 16).ok()?))
}

/// Returns `None` if the object is at another depth than the files of the area.
fn listed_file(area: Area, object: ListedObject) -> Option<ListedFile> {
    let ListedObject { name, bytes, .. } = object;
    let (subfolder, name) = match area.subfolders() {
        None => ("", name.as_str()),
        Some(is_subfolder) => name.split_once('/').filter(|(subfolder, _)| is_subfolder(subfolder))?,
    };
    let is_here = !name.contains('/');
    is_here.then(|| ListedFile { area, subfolder: subfolder.to_owned(), name: name.to_owned(), bytes })
}

impl Storage for RemoteStorage {
    fn path_of(&self, path: &str) -> String {
        self.objects.address_of(path)
    }

    fn read(&self, path: &str, bytes_max: u64) -> anyhow::Result<Option<Vec<u8>>> {
        Ok(self.objects.get(path, bytes_max)?)
    }

    fn write(&self, path: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        Ok(self.objects.put(path, bytes)?)
    }

    fn sync(&self, _: &[&str]) -> anyhow::Result<()> {
        Ok(())
    }

    fn list(&self, area: Area, sink: &mut dyn FnMut(ListedFile)) -> anyhow::Result<()> {
        let listed = self.objects.list(area.folder(), |object| {
            if let Some(file) = listed_file(area, object) {
                sink(file);
            }
        });
        listed.with_context(|| format!("listing {}", self.path_of(area.folder())))
    }

    fn remove(&self, files: &[ListedFile]) -> anyhow::Result<u64> {
        for some in files.chunks(REMOVED_AT_ONCE) {
            let paths: Vec<_> = some.iter().map(ListedFile::path).collect();
            self.confirm()?;
            self.objects.delete(&paths).with_context(|| format!("removing objects from {}", self.objects))?;
        }
        Ok(files.iter().map(|file| file.bytes).sum())
    }

    /// An object is never incomplete, so its size is only checked roughly.
    fn chunk_bytes(&self, name: &str, content_bytes: u64) -> Option<u64> {
        let header_bytes = packed::HEADER_BYTES as u64;
        let bytes = *self.state.lock().chunks.get(&hash(name)?)?;
        (header_bytes < bytes && bytes <= header_bytes + content_bytes).then_some(bytes)
    }

    fn begin_backup(&self) -> anyhow::Result<()> {
        let lease = Lease::acquire(&self.objects, LeaseKind::Shared)?.with_context(|| {
            format!("another process is removing old backups from {}; try again later", self.objects)
        })?;
        let mut chunks = HashMap::new();
        self.list(Area::Chunks, &mut |file| {
            if is_chunk(&file.name)
                && chunk_folder(&file.name) == file.subfolder
                && let Some(hash) = hash(&file.name)
            {
                chunks.insert(hash, file.bytes);
            }
        })?;
        *self.state.lock() = State { lease: Some(lease), chunks };
        Ok(())
    }

    fn begin_removal(&self) -> anyhow::Result<()> {
        // Releases the shared lock.
        *self.state.lock() = State::default();
        let Some(lease) = Lease::acquire(&self.objects, LeaseKind::Exclusive)? else {
            bail!(
                "old backups were not removed, because another process is using {}; the next backup removes them",
                self.objects
            );
        };
        self.state.lock().lease = Some(lease);
        Ok(())
    }

    fn confirm(&self) -> anyhow::Result<()> {
        match &self.state.lock().lease {
            Some(lease) => lease.confirm(),
            None => Ok(()),
        }
    }

    fn writers(&self) -> usize {
        WRITERS
    }

    fn readers(&self) -> usize {
        READERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn objects_that_are_not_at_the_place_of_a_file_are_ignored() {
        let log = "0a".repeat(16);
        let object = |name: &str| ListedObject { name: name.to_owned(), bytes: 7, written: SystemTime::UNIX_EPOCH };
        for (area, name, expected) in [
            (Area::Manifests, "id.json", Some("backups/id.json")),
            (Area::Manifests, "ab/id.json", None),
            (Area::Chunks, "ab/chunk", Some("chunks/ab/chunk")),
            (Area::Chunks, "chunk", None),
            (Area::Chunks, "AB/chunk", None),
            (Area::Chunks, "ab/cd/chunk", None),
            (Area::Logs, &format!("{log}/part"), Some(format!("log/{log}/part").as_str())),
            (Area::Logs, "notes/part", None),
        ] {
            let file = listed_file(area, object(name));
            assert_eq!(file.map(|file| file.path()).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn hashes_differ_if_any_digit_does() {
        let name = "0a".repeat(32);
        for at in 0..name.len() {
            let mut other = name.clone();
            other.replace_range(at..=at, "f");
            assert!(hash(&other).is_some() && hash(&other) != hash(&name), "{at}");
        }
        assert_eq!(hash("no hash"), None);
    }
}
