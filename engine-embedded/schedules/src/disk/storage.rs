//! A model of the storage library, limited to the behaviour on which the engine's threads depend.
//!
//! A batch gets a sequence number, is written to the journal, and is added to the memtable item by item. Then its
//! number becomes visible. A flush also makes a number visible, at any time. A get sees the latest item; a snapshot
//! sees the items with lower numbers than the visible one, even if they are added later. After a failed write, the
//! library refuses all writes.

use crate::disk::folder::{Contents, Disk, Folder, Items};
use crate::disk::layout::{self, EngineEntry, TableId};
use crate::disk::open_error::OpenError;
use crate::disk::preflight::{Acknowledged, IncompleteWrites};
use crate::disk::visibility::Visibility;
use crate::sync::Mutex as Lock;
use crate::sync::atomic::{AtomicU64, Ordering};
use engine::Fault;
use engine::parts::cancellation::Cancellation;
use engine::parts::catalog::Catalog;
use engine::parts::properties::AccountProperties;
use fjall::{Error, PersistMode, UserKey, UserValue};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenSettings {
    pub(crate) cache_bytes: u64,
    pub(crate) incomplete_writes: IncompleteWrites,
}

pub(crate) struct Recovered {
    pub(crate) catalog: Catalog<TableId>,
    pub(crate) properties: AccountProperties,
}

pub(crate) struct Storage {
    pub(crate) db: Database,
    pub(crate) data: Keyspace,
    visibility: Visibility,
    pub(crate) retired: Cancellation,
}

#[derive(Debug, Clone)]
pub(crate) struct Database(Arc<Library>);

#[derive(Debug, Clone)]
pub(crate) struct Keyspace(Arc<Library>);

/// A value, or `None` for a deletion, with its number.
type ItemVersion = (u64, Option<UserValue>);

#[derive(Debug)]
struct Library {
    disk: Arc<Disk>,
    next_number: AtomicU64,
    visible: AtomicU64,
    /// Held while a batch is written. Contains whether a write has failed.
    journal: Lock<bool>,
    /// The versions of each item with their numbers, in ascending order. Never locked while another thread may run.
    memtable: Mutex<BTreeMap<Vec<u8>, Vec<ItemVersion>>>,
    highest_written: Mutex<Option<u64>>,
    accesses: AtomicU64,
}

impl Drop for Library {
    fn drop(&mut self) {
        self.disk.close();
    }
}

impl Library {
    fn open(disk: &Arc<Disk>, acknowledged: Acknowledged) -> Arc<Self> {
        disk.open();
        let (next, contents) = disk.recover(acknowledged);
        let versions = contents.into_iter().map(|(key, value)| (key, vec![(0, Some(value))])).collect();
        Arc::new(Self {
            disk: Arc::clone(disk),
            next_number: AtomicU64::new(next.max(1)),
            visible: AtomicU64::new(next.max(1)),
            journal: Lock::new(false),
            memtable: Mutex::new(versions),
            highest_written: Mutex::new(next.checked_sub(1)),
            accesses: AtomicU64::new(0),
        })
    }

    /// The scheduler may continue with another thread here.
    fn access(&self) {
        self.accesses.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self, key: &[u8], below: u64) -> Option<UserValue> {
        self.access();
        let memtable = self.memtable.lock().unwrap();
        let mut versions = memtable.get(key)?.iter().rev();
        versions.find(|(number, _)| *number < below)?.1.clone()
    }

    fn commit(&self, items: &Items, is_synced: bool) -> fjall::Result<()> {
        let mut has_failed = self.journal.lock().map_err(|_| Error::Poisoned)?;
        if *has_failed {
            self.disk.violation("a database that has refused a write was written to");
            return Err(Error::Poisoned);
        }
        let number = self.next_number.fetch_add(1, Ordering::SeqCst);
        self.disk.append(number, items, is_synced).map_err(|error| {
            *has_failed = true;
            Error::Io(error)
        })?;
        for (key, value) in items {
            self.access();
            let mut memtable = self.memtable.lock().unwrap();
            let versions = memtable.entry(key.clone()).or_default();
            match versions.last_mut().filter(|(last, _)| *last == number) {
                // The later one of two items with one number wins.
                Some((_, last)) => last.clone_from(value),
                None => versions.push((number, value.clone())),
            }
        }
        *self.highest_written.lock().unwrap() = Some(number);
        self.visible.fetch_max(number + 1, Ordering::SeqCst);
        Ok(())
    }
}

impl Database {
    pub(crate) fn batch(&self) -> OwnedWriteBatch {
        OwnedWriteBatch { library: Arc::clone(&self.0), items: Vec::new(), is_synced: false }
    }

    pub(crate) fn seqno(&self) -> u64 {
        self.0.next_number.load(Ordering::SeqCst)
    }

    pub(crate) fn visible_seqno(&self) -> u64 {
        self.0.visible.load(Ordering::SeqCst)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { below: self.visible_seqno() }
    }

    /// Does what the library does when it installs a new list of files.
    pub(crate) fn flush(&self) {
        let number = self.0.next_number.fetch_add(1, Ordering::SeqCst);
        self.0.visible.fetch_max(number + 1, Ordering::SeqCst);
    }
}

impl Keyspace {
    pub(crate) fn get(&self, key: impl AsRef<[u8]>) -> fjall::Result<Option<UserValue>> {
        Ok(self.0.get(key.as_ref(), u64::MAX))
    }

    pub(crate) fn disk_space(&self) -> u64 {
        0
    }
}

pub(crate) struct OwnedWriteBatch {
    library: Arc<Library>,
    items: Items,
    is_synced: bool,
}

impl OwnedWriteBatch {
    pub(crate) fn insert(&mut self, _: &Keyspace, key: impl Into<UserKey>, value: impl Into<UserValue>) {
        self.items.push((key.into().to_vec(), Some(value.into())));
    }

    pub(crate) fn remove(&mut self, _: &Keyspace, key: impl Into<UserKey>) {
        self.items.push((key.into().to_vec(), None));
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn durability(mut self, mode: Option<PersistMode>) -> Self {
        self.is_synced = mode.is_some_and(|mode| mode != PersistMode::Buffer);
        self
    }

    pub(crate) fn commit(self) -> fjall::Result<()> {
        self.library.commit(&self.items, self.is_synced)
    }
}

pub(crate) struct Snapshot {
    below: u64,
}

impl Snapshot {
    pub(crate) fn get(&self, data: &Keyspace, key: impl AsRef<[u8]>) -> fjall::Result<Option<UserValue>> {
        Ok(data.0.get(key.as_ref(), self.below))
    }
}

impl Storage {
    pub(crate) fn open(disk: &Arc<Disk>) -> Self {
        Self::new(Library::open(disk, Acknowledged::Unknown))
    }

    pub(crate) fn reopen(folder: &Folder, _: OpenSettings, acknowledged: Acknowledged) -> Result<Self, OpenError> {
        Ok(Self::new(Library::open(folder.disk(), acknowledged)))
    }

    fn new(library: Arc<Library>) -> Self {
        let (db, data) = (Database(Arc::clone(&library)), Keyspace(library));
        Self { db, data, visibility: Visibility::new(), retired: Cancellation::default() }
    }

    pub(crate) fn recover(&self) -> Result<Recovered, OpenError> {
        let mut catalog = Catalog::default();
        for (key, versions) in self.db.0.memtable.lock().unwrap().iter() {
            if let Some((_, Some(value))) = versions.last()
                && key.starts_with(layout::CATALOG_PREFIX)
            {
                let entry = layout::decode_catalog_entry(key, value).unwrap();
                catalog.insert(&entry.table, entry.id);
            }
        }
        Ok(Recovered { catalog, properties: AccountProperties::default() })
    }

    pub(crate) fn acknowledged(&self, incomplete_writes: IncompleteWrites) -> Acknowledged {
        match incomplete_writes {
            IncompleteWrites::Everything => Acknowledged::Unknown,
            IncompleteWrites::LastBatch => Acknowledged::UpTo(*self.db.0.highest_written.lock().unwrap()),
        }
    }

    pub(crate) fn refuses_writes(&self) -> bool {
        self.db.0.journal.lock().map_or(true, |has_failed| *has_failed)
    }

    pub(crate) fn wait_for_room(&self) {}

    pub(crate) fn blocks_loaded(&self) -> u64 {
        0
    }

    // The following three methods repeat methods of the engine's module.

    pub(crate) fn write(&self, batch: OwnedWriteBatch) -> fjall::Result<()> {
        self.visibility.write(|| self.db.seqno(), || batch.commit())
    }

    pub(crate) fn try_snapshot(&self) -> Option<Snapshot> {
        self.visibility.snapshot(|| self.db.snapshot(), || self.db.visible_seqno())
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        loop {
            if let Some(snapshot) = self.try_snapshot() {
                return snapshot;
            }
            self.visibility.wait();
        }
    }

    pub(crate) fn wait_for_batch(&self) {
        self.visibility.wait();
    }
}

pub(crate) fn storage_fault(error: Error) -> Fault {
    Fault::Storage(Box::new(error))
}
