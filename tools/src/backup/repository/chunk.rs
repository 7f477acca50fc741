//! Chunks: how the entities of a table are split, and the file format of a chunk.
//!
//! The end of a chunk depends only on its entities, so entities that have not changed since the last backup result in
//! chunks that already exist. `docs/backup-format.md` describes the format.

use crate::backup::repository::packed::{self, Magic};
use crate::digest::sha256;
use anyhow::{Context, anyhow, ensure};
use model::limits::KEY_UTF16_UNITS_MAX;
use model::{DateTime, EntityView, KeyText};
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

// Entities as consecutive bytes: in the chunks of a repository, and in a snapshot that a server sends.
//
// ```text
// length of the key (2 bytes), key bytes inside the table, length of the record (4 bytes), record bytes
// ```
//
// Numbers are big-endian. The bytes come from a disk or a socket and may be damaged, so reading can fail but never
// panics.

/// The maximum size of a key: three bytes of UTF-8 for each unit of both keys, and the separator.
const KEY_BYTES_MAX: usize = 2 * 3 * KEY_UTF16_UNITS_MAX + 1;
/// The maximum size of a record. The size formula limits an entity to 1 MiB and counts two bytes for each UTF-16 unit.
/// In UTF-8, a unit can take three bytes.
const RECORD_BYTES_MAX: usize = 4 * 1024 * 1024;

pub(in crate::backup) const ENTITY_OVERHEAD_BYTES: usize = 6;
pub(in crate::backup) const ENTITY_BYTES_MAX: usize = ENTITY_OVERHEAD_BYTES + KEY_BYTES_MAX + RECORD_BYTES_MAX;

const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize, "the length of a key fits in two bytes");

/// Appends an entity. Returns `None`, without appending anything, if the entity is larger than the maximum.
pub(in crate::backup) fn push_entity(out: &mut Vec<u8>, key: &[u8], record: &[u8]) -> Option<()> {
    if key.len() > KEY_BYTES_MAX || record.len() > RECORD_BYTES_MAX {
        return None;
    }
    out.extend_from_slice(&u16::try_from(key.len()).ok()?.to_be_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(&u32::try_from(record.len()).ok()?.to_be_bytes());
    out.extend_from_slice(record);
    Some(())
}

pub(in crate::backup) type EntityBytes<'a> = (&'a [u8], &'a [u8]);

/// Returns `None` if the bytes do not begin with an entity.
pub(super) fn split_entity<'a>(rest: &mut &'a [u8]) -> Option<EntityBytes<'a>> {
    let (length, following) = rest.split_first_chunk()?;
    let (key, following) = following.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let (length, following) = following.split_first_chunk()?;
    let (record, following) = following.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    *rest = following;
    Some((key, record))
}

pub(in crate::backup) fn each_entity<'a>(
    bytes: &'a [u8],
    mut sink: impl FnMut(EntityBytes<'a>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        sink(split_entity(&mut rest).context("the entities are malformed")?)?;
    }
    Ok(())
}

/// Returns the Timestamp of the entity.
pub(in crate::backup) fn check_entity((key, record): EntityBytes<'_>) -> anyhow::Result<DateTime> {
    let entity = EntityView::new(key, record).map_err(|_| anyhow!("its key or its record is malformed"))?;
    let is_key = |text: &str| KeyText::new(text).is_ok();
    ensure!(is_key(&entity.key.partition) && is_key(&entity.key.row), "its key is invalid");
    entity.record.check().context("its record")?;
    Ok(entity.record.timestamp())
}

/// Returns a description of the entity for messages.
pub(in crate::backup) fn describe((key, _): EntityBytes<'_>) -> String {
    format!("entity {}", key.escape_ascii())
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

    #[test]
    fn entities_are_read_back_and_damage_does_not_panic() {
        let mut bytes = Vec::new();
        let entities: [EntityBytes<'_>; 3] = [(b"p\0r", b"record"), (b"\0", b""), (b"p\0s", b"x")];
        for (key, record) in entities {
            push_entity(&mut bytes, key, record).unwrap();
        }
        let mut rest = bytes.as_slice();
        assert_eq!([split_entity(&mut rest), split_entity(&mut rest), split_entity(&mut rest)], entities.map(Some));
        assert_eq!((rest, split_entity(&mut rest)), (&b""[..], None));
        let first = ENTITY_OVERHEAD_BYTES + 3 + 6;
        for length in 0..first {
            assert_eq!(split_entity(&mut bytes.get(..length).unwrap()), None, "cut to {length}");
        }
        assert!(push_entity(&mut bytes, &[b'a'; KEY_BYTES_MAX + 1], b"").is_none());
    }
}
