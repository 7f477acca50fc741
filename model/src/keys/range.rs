//! Ranges of keys, and positions in the order of entities.
//!
//! Invariant: a range consists of encoded key bytes, so byte order is entity order.
//!
//! This module must not depend on filters or storage.

use crate::key::{KEY_SEPARATOR, KeyView, decode_ordinal, encode_ordinal};
use std::borrow::Cow;
use std::ops::Bound;

/// A byte that sorts after every row key of a partition and before every longer partition key. It is one more than the
/// separator, and less than any character that is allowed in a key.
const AFTER_PARTITION: u8 = KEY_SEPARATOR + 1;

/// A position in an order of the entities of a table. In key order, it is the key bytes of the next entity to examine;
/// in the order of an index, the entry of that entity (see [`crate::index`]).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(Vec<u8>);

impl Position {
    /// Creates the position of an entity with the given keys, whether or not the entity exists. Any string is allowed:
    /// a position is compared but never stored as an entity.
    pub fn new(partition: &str, row: &str) -> Self {
        let mut bytes = Vec::with_capacity(partition.len() + 1 + row.len());
        encode_ordinal(partition, &mut bytes);
        bytes.push(KEY_SEPARATOR);
        encode_ordinal(row, &mut bytes);
        Self(bytes)
    }

    /// Creates the position at which a partition starts. It has no row key, and is before every row key.
    pub fn start_of_partition(partition: &str) -> Self {
        Self(encoded(partition, &[]))
    }

    /// Returns the position with the given bytes: key bytes ([`crate::EntityKey::encode`]) or an entry of an index.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the partition key and the row key of a position in key order, or `None` if the bytes are damaged.
    pub fn keys(&self) -> Option<KeyView<'_>> {
        KeyView::decode(&self.0)
    }

    /// Like [`keys`](Self::keys), but the row key is `None` for the start of a partition.
    pub fn partition_and_row(&self) -> Option<(Cow<'_, str>, Option<Cow<'_, str>>)> {
        match self.keys() {
            Some(keys) => Some((keys.partition, Some(keys.row))),
            None => Some((decode_ordinal(&self.0)?, None)),
        }
    }
}

/// A half-open range of key bytes inside a table: from `start`, inclusive, to `end`, exclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key bytes of the range.
    pub start: Vec<u8>,
    /// The first key bytes after the range. `None` means that the range extends to the end of the table.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Returns the range of all entities in a table.
    pub fn all() -> Self {
        Self { start: Vec::new(), end: None }
    }

    /// Returns the range of all entities whose partition key lies between two bounds.
    pub fn partitions(from: Bound<&str>, to: Bound<&str>) -> Self {
        let start = match from {
            Bound::Unbounded => Vec::new(),
            Bound::Included(partition) => encoded(partition, &[]),
            Bound::Excluded(partition) => encoded(partition, &[AFTER_PARTITION]),
        };
        let end = match to {
            Bound::Unbounded => None,
            Bound::Included(partition) => Some(encoded(partition, &[AFTER_PARTITION])),
            Bound::Excluded(partition) => Some(encoded(partition, &[])),
        };
        Self { start, end }
    }

    /// Returns the range of all entities in one partition whose row key lies between two bounds.
    pub fn rows(partition: &str, from: Bound<&str>, to: Bound<&str>) -> Self {
        let with = |row: &str, suffix: &[u8]| {
            let mut bytes = Vec::with_capacity(partition.len() + 1 + row.len() + suffix.len());
            encode_ordinal(partition, &mut bytes);
            bytes.push(KEY_SEPARATOR);
            encode_ordinal(row, &mut bytes);
            bytes.extend_from_slice(suffix);
            bytes
        };
        // No row key contains the separator, so a row key with it appended is the next possible row key.
        let start = match from {
            Bound::Unbounded => encoded(partition, &[KEY_SEPARATOR]),
            Bound::Included(row) => with(row, &[]),
            Bound::Excluded(row) => with(row, &[KEY_SEPARATOR]),
        };
        let end = match to {
            Bound::Unbounded => encoded(partition, &[AFTER_PARTITION]),
            Bound::Included(row) => with(row, &[KEY_SEPARATOR]),
            Bound::Excluded(row) => with(row, &[]),
        };
        Self { start, end: Some(end) }
    }

    /// Returns the range of all entities whose keys lie between two inclusive bounds. A bound is a partition key with
    /// an optional row key (08 §6), and may be any string.
    pub fn pairs(from: Option<(&str, Option<&str>)>, to: Option<(&str, Option<&str>)>) -> Self {
        let start = from.map_or_else(Vec::new, |(partition, row)| {
            match (longest_key_prefix(partition), row.map(longest_key_prefix)) {
                (Ok(partition), None) => Self::partitions(Bound::Included(partition), Bound::Unbounded).start,
                (Ok(partition), Some(Ok(row))) => Self::rows(partition, Bound::Included(row), Bound::Unbounded).start,
                (Ok(partition), Some(Err(row))) => Self::rows(partition, Bound::Excluded(row), Bound::Unbounded).start,
                (Err(partition), _) => Self::partitions(Bound::Excluded(partition), Bound::Unbounded).start,
            }
        });
        let end = to.and_then(|(partition, row)| match (longest_key_prefix(partition), row.map(longest_key_prefix)) {
            (Ok(partition), Some(Ok(row) | Err(row))) => {
                Self::rows(partition, Bound::Unbounded, Bound::Included(row)).end
            }
            (Ok(partition) | Err(partition), _) => Self::partitions(Bound::Unbounded, Bound::Included(partition)).end,
        });
        Self { start, end }
    }

    /// Returns whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Returns whether the key bytes lie in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }

    /// Returns whether one of the ranges, which must be ascending and disjoint, contains the key bytes.
    pub fn any_contains(ranges: &[Self], key: &[u8]) -> bool {
        let following = ranges.partition_point(|range| range.start.as_slice() <= key);
        following.checked_sub(1).and_then(|last| ranges.get(last)).is_some_and(|range| range.contains(key))
    }

    /// Returns whether exactly one key can lie in the range: its start.
    pub fn is_point(&self) -> bool {
        // The end of such a range is its only key followed by a separator, the first byte that cannot extend a complete
        // key.
        let end = self.end.as_deref().and_then(|end| end.split_last());
        end.is_some_and(|(last, key)| *last == KEY_SEPARATOR && key == self.start)
            && self.start.contains(&KEY_SEPARATOR)
    }

    /// Returns whether the range contains exactly the keys of one partition.
    pub fn is_partition(&self) -> bool {
        self.partition().is_some_and(|partition| {
            let after_key = self.start.get(partition.len()..).unwrap_or_default();
            let is_from_first = after_key.is_empty() || after_key == [KEY_SEPARATOR];
            is_from_first && self.end.as_ref().is_some_and(|end| end.last() == Some(&AFTER_PARTITION))
        })
    }

    /// Moves the end of the range to another end, if that is later. `None` is the end of the table.
    pub(crate) fn extend_to(&mut self, end: Option<Vec<u8>>) {
        self.end = self.end.take().zip(end).map(|(a, b)| a.max(b));
    }

    /// Returns the intersection of both ranges, which may be empty.
    pub fn intersect(&self, other: &Self) -> Self {
        let start = self.start.clone().max(other.start.clone());
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (Some(end), None) | (None, Some(end)) => Some(end.clone()),
            (None, None) => None,
        };
        Self { start, end }
    }

    /// Returns the encoded partition key shared by all keys of the range, or `None` if the range can span several
    /// partitions.
    pub fn partition(&self) -> Option<&[u8]> {
        let (start, end) = (self.start.as_slice(), self.end.as_deref()?);
        let separator = start.iter().position(|b| *b == KEY_SEPARATOR);
        let partition = start.get(..separator.unwrap_or(start.len()))?;
        let rest = end.strip_prefix(partition)?;
        // No other key sorts between a partition key and the bytes after all of its rows.
        let ends_inside = separator.is_some() && rest.first() == Some(&KEY_SEPARATOR);
        (ends_inside || rest == [AFTER_PARTITION]).then_some(partition)
    }

    /// Returns the part of the range that starts at a position; it may be empty.
    pub fn from_position(&self, position: &Position) -> Self {
        self.intersect(&Self { start: position.0.clone(), end: None })
    }

    /// Returns the part of the range that ends with a position, inclusive; it may be empty.
    pub fn up_to_position(&self, position: &Position) -> Self {
        // No other bytes sort between a position and the position followed by the least byte.
        self.intersect(&Self { start: Vec::new(), end: Some([position.as_bytes(), &[0]].concat()) })
    }
}

/// Returns `Ok` with the string if it can be a key, or `Err` with its longest prefix that can be a key. Keys do not
/// contain the bytes that structure encoded keys, so a string that contains such a byte equals no key. It sorts
/// directly after that prefix, and before every longer key that begins with the prefix.
fn longest_key_prefix(text: &str) -> Result<&str, &str> {
    text.split_once(['\0', '\u{1}']).map_or(Ok(text), |(head, _)| Err(head))
}

fn encoded(text: &str, suffix: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() + suffix.len());
    encode_ordinal(text, &mut bytes);
    bytes.extend_from_slice(suffix);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edm::compare_ordinal;
    use crate::{EntityKey, KeyText};
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn text() -> impl Strategy<Value = String> {
        proptest::collection::vec(prop_oneof![Just('a'), Just('b'), Just(' '), Just('\u{E000}'), Just('😀')], 0..3)
            .prop_map(|chars| chars.into_iter().collect())
    }

    fn bound(kind: u8, text: &str) -> Bound<&str> {
        match kind {
            0 => Bound::Unbounded,
            1 => Bound::Included(text),
            _ => Bound::Excluded(text),
        }
    }

    fn within(text: &str, from: Bound<&str>, to: Bound<&str>) -> bool {
        let above = match from {
            Bound::Unbounded => true,
            Bound::Included(bound) => compare_ordinal(text, bound) != Ordering::Less,
            Bound::Excluded(bound) => compare_ordinal(text, bound) == Ordering::Greater,
        };
        let below = match to {
            Bound::Unbounded => true,
            Bound::Included(bound) => compare_ordinal(text, bound) != Ordering::Greater,
            Bound::Excluded(bound) => compare_ordinal(text, bound) == Ordering::Less,
        };
        above && below
    }

    proptest! {
        #[test]
        fn a_range_holds_exactly_the_keys_between_its_bounds(
            keys in (text(), text()), bounds in (text(), text()), kinds in (0u8..3, 0u8..3), partition in text(),
        ) {
            let key = EntityKey { partition: KeyText::new(&keys.0).unwrap(), row: KeyText::new(&keys.1).unwrap() }.encode();
            let (from, to) = (bound(kinds.0, &bounds.0), bound(kinds.1, &bounds.1));
            prop_assert_eq!(KeyRange::partitions(from, to).contains(&key), within(&keys.0, from, to));
            let expected = keys.0 == partition && within(&keys.1, from, to);
            prop_assert_eq!(KeyRange::rows(&partition, from, to).contains(&key), expected);
        }

        #[test]
        fn a_position_belongs_to_both_parts_of_a_range(keys in (text(), text()), at in (text(), text())) {
            let encode = |(partition, row): &(String, String)| EntityKey::new(partition, row).unwrap().encode();
            let (key, position) = (encode(&keys), Position::new(&at.0, &at.1));
            let (from, up_to) = (KeyRange::all().from_position(&position), KeyRange::all().up_to_position(&position));
            prop_assert_eq!(from.contains(&key), key.as_slice() >= position.as_bytes());
            prop_assert_eq!(up_to.contains(&key), key.as_slice() <= position.as_bytes());
        }

        #[test]
        fn the_start_of_a_partition_is_between_the_partitions(keys in (text(), text()), start in text()) {
            let key = EntityKey { partition: KeyText::new(&keys.0).unwrap(), row: KeyText::new(&keys.1).unwrap() };
            let (key, start_of) = (Position::from_bytes(key.encode()), Position::start_of_partition(&start));
            prop_assert_eq!(key >= start_of, compare_ordinal(&keys.0, &start) != Ordering::Less);
            prop_assert_eq!(start_of.partition_and_row(), Some((Cow::Borrowed(start.as_str()), None)));
            prop_assert_eq!(start_of.keys(), None);
            let both = (Cow::Borrowed(keys.0.as_str()), Some(Cow::Borrowed(keys.1.as_str())));
            prop_assert_eq!(key.partition_and_row(), Some(both));
        }

        #[test]
        fn a_range_that_names_a_partition_holds_no_key_of_another(
            keys in (text(), text()), bounds in (text(), text()), kinds in (0u8..3, 0u8..3), partition in text(),
        ) {
            let key = EntityKey { partition: KeyText::new(&keys.0).unwrap(), row: KeyText::new(&keys.1).unwrap() };
            let (from, to) = (bound(kinds.0, &bounds.0), bound(kinds.1, &bounds.1));
            let rows = KeyRange::rows(&partition, from, to);
            let expected = Some(encoded(&partition, &[]));
            let is_from_first = kinds.0 == 0 || kinds.0 == 1 && bounds.0.is_empty();
            prop_assert_eq!(rows.is_partition(), is_from_first && kinds.1 == 0);
            prop_assert_eq!(rows.partition().map(<[u8]>::to_vec), expected.clone());
            prop_assert_eq!(KeyRange::rows(&partition, from, Bound::Unbounded).intersect(&rows), rows.clone());
            for range in [rows, KeyRange::partitions(from, to), KeyRange::all()] {
                if let Some(partition) = range.partition() && range.contains(&key.encode()) {
                    prop_assert_eq!(partition.to_vec(), encoded(key.partition.as_str(), &[]));
                }
            }
            let one = KeyRange::partitions(Bound::Included(&partition), Bound::Included(&partition));
            prop_assert!(one.is_partition() && !KeyRange::all().is_partition());
            prop_assert_eq!(one.partition().map(<[u8]>::to_vec), expected);
        }
    }
}
