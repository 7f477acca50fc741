//! A model of the library `lsm-tree`, limited to the behavior on which the engine's threads depend.
//!
//! A list names memtables and files. A read with the number N searches the newest list below N: first the active
//! memtable, then the sealed ones, then the files, from the newest to the oldest, and returns the first item below N. A
//! flush and a merge drop the items of a key that are older than an item below the bound, and a merge also drops
//! tombstones, even if a newer list shows them to no snapshot. A list gets its number when it is installed.

use crate::hardware::{Hardware, SortedFile, Versions};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex as Lock, MutexGuard, RwLock, RwLockWriteGuard};
use byteview::ByteView;
use std::collections::VecDeque;
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

#[derive(Debug, Clone, Default)]
pub(crate) struct SequenceNumberCounter(Arc<AtomicU64>);

impl SequenceNumberCounter {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn set(&self, number: u64) {
        self.0.store(number, Ordering::SeqCst);
    }

    pub(crate) fn fetch_max(&self, number: u64) {
        self.0.fetch_max(number, Ordering::SeqCst);
    }
}

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

#[derive(Debug, Clone)]
pub(crate) struct List {
    number: u64,
    active: Arc<Memtable>,
    /// From the oldest to the newest.
    sealed: Vec<Arc<Memtable>>,
    /// From the newest to the oldest.
    files: Vec<SortedFile>,
}

impl List {
    fn get(&self, key: &[u8], below: u64) -> Option<UserValue> {
        let newest = |items: &Versions| {
            let versions = items.get(key)?.iter().rev();
            versions.clone().find(|(number, _)| *number < below).cloned()
        };
        for memtable in [&self.active].into_iter().chain(self.sealed.iter().rev()) {
            memtable.access();
            let found = newest(&memtable.items.lock().unwrap());
            if let Some((_, value)) = found {
                return value;
            }
        }
        self.files.iter().find_map(|file| newest(file))?.1
    }

    fn keys(&self, bounds: &(Bound<UserKey>, Bound<UserKey>)) -> Vec<UserKey> {
        let mut keys: Vec<_> = self.files.iter().flat_map(|file| file.keys().cloned()).collect();
        for memtable in [&self.active].into_iter().chain(&self.sealed) {
            keys.extend(memtable.items.lock().unwrap().keys().cloned());
        }
        keys.retain(|key| bounds.contains(key));
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// The lists, from the oldest to the newest.
#[derive(Debug)]
pub(crate) struct Lists(VecDeque<List>);

impl Lists {
    pub(crate) fn free_list_len(&self) -> usize {
        self.0.len() - 1
    }

    /// Removes the lists before the newest one below the bound.
    pub(crate) fn maintenance(&mut self, _: &Path, bound: u64) -> Result<(), Error> {
        if let Some(index) = self.0.iter().rposition(|list| list.number < bound) {
            self.0.drain(..index);
        }
        Ok(())
    }

    pub(crate) fn append_version(&mut self, list: List) {
        self.0.push_back(list);
    }

    pub(crate) fn replace_latest_version(&mut self, list: List) {
        self.0.pop_back();
        self.0.push_back(list);
    }

    pub(crate) fn latest_version(&self) -> List {
        self.0.back().unwrap().clone()
    }

    pub(crate) fn get_version_for_snapshot(&self, number: u64) -> List {
        let list = self.0.iter().rev().find(|list| list.number < number);
        if list.is_none() {
            // The committer catches the panic.
            Hardware::current().violation("a read finds no list of files");
        }
        list.expect("the library panics too").clone()
    }
}

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) path: PathBuf,
    pub(crate) lists: SequenceNumberCounter,
    pub(crate) after_lists: SequenceNumberCounter,
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
        let list = List { number: 0, active: Memtable::new(0), sealed: Vec::new(), files };
        hardware.install_list(&list.files)?;
        Ok(AnyTree::Standard(Tree {
            config: self,
            hardware,
            lists: RwLock::new(Lists(VecDeque::from([list]))),
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
        self.lists.read().latest_version()
    }

    pub(crate) fn active_memtable(&self) -> Arc<Memtable> {
        self.latest().active
    }

    pub(crate) fn l0_run_count(&self) -> usize {
        self.latest().files.len()
    }

    pub(crate) fn get_version_history_lock(&self) -> RwLockWriteGuard<'_, Lists> {
        self.lists.write()
    }

    pub(crate) fn get_highest_persisted_seqno(&self) -> Option<u64> {
        let files = self.latest().files;
        files.iter().flat_map(|file| file.values().flatten()).map(|(number, _)| *number).max()
    }

    pub(crate) fn get(&self, key: impl AsRef<[u8]>, below: u64) -> Result<Option<UserValue>, Error> {
        let list = self.lists.read().get_version_for_snapshot(below);
        Ok(list.get(key.as_ref(), below))
    }

    pub(crate) fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        range: R,
        below: u64,
        _: Option<()>,
    ) -> Box<dyn DoubleEndedIterator<Item = IterGuardImpl> + Send> {
        let list = self.lists.read().get_version_for_snapshot(below);
        let bound = |bound: Bound<&K>| bound.map(|key| UserKey::from(key.as_ref()));
        let keys = list.keys(&(bound(range.start_bound()), bound(range.end_bound())));
        Box::new(keys.into_iter().filter_map(move |key| {
            let value = list.get(&key, below)?;
            Some(IterGuardImpl(key, value))
        }))
    }

    /// Seals the active memtable, unless it is empty. The list keeps its number.
    pub(crate) fn rotate_memtable(&self) -> Option<Arc<Memtable>> {
        let mut lists = self.lists.write();
        let mut list = lists.latest_version();
        if list.active.len() == 0 {
            return None;
        }
        let next = Memtable::new(self.memtables.fetch_add(1, Ordering::SeqCst));
        let sealed = std::mem::replace(&mut list.active, next);
        list.sealed.push(Arc::clone(&sealed));
        lists.replace_latest_version(list);
        Some(sealed)
    }

    pub(crate) fn get_flush_lock(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock()
    }

    pub(crate) fn flush(&self, _: &MutexGuard<'_, ()>, bound: u64) -> Result<Option<u64>, Error> {
        let sealed = self.latest().sealed;
        if sealed.is_empty() {
            return Ok(None);
        }
        let items = |memtable: &Arc<Memtable>| {
            memtable.access();
            memtable.items.lock().unwrap().clone()
        };
        let file = merged(sealed.iter().map(items), bound, false);
        self.install(bound, |list| {
            list.files.insert(0, file);
            list.sealed.retain(|memtable| sealed.iter().all(|flushed| flushed.id != memtable.id));
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
        self.install(bound, |list| {
            list.files.retain(|file| chosen.iter().all(|chosen| !Arc::ptr_eq(file, chosen)));
            list.files.push(file);
        })
    }

    fn install(&self, bound: u64, change: impl FnOnce(&mut List)) -> Result<(), Error> {
        let _state = self.installing.lock();
        let mut lists = self.lists.write();
        let number = self.config.lists.next();
        let mut list = lists.latest_version();
        change(&mut list);
        list.number = number;
        self.hardware.install_list(&list.files)?;
        lists.append_version(list);
        self.config.after_lists.fetch_max(number + 1);
        lists.maintenance(&self.config.path, bound)
    }
}

pub(crate) trait Guard {
    fn into_inner(self) -> Result<(UserKey, UserValue), Error>;
}

pub(crate) struct IterGuardImpl(UserKey, UserValue);

impl Guard for IterGuardImpl {
    fn into_inner(self) -> Result<(UserKey, UserValue), Error> {
        Ok((self.0, self.1))
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
