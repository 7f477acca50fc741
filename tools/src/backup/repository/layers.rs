//! Layers: chunk files that are merged into the content of a chunk. A later layer contains only the changes of the
//! chunk. In it, an entity without a record is deleted.

use super::chunk::{each_entity, push_entity, split_entity};
use anyhow::{Context, ensure};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A layer contains changes of many adjacent chunks, so layers are kept in memory. A chunk has at most about 200.
const CACHE_BYTES: u64 = 128 * 1024 * 1024;

const DELETED: &[u8] = b"";

/// Entities by key.
pub(super) type Entities<'a> = BTreeMap<&'a [u8], &'a [u8]>;

/// Merges the layers, of which the first is the oldest, from a key on until `is_after` is true. Also returns how many
/// bytes of the layers are in this range.
pub(super) fn merge<'a>(
    layers: &'a [Arc<Vec<u8>>],
    first: &[u8],
    is_after: impl Fn(&[u8]) -> bool,
) -> anyhow::Result<(Entities<'a>, usize)> {
    let mut entities = Entities::new();
    let mut bytes = 0;
    for layer in layers {
        let mut rest = layer.as_slice();
        while !rest.is_empty() {
            let before = rest.len();
            let (key, record) = split_entity(&mut rest).context("the entities are malformed")?;
            if is_after(key) {
                break;
            }
            if first <= key {
                entities.insert(key, record);
                bytes += before - rest.len();
            }
        }
    }
    entities.retain(|_, record| *record != DELETED);
    Ok((entities, bytes))
}

/// Returns the changes that lead from the entities to the content, in key order, and their number.
pub(super) fn changes<'a>(before: &Entities<'a>, content: &'a [u8]) -> anyhow::Result<(Vec<u8>, u64)> {
    let mut changes: Entities<'_> = before.keys().map(|key| (*key, DELETED)).collect();
    each_entity(content, |(key, record)| {
        ensure!(record != DELETED, "an entity has no record");
        if before.get(key) == Some(&record) {
            changes.remove(key)
        } else {
            changes.insert(key, record)
        };
        Ok(())
    })?;
    Ok((encode(&changes)?, changes.len() as u64))
}

/// Returns the entities one after the other.
pub(super) fn encode<'a>(entities: impl IntoIterator<Item = (&'a &'a [u8], &'a &'a [u8])>) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (key, record) in entities {
        push_entity(&mut bytes, key, record).context("an entity is too large")?;
    }
    Ok(bytes)
}

type Content = Arc<Mutex<Option<Arc<Vec<u8>>>>>;

/// The contents of the files that were used last.
#[derive(Debug, Default)]
pub(super) struct LayerCache {
    /// The time of the last use, the size, and the content, which is locked while it is being read.
    files: HashMap<String, (u64, u64, Content)>,
    bytes: u64,
    now: u64,
}

impl LayerCache {
    /// Returns the content of a file. If several threads need it, only one reads it.
    pub(super) fn get(
        cache: &Mutex<Self>,
        name: &str,
        bytes: u64,
        read: impl FnOnce() -> anyhow::Result<Vec<u8>>,
    ) -> anyhow::Result<Arc<Vec<u8>>> {
        let content = cache.lock().entry(name, bytes);
        let mut content = content.lock();
        if let Some(content) = &*content {
            return Ok(Arc::clone(content));
        }
        Ok(Arc::clone(content.insert(Arc::new(read()?))))
    }

    fn entry(&mut self, name: &str, bytes: u64) -> Content {
        self.now += 1;
        if let Some((used, _, content)) = self.files.get_mut(name) {
            *used = self.now;
            return Arc::clone(content);
        }
        self.bytes += bytes;
        while self.bytes > CACHE_BYTES
            && let Some(oldest) = self.files.iter().min_by_key(|(_, (used, ..))| *used).map(|(name, _)| name.clone())
        {
            self.bytes -= self.files.remove(&oldest).map_or(0, |(_, bytes, _)| bytes);
        }
        let content = Content::default();
        self.files.insert(name.to_owned(), (self.now, bytes, Arc::clone(&content)));
        content
    }
}
