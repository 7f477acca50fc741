//! Entities as bytes, one behind the other: in chunks of a repository and on the way from the server.
//!
//! ```text
//! length of the key (2 bytes), key bytes inside the table, length of the record (4 bytes), record bytes
//! ```
//!
//! Numbers are big endian. Bytes come from a disk or a socket and may be damaged, so reading can fail and never panics.

use model::limits::KEY_UTF16_UNITS_MAX;

/// Most bytes of a key: three of UTF-8 for each unit of both keys, and the separator.
const KEY_BYTES_MAX: usize = 2 * 3 * KEY_UTF16_UNITS_MAX + 1;
/// Most bytes of a record. An entity has at most 1 MiB by the service's own count, in which ASCII counts double; the
/// rest of Unicode takes up to half as much again here.
const RECORD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What an entity takes beside its key and its record.
pub(super) const ENTITY_OVERHEAD_BYTES: usize = 6;
/// Most bytes of an entity.
pub(super) const ENTITY_BYTES_MAX: usize = ENTITY_OVERHEAD_BYTES + KEY_BYTES_MAX + RECORD_BYTES_MAX;

const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize, "the length of a key is two bytes");

/// Appends an entity; `None`, and nothing is appended, if it is larger than any entity can be.
pub(super) fn push(out: &mut Vec<u8>, key: &[u8], record: &[u8]) -> Option<()> {
    if key.len() > KEY_BYTES_MAX || record.len() > RECORD_BYTES_MAX {
        return None;
    }
    out.extend_from_slice(&u16::try_from(key.len()).ok()?.to_be_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(&u32::try_from(record.len()).ok()?.to_be_bytes());
    out.extend_from_slice(record);
    Some(())
}

/// An entity: its key bytes inside the table and its record bytes.
pub(super) type Pair<'a> = (&'a [u8], &'a [u8]);

/// Takes the first entity off the bytes; `None` if they do not begin with one.
pub(super) fn take<'a>(rest: &mut &'a [u8]) -> Option<Pair<'a>> {
    let (length, behind) = rest.split_first_chunk()?;
    let (key, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let (length, behind) = behind.split_first_chunk()?;
    let (record, behind) = behind.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    *rest = behind;
    Some((key, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_read_back_and_damage_is_no_panic() {
        let mut bytes = Vec::new();
        let entities: [Pair<'_>; 3] = [(b"p\0r", b"record"), (b"\0", b""), (b"p\0s", b"x")];
        for (key, record) in entities {
            push(&mut bytes, key, record).unwrap();
        }
        let mut rest = bytes.as_slice();
        assert_eq!([take(&mut rest), take(&mut rest), take(&mut rest)], entities.map(Some));
        assert_eq!((rest, take(&mut rest)), (&b""[..], None));
        let first = ENTITY_OVERHEAD_BYTES + 3 + 6;
        for length in 0..first {
            assert_eq!(take(&mut bytes.get(..length).unwrap()), None, "cut to {length}");
        }
        assert!(push(&mut bytes, &[b'a'; KEY_BYTES_MAX + 1], b"").is_none());
    }
}
