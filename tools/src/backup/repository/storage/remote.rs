//! A repository in object storage.
//!
//! Objects are written completely or not at all, and are durable when the storage has confirmed them. Commands that
//! only read take no lock, so that they can run with credentials that only allow reading.

use crate::backup::repository::names::{chunk_folder, is_chunk};
use crate::backup::repository::packed;
use crate::backup::repository::storage::{
    Area, DEVELOPMENT_MARKER, ListedFile, MARKER, MARKER_BYTES_MAX, MARKER_TEXT, Storage, check_marker,
    development_error,
};
use anyhow::{Context, bail, ensure};
use object_storage::{ListedObject, ObjectStorage, StorageError};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};
use uuid::Uuid;

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
    let impatient = objects.impatient();
    let get = |name| {
        let found = impatient.get(name, MARKER_BYTES_MAX);
        found.with_context(|| format!("opening the repository {objects}"))
    };
    if let Some(marker) = get(MARKER)? {
        return check_marker(&marker, objects.address_of(MARKER)).map(|()| true);
    }
    if get(DEVELOPMENT_MARKER)?.is_some() {
        return Err(development_error(objects));
    }
    Ok(false)
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

// Locks in object storage, which has none: an object that its owner writes again and again, and that expires.
//
// A process writes its lock and then lists all locks. Of two processes that do this at the same time, at least one
// sees the lock of the other, because listings of S3 and Azure contain every object that was written before. Whoever
// sees a conflicting lock withdraws its own and tries again.
//
// Invariants:
//
// 1. A lock counts until [`LEASE_TIME`] after its last write. The storage determines the times, so the clocks of
//    the machines do not matter.
// 2. The owner relies on its lock only until [`CONFIRMED_TIME`] after it began the last write. The difference is the
//    time that the clocks of the machine and of the storage may drift apart while the process is suspended.
// 3. A lock that has expired is not written again: another process may have acquired a conflicting one since, and
//    everyone would wait for a process that no longer relies on its lock.

const FOLDER: &str = "locks";
/// A lock of a process that has crashed counts for this long.
const LEASE_TIME: Duration = Duration::from_mins(5);
const CONFIRMED_TIME: Duration = Duration::from_secs(4 * 60 + 30);
const RENEWAL_INTERVAL: Duration = Duration::from_secs(30);
const ACQUIRE_TIMEOUT: Duration = Duration::from_mins(1);
/// Before the next attempt, a process waits for a random time between this and the double.
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseKind {
    Shared,
    Exclusive,
}

impl LeaseKind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Shared => ".shared",
            Self::Exclusive => ".exclusive",
        }
    }

    fn conflicts_with(self, name: &str) -> bool {
        self == Self::Exclusive || name.ends_with(Self::Exclusive.suffix())
    }
}

/// A point in time on the clock of the machine. The time since then includes the time in which the machine was
/// suspended, and does not become shorter if the clock is set back.
#[derive(Debug, Clone, Copy)]
struct Moment {
    monotonic: Instant,
    clock: SystemTime,
}

impl Moment {
    fn now() -> Self {
        Self { monotonic: Instant::now(), clock: SystemTime::now() }
    }

    fn elapsed(self) -> Duration {
        self.monotonic.elapsed().max(self.clock.elapsed().unwrap_or_default())
    }
}

/// The lock is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    lock: Arc<Lock>,
    /// `None` only while this is dropped. Dropping the sender ends the thread.
    renewal: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Lock {
    objects: ObjectStorage,
    path: String,
    /// The beginning of the last write that succeeded.
    written: Mutex<Moment>,
}

impl Lease {
    /// Returns `None` if another process holds a conflicting lock for too long.
    pub(super) fn acquire(objects: &ObjectStorage, kind: LeaseKind) -> anyhow::Result<Option<Self>> {
        let name = format!("{}{}", Uuid::new_v4().simple(), kind.suffix());
        let path = format!("{FOLDER}/{name}");
        let began = Instant::now();
        loop {
            let written = Moment::now();
            objects
                .put(&path, Vec::new())
                .with_context(|| format!("writing the lock {}", objects.address_of(&path)))?;
            let lock = Lock { objects: objects.clone(), path: path.clone(), written: Mutex::new(written) };
            // Removes the lock if it cannot be acquired.
            let lease = Self { lock: Arc::new(lock), renewal: None };
            let locks = list(objects).with_context(|| format!("listing {}", objects.address_of(FOLDER)))?;
            let Locks { conflicting, expired } = judge(&locks, &name, kind)?;
            if !conflicting {
                delete_expired(objects, &expired);
                return lease.renew().map(Some);
            }
            drop(lease);
            if began.elapsed() > ACQUIRE_TIMEOUT {
                return Ok(None);
            }
            thread::sleep(random_interval());
        }
    }

    fn renew(mut self) -> anyhow::Result<Self> {
        let (sender, end) = channel();
        let lock = Arc::clone(&self.lock);
        let work = move || {
            while !lock.has_expired() && end.recv_timeout(RENEWAL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = lock.write(&lock.objects.impatient()) {
                    tracing::debug!("a lock was not renewed: {error:#}");
                }
            }
        };
        let thread = thread::Builder::new().name("lock".to_owned()).spawn(work).context("starting a thread")?;
        self.renewal = Some((sender, thread));
        Ok(self)
    }

    /// Fails if other processes may consider the lock expired. Otherwise, it can be relied on for several minutes.
    pub(super) fn confirm(&self) -> anyhow::Result<()> {
        self.lock.write(&self.lock.objects)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.renewal.take() {
            drop(sender);
            // Otherwise, the thread could write the lock after it has been removed.
            drop(thread.join());
        }
        let Lock { objects, path, .. } = self.lock.as_ref();
        if let Err(error) = objects.impatient().delete(&[path]) {
            tracing::warn!("the lock {} could not be removed and expires: {error}", objects.address_of(path));
        }
    }
}

impl Lock {
    fn write(&self, objects: &ObjectStorage) -> anyhow::Result<()> {
        let written = self.write_with(|| objects.put(&self.path, Vec::new()));
        // The lock may have expired during the request.
        if self.has_expired()
            && let Err(error) = objects.impatient().delete(&[&self.path])
        {
            tracing::debug!("an expired lock was not removed: {error}");
        }
        written
    }

    fn write_with(&self, put: impl FnOnce() -> Result<(), StorageError>) -> anyhow::Result<()> {
        let mut written = self.written.lock();
        let address = || self.objects.address_of(&self.path);
        let require_valid = |written: Moment| {
            ensure!(
                written.elapsed() < CONFIRMED_TIME,
                "the lock {} has expired, because the storage was unreachable or the process was suspended; run the command again",
                address()
            );
            Ok(())
        };
        require_valid(*written)?;
        let now = Moment::now();
        let put = put();
        require_valid(*written)?;
        put.with_context(|| format!("writing the lock {}", address()))?;
        *written = now;
        Ok(())
    }

    fn has_expired(&self) -> bool {
        self.written.lock().elapsed() >= CONFIRMED_TIME
    }
}

fn list(objects: &ObjectStorage) -> Result<Vec<ListedObject>, StorageError> {
    let mut locks = Vec::new();
    objects.list(FOLDER, |lock| locks.push(lock))?;
    Ok(locks)
}

#[derive(Debug, PartialEq, Eq)]
struct Locks {
    conflicting: bool,
    expired: Vec<String>,
}

/// `name` is the own lock, which was written last, so that its time is the time of the storage.
fn judge(locks: &[ListedObject], name: &str, kind: LeaseKind) -> anyhow::Result<Locks> {
    let own = locks.iter().find(|lock| lock.name == name).context(
        "the storage does not list an object that it has just stored, so it cannot be used for a repository",
    )?;
    let age = |lock: &ListedObject| own.written.duration_since(lock.written).unwrap_or_default();
    let (expired, valid): (Vec<_>, Vec<_>) = locks.iter().partition(|lock| age(lock) > LEASE_TIME);
    let conflicting = valid.iter().any(|lock| lock.name != name && kind.conflicts_with(&lock.name));
    Ok(Locks { conflicting, expired: expired.into_iter().map(|lock| lock.name.clone()).collect() })
}

fn delete_expired(objects: &ObjectStorage, names: &[String]) {
    let paths: Vec<_> = names.iter().map(|name| format!("{FOLDER}/{name}")).collect();
    if !paths.is_empty()
        && let Err(error) = objects.delete(&paths)
    {
        tracing::debug!("expired locks were not removed: {error}");
    }
}

fn random_interval() -> Duration {
    let (random, _) = Uuid::new_v4().as_u64_pair();
    ATTEMPT_INTERVAL + Duration::from_millis(random % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn lock(name: &str, seconds: u64) -> ListedObject {
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
        ListedObject { name: name.to_owned(), bytes: 0, written }
    }

    #[test]
    fn an_expired_lock_is_not_written_again() {
        let objects = ObjectStorage::new("s3://bucket/prefix".parse().unwrap());
        let lock = |age: Duration| {
            let written = Moment { monotonic: Instant::now(), clock: SystemTime::now() - age };
            Lock { objects: objects.clone(), path: "locks/a.shared".to_owned(), written: Mutex::new(written) }
        };
        let (valid, expired) = (lock(CONFIRMED_TIME / 2), lock(CONFIRMED_TIME));
        assert!(valid.write_with(|| Ok(())).is_ok() && !valid.has_expired());
        let error = expired.write_with(|| panic!("the lock is written")).unwrap_err().to_string();
        assert!(error.contains("s3://bucket/prefix/locks/a.shared has expired") && expired.has_expired(), "{error}");
    }

    #[test]
    fn only_exclusive_locks_conflict_with_shared_ones() {
        let conflicts = |own: &str, kind, other| {
            let locks = judge(&[lock(other, 0), lock(own, 5)], own, kind).unwrap();
            assert_eq!(locks.expired, [""; 0]);
            locks.conflicting
        };
        assert!(!conflicts("a.shared", LeaseKind::Shared, "b.shared"));
        assert!(conflicts("a.shared", LeaseKind::Shared, "b.exclusive"));
        assert!(conflicts("a.exclusive", LeaseKind::Exclusive, "b.shared"));
        assert!(conflicts("a.exclusive", LeaseKind::Exclusive, "b.exclusive"));
        let alone = judge(&[lock("a.exclusive", 0)], "a.exclusive", LeaseKind::Exclusive).unwrap();
        assert!(!alone.conflicting);
    }

    #[test]
    fn a_lock_expires_by_the_clock_of_the_storage() {
        let last = LEASE_TIME.as_secs();
        for (age, is_expired) in [(0, false), (last, false), (last + 1, true)] {
            let locks = [lock("b.exclusive", 0), lock("a.shared", age)];
            let locks = judge(&locks, "a.shared", LeaseKind::Shared).unwrap();
            assert_eq!((locks.conflicting, locks.expired.len()), (!is_expired, usize::from(is_expired)), "{age}");
        }
        // Another process wrote later than this one.
        let later = judge(&[lock("b.exclusive", 9), lock("a.shared", 0)], "a.shared", LeaseKind::Shared).unwrap();
        assert!(later.conflicting);
    }

    #[test]
    fn the_time_since_a_write_includes_suspension_and_ignores_a_clock_that_was_set_back() {
        let hour = Duration::from_hours(1);
        let suspended = Moment { monotonic: Instant::now(), clock: SystemTime::now() - hour };
        assert!(suspended.elapsed() >= hour);
        let set_back = Moment { monotonic: Instant::now(), clock: SystemTime::now() + hour };
        assert!(set_back.elapsed() < hour);
    }

    #[test]
    fn a_storage_with_outdated_listings_is_refused() {
        assert!(judge(&[lock("b.shared", 0)], "a.shared", LeaseKind::Shared).is_err());
    }
}
