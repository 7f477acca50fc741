//! Chunks: how the entities of a table are split, and the file format of a chunk.
//!
//! The end of a chunk depends only on its entities, so entities that have not changed since the last backup result in
//! chunks that already exist. `docs/backup-format.md` describes the format.

use super::entity_bytes::{ENTITY_BYTES_MAX, each_entity, push_entity};
use super::packed::{self, Magic};
use crate::digest::sha256;
use anyhow::{Context, ensure};
use xxhash_rust::xxh3::xxh3_64;

/// The last chunk of a table may be smaller.
const CHUNK_BYTES_MIN: usize = 64 * 1024;
/// The difference between the average size and the minimum size.
const CHUNK_BYTES_AVERAGE: usize = 192 * 1024;
/// A chunk ends after the entity with which it reaches this size.
const CHUNK_BYTES_MAX: usize = 1024 * 1024;
pub(super) const CONTENT_BYTES_MAX: usize = CHUNK_BYTES_MAX + ENTITY_BYTES_MAX;

pub(super) const MAGIC: Magic = *b"RHCHUNK1";
pub(super) const CHUNK_FILE_BYTES_MAX: u64 = packed::file_bytes_max(CONTENT_BYTES_MAX);

/// Entities, or changes of entities, one after the other.
#[derive(Debug, Default)]
pub(in crate::backup) struct ChunkContent {
    pub(in crate::backup) bytes: Vec<u8>,
    pub(in crate::backup) entities: u64,
}

impl ChunkContent {
    pub(in crate::backup) fn name(&self) -> String {
        name(&self.bytes)
    }

    pub(in crate::backup) fn first_and_last(&self) -> anyhow::Result<(&[u8], &[u8])> {
        let mut keys: Option<(&[u8], &[u8])> = None;
        each_entity(&self.bytes, |(key, _)| {
            keys = Some((keys.map_or(key, |(first, _)| first), key));
            Ok(())
        })?;
        keys.context("a chunk has no entities")
    }

    /// Appends changes of the following keys.
    pub(in crate::backup) fn append(&mut self, changes: &Self) {
        self.bytes.extend_from_slice(&changes.bytes);
        self.entities += changes.entities;
    }

    /// Returns true if the changes of more chunks would make a file larger than the average chunk.
    pub(in crate::backup) fn is_full(&self) -> bool {
        self.bytes.len() >= CHUNK_BYTES_MIN + CHUNK_BYTES_AVERAGE
    }
}

#[derive(Debug, Default)]
pub(in crate::backup) struct Chunker {
    content: ChunkContent,
}

impl Chunker {
    /// Returns the chunk that ends after this entity, if any.
    pub(in crate::backup) fn push(&mut self, key: &[u8], record: &[u8]) -> anyhow::Result<Option<ChunkContent>> {
        let before = self.content.bytes.len();
        push_entity(&mut self.content.bytes, key, record).context("an entity is too large")?;
        self.content.entities += 1;
        let length = self.content.bytes.len();
        let is_end = length >= CHUNK_BYTES_MAX || (length >= CHUNK_BYTES_MIN && is_boundary(key, length - before));
        Ok(is_end.then(|| std::mem::take(&mut self.content)))
    }

    pub(in crate::backup) fn finish(self) -> Option<ChunkContent> {
        (!self.content.bytes.is_empty()).then_some(self.content)
    }
}

/// A chunk may end after an entity. The hash of the key decides, with a probability in proportion to the size of the
/// entity.
fn is_boundary(key: &[u8], bytes: usize) -> bool {
    let share = u64::MAX / CHUNK_BYTES_AVERAGE as u64;
    xxh3_64(key) < share.saturating_mul(bytes as u64)
}

pub(super) fn name(content: &[u8]) -> String {
    sha256(content)
}

pub(super) fn encode(content: &[u8]) -> anyhow::Result<Vec<u8>> {
    packed::pack(MAGIC, content)
}

/// Verifies the whole file.
pub(super) fn decode(name: &str, file: &[u8]) -> anyhow::Result<Vec<u8>> {
    let content = packed::unpack(MAGIC, CONTENT_BYTES_MAX, file)?;
    let found = self::name(&content);
    ensure!(found == name, "the hash of its content is {found}, which differs from its name");
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Vec<u8> {
        format!("p\0{number:08}").into_bytes()
    }

    fn chunks(entities: impl Iterator<Item = (usize, Vec<u8>)>) -> Vec<ChunkContent> {
        let mut chunker = Chunker::default();
        let mut chunks = Vec::new();
        for (number, record) in entities {
            chunks.extend(chunker.push(&key(number), &record).unwrap());
        }
        chunks.extend(chunker.finish());
        chunks
    }

    fn record(number: usize) -> Vec<u8> {
        vec![u8::try_from(number % 251).unwrap(); 500 + number % 1000]
    }

    #[test]
    fn chunks_keep_their_sizes_and_hold_everything() {
        let chunks = chunks((0..30_000).map(|number| (number, record(number))));
        let total: usize = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        let (_, full) = chunks.split_last().unwrap();
        assert!(full.iter().all(|chunk| chunk.bytes.len() >= CHUNK_BYTES_MIN));
        assert!(chunks.iter().all(|chunk| chunk.bytes.len() < CHUNK_BYTES_MAX + 2000));
        let average = total / chunks.len();
        assert!((150_000..400_000).contains(&average), "{average}");
        let mut number = 0;
        for chunk in &chunks {
            let mut count = 0;
            each_entity(&chunk.bytes, |entity| {
                assert_eq!(entity, (key(number).as_slice(), record(number).as_slice()));
                (number, count) = (number + 1, count + 1);
                Ok(())
            })
            .unwrap();
            assert_eq!(count, chunk.entities);
        }
        assert_eq!(number, 30_000);
    }

    #[test]
    fn a_change_reaches_only_the_chunks_around_it() {
        let names = |chunks: Vec<ChunkContent>| chunks.iter().map(|chunk| name(&chunk.bytes)).collect::<Vec<_>>();
        let before = names(chunks((0..30_000).map(|number| (number, record(number)))));
        let changed = |number| if number == 15_000 { vec![7; 3000] } else { record(number) };
        let removed = (0..30_000).filter(|number| *number != 200);
        for after in [
            names(chunks((0..30_000).map(|number| (number, changed(number))))),
            names(chunks(removed.map(|number| (number, record(number))))),
            names(chunks((0..30_100).map(|number| (number, record(number))))),
        ] {
            let new = after.iter().filter(|name| !before.contains(name)).count();
            assert!((1..=4).contains(&new), "{new} of {} are new", after.len());
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let compressible = record(300);
        let incompressible: Vec<u8> = (0..64_u64).flat_map(|n| xxh3_64(&n.to_be_bytes()).to_be_bytes()).collect();
        for content in [compressible, incompressible] {
            let (name, file) = (name(&content), encode(&content).unwrap());
            assert_eq!(decode(&name, &file).unwrap(), content);
            for bit in 0..8 * file.len() {
                let mut damaged = file.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&name, &damaged).is_err(), "bit {bit}");
            }
            for length in 0..file.len() {
                assert!(decode(&name, &file[..length]).is_err(), "cut to {length}");
            }
        }
    }

    #[test]
    fn the_chunk_format_is_pinned() {
        let mut content = Vec::new();
        push_entity(&mut content, b"p\0r", b"x").unwrap();
        assert_eq!(content, b"\0\x03p\0r\0\0\0\x01x");
        let expected = b"RHCHUNK1\0\0\0\0\0\0\0\x0A\0\0\0\x0A\xa7a\xa3\x98\"\xce\x0fI\0\x03p\0r\0\0\0\x01x";
        assert_eq!(encode(&content).unwrap().escape_ascii().to_string(), expected.escape_ascii().to_string());
        assert_eq!(name(&content), "a2517c4ecf16483ae54aa8d66cd0d03493e24865ed2856468eebad171a0b49a9");
        // The same letter nine times in LZ4: a literal, and a match that overlaps the literal.
        let payload = b"\x13a\x01\0\x10a";
        let mut file = [&MAGIC[..], b"\x01\0\0\0\0\0\0\x09\0\0\0\x06"].concat();
        file.extend_from_slice(&xxh3_64(payload).to_be_bytes());
        file.extend_from_slice(payload);
        assert_eq!(decode(&name(b"aaaaaaaaa"), &file).unwrap(), b"aaaaaaaaa");
        // If this rule changed, new backups would share no chunks with existing ones.
        let counts: Vec<_> =
            chunks((0..2000).map(|number| (number, record(number)))).iter().map(|c| c.entities).collect();
        assert_eq!(counts, [601, 59, 211, 64, 263, 202, 75, 128, 110, 123, 125, 39]);
    }
}
