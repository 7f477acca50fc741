//! A model of the library `lsm-tree`, limited to the behavior on which the engine's threads depend.
//!
//! A list names memtables and files. A read with the number N searches a list: first the active memtable, then the
//! sealed ones, then the files, from the newest to the oldest, and returns the first item below N. A flush and a merge
//! drop the items of a key that are older than an item below the bound, and a merge also drops tombstones.

use crate::hardware::{Hardware, SortedFile, Versions};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex as Lock, MutexGuard, RwLock, RwLockWriteGuard};
use byteview::ByteView;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fmt, io};

pub(crate) type UserKey = ByteView;
pub(crate) type UserValue = ByteView;

#[derive(Debug)]
pub(crate) enum Error {
    Io(io::Error),
    Unrecoverable,
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Unrecoverable => f.write_str("unrecoverable"),
        }
    }
}

impl std::error::Error for Error {}

pub(crate) type Bounds<'b> = (Bound<&'b [u8]>, Bound<&'b [u8]>);
pub(crate) type Items = Box<dyn DoubleEndedIterator<Item = Result<(UserKey, UserValue), Error>> + Send>;

/// Returns a sorted file with the items of other files or memtables, without those that the library drops.
fn merged(parts: impl Iterator<Item = Versions>, bound: u64, drops_tombstones: bool) -> SortedFile {
    let mut items = Versions::new();
    for (key, versions) in parts.flatten() {
        items.entry(key).or_default().extend(versions);
    }
    for versions in items.values_mut() {
        versions.sort_unstable_by_key(|(number, _)| *number);
        let newest_below = versions.iter().rposition(|(number, _)| *number < bound);
        let newest = versions.len() - 1;
        // The library compares the number of the older item, and keeps only the newer one.
        if let Some(index) = newest_below {
            versions.drain(..if index < newest { index + 1 } else { index });
        }
        if drops_tombstones && versions.first().is_some_and(|(_, value)| value.is_none()) {
            versions.remove(0);
        }
    }
    items.retain(|_, versions| !versions.is_empty());
    Arc::new(items)
}

/// A list of memtables and files, both from the newest to the oldest.
#[derive(Debug, Clone)]
pub(crate) struct List {
    memtables: Vec<Arc<Memtable>>,
    files: Vec<SortedFile>,
}

impl List {
    pub(crate) fn newest(library: &Tree, memtables: Vec<Arc<Memtable>>) -> Self {
        Self { memtables, files: library.latest().files }
    }

    pub(crate) fn memtables(&self) -> &[Arc<Memtable>] {
        &self.memtables
    }

    pub(crate) fn uppermost_runs(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn get(&self, key: &[u8], below: u64) -> Result<Option<UserValue>, Error> {
        let newest = |items: &Versions| {
            let versions = items.get(key)?.iter().rev();
            versions.clone().find(|(number, _)| *number < below).cloned()
        };
        for memtable in &self.memtables {
            memtable.access();
            let found = newest(&memtable.items.lock().unwrap());
            if let Some((_, value)) = found {
                return Ok(value);
            }
        }
        Ok(self.files.iter().find_map(|file| newest(file)).and_then(|(_, value)| value))
    }

    pub(crate) fn range(&self, bounds: Bounds<'_>, below: u64) -> Items {
        let mut keys: Vec<_> = self.files.iter().flat_map(|file| file.keys().cloned()).collect();
        for memtable in &self.memtables {
            keys.extend(memtable.items.lock().unwrap().keys().cloned());
        }
        keys.retain(|key| RangeBounds::<[u8]>::contains::<[u8]>(&bounds, key));
        keys.sort_unstable();
        keys.dedup();
        let list = self.clone();
        Box::new(keys.into_iter().filter_map(move |key| {
            let value = list.get(&key, below).transpose()?;
            Some(value.map(|value| (key, value)))
        }))
    }
}

/// The newest list. The library also keeps older ones, which the engine does not use.
#[derive(Debug)]
pub(crate) struct Lists(List);

impl Lists {
    /// Removes older lists.
    pub(crate) fn maintenance(&mut self, _: &Path, _: u64) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) path: PathBuf,
}

#[allow(clippy::large_enum_variant, reason = "the library's type has the same variants")]
pub(crate) enum AnyTree {
    Standard(Tree),
    Blob(OtherTree),
}

/// A kind of tree that the engine does not use.
pub(crate) struct OtherTree;

impl Config {
    pub(crate) fn open(self) -> Result<AnyTree, Error> {
        let hardware = Hardware::current();
        let files = hardware.sorted_files();
        let list = List { memtables: vec![Memtable::new(0)], files };
        hardware.install_list(&list.files)?;
        Ok(AnyTree::Standard(Tree {
            config: self,
            hardware,
            lists: RwLock::new(Lists(list)),
            flushing: Lock::new(()),
            installing: Lock::new(()),
            memtables: AtomicU64::new(1),
        }))
    }
}

#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) config: Config,
    hardware: Arc<Hardware>,
    lists: RwLock<Lists>,
    flushing: Lock<()>,
    /// Held while a list is installed, and while the files of a merge are chosen.
    installing: Lock<()>,
    memtables: AtomicU64,
}

/// Makes the imports of the engine's modules valid. The methods of this trait are methods of [`Tree`] here.
pub(crate) trait AbstractTree {}

/// The parameters of [`Table::recover`], which the model does not have.
pub(crate) struct Cache;
pub(crate) struct Checksum;

impl Cache {
    pub(crate) fn with_capacity_bytes(_: u64) -> Self {
        Self
    }
}

impl Checksum {
    pub(crate) fn from_raw(_: u128) -> Self {
        Self
    }
}

/// A sorted file that is opened outside of a tree. The model has none, because no scenario inspects a folder before it
/// opens it.
pub(crate) enum Table {}

impl Table {
    #[allow(clippy::too_many_arguments, reason = "the library's function has the same parameters")]
    pub(crate) fn recover(
        _: PathBuf,
        _: Checksum,
        _: u64,
        _: u64,
        _: Arc<Cache>,
        _: Option<()>,
        _: bool,
        _: bool,
        _: Arc<()>,
    ) -> Result<Self, Error> {
        Err(Error::Unrecoverable)
    }

    pub(crate) fn get_highest_seqno(&self) -> u64 {
        match *self {}
    }
}

impl Tree {
    fn latest(&self) -> List {
        self.lists.read().0.clone()
    }

    pub(crate) fn active_memtable(&self) -> Arc<Memtable> {
        Arc::clone(&self.latest().memtables[0])
    }

    pub(crate) fn get_version_history_lock(&self) -> RwLockWriteGuard<'_, Lists> {
        self.lists.write()
    }

    pub(crate) fn get_highest_persisted_seqno(&self) -> Option<u64> {
        let files = self.latest().files;
        files.iter().flat_map(|file| file.values().flatten()).map(|(number, _)| *number).max()
    }

    /// Seals the active memtable, unless it is empty.
    pub(crate) fn rotate_memtable(&self) -> Option<Arc<Memtable>> {
        let mut lists = self.lists.write();
        let sealed = Arc::clone(&lists.0.memtables[0]);
        if sealed.len() == 0 {
            return None;
        }
        let next = Memtable::new(self.memtables.fetch_add(1, Ordering::SeqCst));
        lists.0.memtables.insert(0, next);
        Some(sealed)
    }

    pub(crate) fn get_flush_lock(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock()
    }

    pub(crate) fn flush(&self, _: &MutexGuard<'_, ()>, bound: u64) -> Result<Option<u64>, Error> {
        let sealed = self.latest().memtables.split_off(1);
        if sealed.is_empty() {
            return Ok(None);
        }
        let items = |memtable: &Arc<Memtable>| {
            memtable.access();
            memtable.items.lock().unwrap().clone()
        };
        let file = merged(sealed.iter().map(items), bound, false);
        self.install(|list| {
            list.files.insert(0, file);
            list.memtables.retain(|memtable| sealed.iter().all(|flushed| flushed.id != memtable.id));
        })?;
        Ok(Some(0))
    }

    /// Merges all files.
    pub(crate) fn compact(&self, bound: u64) -> Result<(), Error> {
        let chosen = {
            let _state = self.installing.lock();
            self.latest().files
        };
        if chosen.is_empty() {
            return Ok(());
        }
        let file = merged(chosen.iter().map(|file| (**file).clone()), bound, true);
        self.install(|list| {
            list.files.retain(|file| chosen.iter().all(|chosen| !Arc::ptr_eq(file, chosen)));
            list.files.push(file);
        })
    }

    fn install(&self, change: impl FnOnce(&mut List)) -> Result<(), Error> {
        let _state = self.installing.lock();
        let mut lists = self.lists.write();
        let mut list = lists.0.clone();
        change(&mut list);
        self.hardware.install_list(&list.files)?;
        lists.0 = list;
        Ok(())
    }
}

/// The number of items with which a memtable is full. In scenarios without a flusher, fewer than twice as many items
/// are written, because the writer would wait.
pub(crate) const FULL_MEMTABLE_ITEMS: u64 = 16;
/// The size of an item, as far as the engine sees it, in bytes.
pub(super) const ITEM_BYTES: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueType {
    Value,
}

pub(crate) struct InternalValue {
    key: ByteView,
    number: u64,
    value: Option<ByteView>,
}

impl InternalValue {
    pub(crate) fn from_components(
        key: impl Into<ByteView>,
        value: impl Into<ByteView>,
        number: u64,
        _: ValueType,
    ) -> Self {
        Self { key: key.into(), number, value: Some(value.into()) }
    }

    pub(crate) fn new_tombstone(key: impl Into<ByteView>, number: u64) -> Self {
        Self { key: key.into(), number, value: None }
    }
}

#[derive(Debug)]
pub(crate) struct Memtable {
    pub(super) id: u64,
    /// Never locked while another thread may run.
    pub(super) items: Mutex<Versions>,
    accesses: AtomicU64,
}

impl Memtable {
    pub(super) fn new(id: u64) -> Arc<Self> {
        Arc::new(Self { id, items: Mutex::default(), accesses: AtomicU64::new(0) })
    }

    /// The scheduler may continue with another thread here.
    pub(super) fn access(&self) {
        self.accesses.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the size of the item and of the memtable.
    pub(crate) fn insert(&self, InternalValue { key, number, value }: InternalValue) -> (u64, u64) {
        self.access();
        Hardware::current().insert();
        let mut items = self.items.lock().unwrap();
        let versions = items.entry(key).or_default();
        versions.retain(|(other, _)| *other != number);
        versions.push((number, value));
        versions.sort_unstable_by_key(|(number, _)| *number);
        (ITEM_BYTES, bytes(&items))
    }

    pub(crate) fn size(&self) -> u64 {
        bytes(&self.items.lock().unwrap())
    }

    pub(crate) fn len(&self) -> usize {
        self.items.lock().unwrap().values().map(Vec::len).sum()
    }
}

fn bytes(items: &Versions) -> u64 {
    items.values().map(|versions| versions.len() as u64 * ITEM_BYTES).sum()
}
