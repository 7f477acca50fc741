//! Entities as consecutive bytes: in the chunks of a repository, and in a snapshot that a server sends.
//!
//! ```text
//! length of the key (2 bytes), key bytes inside the table, length of the record (4 bytes), record bytes
//! ```
//!
//! Numbers are big-endian. The bytes come from a disk or a socket and may be damaged, so reading can fail but never
//! panics.

use anyhow::{Context, anyhow, ensure};
use model::limits::KEY_UTF16_UNITS_MAX;
use model::{DateTime, EntityView, KeyText};

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
