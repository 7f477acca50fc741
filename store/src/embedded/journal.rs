//! Reading the journals of the storage library before the library does, to tell a write that was cut off from damage.
//!
//! The library takes the first entry that it cannot read for the end of a journal and cuts the file there. That is
//! right for the last batch, which a loss of power may have left half written. But it would throw away everything
//! behind a damaged byte in the middle, silently, although all of that was acknowledged. And where it finds the
//! checksum of the last batch wrong, it refuses to start although nothing acknowledged is missing.
//!
//! This module must not know files: it judges bytes. `docs/embedded-engine.md` gives the format of a journal.

use xxhash_rust::xxh3::Xxh3Default;

const TAG_START: u8 = 1;
const TAG_ITEM: u8 = 2;
const TAG_END: u8 = 3;
const TAG_CLEAR: u8 = 4;
const TRAILER: &[u8] = b"FJL\x03";

/// The fixed part of an item behind its tag: value type, compression, keyspace, three lengths.
const ITEM_HEADER_BYTES: usize = 1 + 1 + 8 + 2 + 4 + 4;
/// The only compression that this engine lets the library use in a journal.
const COMPRESSION_NONE: u8 = 0;

/// What a journal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Journal {
    /// All bytes before this one are complete batches.
    pub(super) valid_bytes: usize,
    /// What comes behind them.
    pub(super) rest: Rest,
    /// The sequence numbers of the batches; `None` if there are none.
    pub(super) sequence: Option<Sequence>,
}

impl Journal {
    /// A journal as it was created.
    pub(super) const UNWRITTEN: Self = Self { valid_bytes: 0, rest: Rest::Empty, sequence: None };
}

/// The sequence numbers of the batches of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Each is higher than the one before it.
    pub(super) grows: bool,
}

impl Sequence {
    /// The sequence with one more number.
    fn and(before: Option<Self>, number: u64) -> Self {
        match before {
            None => Self { first: number, last: number, grows: true },
            Some(before) => Self { last: number, grows: before.grows && before.last < number, ..before },
        }
    }
}

/// What comes behind the complete batches of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing, or the zeros that the file was created with.
    Empty,
    /// Bytes that hold no complete batch: a write that was cut off.
    CutOff,
    /// Bytes that cannot be read, and at this place a complete batch behind them.
    BatchAt(usize),
}

/// Reads the bytes of a journal.
pub(super) fn read(bytes: &[u8]) -> Journal {
    let mut valid_bytes = 0;
    let mut rest = bytes;
    let mut sequence = None;
    while let Some((number, behind)) = after_batch(rest) {
        valid_bytes += rest.len() - behind.len();
        sequence = Some(Sequence::and(sequence, number));
        rest = behind;
    }
    let rest = without_zeros_at_end(rest);
    let rest = if rest.is_empty() {
        Rest::Empty
    } else {
        find_batch(rest).map_or(Rest::CutOff, |at| Rest::BatchAt(valid_bytes + at))
    };
    Journal { valid_bytes, rest, sequence }
}

/// The bytes without the blocks of zeros at their end; journals are created with 64 MiB of zeros.
fn without_zeros_at_end(bytes: &[u8]) -> &[u8] {
    const BLOCK: [u8; 4096] = [0; 4096];
    let zeros = bytes.rchunks(BLOCK.len()).take_while(|block| BLOCK.starts_with(block));
    let length = bytes.len() - zeros.map(<[u8]>::len).sum::<usize>();
    bytes.get(..length).unwrap_or_default()
}

/// Where the first complete batch begins that does not begin with the first byte.
fn find_batch(bytes: &[u8]) -> Option<usize> {
    (1..bytes.len()).find(|at| bytes.get(*at..).is_some_and(|rest| after_batch(rest).is_some()))
}

/// The sequence number of a batch and what follows the batch, if the bytes begin with a complete one.
fn after_batch(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let rest = bytes.strip_prefix(&[TAG_START])?;
    let (item_count, rest) = rest.split_first_chunk()?;
    let (number, mut rest) = rest.split_first_chunk()?;
    let mut checksum = Xxh3Default::new();
    for _ in 0..u32::from_le_bytes(*item_count) {
        let behind = after_item(rest)?;
        checksum.update(rest.get(..rest.len() - behind.len())?);
        rest = behind;
    }
    let rest = rest.strip_prefix(&[TAG_END])?;
    let (expected, rest) = rest.split_first_chunk()?;
    let rest = rest.strip_prefix(TRAILER)?;
    (checksum.digest() == u64::from_le_bytes(*expected)).then_some((u64::from_le_bytes(*number), rest))
}

fn after_item(bytes: &[u8]) -> Option<&[u8]> {
    match bytes.split_first()? {
        (&TAG_CLEAR, rest) => rest.get(8..),
        (&TAG_ITEM, rest) => {
            let (header, rest) = rest.split_first_chunk::<ITEM_HEADER_BYTES>()?;
            let [_value_type, compression, _, _, _, _, _, _, _, _, k0, k1, _, _, _, _, v0, v1, v2, v3] = *header;
            if compression != COMPRESSION_NONE {
                return None;
            }
            let key_bytes = usize::from(u16::from_le_bytes([k0, k1]));
            let value_bytes = usize::try_from(u32::from_le_bytes([v0, v1, v2, v3])).ok()?;
            rest.get(key_bytes.checked_add(value_bytes)?..)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fjall::{CompressionType, Database, KeyspaceCreateOptions, PersistMode};

    /// The journal that the library writes for some batches, without the zeros at its end, and where each batch ends.
    fn written(batches: usize) -> (Vec<u8>, Vec<usize>) {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::builder(folder.path()).journal_compression(CompressionType::None).open().unwrap();
        let keyspace = db.keyspace("k", KeyspaceCreateOptions::default).unwrap();
        for number in 0..batches {
            let mut batch = db.batch().durability(Some(PersistMode::Buffer));
            batch.insert(&keyspace, format!("key{number}"), vec![7; 5000]);
            batch.remove(&keyspace, "gone");
            batch.commit().unwrap();
        }
        let mut bytes = std::fs::read(folder.path().join("0.jnl")).unwrap();
        let mut ends = vec![0];
        while let Some((_, behind)) = after_batch(&bytes[ends[ends.len() - 1]..]) {
            ends.push(bytes.len() - behind.len());
        }
        bytes.truncate(ends[ends.len() - 1]);
        (bytes, ends)
    }

    #[test]
    fn a_journal_of_the_library_is_read_to_its_end() {
        let (mut bytes, ends) = written(5);
        assert_eq!(ends.len(), 6);
        let length = bytes.len();
        assert_eq!(extent(&bytes), (length, Rest::Empty));
        bytes.extend([0; 1000]);
        assert_eq!(extent(&bytes), (length, Rest::Empty));
        assert_eq!(read(&[]), Journal::UNWRITTEN);
        assert_eq!(read(&[0; 100]), Journal::UNWRITTEN);
    }

    #[test]
    fn a_cut_off_last_batch_is_no_damage() {
        let (bytes, ends) = written(3);
        for length in (ends[2] + 1..ends[3]).step_by(7) {
            let mut cut = bytes[..length].to_vec();
            assert_eq!(extent(&cut), (ends[2], Rest::CutOff), "cut to {length}");
            cut.resize(bytes.len() + 100, 0);
            assert_eq!(extent(&cut), (ends[2], Rest::CutOff), "zeros from {length}");
        }
        // Parts of a write may reach the disk in any order.
        let mut hole = bytes.clone();
        hole[ends[2]..ends[2] + 512].fill(0);
        assert_eq!(extent(&hole), (ends[2], Rest::CutOff));
    }

    #[test]
    fn damage_before_a_complete_batch_is_told_from_a_cut_off_write() {
        let (bytes, ends) = written(3);
        for at in (ends[1]..ends[2]).step_by(11) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            let journal = read(&damaged);
            // The sequence number alone is not covered by the checksum.
            let is_in_number = (ends[1] + 5..ends[1] + 13).contains(&at);
            let is_found = if is_in_number {
                journal.sequence.is_some_and(|sequence| !sequence.grows)
            } else {
                journal.rest == Rest::BatchAt(ends[2])
            };
            assert!(is_found, "byte {at}: {journal:?}");
        }
    }

    fn extent(bytes: &[u8]) -> (usize, Rest) {
        let journal = read(bytes);
        (journal.valid_bytes, journal.rest)
    }
}
