//! The hash of partitions, and ranges of hashes.

use std::num::Wrapping;

/// A range of hashes, of which both ends are part.
pub(crate) trait HashRange {
    fn first(&self) -> i32;
    fn last(&self) -> i32;
}

/// Ranges in the order of their hashes. Every hash belongs to exactly one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HashRanges<T>(Vec<T>);

impl<T: HashRange> HashRanges<T> {
    /// Returns `None` unless every hash belongs to exactly one of the ranges.
    pub(crate) fn new(mut ranges: Vec<T>) -> Option<Self> {
        ranges.sort_unstable_by_key(T::first);
        let mut next = Some(i32::MIN);
        for range in &ranges {
            if next != Some(range.first()) || range.last() < range.first() {
                return None;
            }
            next = range.last().checked_add(1);
        }
        (next.is_none() && !ranges.is_empty()).then_some(Self(ranges))
    }

    pub(crate) fn at(&self, hash: i32) -> Option<&T> {
        self.0.get(self.0.partition_point(|range| range.last() < hash))
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

/// Returns the hash by which PostgreSQL, and therefore Citus, distributes byte strings: Bob Jenkins's `lookup3` of
/// 2006, as computed on a little-endian processor. For a database on a big-endian processor, a wrong hash costs only
/// speed, but the change log cannot find the node of a partition.
pub(crate) fn hash(bytes: &[u8]) -> i32 {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut state = [Wrapping(0x9e37_79b9) + Wrapping(length) + Wrapping(3_923_095); 3];
    let (blocks, tail) = bytes.as_chunks::<12>();
    for block in blocks {
        let [x, y, z] = words(block);
        state = mix([state[0] + x, state[1] + y, state[2] + z]);
    }
    let mut last = [0; 12];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    let [x, y, z] = words(&last);
    // The lowest byte of the third word is reserved for the length.
    finish([state[0] + x, state[1] + y, state[2] + (z << 8)])
}

type Word = Wrapping<u32>;

fn words(block: &[u8; 12]) -> [Word; 3] {
    let mut words = [Wrapping(0); 3];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = Wrapping(u32::from_le_bytes(*bytes));
    }
    words
}

fn rotated(word: Word, bits: u32) -> Word {
    Wrapping(word.0.rotate_left(bits))
}

fn mix([mut a, mut b, mut c]: [Word; 3]) -> [Word; 3] {
    for [first, second, third] in [[4, 6, 8], [16, 19, 4]] {
        a = (a - c) ^ rotated(c, first);
        c += b;
        b = (b - a) ^ rotated(a, second);
        a += c;
        c = (c - b) ^ rotated(b, third);
        b += a;
    }
    [a, b, c]
}

fn finish([mut a, mut b, mut c]: [Word; 3]) -> i32 {
    c = (c ^ b) - rotated(b, 14);
    a = (a ^ c) - rotated(c, 11);
    b = (b ^ a) - rotated(a, 25);
    c = (c ^ b) - rotated(b, 16);
    a = (a ^ c) - rotated(c, 4);
    b = (b ^ a) - rotated(a, 14);
    c = (c ^ b) - rotated(b, 24);
    c.0.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_database() {
        // These values are the results of `worker_hash` in Citus 13 on PostgreSQL 15.
        let bytes: Vec<u8> = (0..41_u32).map(|n| u8::try_from((n * 7 + 3) % 256).unwrap()).collect();
        for (length, expected) in [
            (0, -1_477_818_771),
            (1, 111_752_136),
            (2, 338_510_644),
            (3, 2_047_299_087),
            (4, -1_990_468_214),
            (5, -1_260_890_809),
            (6, 974_815_198),
            (7, -36_343_261),
            (8, -1_062_562_737),
            (9, -943_060_110),
            (10, -1_241_628_620),
            (11, 2_107_597_588),
            (12, 1_674_887_284),
            (13, 1_922_809_158),
            (20, 93_362_486),
            (23, 919_066_568),
            (24, -172_630_480),
            (25, 618_019_020),
            (36, 47_781_112),
            (41, -46_518_581),
        ] {
            assert_eq!(hash(&bytes[..length]), expected, "{length} bytes");
        }
    }
}
