//! The memtables of the library's model.

use crate::hardware::{Hardware, Versions};
use crate::sync::atomic::{AtomicU64, Ordering};
use byteview::ByteView;
use std::sync::{Arc, Mutex};

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
