//! The tree and its writer: opening, applying, publishing, and the exchange of the active memtable.

use super::config::{self, TreeSettings};
use super::error::TreeError;
use super::library::{
    self, AbstractTree, AnyTree, Cache, Checksum, Config, InternalValue, List, Memtable, Table, ValueType,
};
use super::lists::Lists;
use super::registry::Registry;
use super::room::{Fill, Room};
use crate::sequence::Sequence;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

/// A key of an item. A key has 1 to 65,535 bytes and differs from [`RESERVED_KEY`].
pub(crate) type Key = library::UserKey;
/// The value of an item. It can be built as a `ByteView`, and changed until it is converted to this type.
pub(crate) type Value = library::UserValue;

/// The key of an item that the tree adds to each memtable when it seals the memtable: the last sequence in it (8,
/// little-endian). It is the least of all keys, so that ranges can exclude it without comparing keys.
pub(crate) const RESERVED_KEY: &[u8] = &[0];

/// The size at which a memtable is full, in bytes.
pub(super) const MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;

/// The size at which the writer waits until the memtable is sealed, although no other one waits to be flushed.
const MEMTABLE_BYTES_MAX: u64 = 2 * MEMTABLE_BYTES;

/// A handle to the sorted store. All handles and snapshots share one store, which is closed when the last one is
/// dropped.
#[derive(Clone)]
pub(crate) struct Tree(pub(super) Arc<Store>);

pub(super) struct Store {
    pub(super) library: library::Tree,
    pub(super) path: PathBuf,
    pub(super) lists: Lists,
    pub(super) registry: Registry,
    writer: Mutex<Writer>,
    /// Notified when the writer has changed to a new memtable.
    changed_memtable: Condvar,
    pub(super) room: Room,
    /// The sealed memtables that are not in files yet, from the oldest to the newest.
    pub(super) sealed: Mutex<VecDeque<Sealed>>,
    persisted: AtomicU64,
    /// The number of tombstones that were applied since the tree was opened.
    tombstones: AtomicU64,
    /// The number of tombstones in files when they were last counted, minus `flushed_tombstones` at that time.
    pub(super) counted_tombstones: AtomicU64,
    /// The number of applied tombstones that are in files, or were merged away.
    pub(super) flushed_tombstones: AtomicU64,
    /// Held while memtables are sealed or flushed.
    pub(super) flushing: Mutex<()>,
    /// Held while files are merged.
    pub(super) merging: Mutex<()>,
}

struct Writer {
    /// The memtable that receives items. It is in the newest list, as the active memtable or a sealed one.
    memtable: Arc<Memtable>,
    /// The last sequence whose items have been inserted.
    applied: Sequence,
    /// The memtable to which the writer changes at the next publication.
    next: Option<Arc<Memtable>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Sealed {
    pub(super) last: Sequence,
    pub(super) bytes: u64,
    /// The number of tombstones that were applied up to this memtable.
    pub(super) tombstones: u64,
}

impl Tree {
    /// Creates a tree in an empty or missing folder.
    pub(crate) fn create(path: &Path, settings: TreeSettings) -> Result<Self, TreeError> {
        if config::exists(path)? {
            return Err(TreeError::Exists(path.to_owned()));
        }
        Self::start(path, settings)
    }

    /// Opens an existing tree. Everything in its files is published and persisted. The next transaction must have a
    /// later sequence than [`Tree::persisted`]. The library panics on some kinds of damage.
    pub(crate) fn open(path: &Path, settings: TreeSettings) -> Result<Self, TreeError> {
        if !config::exists(path)? {
            return Err(TreeError::Missing(path.to_owned()));
        }
        Self::start(path, settings)
    }

    /// Returns what [`Tree::persisted`] will return at least when a tree with this sorted file is opened. Changes
    /// nothing, whereas opening the tree deletes the files that its list does not name. The library panics on some
    /// kinds of damage.
    pub(crate) fn persisted_in(file: &Path) -> Result<Sequence, TreeError> {
        // The checksum is not compared, and nothing is kept in memory but the index of a large file.
        let (checksum, cache) = (Checksum::from_raw(0), Arc::new(Cache::with_capacity_bytes(0)));
        let file = Table::recover(file.to_owned(), checksum, 0, 0, cache, None, false, false, Arc::default())?;
        Ok(Sequence::from_number(file.get_highest_seqno()))
    }

    fn start(path: &Path, settings: TreeSettings) -> Result<Self, TreeError> {
        let library = open_library(config::config(path, settings))?;
        let list = List::newest(&library, vec![library.active_memtable()]);
        let persisted = persisted_at_open(&library, &list, path)?;
        let writer = Writer { memtable: library.active_memtable(), applied: persisted, next: None };
        let room = Room::default();
        room.merge_ended(false, list.uppermost_runs());
        Ok(Self(Arc::new(Store {
            path: library.config.path.clone(),
            library,
            lists: Lists::new(list),
            registry: Registry::new(persisted),
            writer: Mutex::new(writer),
            changed_memtable: Condvar::new(),
            room,
            sealed: Mutex::default(),
            persisted: AtomicU64::new(persisted.get()),
            tombstones: AtomicU64::new(0),
            counted_tombstones: AtomicU64::new(0),
            flushed_tombstones: AtomicU64::new(0),
            flushing: Mutex::new(()),
            merging: Mutex::new(()),
        })))
    }

    /// Inserts the items of a transaction, each a key and its new value, or `None` if the item is deleted. The keys are
    /// distinct. They become visible with [`Tree::publish`]. Sequences are applied in ascending order. Other callers
    /// wait while a transaction is applied; there is usually one.
    pub(crate) fn apply(&self, sequence: Sequence, items: impl IntoIterator<Item = (Key, Option<Value>)>) {
        let mut writer = self.0.writer.lock();
        assert!(sequence > writer.applied, "transactions are applied in the order of their sequences");
        writer.applied = sequence;
        let number = sequence.item_number();
        let fill_before = fill(writer.memtable.size());
        let mut tombstones = 0;
        for (key, value) in items {
            debug_assert!(*key != *RESERVED_KEY, "the key is reserved");
            let item = if let Some(value) = value {
                InternalValue::from_components(key, value, number, ValueType::Value)
            } else {
                tombstones += 1;
                InternalValue::new_tombstone(key, number)
            };
            writer.memtable.insert(item);
        }
        if tombstones > 0 {
            self.0.tombstones.fetch_add(tombstones, Ordering::Relaxed);
        }
        let fill = fill(writer.memtable.size());
        if fill != fill_before {
            self.0.room.memtable_is(fill);
        }
    }

    /// Makes all applied transactions visible at once. `sequence` is the last one that was applied, or a later one if
    /// no transaction with items lies between.
    pub(crate) fn publish(&self, sequence: Sequence) {
        let store = &*self.0;
        let mut writer = store.writer.lock();
        assert!(sequence >= writer.applied, "a publication covers everything that was applied");
        writer.applied = sequence;
        store.registry.publish(sequence);
        if writer.next.is_some() {
            store.change_memtable(&mut writer);
        }
    }

    /// Returns the last published sequence.
    pub(crate) fn published(&self) -> Sequence {
        self.0.registry.published()
    }

    /// Returns the highest sequence such that all transactions up to it are in files.
    pub(crate) fn persisted(&self) -> Sequence {
        Sequence::new(self.0.persisted.load(Ordering::Acquire))
    }

    /// Returns about the number of tombstones in memory and, when they were last counted, in files.
    pub(crate) fn tombstones(&self) -> u64 {
        let counted = self.0.counted_tombstones.load(Ordering::Relaxed);
        self.0.tombstones.load(Ordering::Relaxed).wrapping_add(counted)
    }

    /// Returns the size of the memtables that are not in files yet, in bytes. Their files will be smaller.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        // A memtable that is sealed in between is counted twice, rather than not at all.
        let active = self.0.active_memtable_bytes();
        active + self.0.sealed.lock().iter().map(|memtable| memtable.bytes).sum::<u64>()
    }

    /// Waits until there is room for another transaction. Returns false if there is none and waiting would not help:
    /// the last flush or merge failed, or [`Tree::end_waits`] was called. The writer must not hold an applied but
    /// unpublished transaction while it waits.
    pub(crate) fn wait_for_room(&self) -> bool {
        self.0.room.wait()
    }

    /// Like [`Self::wait_for_room`], for large transactions. They leave some room to small ones.
    pub(crate) fn wait_for_large_room(&self) -> bool {
        self.0.room.wait_for_large()
    }

    /// Returns whether large transactions must wait, because a flush or a merge is late.
    pub(crate) fn must_hold_large(&self) -> bool {
        self.0.room.must_hold_large()
    }

    /// Waits until the active memtable is full, for at most `timeout`. Returns whether it is full.
    pub(crate) fn wait_until_full(&self, timeout: Duration) -> bool {
        self.0.room.wait_until_full(timeout)
    }

    /// Ends all waits, now and in the future, because the tree is about to be closed.
    pub(crate) fn end_waits(&self) {
        self.0.room.close();
        let _writer = self.0.writer.lock();
        self.0.changed_memtable.notify_all();
    }
}

impl Store {
    /// Seals the active memtable, if it contains anything, and returns after the writer has changed to the next one.
    /// Returns false if there is nothing to seal, or if the tree is about to be closed while a transaction is applied
    /// but not published; nothing may be flushed then. The caller holds `flushing`.
    pub(super) fn seal_memtable(&self) -> bool {
        if self.library.rotate_memtable().is_none() {
            return false;
        }
        let next = self.library.active_memtable();
        // The list contains the next memtable before the writer inserts into it.
        self.renew_list(|memtables| [slice::from_ref(&next), memtables].concat());
        let mut writer = self.writer.lock();
        writer.next = Some(next);
        if writer.applied == self.registry.published() {
            self.change_memtable(&mut writer);
        }
        while writer.next.is_some() {
            if self.room.is_closing() {
                return false;
            }
            self.changed_memtable.wait(&mut writer);
        }
        true
    }

    /// Completes a sealed memtable. Everything in it is published.
    fn change_memtable(&self, writer: &mut Writer) {
        let Some(next) = writer.next.take() else { return };
        let last = writer.applied;
        let mark = last.get().to_le_bytes();
        writer.memtable.insert(InternalValue::from_components(
            RESERVED_KEY,
            mark,
            last.item_number(),
            ValueType::Value,
        ));
        let tombstones = self.tombstones.load(Ordering::Relaxed);
        self.sealed.lock().push_back(Sealed { last, bytes: writer.memtable.size(), tombstones });
        writer.memtable = next;
        self.room.memtable_was_sealed();
        self.changed_memtable.notify_all();
    }

    /// Whether the writer still inserts into a memtable that the library regards as sealed. If `flushing` is held, this
    /// is possible only after [`Tree::end_waits`].
    pub(super) fn is_seal_incomplete(&self) -> bool {
        self.writer.lock().next.is_some()
    }

    pub(super) fn active_memtable_bytes(&self) -> u64 {
        self.writer.lock().memtable.size()
    }

    pub(super) fn active_memtable_entries(&self) -> u64 {
        self.writer.lock().memtable.len() as u64
    }

    pub(super) fn set_persisted(&self, sequence: Sequence) {
        self.persisted.store(sequence.get(), Ordering::Release);
    }

    /// Lets reads use the newest list of the library. `memtables` returns its memtables, given the previous ones.
    pub(super) fn renew_list(&self, memtables: impl FnOnce(&[Arc<Memtable>]) -> Vec<Arc<Memtable>>) {
        self.lists.renew(|list| List::newest(&self.library, memtables(list.memtables())));
    }

    #[cfg(test)]
    pub(super) fn library_sealed_memtables(&self) -> usize {
        self.library.sealed_memtable_count()
    }
}

fn fill(memtable_bytes: u64) -> Fill {
    match memtable_bytes {
        ..MEMTABLE_BYTES => Fill::Partly,
        MEMTABLE_BYTES..MEMTABLE_BYTES_MAX => Fill::Full,
        MEMTABLE_BYTES_MAX.. => Fill::Overfull,
    }
}

fn open_library(config: Config) -> Result<library::Tree, TreeError> {
    match config.open()? {
        AnyTree::Standard(tree) => Ok(tree),
        // The configuration does not separate keys and values, and the library refuses a folder that does.
        AnyTree::Blob(_) => Err(TreeError::Library(library::Error::Unrecoverable)),
    }
}

/// Returns the last sequence in the files of a tree that has just been opened. All earlier ones are in them too:
/// memtables contain whole transactions and are flushed from the oldest to the newest. The items of the last
/// transaction may have been merged away, but the mark has its number, and the newest version of a key that exists is
/// never dropped. Only a tree without files has no mark.
fn persisted_at_open(library: &library::Tree, list: &List, path: &Path) -> Result<Sequence, TreeError> {
    let highest = Sequence::from_number(library.get_highest_persisted_seqno().unwrap_or(0));
    let mark = list.get(RESERVED_KEY, u64::MAX)?;
    let marked = mark.map_or(Some(0), |mark| <[u8; 8]>::try_from(&*mark).map(u64::from_le_bytes).ok());
    if marked == Some(highest.get()) { Ok(highest) } else { Err(TreeError::Inconsistent(path.to_owned())) }
}
