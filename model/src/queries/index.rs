//! Indexes: the values of one property of a table, in order (`docs/extensions.md`).
//!
//! An index has an entry for each entity that has the property. An entry is the type and the value, encoded so that the
//! order of bytes is the order of values, and the entity's key bytes. `docs/embedded-engine.md` describes the encoding.
//!
//! Each type has ranges of entries apart from those of other types, because a filter compares a literal with the values
//! of some types and treats all other values alike. A list in the order of an index merges the three types of numbers,
//! see [`compare_entries`].
//!
//! Invariants:
//!
//! 1. No encoded value is the beginning of another one, so an entry has one value and one key.
//! 2. Strings and binaries are cut at [`INDEXED_BYTES_MAX`]. Cut values with the same beginning have the same bytes.
//!    They sort after the value that is just this beginning, and before every greater beginning.
//!
//! This module must not depend on storage.

mod plan;
#[cfg(test)]
mod tests;

pub use plan::{IndexPlan, plan_index, value_ranges};

use crate::edm::EdmValue;
use crate::key::ordinal_byte;
use crate::limits::INDEXED_BYTES_MAX;
use crate::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP, check_property_name};
use crate::range::KeyRange;
use crate::record::{DamagedRecord, RecordView};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The name of a property that can have an index: any custom property.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexedProperty(Arc<str>);

impl IndexedProperty {
    /// Returns `None` if the name is not valid, or if it is the name of a system property.
    pub fn new(name: &str) -> Option<Self> {
        let is_custom = ![PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&name) && check_property_name(name).is_ok();
        is_custom.then(|| Self(Arc::from(name)))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IndexedProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// The first byte of an entry. The order of the types is arbitrary, except that numbers are together.

const BOOLEAN: u8 = 1;
const INT32: u8 = 2;
const INT64: u8 = 3;
const DOUBLE: u8 = 4;
const DATE_TIME: u8 = 5;
const GUID: u8 = 6;
const BINARY: u8 = 7;
const STRING: u8 = 8;

const TAGS: std::ops::RangeInclusive<u8> = BOOLEAN..=STRING;

/// The zero byte begins a sequence of two bytes in an encoded string or binary. The second byte orders the end of a
/// value before a zero byte, and a zero byte before every other byte.
const ESCAPE: u8 = 0;
/// The end of a value.
const END: u8 = 0;
/// A zero byte in a value.
const ZERO: u8 = 1;
/// The end of a value that was cut.
const CUT: u8 = 2;

/// The length of an encoded number, in bytes.
const NUMBER_BYTES: usize = 10;

/// Returns the entry of an entity in an index, or `None` if the entity does not have the property.
pub fn entry(
    property: &IndexedProperty,
    entity_key: &[u8],
    record: RecordView<'_>,
) -> Result<Option<Vec<u8>>, DamagedRecord> {
    Ok(record.get(property.as_str())?.map(|value| entry_of_value(value, entity_key)))
}

/// Returns the entry for a value and the key bytes of an entity.
pub fn entry_of_value(value: EdmValue<'_>, entity_key: &[u8]) -> Vec<u8> {
    let mut entry = encoded(value);
    entry.extend_from_slice(entity_key);
    entry
}

/// Returns the key bytes of the entity to which an entry belongs, or `None` if the entry is damaged.
pub fn key_of_entry(entry: &[u8]) -> Option<&[u8]> {
    entry.get(value_bytes(entry)?..)
}

/// Compares two entries by value, and entries with the same value by key. Numbers are compared by value, whatever their
/// type. Accepts any bytes, because a client may have sent a position.
pub fn compare_entries(a: &[u8], b: &[u8]) -> Ordering {
    let group = |entry: &[u8]| entry.first().map(|tag| group(*tag));
    group(a).cmp(&group(b)).then_with(|| a.get(1..).cmp(&b.get(1..)))
}

/// The entries of the types whose values are ordered among each other. Each element contains the ranges of one type.
pub type OrderedGroup = Vec<Vec<KeyRange>>;

/// Returns the groups of a list in the order of an index, from an inclusive position on. Groups and ranges are in the
/// order of the list, so they are reversed if it is descending. Entries of different elements of a group must be merged
/// with [`compare_entries`].
pub fn ordered_groups(ranges: &[KeyRange], from: Option<&[u8]>, is_descending: bool) -> Vec<OrderedGroup> {
    let mut groups: Vec<(u8, OrderedGroup)> = Vec::new();
    for tag in TAGS {
        let whole = KeyRange { start: vec![tag], end: Some(vec![tag + 1]) };
        let bounds = from.map_or(whole.clone(), |from| whole.intersect(&type_from(tag, from, is_descending)));
        let mut parts: Vec<_> =
            ranges.iter().map(|range| range.intersect(&bounds)).filter(|part| !part.is_empty()).collect();
        if parts.is_empty() {
            continue;
        }
        if is_descending {
            parts.reverse();
        }
        match groups.last_mut() {
            Some((last, types)) if *last == group(tag) => types.push(parts),
            _ => groups.push((group(tag), vec![parts])),
        }
    }
    if is_descending {
        groups.reverse();
    }
    groups.into_iter().map(|(_, types)| types).collect()
}

/// Returns the range of the entries of a type at and after a position in the order of a list.
fn type_from(tag: u8, position: &[u8], is_descending: bool) -> KeyRange {
    let Some((first, rest)) = position.split_first() else {
        // Every entry comes after the empty position, or before it.
        return if is_descending { KeyRange { start: Vec::new(), end: Some(Vec::new()) } } else { KeyRange::all() };
    };
    let bound = [&[tag], rest].concat();
    match (group(tag).cmp(&group(*first)), is_descending) {
        (Ordering::Equal, false) => KeyRange { start: bound, end: None },
        // The least greater string of bytes has one more zero byte.
        (Ordering::Equal, true) => KeyRange { start: Vec::new(), end: Some([bound.as_slice(), &[0]].concat()) },
        (Ordering::Greater, false) | (Ordering::Less, true) => KeyRange::all(),
        (Ordering::Greater, true) | (Ordering::Less, false) => KeyRange { start: Vec::new(), end: Some(Vec::new()) },
    }
}

/// Types with the same group are ordered among each other.
fn group(tag: u8) -> u8 {
    if matches!(tag, INT64 | DOUBLE) { INT32 } else { tag }
}

fn encoded(value: EdmValue<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    match value {
        EdmValue::Boolean(value) => out.extend_from_slice(&[BOOLEAN, u8::from(value)]),
        EdmValue::Int32(value) => push_number(INT32, f64::from(value), 0, &mut out),
        EdmValue::Int64(value) => {
            #[expect(clippy::cast_precision_loss, reason = "the remainder makes up for it")]
            let rounded = value as f64;
            // The rounded value may be 2^63, which is no `i64`.
            #[expect(clippy::cast_possible_truncation, reason = "the rounded value is an integer of at most 64 bits")]
            let remainder = i128::from(value) - rounded as i128;
            push_number(INT64, rounded, i16::try_from(remainder).unwrap_or_default(), &mut out);
        }
        EdmValue::Double(value) => push_number(DOUBLE, value, 0, &mut out),
        EdmValue::DateTime(value) => {
            out.push(DATE_TIME);
            // Ticks are not negative.
            out.extend_from_slice(&value.ticks().to_be_bytes());
        }
        EdmValue::Guid(value) => {
            out.push(GUID);
            out.extend_from_slice(value.as_bytes());
        }
        EdmValue::Binary(value) => push_bytes(BINARY, value, |byte| byte, &mut out),
        EdmValue::String(value) => push_bytes(STRING, value.as_bytes(), ordinal_byte, &mut out),
    }
    out
}

/// Appends the nearest `f64`, and what must be added to it, at most 512 if the number has 64 bits.
fn push_number(tag: u8, rounded: f64, remainder: i16, out: &mut Vec<u8>) {
    const SIGN: u64 = 1 << 63;
    out.push(tag);
    // All zeros are equal. A value that is not a number comes after all numbers.
    let bits = if rounded == 0.0 {
        0
    } else if rounded.is_nan() {
        f64::NAN.to_bits() & !SIGN
    } else {
        rounded.to_bits()
    };
    let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
    out.extend_from_slice(&ordered.to_be_bytes());
    out.extend_from_slice(&(remainder.cast_unsigned() ^ 0x8000).to_be_bytes());
}

fn push_bytes(tag: u8, value: &[u8], ordered: fn(u8) -> u8, out: &mut Vec<u8>) {
    push_prefix(tag, value, ordered, out);
    out.extend_from_slice(&[ESCAPE, if value.len() > INDEXED_BYTES_MAX { CUT } else { END }]);
}

fn push_prefix(tag: u8, value: &[u8], ordered: fn(u8) -> u8, out: &mut Vec<u8>) {
    out.push(tag);
    for byte in value.iter().take(INDEXED_BYTES_MAX) {
        match *byte {
            ESCAPE => out.extend_from_slice(&[ESCAPE, ZERO]),
            byte => out.push(ordered(byte)),
        }
    }
}

/// Returns the length of the value at the start of an entry, or `None` if it is damaged.
fn value_bytes(entry: &[u8]) -> Option<usize> {
    let (tag, rest) = entry.split_first()?;
    let bytes = match *tag {
        BOOLEAN => 1,
        INT32 | INT64 | DOUBLE => NUMBER_BYTES,
        DATE_TIME => 8,
        GUID => 16,
        BINARY | STRING => {
            let mut bytes = rest.iter().enumerate();
            loop {
                if *bytes.find(|(_, byte)| **byte == ESCAPE)?.1 == ESCAPE {
                    match bytes.next()? {
                        (_, &ZERO) => {}
                        (at, &(END | CUT)) => break at + 1,
                        _ => return None,
                    }
                }
            }
        }
        _ => return None,
    };
    (rest.len() >= bytes).then_some(1 + bytes)
}
