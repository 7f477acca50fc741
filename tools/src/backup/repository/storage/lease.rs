//! Locks in object storage, which has none: an object that its owner writes again and again, and that expires.
//!
//! A process writes its lock and then lists all locks. Of two processes that do this at the same time, at least one
//! sees the lock of the other, because listings of S3 and Azure contain every object that was written before. Whoever
//! sees a conflicting lock withdraws its own and tries again.
//!
//! Invariants:
//!
//! 1. A lock counts until [`LEASE_TIME`] after its last write. The storage determines the times, so the clocks of
//!    the machines do not matter.
//! 2. The owner relies on its lock only until [`CONFIRMED_TIME`] after it began the last write. The difference is the
//!    time that the clocks of the machine and of the storage may drift apart while the process is suspended.
//! 3. A lock that has expired is not written again: another process may have acquired a conflicting one since, and
//!    everyone would wait for a process that no longer relies on its lock.

use anyhow::{Context, ensure};
use object_storage::{ListedObject, ObjectStorage, StorageError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};
use uuid::Uuid;

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
