//! Chunks of a base copy, as a primary sends them.
//!
//! An entry: the length of the key (2), the length of the value (4), the key, the value. Numbers are big-endian. The
//! transport protects the bytes.

/// The size at which a chunk is complete, in bytes. An entry may exceed it by its size.
pub(crate) const CHUNK_BYTES: usize = 1024 * 1024;

pub(crate) fn push_entry(chunk: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let key_bytes = u16::try_from(key.len()).expect("keys are limited to 65,535 bytes");
    let value_bytes = u32::try_from(value.len()).expect("values are limited to a few megabytes");
    chunk.extend_from_slice(&key_bytes.to_be_bytes());
    chunk.extend_from_slice(&value_bytes.to_be_bytes());
    chunk.extend_from_slice(key);
    chunk.extend_from_slice(value);
}

/// Reads the first entry of a chunk, and advances past it. Returns `None` and does not advance if it is damaged.
pub(crate) fn take_entry<'c>(chunk: &mut &'c [u8]) -> Option<(&'c [u8], &'c [u8])> {
    let (key_bytes, rest) = chunk.split_first_chunk()?;
    let (value_bytes, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(u16::from_be_bytes(*key_bytes).into())?;
    let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*value_bytes)).ok()?)?;
    if key.len() <= 1 {
        return None;
    }
    *chunk = rest;
    Some((key, value))
}
