//! The numbers that the library uses in place of the sequences of transactions.
//!
//! The library knows only numbers: each item has one, and a read sees the items below the one that it names. A sequence
//! S owns 65,536 numbers, from S × 65,536. All its items have the first of them, and a snapshot at S reads with the
//! first number of S + 1. The others are not used any more; the format of the sorted files contains the numbers.

use crate::sequence::Sequence;

/// The binary logarithm of the number of numbers that a sequence owns.
const NUMBERS_BITS: u32 = 16;
const NUMBERS: u64 = 1 << NUMBERS_BITS;

/// The library reserves the highest bit of its numbers, and a snapshot reads with a number of the next sequence.
const MAX: Sequence = Sequence::new((1 << (63 - NUMBERS_BITS)) - 2);

impl Sequence {
    /// Returns the sequence that owns a number of the library.
    pub(super) fn from_number(number: u64) -> Self {
        Self::new(number >> NUMBERS_BITS)
    }

    pub(super) fn item_number(self) -> u64 {
        assert!(self <= MAX, "a log never reaches 2^47 transactions");
        self.get() << NUMBERS_BITS
    }

    pub(super) fn snapshot_number(self) -> u64 {
        self.item_number() + NUMBERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_sequence_lie_between_its_neighbours() {
        for sequence in [0, 1, 2, 1 << 40, MAX.get() - 1].map(Sequence::new) {
            let next = sequence.next();
            assert!(sequence.item_number() < sequence.snapshot_number());
            assert_eq!(sequence.snapshot_number(), next.item_number());
            for number in [sequence.item_number(), sequence.snapshot_number() - 1] {
                assert_eq!(Sequence::from_number(number), sequence);
            }
        }
        assert!(MAX.snapshot_number() < 1 << 63);
    }
}
