//! The storage of tables and keys in the database, and the conversion of key ranges into bounds of statements.
//!
//! An entity has two key columns of bytes: `partition`, which contains the ID of its table (8 bytes, big-endian)
//! followed by the encoded partition key, and `row`, the encoded row key. Their order as a pair is the order of the
//! model's key bytes. In the model's key bytes, the two keys are separated by a byte that sorts before every byte of a
//! key.
//!
//! An entry of an index has the key columns of its entity and the column `value`, the encoded value. No encoded value
//! is the beginning of another one, so the order of the triples (value, partition, row) is the order of the model's
//! entries.
//!
//! This module must not depend on the client library.

use engine::parts::index::key_of_entry;
use model::key::{KEY_SEPARATOR, encode_ordinal};
use model::{EntityKey, KeyRange};

/// Identifies a table permanently. IDs are issued in ascending order and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseTableId(pub(crate) i64);

impl DatabaseTableId {
    fn prefix(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The end sorts after all partitions of the table.
    fn end(self) -> [u8; 8] {
        Self(self.0 + 1).prefix()
    }

    fn partition(self, key: &[u8]) -> Vec<u8> {
        [&self.prefix(), key].concat()
    }
}

pub(crate) fn columns(table: DatabaseTableId, key: &EntityKey) -> (Vec<u8>, Vec<u8>) {
    let mut partition = table.prefix().to_vec();
    encode_ordinal(key.partition.as_str(), &mut partition);
    let mut row = Vec::with_capacity(key.row.as_str().len());
    encode_ordinal(key.row.as_str(), &mut row);
    (partition, row)
}

pub(crate) fn key_bytes(partition: &[u8], row: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(partition.get(size_of::<DatabaseTableId>()..).unwrap_or_default());
    out.push(KEY_SEPARATOR);
    out.extend_from_slice(row);
}

/// Returns the columns of an entity, given its key bytes.
pub(crate) fn columns_of(table: DatabaseTableId, key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (partition, row) = split(key);
    (table.partition(partition), row.to_vec())
}

/// The columns of an entry, or a bound between entries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryColumns {
    pub(crate) value: Vec<u8>,
    pub(crate) partition: Vec<u8>,
    pub(crate) row: Vec<u8>,
}

impl EntryColumns {
    /// Returns the columns before which all lesser entries lie, and no others. The bytes may come from a client.
    pub(crate) fn new(table: DatabaseTableId, entry: &[u8]) -> Self {
        let key = key_of_entry(entry);
        let value = entry.strip_suffix(key.unwrap_or_default()).unwrap_or(entry).to_vec();
        // If there is no complete value, no value is a beginning of these bytes, so the values alone decide.
        let (partition, row) = key.map(|key| columns_of(table, key)).unwrap_or_default();
        Self { value, partition, row }
    }

    pub(crate) fn into_entry(mut self) -> Vec<u8> {
        let mut key = Vec::new();
        key_bytes(&self.partition, &self.row, &mut key);
        self.value.append(&mut key);
        self.value
    }
}

/// Returns the bytes before and after the first separator. If there is no separator, returns all bytes as the part
/// before it.
fn split(key: &[u8]) -> (&[u8], &[u8]) {
    match key.iter().position(|byte| *byte == KEY_SEPARATOR) {
        Some(at) => {
            key.split_at_checked(at).map_or((key, &[]), |(head, tail)| (head, tail.get(1..).unwrap_or_default()))
        }
        None => (key, &[]),
    }
}

/// Sorts after every row key: no encoded key contains this byte.
const AFTER_ROWS: &[u8] = &[u8::MAX];

/// A range of entities as passed to a statement, with an inclusive start and an exclusive end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bounds {
    Rows { partition: Vec<u8>, from: Vec<u8>, to: Option<Vec<u8>> },
    Pairs { from: (Vec<u8>, Vec<u8>), to: (Vec<u8>, Vec<u8>) },
}

impl Bounds {
    pub(crate) fn new(table: DatabaseTableId, range: &KeyRange) -> Self {
        let (first, row) = split(&range.start);
        let has_row = first.len() < range.start.len();
        let from = (table.partition(first), row.to_vec());
        let Some(end) = &range.end else {
            return Self::Pairs { from, to: (table.end().to_vec(), Vec::new()) };
        };
        let (last, to_row) = split(end);
        if has_row && last == first && last.len() < end.len() {
            return Self::Rows { partition: from.0, from: from.1, to: Some(to_row.to_vec()) };
        }
        // This end is the smallest key after all rows of the partition, and no other partition lies in between.
        if has_row && end.strip_prefix(first) == Some(&[KEY_SEPARATOR + 1]) {
            return Self::Rows { partition: from.0, from: from.1, to: None };
        }
        Self::Pairs { from, to: (table.partition(last), to_row.to_vec()) }
    }

    pub(crate) fn into_pairs(self) -> Self {
        match self {
            Self::Rows { partition, from, to: Some(to) } => {
                Self::Pairs { from: (partition.clone(), from), to: (partition, to) }
            }
            Self::Rows { partition, from, to: None } => {
                // The smallest byte string after the partition itself.
                let next = [&partition[..], &[0]].concat();
                Self::Pairs { from: (partition, from), to: (next, Vec::new()) }
            }
            pairs @ Self::Pairs { .. } => pairs,
        }
    }

    /// Returns whether all ranges are rows of one partition.
    pub(crate) fn have_one_partition(ranges: &[Self]) -> bool {
        let Some(Self::Rows { partition: first, .. }) = ranges.first() else { return false };
        ranges.iter().all(|range| matches!(range, Self::Rows { partition, .. } if partition == first))
    }

    pub(crate) fn start_partition(&self) -> &[u8] {
        match self {
            Self::Rows { partition, .. } => partition,
            Self::Pairs { from, .. } => &from.0,
        }
    }

    pub(crate) fn start_row(&self) -> &[u8] {
        match self {
            Self::Rows { from, .. } => from,
            Self::Pairs { from, .. } => &from.1,
        }
    }

    pub(crate) fn end_partition(&self) -> &[u8] {
        match self {
            Self::Rows { partition, .. } => partition,
            Self::Pairs { to, .. } => &to.0,
        }
    }

    /// Returns the end in the last partition. A range to the end of its partition ends at a byte after every row key.
    pub(crate) fn end_row(&self) -> &[u8] {
        match self {
            Self::Rows { to, .. } => to.as_deref().unwrap_or(AFTER_ROWS),
            Self::Pairs { to, .. } => &to.1,
        }
    }

    /// Returns true if the range contains nothing after the given entity.
    pub(crate) fn ends_before(&self, partition: &[u8], row: &[u8]) -> bool {
        (self.end_partition(), self.end_row()) <= (partition, row)
    }

    /// Returns true if a scan that has reached an entity has passed the range. The range of the entity itself, of which
    /// nothing may be left, is not passed.
    pub(crate) fn is_passed(&self, partition: &[u8], row: &[u8], is_descending: bool) -> bool {
        if is_descending {
            (partition, row) < (self.start_partition(), self.start_row())
        } else {
            self.ends_before(partition, row)
        }
    }

    /// Returns the part of the range that follows an entity of it in the order of a scan.
    pub(crate) fn rest(self, partition: &[u8], row: &[u8], is_descending: bool) -> Self {
        if is_descending { self.before(partition, row) } else { self.after(partition, row) }
    }

    fn before(self, partition: &[u8], row: &[u8]) -> Self {
        match self {
            Self::Rows { partition, from, .. } => Self::Rows { partition, from, to: Some(row.to_vec()) },
            Self::Pairs { from, .. } => Self::Pairs { from, to: (partition.to_vec(), row.to_vec()) },
        }
    }

    fn after(self, partition: &[u8], row: &[u8]) -> Self {
        // No row key contains the separator, so a row key with it appended is the next possible row key.
        let next = [row, &[KEY_SEPARATOR]].concat();
        match self {
            Self::Rows { partition, to, .. } => Self::Rows { partition, from: next, to },
            Self::Pairs { to, .. } => Self::Pairs { from: (partition.to_vec(), next), to },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::index::entry_of_value;
    use model::{EdmValue, KeyText};
    use std::ops::Bound;

    const TABLE: DatabaseTableId = DatabaseTableId(0x0102);

    fn contains(bounds: &Bounds, (partition, row): &(Vec<u8>, Vec<u8>)) -> bool {
        match bounds {
            Bounds::Rows { partition: only, from, to } => {
                partition == only && from <= row && to.as_ref().is_none_or(|to| row < to)
            }
            Bounds::Pairs { from, to } => (&from.0, &from.1) <= (partition, row) && (partition, row) < (&to.0, &to.1),
        }
    }

    #[test]
    fn bounds_hold_what_the_range_holds() {
        let texts = ["", " ", "a", "a ", "aa", "ab", "b", "é", "\u{D7FF}", "😀", "\u{E000}", "\u{FFFD}"];
        let mut ranges = vec![KeyRange::all()];
        for a in texts {
            for b in texts {
                for (from, to) in [
                    (Bound::Included(a), Bound::Excluded(b)),
                    (Bound::Excluded(a), Bound::Included(b)),
                    (Bound::Unbounded, Bound::Included(b)),
                    (Bound::Included(a), Bound::Unbounded),
                ] {
                    ranges.push(KeyRange::partitions(from, to));
                    ranges.push(KeyRange::rows("a", from, to));
                }
                ranges.push(KeyRange::rows(a, Bound::Included(b), Bound::Unbounded));
                let ends = KeyRange::rows(b, Bound::Unbounded, Bound::Excluded(a)).end;
                ranges
                    .push(KeyRange { start: KeyRange::rows(a, Bound::Excluded(b), Bound::Unbounded).start, end: ends });
            }
        }
        for partition in texts {
            for row in texts {
                let key = EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() };
                let (bytes, columns) = (key.encode(), columns(TABLE, &key));
                for range in &ranges {
                    let bounds = Bounds::new(TABLE, range);
                    assert_eq!(contains(&bounds, &columns), range.contains(&bytes), "{key:?} in {range:?}: {bounds:?}");
                    let from = (bounds.start_partition(), bounds.start_row());
                    let entity = (columns.0.as_slice(), columns.1.as_slice());
                    assert_eq!(
                        from <= entity && !bounds.ends_before(entity.0, entity.1),
                        range.contains(&bytes),
                        "{key:?} in {range:?}: {bounds:?}"
                    );
                    let pairs = bounds.into_pairs();
                    assert_eq!(contains(&pairs, &columns), range.contains(&bytes), "{key:?} in {range:?}: {pairs:?}");
                }
                let mut back = Vec::new();
                key_bytes(&columns.0, &columns.1, &mut back);
                assert_eq!(back, bytes);
            }
        }
    }

    #[test]
    fn ranges_of_one_partition_name_it() {
        let rows = |range: &KeyRange| matches!(Bounds::new(TABLE, range), Bounds::Rows { .. });
        assert!(rows(&KeyRange::rows("p", Bound::Unbounded, Bound::Unbounded)));
        assert!(rows(&KeyRange::rows("p", Bound::Included("r"), Bound::Included("r"))));
        assert!(!rows(&KeyRange::all()));
        assert!(!rows(&KeyRange::partitions(Bound::Included("p"), Bound::Included("p"))));
    }

    #[test]
    fn the_columns_of_entries_are_in_the_order_of_the_entries() {
        let mut entries = Vec::new();
        for value in [EdmValue::Int32(1), EdmValue::Int32(2), EdmValue::String("a"), EdmValue::String("a\0b")] {
            for (partition, row) in [("", ""), ("", "b"), ("a", ""), ("a", "r"), ("a", "ra"), ("ab", "r")] {
                let key = EntityKey::new(partition, row).unwrap();
                let entry = entry_of_value(value, &key.encode());
                let (partition, row) = columns(TABLE, &key);
                let stored = EntryColumns::new(TABLE, &entry);
                assert_eq!((&stored.partition, &stored.row), (&partition, &row));
                assert_eq!(stored.clone().into_entry(), entry);
                entries.push((entry, stored));
            }
        }
        // The beginnings of entries, and what follows them, are bounds too.
        let cut = |entry: &[u8]| (0..=entry.len()).map(|length| entry[..length].to_vec()).collect::<Vec<_>>();
        let cuts: Vec<_> = entries.iter().flat_map(|(entry, _)| cut(entry)).collect();
        for bound in cuts.iter().flat_map(|cut| [cut.clone(), [cut.as_slice(), &[0]].concat()]) {
            let bound_columns = EntryColumns::new(TABLE, &bound);
            for (entry, stored) in &entries {
                assert_eq!(*stored < bound_columns, *entry < bound, "{entry:?} and {bound:?}");
            }
        }
    }

    #[test]
    fn other_tables_are_out_of_bounds() {
        let all = Bounds::new(TABLE, &KeyRange::all());
        for (id, expected) in [(0x0101, false), (0x0102, true), (0x0103, false)] {
            let key = EntityKey { partition: KeyText::new("").unwrap(), row: KeyText::new("").unwrap() };
            assert_eq!(contains(&all, &columns(DatabaseTableId(id), &key)), expected, "{id}");
        }
    }
}
