//! The entities of a table, in chunks that copies of the table share. The cost of copying a table therefore does not
//! depend on its size.
//!
//! A copy is one pointer. The first change after a copy duplicates the list of chunks. Each change also duplicates the
//! chunk that it affects, if that chunk is still shared.
//!
//! Invariants:
//!
//! 1. A chunk holds the entities from the key under which it is listed up to the key of the next chunk.
//! 2. No chunk is empty.

use model::{KeyRange, Record};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The maximum number of entities in a chunk. A larger value would make copying a chunk slower; a smaller one would
/// lengthen the list of chunks.
const CHUNK_ENTITIES_MAX: usize = 256;

/// Copies of a chunk share the records.
type Chunk = BTreeMap<Vec<u8>, Arc<Record>>;

#[derive(Debug, Clone, Default)]
pub(super) struct Entities(Arc<BTreeMap<Vec<u8>, Arc<Chunk>>>);

impl Entities {
    pub(super) fn get(&self, key: &[u8]) -> Option<&Record> {
        let (_, chunk) = self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        chunk.get(key).map(|record| &**record)
    }

    pub(super) fn insert(&mut self, key: Vec<u8>, record: Record) {
        let chunks = Arc::make_mut(&mut self.0);
        let record = Arc::new(record);
        let up_to_key = (Bound::Unbounded, Bound::Included(key.as_slice()));
        let Some((_, chunk)) = chunks.range_mut::<[u8], _>(up_to_key).next_back() else {
            // The key sorts before all others, so list the first chunk under this key from now on.
            let mut chunk = chunks.pop_first().map(|(_, chunk)| chunk).unwrap_or_default();
            Arc::make_mut(&mut chunk).insert(key.clone(), record);
            let upper = split(&mut chunk);
            chunks.insert(key, chunk);
            chunks.extend(upper);
            return;
        };
        Arc::make_mut(chunk).insert(key, record);
        if let Some((first, upper)) = split(chunk) {
            chunks.insert(first, upper);
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if self.get(key).is_none() {
            return;
        }
        let chunks = Arc::make_mut(&mut self.0);
        let up_to_key = (Bound::Unbounded, Bound::Included(key));
        let Some((first, chunk)) = chunks.range_mut::<[u8], _>(up_to_key).next_back() else { return };
        let chunk = Arc::make_mut(chunk);
        chunk.remove(key);
        // A chunk that loses its first entity stays listed under that entity's key.
        if chunk.is_empty() {
            let first = first.clone();
            chunks.remove(&first);
        }
    }

    pub(super) fn range<'a>(&'a self, range: KeyRange) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a Record)> {
        let KeyRange { start, end } = range;
        // A map panics if a range ends before it starts.
        let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.max(start.clone())));
        // The last chunk that begins before the range may extend into it.
        let before = self.0.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(start.as_slice()))).next_back();
        let following = self.0.range::<[u8], _>((Bound::Included(start.as_slice()), end.as_ref().map(Vec::as_slice)));
        let chunks = before.into_iter().chain(following);
        let inside = move |(_, chunk): (_, &'a Arc<Chunk>)| {
            chunk.range::<[u8], _>((Bound::Included(start.as_slice()), end.as_ref().map(Vec::as_slice)))
        };
        chunks.flat_map(inside).map(borrowed)
    }

    /// Returns true if both share one list of chunks, which means that nothing has been copied.
    #[cfg(test)]
    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &Record)> {
        self.0.values().flat_map(|chunk| chunk.iter()).map(borrowed)
    }
}

/// Returns the upper half of a chunk that is too large, with its first key.
fn split(chunk: &mut Arc<Chunk>) -> Option<(Vec<u8>, Arc<Chunk>)> {
    if chunk.len() <= CHUNK_ENTITIES_MAX {
        return None;
    }
    let first = chunk.keys().nth(CHUNK_ENTITIES_MAX / 2)?.clone();
    let upper = Arc::make_mut(chunk).split_off(&first);
    Some((first, Arc::new(upper)))
}

fn borrowed<'a>((key, record): (&'a Vec<u8>, &'a Arc<Record>)) -> (&'a [u8], &'a Record) {
    (key, record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::Random;

    fn record(value: u32) -> Record {
        Record::from_bytes(value.to_be_bytes().to_vec())
    }

    fn filled(count: u32) -> Entities {
        let mut entities = Entities::default();
        for number in 0..count {
            entities.insert(number.to_be_bytes().to_vec(), record(number));
        }
        entities
    }

    fn copied_chunks(one: &Entities, other: &Entities) -> usize {
        let is_shared = |chunk| other.0.values().any(|known| Arc::ptr_eq(known, chunk));
        one.0.values().filter(|chunk| !is_shared(chunk)).count()
    }

    #[test]
    fn a_copy_is_a_pointer_and_a_change_copies_one_chunk() {
        let mut entities = filled(100_000);
        assert!(entities.0.len() > 300);
        let kept = entities.clone();
        assert!(entities.is_shared_with(&kept));
        entities.insert(50_000_u32.to_be_bytes().to_vec(), record(1));
        assert_eq!(copied_chunks(&entities, &kept), 1);
        entities.remove(&50_001_u32.to_be_bytes());
        entities.remove(&200_000_u32.to_be_bytes());
        assert_eq!(copied_chunks(&entities, &kept), 1, "the chunk is no longer shared");
        entities.remove(&7_u32.to_be_bytes());
        assert_eq!(copied_chunks(&entities, &kept), 2);
        assert_eq!(kept.iter().count(), 100_000);
        assert_eq!(kept.get(&50_000_u32.to_be_bytes()), Some(&record(50_000)));
        assert_eq!(entities.iter().count(), 99_998);
    }

    #[test]
    fn they_are_what_a_map_would_be() {
        let mut random = Random::from_environment("they_are_what_a_map_would_be");
        let (mut entities, mut map) = (Entities::default(), BTreeMap::new());
        let mut kept = Vec::new();
        for round in 0..40_000_u32 {
            // Alternate between few keys, so that chunks become empty, and many keys, so that chunks are split.
            let keys = if round / 4000 % 2 == 0 { 3000 } else { 300 };
            let key = u16::try_from(random.below(keys)).unwrap().to_be_bytes().to_vec();
            if random.below(5) < 3 {
                entities.insert(key.clone(), record(round));
                map.insert(key, record(round));
            } else {
                entities.remove(&key);
                map.remove(&key);
            }
            if round % 5000 == 0 {
                kept.push((entities.clone(), map.clone()));
            }
        }
        kept.push((entities, map));
        for (entities, map) in &kept {
            assert!(entities.0.iter().all(|(first, chunk)| {
                !chunk.is_empty() && chunk.len() <= CHUNK_ENTITIES_MAX && chunk.keys().all(|key| key >= first)
            }));
            assert!(entities.iter().eq(map.iter().map(|(key, record)| (key.as_slice(), record))));
            for _ in 0..200 {
                let bound = |random: &mut Random| u16::try_from(random.below(3100)).unwrap().to_be_bytes().to_vec();
                let (start, end) = (bound(&mut random), bound(&mut random));
                let range = KeyRange { start: start.clone().min(end.clone()), end: Some(start.max(end)) };
                let expected = map.range::<[u8], _>((
                    Bound::Included(range.start.as_slice()),
                    range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
                ));
                assert!(entities.range(range.clone()).eq(expected.map(|(key, record)| (key.as_slice(), record))));
                assert_eq!(entities.get(&range.start), map.get(&range.start));
            }
        }
    }
}
