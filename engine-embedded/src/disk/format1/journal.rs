//! Reads the journals of format 1, and distinguishes an incomplete write from damage.
//!
//! A journal consists of batches. A power failure may have left the last one half-written; such a rest was never
//! acknowledged and does not count. After a damaged byte in the middle, however, everything that follows was
//! acknowledged, and the journal must be refused.
//!
//! Unreadable bytes at the end of a journal are truncated, unless they contain a complete batch: in that case, the
//! journal is damaged. However, an incomplete batch contains clients' bytes unchanged, and these bytes may look like a
//! batch. A position that is certainly inside an entity's value is therefore ignored.
//!
//! Invariants:
//!
//! 1. Damage at one position of a journal never hides a later complete batch, whatever clients store. A value is
//!    skipped only if the start of its batch and all item headers up to the value can be read, and if the lengths in
//!    these headers are confirmed. Three facts confirm the lengths: the length of a value is stored twice and has an
//!    upper bound; a key contains no control character except its separator; and a control character follows each key,
//!    because every record, item and end begins with one. From the first unconfirmed position on, every byte is
//!    searched.
//! 2. A write of which only the beginning is present is never mistaken for damage: all its item headers up to the last
//!    value are present, and that value extends to the end of the file. A killed process, a full disk and most power
//!    failures leave such a write.
//! 3. The work is proportional to the number of bytes, even if a client crafted them.
//! 4. A write that was repeated is never mistaken for damage. After a failed write, the former storage library kept its
//!    buffer and wrote it again later. The beginning of a batch, or the whole batch, is then followed by the same
//!    batch. Both begin with the same sequence number, so this case cannot be confused with any other, and the batch
//!    was not acknowledged.
//!
//! One ambiguous case remains: a power failure that preserves later parts of a write, but not its start or an earlier
//! item header. If a value in these later parts contains a batch, the write looks like damage. It is treated as damage,
//! because treating damage as an incomplete write could lose data.
//!
//! This module must not access files: it examines bytes. `docs/data-folder-format-1.md` specifies the format of a
//! journal.

use model::limits::ENTITY_BYTES_MAX;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

pub(super) const TAG_START: u8 = 1;
pub(super) const TAG_ITEM: u8 = 2;
pub(super) const TAG_END: u8 = 3;
const TAG_CLEAR: u8 = 4;
pub(super) const TRAILER: &[u8] = b"FJL\x03";

/// The length of the start of a batch: tag, number of items, sequence number.
const START_BYTES: usize = 1 + 4 + 8;
/// The length of the fixed part of an item header after its tag: value type, compression, keyspace, three lengths.
const ITEM_HEADER_BYTES: usize = 1 + 1 + 8 + 2 + 4 + 4;
/// The only compression in journals.
const COMPRESSION_NONE: u8 = 0;
const TYPE_VALUE: u8 = 0;
const TYPE_REMOVAL: u8 = 1;
const TYPE_WEAK_REMOVAL: u8 = 2;
const DATA_KEYSPACE: u64 = 1;
const TABLE_ID_BYTES: usize = 8;
const KEY_SEPARATOR: u8 = 0;
/// The maximum length of an entity's record, in bytes. A UTF-16 code unit counts as two bytes towards the size of an
/// entity, but is stored in at most three.
const RECORD_BYTES_MAX: usize = 2 * ENTITY_BYTES_MAX;
/// The first character that is not a control character. Keys contain no control characters.
const FIRST_CHARACTER: u8 = b' ';

/// The number of bytes that are hashed in about the time it takes to step over an item.
const HASH_STEP_BYTES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) valid_bytes: usize,
    pub(crate) rest: Tail,
    /// The sequence numbers of the batches; `None` if there are none.
    pub(crate) sequence: Option<Sequence>,
}

impl Journal {
    pub(crate) const UNWRITTEN: Self = Self { valid_bytes: 0, rest: Tail::Empty, sequence: None };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Whether each number is higher than the previous one.
    pub(crate) grows: bool,
}

impl Sequence {
    fn and(before: Option<Self>, number: u64) -> Self {
        match before {
            None => Self { first: number, last: number, grows: true },
            Some(before) => Self { last: number, grows: before.grows && before.last < number, ..before },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing, or the zeros with which the file was created.
    Empty,
    /// An incomplete write: bytes that contain no complete batch, or only a repetition of the incomplete one.
    Incomplete,
    /// Unreadable bytes, followed by a complete batch at this position.
    BatchAt(usize),
    /// Unreadable bytes, followed by too many positions that look like a batch to search them all.
    Unclear,
}

pub(crate) fn read(bytes: &[u8]) -> Journal {
    let mut valid_bytes = 0;
    let mut rest = bytes;
    let mut sequence = None;
    // Each batch is read once, so no bound is needed.
    let mut unbounded = usize::MAX;
    let mut last_batch: &[u8] = &[];
    while let Some(batch) = Batch::read(rest, &mut unbounded).filter(Batch::is_intact) {
        let (batch_bytes, after) = rest.split_at(rest.len() - batch.after.len());
        if batch_bytes == last_batch && is_zero(after) {
            return Journal { valid_bytes, rest: Tail::Incomplete, sequence };
        }
        valid_bytes += batch_bytes.len();
        sequence = Some(Sequence::and(sequence, batch.number));
        (last_batch, rest) = (batch_bytes, after);
    }
    let rest = without_zeros_at_end(rest);
    let (last, mut steps_left) = (sequence.map(|sequence| sequence.last), rest.len());
    let rest = match find_batch(rest, last, &mut steps_left) {
        _ if rest.is_empty() => Tail::Empty,
        Tail::BatchAt(_) | Tail::Unclear if is_repetition(rest) => Tail::Incomplete,
        Tail::BatchAt(at) => Tail::BatchAt(valid_bytes + at),
        other => other,
    };
    Journal { valid_bytes, rest, sequence }
}

/// Returns whether the bytes consist of the beginning of a batch, followed by the same batch in full and then only
/// zeros. The amount of work is bounded as in [`find_batch`].
fn is_repetition(bytes: &[u8]) -> bool {
    let mut steps_left = bytes.len();
    for at in 1..bytes.len() {
        let Some((beginning, again)) = bytes.split_at_checked(at) else { return false };
        if !again.starts_with(beginning.get(..START_BYTES).unwrap_or(beginning)) {
            continue;
        }
        if let Some(batch) = Batch::read(again, &mut steps_left) {
            steps_left = steps_left.saturating_sub((batch.items.len() + at) / HASH_STEP_BYTES);
            if steps_left > 0 && again.starts_with(beginning) && is_zero(batch.after) && batch.is_intact() {
                return true;
            }
        }
        if steps_left == 0 {
            return false;
        }
    }
    false
}

fn is_zero(bytes: &[u8]) -> bool {
    without_zeros_at_end(bytes).iter().all(|byte| *byte == 0)
}

/// Returns the bytes without the blocks of zeros at the end. Journals were created with 64 MiB of zeros.
fn without_zeros_at_end(bytes: &[u8]) -> &[u8] {
    const BLOCK: [u8; 4096] = [0; 4096];
    let zeros = bytes.rchunks(BLOCK.len()).take_while(|block| BLOCK.starts_with(block));
    let length = bytes.len() - zeros.map(<[u8]>::len).sum::<usize>();
    bytes.get(..length).unwrap_or_default()
}

/// Finds the first complete batch that begins after the first byte and has a sequence number higher than `last`.
/// Crafted bytes can make long batches appear to begin at many positions, or to share an end. The number of items
/// stepped over and of bytes hashed is therefore bounded.
fn find_batch(bytes: &[u8], last: Option<u64>, steps_left: &mut usize) -> Tail {
    for at in possible_batch_starts(bytes, last) {
        let batch = bytes.get(at..).filter(|rest| is_later(rest, last)).and_then(|rest| Batch::read(rest, steps_left));
        if let Some(batch) = batch {
            *steps_left = steps_left.saturating_sub(batch.items.len() / HASH_STEP_BYTES);
            if *steps_left > 0 && batch.is_intact() {
                return Tail::BatchAt(at);
            }
        }
        if *steps_left == 0 {
            return Tail::Unclear;
        }
    }
    Tail::Incomplete
}

/// Returns the positions after the first byte at which a batch may begin: all positions that are not certain to be
/// inside an entity's value.
fn possible_batch_starts(bytes: &[u8], last: Option<u64>) -> impl Iterator<Item = usize> {
    let mut between = Vec::new();
    let mut from = 1;
    for value in values_of_entities(bytes, last) {
        between.push(from..value.start);
        from = value.end;
    }
    between.push(from..bytes.len());
    between.into_iter().flatten()
}

/// Returns the ranges of the entities' values in an incomplete batch, as far as their positions are certain. The last
/// range may extend beyond the end of `bytes`.
fn values_of_entities(bytes: &[u8], last: Option<u64>) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    let Some(start) = Start::read(bytes).filter(|_| is_later(bytes, last)) else { return values };
    let mut at = bytes.len() - start.after.len();
    for _ in 0..start.item_count {
        let Some(value) = bytes.get(at..).and_then(value_of_entity) else { break };
        values.push(at + value.start..at + value.end);
        at += value.end;
    }
    values
}

/// Returns `None` if the item is not an entity or its lengths are not certain.
fn value_of_entity(bytes: &[u8]) -> Option<Range<usize>> {
    let head = Head::read(bytes)?;
    let (table, key) = head.key.split_at_checked(TABLE_ID_BYTES)?;
    let is_of_entity =
        head.keyspace == DATA_KEYSPACE && table.iter().any(|byte| *byte != 0) && head.value_bytes <= RECORD_BYTES_MAX;
    // A longer key would contain the first byte of the value or of the next entry, and a shorter one would be followed
    // by a character that is not a control character.
    let is_key = key.iter().filter(|byte| **byte < FIRST_CHARACTER).eq([&KEY_SEPARATOR])
        && head.after.first().is_some_and(|byte| *byte < FIRST_CHARACTER);
    let start = bytes.len() - head.after.len();
    (is_of_entity && is_key).then(|| start..start + head.value_bytes)
}

/// Returns whether the bytes look like the start of a batch with a sequence number higher than `last`.
fn is_later(bytes: &[u8], last: Option<u64>) -> bool {
    Start::read(bytes).is_some_and(|start| last.is_none_or(|last| last < start.number))
}

/// An operation in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) key: &'a [u8],
    /// `None` if the operation removes the key.
    pub(crate) value: Option<&'a [u8]>,
}

/// Returns the operations of each batch in the valid part of a journal, as far as they concern the engine's keyspace.
/// Returns `None` for a batch that contains an operation that the engine never wrote.
pub(crate) fn batches(valid: &[u8]) -> impl Iterator<Item = Option<Vec<Item<'_>>>> {
    let mut rest = valid;
    std::iter::from_fn(move || {
        let batch = Batch::read(rest, &mut usize::MAX.clone())?;
        rest = batch.after;
        Some(items(batch.items))
    })
}

fn items(mut bytes: &[u8]) -> Option<Vec<Item<'_>>> {
    let mut items = Vec::new();
    while !bytes.is_empty() {
        if let Some(rest) = bytes.strip_prefix(&[TAG_CLEAR]) {
            let (keyspace, rest) = rest.split_first_chunk()?;
            if u64::from_le_bytes(*keyspace) == DATA_KEYSPACE {
                return None;
            }
            bytes = rest;
            continue;
        }
        let Head { value_type, keyspace, key, value_bytes, after } = Head::read(bytes)?;
        let (value, rest) = after.split_at_checked(value_bytes)?;
        bytes = rest;
        if keyspace == DATA_KEYSPACE {
            let value = match value_type {
                TYPE_VALUE => Some(value),
                TYPE_REMOVAL | TYPE_WEAK_REMOVAL if value.is_empty() => None,
                _ => return None,
            };
            // Every key begins with a table ID.
            if key.len() < TABLE_ID_BYTES {
                return None;
            }
            items.push(Item { key, value });
        }
    }
    Some(items)
}

struct Start<'a> {
    item_count: u32,
    number: u64,
    after: &'a [u8],
}

impl<'a> Start<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[TAG_START])?;
        let (item_count, rest) = rest.split_first_chunk()?;
        let (number, after) = rest.split_first_chunk()?;
        let start = Self { item_count: u32::from_le_bytes(*item_count), number: u64::from_le_bytes(*number), after };
        // No empty batches were written.
        (start.item_count > 0).then_some(start)
    }
}

struct Batch<'a> {
    number: u64,
    items: &'a [u8],
    checksum: u64,
    after: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Reads the batch at the start of `bytes`, unless it has more items than there are steps left.
    fn read(bytes: &'a [u8], steps_left: &mut usize) -> Option<Self> {
        let start = Start::read(bytes)?;
        let mut rest = start.after;
        for _ in 0..start.item_count {
            *steps_left = steps_left.checked_sub(1)?;
            rest = after_item(rest)?;
        }
        let items = start.after.get(..start.after.len() - rest.len())?;
        let rest = rest.strip_prefix(&[TAG_END])?;
        let (checksum, rest) = rest.split_first_chunk()?;
        let after = rest.strip_prefix(TRAILER)?;
        Some(Self { number: start.number, items, checksum: u64::from_le_bytes(*checksum), after })
    }

    fn is_intact(&self) -> bool {
        xxh3_64(self.items) == self.checksum
    }
}

fn after_item(bytes: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = bytes.strip_prefix(&[TAG_CLEAR]) {
        return rest.get(8..);
    }
    let head = Head::read(bytes)?;
    head.after.get(head.value_bytes..)
}

struct Head<'a> {
    value_type: u8,
    keyspace: u64,
    key: &'a [u8],
    value_bytes: usize,
    after: &'a [u8],
}

impl<'a> Head<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[TAG_ITEM])?;
        let (header, rest) = rest.split_first_chunk::<ITEM_HEADER_BYTES>()?;
        let [value_type, compression, keyspace @ .., k0, k1, v0, v1, v2, v3, s0, s1, s2, s3] = *header;
        // Uncompressed values are stored with their original length.
        if compression != COMPRESSION_NONE || [v0, v1, v2, v3] != [s0, s1, s2, s3] {
            return None;
        }
        let (key, after) = rest.split_at_checked(usize::from(u16::from_le_bytes([k0, k1])))?;
        let value_bytes = usize::try_from(u32::from_le_bytes([v0, v1, v2, v3])).ok()?;
        Some(Self { value_type, keyspace: u64::from_le_bytes(keyspace), key, value_bytes, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::format1::tests::{batch, item};

    /// The journal has no trailing zeros. Also returns the end position of each batch.
    fn written(batches: u64) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for number in 0..batches {
            let items = [item(0, format!("key{number}").as_bytes(), &[7; 5000]), item(1, b"gone", b"")];
            bytes.extend(batch(number + 5, &items));
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn a_journal_is_read_to_its_end() {
        let (mut bytes, ends) = written(5);
        assert_eq!(ends.len(), 6);
        let length = bytes.len();
        assert_eq!(extent(&bytes), (length, Tail::Empty));
        bytes.extend([0; 1000]);
        assert_eq!(extent(&bytes), (length, Tail::Empty));
        assert_eq!(read(&[]), Journal::UNWRITTEN);
        assert_eq!(read(&[0; 100]), Journal::UNWRITTEN);
    }

    #[test]
    fn a_cut_off_last_batch_is_no_damage() {
        let (bytes, ends) = written(3);
        for length in (ends[2] + 1..ends[3]).step_by(7) {
            let mut cut = bytes[..length].to_vec();
            assert_eq!(extent(&cut), (ends[2], Tail::Incomplete), "cut to {length}");
            cut.resize(bytes.len() + 100, 0);
            assert_eq!(extent(&cut), (ends[2], Tail::Incomplete), "zeros from {length}");
        }
        // The parts of a write may reach the disk in any order.
        let mut hole = bytes.clone();
        hole[ends[2]..ends[2] + 512].fill(0);
        assert_eq!(extent(&hole), (ends[2], Tail::Incomplete));
    }

    #[test]
    fn a_write_that_was_repeated_is_no_damage() {
        let forged = batch(9, &[entity("x", b"")]);
        let first = batch(1, &[entity("a", b"1"), stamp()]);
        for failed in [batch(2, &[removal("b")]), batch(2, &[entity("b", &forged), removal("c"), stamp()])] {
            for length in 1..=failed.len() {
                let is_complete = length == failed.len();
                let valid_bytes = if is_complete { first.len() + failed.len() } else { first.len() };
                let mut repeated = [&first, &failed[..length], &failed].concat();
                assert_eq!(extent(&repeated), (valid_bytes, Tail::Incomplete), "{length} bytes, then the whole batch");
                repeated.resize(repeated.len() + 5000, 0);
                assert_eq!(extent(&repeated), (valid_bytes, Tail::Incomplete), "with zeros");
                // The library writes nothing after a repetition, so this is damage.
                let later = [&first, &failed[..length], &failed, &batch(3, &[removal("d")])].concat();
                assert_ne!(
                    extent(&later).1,
                    Tail::Incomplete,
                    "{length} bytes, then the whole batch and a later batch"
                );
            }
        }
    }

    #[test]
    fn damage_before_a_complete_batch_is_distinguished_from_a_cut_off_write() {
        let (bytes, ends) = written(3);
        for at in (ends[1]..ends[2]).step_by(11) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            let journal = read(&damaged);
            // The checksum covers everything except the sequence number.
            let is_in_number = (ends[1] + 5..ends[1] + 13).contains(&at);
            let is_found = if is_in_number {
                journal.sequence.is_some_and(|sequence| !sequence.grows)
            } else {
                journal.rest == Tail::BatchAt(ends[2])
            };
            assert!(is_found, "byte {at}: {journal:?}");
        }
    }

    fn entity(row: &str, bytes: &[u8]) -> Vec<u8> {
        let key = [&7_u64.to_be_bytes()[..], b"p\0", row.as_bytes()].concat();
        item(0, &key, &[&[1; 9], bytes].concat())
    }

    fn removal(row: &str) -> Vec<u8> {
        item(1, &[&7_u64.to_be_bytes()[..], b"p\0", row.as_bytes()].concat(), b"")
    }

    fn stamp() -> Vec<u8> {
        item(0, b"\0\0\0\0\0\0\0\0mlast-stamp", &[1; 8])
    }

    #[test]
    fn what_clients_store_is_not_taken_for_a_batch_after_a_cut_off_write() {
        let forged =
            [batch(4, &[]), batch(4, &[entity("x", b"")]), batch(u64::MAX, &[removal("x")]).repeat(5)].concat();
        let first = batch(1, &[entity("a", b"1"), stamp()]);
        let items = [removal("a"), entity("b", &forged), entity("c", b""), entity("d", &forged), stamp()];
        let both = [first.clone(), batch(2, &items)].concat();
        for length in first.len() + 1..both.len() {
            let mut cut = both[..length].to_vec();
            assert_eq!(extent(&cut), (first.len(), Tail::Incomplete), "cut to {length}");
            cut.resize(both.len() + 10_000, 0);
            assert_eq!(extent(&cut), (first.len(), Tail::Incomplete), "zeros from {length}");
        }
        // Parts of a value are missing, but all item headers are present.
        let second = both.windows(forged.len()).rposition(|bytes| bytes == forged).unwrap();
        for hole in [second - 9..second, second..second + 20, second + forged.len() - 40..both.len()] {
            let mut bytes = both.clone();
            bytes[hole.clone()].fill(0);
            assert_eq!(extent(&bytes), (first.len(), Tail::Incomplete), "hole at {hole:?}");
        }
    }

    #[test]
    fn no_flipped_bits_hide_the_batch_after_them() {
        // The last batches are so small that a slightly longer length extends beyond them.
        let forged = batch(9, &[entity("x", &[5; 40])]);
        let first = batch(1, &[entity("a", b"1"), stamp()]);
        let middles = [
            vec![entity("b", b"some bytes"), stamp()],
            vec![removal("b"), entity("c", &forged), removal("d"), entity("e", &[0; 70]), stamp()],
            vec![removal("b"), removal("c")],
            vec![item(0, b"\0\0\0\0\0\0\0\0cacc1\0table", &[1; 20])],
        ];
        for middle in middles {
            let middle = batch(2, &middle);
            let end = first.len() + middle.len();
            let good = [first.clone(), middle, batch(3, &[removal("f")])].concat();
            assert_eq!(extent(&good), (good.len(), Tail::Empty));
            let changes = (0..8).map(|bit| 1 << bit).chain([0x03, 0x55, 0xAA, 0xFF]).collect::<Vec<u8>>();
            // No checksum covers the number of a batch; another check verifies it.
            let number = first.len() + 5..first.len() + 13;
            for at in (first.len()..end).filter(|at| !number.contains(at)) {
                for length in [1, 2, 3, 4, 8, 16, 32] {
                    let last = end.min(at + length);
                    let changed = |change| good[at..last].iter().map(|byte| byte ^ change).collect::<Vec<u8>>();
                    let fills = [0, 0xFF, b'a'].map(|fill| vec![fill; last - at]);
                    for bytes in changes.iter().map(changed).chain(fills).filter(|bytes| *bytes != good[at..last]) {
                        let damaged = [&good[..at], &bytes, &good[last..]].concat();
                        let journal = read(&damaged);
                        let is_found = matches!(journal.rest, Tail::BatchAt(_) | Tail::Unclear)
                            || journal.sequence.is_some_and(|sequence| !sequence.grows);
                        assert!(is_found, "{at}..{last} became {bytes:?}: {journal:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn heads_that_are_stale_or_of_clients_hide_no_batch() {
        let first = batch(5, &[entity("a", b"1"), stamp()]);
        let head = &entity("x", &[5; 10_000])[..32];
        let last = batch(7, &[removal("f")]);
        // With one bit of the key length flipped, the item seems to end before the client's last 32 bytes.
        let key = "b".repeat(40);
        let mut of_client = batch(6, &[entity(&key, &[&[5; 100][..], head].concat()), stamp()]);
        of_client[13 + 11] ^= 32;
        // A stale block, from a batch with a lower number that was stored there earlier.
        let stale = batch(5, &[entity("a", &[5; 10_000])])[..200].to_vec();
        for middle in [of_client, stale] {
            let at = first.len() + middle.len();
            let journal = [&first[..], &middle, &last].concat();
            assert_eq!(extent(&journal), (first.len(), Tail::BatchAt(at)));
        }
    }

    #[test]
    fn a_batch_after_damage_is_later_than_the_one_before_it_and_has_items() {
        let begin = |number, after: Vec<u8>| [batch(number, &[removal("a")]), vec![0xFF; 10], after].concat();
        let length = batch(7, &[removal("a")]).len();
        for (after, expected) in [
            (batch(6, &[removal("b")]), Tail::Incomplete),
            (batch(7, &[removal("b")]), Tail::Incomplete),
            (batch(8, &[]), Tail::Incomplete),
            (batch(8, &[removal("b")]), Tail::BatchAt(length + 10)),
        ] {
            assert_eq!(extent(&begin(7, after.clone())), (length, expected), "{}", after.escape_ascii());
        }
        assert_eq!(extent(&batch(1, &[])), (0, Tail::Incomplete));
    }

    #[test]
    fn the_work_of_a_search_is_bounded_whatever_the_bytes_are() {
        const BYTES: usize = 4 << 20;
        // Each start is followed by items up to the end of the bytes, and many starts share each item.
        let chain = [TAG_START, 0xFF, 0xFF, 0xFF, TAG_CLEAR, 0, 0, 0, 0].repeat(BYTES / 9);
        // Each value ends with a start that is followed by all further items, which share one end.
        let count = 20_000_u32;
        let nested = (0..count).flat_map(|number| {
            let start = [&[TAG_START][..], &(count - 1 - number).to_le_bytes(), &[0xEE; 8]].concat();
            item(0, b"", &start)
        });
        let nested = nested.chain([TAG_END]).chain([0; 8]).chain(TRAILER.iter().copied()).collect::<Vec<_>>();
        for bytes in [chain, nested] {
            let mut steps_left = bytes.len();
            assert_eq!(find_batch(&bytes, None, &mut steps_left), Tail::Unclear);
            assert_eq!(steps_left, 0);
            // An incomplete batch in such a value requires no steps.
            let mut items: Vec<_> = bytes.chunks(ENTITY_BYTES_MAX).map(|value| entity("a", value)).collect();
            items.push(stamp());
            let whole = batch(1, &items);
            let mut steps_left = whole.len();
            assert_eq!(find_batch(&whole[..whole.len() - 1], None, &mut steps_left), Tail::Incomplete);
            assert!(whole.len() - steps_left < 10, "{} steps", whole.len() - steps_left);
        }
    }

    fn extent(bytes: &[u8]) -> (usize, Tail) {
        let journal = read(bytes);
        (journal.valid_bytes, journal.rest)
    }
}
