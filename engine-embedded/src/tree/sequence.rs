//! The numbers that the library uses in place of the sequences of transactions.
//!
//! The library knows only numbers: each item has one, each list of files has one, and a read names one. A read with the
//! number N uses the newest list below N, and sees the items below N in the memtables and files of that list. Lists
//! take their numbers from a counter when they are installed. If transactions took consecutive numbers, a list would
//! take the number of a transaction that may not be applied yet.
//!
//! Therefore, a sequence S owns 65,536 numbers, from S × 65,536. All its items have the first of them. The others are
//! for the lists that are installed while S is the published sequence. A snapshot at S reads with the first number of
//! S + 1. It sees the items up to S and the lists that were installed before the next publication. With a number just
//! above the items, it would not see these lists, and an idle tree could not release the files that they replace.

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

    /// Returns the lowest number of a list that is installed while this sequence is the published one.
    pub(super) fn first_list_number(self) -> u64 {
        self.item_number()
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
            let last_list = sequence.snapshot_number() - 1;
            for number in [sequence.item_number(), sequence.first_list_number(), last_list] {
                assert_eq!(Sequence::from_number(number), sequence);
            }
        }
        assert!(MAX.snapshot_number() < 1 << 63);
    }
}
