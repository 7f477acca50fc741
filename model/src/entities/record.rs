//! The binary record of an entity: its Timestamp and custom properties, read in place.
//!
//! `docs/record-format.md` describes the format byte by byte; the test `the_format_is_pinned` checks it.
//! The keys are not part of the record; an engine stores the record under them.
//!
//! Invariant: stored bytes may be damaged, so every read can fail, but no read panics.
//!
//! This module must not depend on where records are stored.

use crate::edm::{EdmType, EdmValue, Guid};
use crate::entity_limits::EntityLimits;
use crate::name::utf16_units;
use crate::{DateTime, limits};
use std::fmt;
use std::ops::Range;

/// The format version that this code writes: the first byte of every record.
pub const RECORD_VERSION: u8 = 1;

const TIMESTAMP_AT: usize = 1;
const COUNT_AT: usize = TIMESTAMP_AT + 8;

/// The size of the record header that a [`RecordView`] needs to read the Timestamp, in bytes.
pub const HEADER_BYTES: usize = COUNT_AT + 1;

/// The bytes are not a valid record, or have a version that this code cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedRecord;

impl fmt::Display for DamagedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stored record is damaged or was written by a newer version")
    }
}

impl std::error::Error for DamagedRecord {}

/// An owned record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record(Vec<u8>);

impl Record {
    /// Creates a record from stored bytes, without validating them. Each read validates the bytes that it needs.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns a view for reading.
    pub fn view(&self) -> Result<RecordView<'_>, DamagedRecord> {
        RecordView::new(&self.0)
    }
}

/// Moves the Timestamp of a record forward to an instant, unless it is already later. Returns the resulting Timestamp.
pub fn stamp(record: &mut [u8], now: DateTime) -> Result<DateTime, DamagedRecord> {
    let timestamp = RecordView::new(record)?.timestamp().max(now);
    let ticks = record.get_mut(TIMESTAMP_AT..COUNT_AT).ok_or(DamagedRecord)?;
    ticks.copy_from_slice(&timestamp.ticks().to_be_bytes());
    Ok(timestamp)
}

/// A borrowed view of a record, which is read in place.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    timestamp: DateTime,
    count: u16,
    properties: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Parses the header. Properties are parsed on demand.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, DamagedRecord> {
        let (header, properties) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(DamagedRecord)?;
        let [version, timestamp @ .., count] = *header;
        if version != RECORD_VERSION {
            return Err(DamagedRecord);
        }
        let timestamp = DateTime::from_ticks(i64::from_be_bytes(timestamp)).ok_or(DamagedRecord)?;
        Ok(Self { timestamp, count: u16::from(count), properties })
    }

    /// Creates a view of properties that were not stored as a record.
    pub(super) fn from_parts(timestamp: DateTime, count: u16, properties: &'a [u8]) -> Self {
        Self { timestamp, count, properties }
    }

    /// Returns the time of the last write.
    pub fn timestamp(&self) -> DateTime {
        self.timestamp
    }

    /// Returns the size of the record, in bytes.
    pub fn record_bytes(&self) -> usize {
        HEADER_BYTES + self.properties.len()
    }

    /// Returns the number of custom properties.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Returns whether there are no custom properties.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the custom properties in stored order.
    pub fn properties(&self) -> Properties<'a> {
        Properties { left: self.count, rest: self.properties }
    }

    /// Returns the value of a custom property, or `None` if the entity does not have it.
    pub fn get(&self, name: &str) -> Result<Option<EdmValue<'a>>, DamagedRecord> {
        for property in self.properties() {
            let property = property?;
            if property.name == name.as_bytes() {
                return property.value().map(Some);
            }
        }
        Ok(None)
    }
}

impl RecordView<'_> {
    /// Returns a copy of a stored record. Fails for properties that were not stored and are too many for a record.
    pub fn to_record(&self) -> Result<Record, DamagedRecord> {
        let count = u8::try_from(self.count).map_err(|_| DamagedRecord)?;
        let mut bytes = Vec::with_capacity(self.record_bytes());
        bytes.push(RECORD_VERSION);
        bytes.extend_from_slice(&self.timestamp.ticks().to_be_bytes());
        bytes.push(count);
        bytes.extend_from_slice(self.properties);
        Ok(Record(bytes))
    }

    /// Checks the whole record: every name and value, and that nothing follows the last one. Other reads validate only
    /// the bytes that they need; this method is for finding damage.
    pub fn check(&self) -> Result<(), DamagedRecord> {
        let mut properties = self.properties();
        for property in properties.by_ref() {
            let property = property?;
            property.name()?;
            property.value()?;
        }
        if properties.rest.is_empty() { Ok(()) } else { Err(DamagedRecord) }
    }
}

/// A stored property. The name and the value are decoded on demand.
#[derive(Debug, Clone, Copy)]
pub struct Property<'a> {
    name: &'a [u8],
    edm_type: EdmType,
    value: &'a [u8],
}

impl<'a> Property<'a> {
    /// Returns the name as UTF-8 bytes.
    pub fn name_bytes(&self) -> &'a [u8] {
        self.name
    }

    /// Returns the name.
    pub fn name(&self) -> Result<&'a str, DamagedRecord> {
        std::str::from_utf8(self.name).map_err(|_| DamagedRecord)
    }

    /// Returns the type.
    pub fn edm_type(&self) -> EdmType {
        self.edm_type
    }

    /// Returns the stored bytes of the value. For a string, these are its UTF-8 bytes, not yet validated.
    pub fn value_bytes(&self) -> &'a [u8] {
        self.value
    }

    /// Returns the value.
    pub fn value(&self) -> Result<EdmValue<'a>, DamagedRecord> {
        read_value(self.edm_type, self.value)
    }

    /// Appends the value as it is stored in a record.
    pub(super) fn push_value_to(&self, out: &mut Vec<u8>) {
        if fixed_bytes(self.edm_type).is_none() {
            push_length(out, self.value.len());
        }
        out.extend_from_slice(self.value);
    }
}

/// Returns the value of the given type that is stored as the given bytes.
#[inline]
pub(crate) fn read_value(edm_type: EdmType, bytes: &[u8]) -> Result<EdmValue<'_>, DamagedRecord> {
    fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], DamagedRecord> {
        bytes.try_into().map_err(|_| DamagedRecord)
    }
    Ok(match edm_type {
        EdmType::String => EdmValue::String(std::str::from_utf8(bytes).map_err(|_| DamagedRecord)?),
        EdmType::Binary => EdmValue::Binary(bytes),
        EdmType::Boolean => EdmValue::Boolean(fixed::<1>(bytes)? != [0]),
        EdmType::DateTime => {
            let ticks = i64::from_be_bytes(fixed(bytes)?);
            EdmValue::DateTime(DateTime::from_ticks(ticks).ok_or(DamagedRecord)?)
        }
        EdmType::Double => EdmValue::Double(f64::from_be_bytes(fixed(bytes)?)),
        EdmType::Guid => EdmValue::Guid(Guid::from_bytes(fixed(bytes)?)),
        EdmType::Int32 => EdmValue::Int32(i32::from_be_bytes(fixed(bytes)?)),
        EdmType::Int64 => EdmValue::Int64(i64::from_be_bytes(fixed(bytes)?)),
    })
}

/// An iterator over the properties of a record.
#[derive(Debug, Clone, Default)]
pub struct Properties<'a> {
    left: u16,
    rest: &'a [u8],
}

impl<'a> Properties<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    fn length(&mut self) -> Option<usize> {
        match self.rest.split_first()? {
            (length, rest) if *length < 0x80 => {
                self.rest = rest;
                Some(usize::from(*length))
            }
            _ => self.long_length(),
        }
    }

    fn long_length(&mut self) -> Option<usize> {
        let mut value = 0_usize;
        for shift in [0, 7, 14, 21] {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= usize::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    #[inline]
    fn property(&mut self) -> Option<Property<'a>> {
        let name_bytes = self.length()?;
        let name = self.take(name_bytes)?;
        let (tag, rest) = self.rest.split_first()?;
        self.rest = rest;
        let edm_type = EdmType::from_tag(*tag)?;
        Some(Property { name, edm_type, value: self.value(edm_type)? })
    }

    #[inline]
    fn value(&mut self, edm_type: EdmType) -> Option<&'a [u8]> {
        let bytes = match fixed_bytes(edm_type) {
            Some(fixed) => fixed,
            None => self.length()?,
        };
        self.take(bytes)
    }
}

impl<'a> Properties<'a> {
    /// Returns the next property if it has the given header. Otherwise, the iterator does not advance. If a caller
    /// expects a certain property, this is much faster than decoding the property's name and type.
    pub fn next_with(&mut self, header: &PropertyHeader) -> Option<Property<'a>> {
        let left = self.left.checked_sub(1)?;
        let mut rest = Self { left, rest: self.rest.strip_prefix(header.bytes.as_slice())? };
        let value = rest.value(header.edm_type)?;
        let name = self.rest.get(header.name.clone())?;
        *self = rest;
        Some(Property { name, edm_type: header.edm_type, value })
    }
}

/// The bytes that precede a property's value in a record: its name and its type.
#[derive(Debug, Clone)]
pub struct PropertyHeader {
    bytes: Vec<u8>,
    name: Range<usize>,
    edm_type: EdmType,
}

impl PropertyHeader {
    /// Returns the header of a property.
    pub fn new(property: &Property<'_>) -> Self {
        let mut header = Self { bytes: Vec::new(), name: 0..0, edm_type: property.edm_type };
        header.replace(property);
        header
    }

    /// Replaces the header with that of another property and reuses the allocation.
    pub fn replace(&mut self, property: &Property<'_>) {
        self.bytes.clear();
        push_length(&mut self.bytes, property.name.len());
        self.name = self.bytes.len()..self.bytes.len() + property.name.len();
        self.bytes.extend_from_slice(property.name);
        self.bytes.push(property.edm_type as u8);
        self.edm_type = property.edm_type;
    }
}

impl<'a> Iterator for Properties<'a> {
    type Item = Result<Property<'a>, DamagedRecord>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let property = self.property().ok_or(DamagedRecord);
        if property.is_err() {
            self.left = 0;
        }
        Some(property)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(usize::from(self.left)))
    }
}

/// Returns the size of a value of the given type, or `None` for strings and binaries, which have no fixed size and are
/// stored with their length.
fn fixed_bytes(edm_type: EdmType) -> Option<usize> {
    match edm_type {
        EdmType::String | EdmType::Binary => None,
        EdmType::Boolean => Some(1),
        EdmType::Int32 => Some(4),
        EdmType::DateTime | EdmType::Double | EdmType::Int64 => Some(8),
        EdmType::Guid => Some(16),
    }
}

/// The limits that the properties exceed. They are checked when the mutation is applied (06 §6, step 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Excess {
    properties: bool,
    value: bool,
}

/// Builds a record property by property, and tracks the sizes that are checked against the limits. A builder accepts
/// more than a record can contain, because the limits are checked only after the whole body has been read. Builders are
/// equal if their properties are.
#[derive(Debug, Clone)]
pub struct RecordBuilder {
    limits: &'static EntityLimits,
    bytes: Vec<u8>,
    count: usize,
    formula_bytes: usize,
    excess: Excess,
}

impl Default for RecordBuilder {
    fn default() -> Self {
        Self::with_capacity(256)
    }
}

impl PartialEq for RecordBuilder {
    fn eq(&self, other: &Self) -> bool {
        let of = |builder: &Self| (builder.count, builder.formula_bytes);
        of(self) == of(other) && self.bytes == other.bytes
    }
}

impl Eq for RecordBuilder {}

const CAPACITY_FACTOR_MAX: usize = 2;

impl RecordBuilder {
    /// Returns an empty builder with capacity for a record of the given size, and the limits of Azure Table Storage.
    pub fn with_capacity(bytes: usize) -> Self {
        Self::within(&EntityLimits::STORAGE, bytes)
    }

    /// Returns an empty builder with the given limits and capacity for a record of the given size.
    pub fn within(limits: &'static EntityLimits, bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(HEADER_BYTES + bytes);
        buffer.push(RECORD_VERSION);
        buffer.extend_from_slice(&DateTime::MIN.ticks().to_be_bytes());
        buffer.push(0);
        Self { limits, bytes: buffer, count: 0, formula_bytes: 0, excess: Excess::default() }
    }

    /// Returns an empty builder with the same limits and the same capacity.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self::within(self.limits, self.bytes.len())
    }

    /// Appends a property. The caller must ensure that the name is valid and not yet present. Properties beyond the
    /// limit are counted but not stored.
    pub fn push(&mut self, name: &str, value: EdmValue<'_>) {
        self.count += 1;
        self.formula_bytes += 8 + limits::UTF16_UNIT_BYTES * utf16_units(name) + value.formula_bytes();
        self.excess.value |= value.is_larger_than(self.limits.value_bytes_max);
        if self.count > self.limits.properties_max {
            self.excess.properties = true;
            return;
        }
        push_length(&mut self.bytes, name.len());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(value.edm_type() as u8);
        push_value(&mut self.bytes, value);
    }

    /// Returns the properties except the one with the given name.
    #[must_use]
    pub fn without(self, name: &str) -> Self {
        let is_named = |property: &Result<Property<'_>, DamagedRecord>| {
            property.as_ref().is_ok_and(|property| property.name_bytes() == name.as_bytes())
        };
        if self.excess.properties || !self.properties().any(|property| is_named(&property)) {
            return self;
        }
        let mut others = self.emptied();
        for property in self.properties().filter(|property| !is_named(property)).flatten() {
            if let (Ok(name), Ok(value)) = (property.name(), property.value()) {
                others.push(name, value);
            }
        }
        others
    }

    /// Returns the limits that the properties must be within.
    pub fn limits(&self) -> &'static EntityLimits {
        self.limits
    }

    /// Returns the number of properties pushed so far.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether no property has been pushed.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the size that the properties add to the entity, in bytes, by the documented formula (01 §5).
    pub fn formula_bytes(&self) -> usize {
        self.formula_bytes
    }

    /// Returns the size of the record with the properties so far, in bytes.
    pub fn record_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether more properties were pushed than allowed.
    pub fn has_too_many_properties(&self) -> bool {
        self.excess.properties
    }

    /// Returns whether a single value is larger than allowed.
    pub fn has_too_large_value(&self) -> bool {
        self.excess.value
    }

    /// Returns the properties so far.
    pub fn properties(&self) -> Properties<'_> {
        let kept = self.count.min(self.limits.properties_max);
        Properties {
            left: u16::try_from(kept).expect("the limit fits two bytes"),
            rest: self.bytes.get(HEADER_BYTES..).unwrap_or_default(),
        }
    }

    /// Returns the same properties, sorted by name in ordinal order. A builder has no damaged properties, so sorting
    /// cannot fail.
    #[must_use]
    pub fn ordered(self) -> Self {
        let names = || self.properties().filter_map(Result::ok).map(|property| property.name_bytes());
        if names().is_sorted() {
            return self;
        }
        let mut properties: Vec<Property<'_>> = self.properties().filter_map(Result::ok).collect();
        properties.sort_unstable_by_key(Property::name_bytes);
        let mut ordered = self.emptied();
        for (name, value) in
            properties.iter().filter_map(|property| Some((property.name().ok()?, property.value().ok()?)))
        {
            ordered.push(name, value);
        }
        Self { count: self.count, formula_bytes: self.formula_bytes, excess: self.excess, ..ordered }
    }

    /// Returns the finished record with the given Timestamp. The record occupies at most twice the memory that it
    /// needs.
    pub fn finish(mut self, timestamp: DateTime) -> Record {
        let count = u8::try_from(self.count.min(self.limits.properties_max)).expect("the limit fits one byte");
        let header = timestamp.ticks().to_be_bytes().into_iter().chain([count]);
        for (slot, byte) in self.bytes.iter_mut().skip(TIMESTAMP_AT).zip(header) {
            *slot = byte;
        }
        // The capacity is the size of the entity in the request body, which may be many times larger than its record.
        if self.bytes.capacity() > self.bytes.len() * CAPACITY_FACTOR_MAX {
            self.bytes.shrink_to_fit();
        }
        Record(self.bytes)
    }
}

pub(super) fn push_length(out: &mut Vec<u8>, length: usize) {
    let mut left = length;
    loop {
        let low = u8::try_from(left & 0x7F).expect("seven bits fit one byte");
        left >>= 7;
        if left == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

pub(super) fn push_value(out: &mut Vec<u8>, value: EdmValue<'_>) {
    match value {
        EdmValue::String(text) => {
            push_length(out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
        EdmValue::Binary(bytes) => {
            push_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        EdmValue::Boolean(value) => out.push(u8::from(value)),
        EdmValue::DateTime(value) => out.extend_from_slice(&value.ticks().to_be_bytes()),
        EdmValue::Double(value) => out.extend_from_slice(&value.to_be_bytes()),
        EdmValue::Guid(value) => out.extend_from_slice(value.as_bytes()),
        EdmValue::Int32(value) => out.extend_from_slice(&value.to_be_bytes()),
        EdmValue::Int64(value) => out.extend_from_slice(&value.to_be_bytes()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    pub(crate) enum OwnedValue {
        String(String),
        Binary(Vec<u8>),
        Boolean(bool),
        DateTime(i64),
        Double(f64),
        Guid([u8; 16]),
        Int32(i32),
        Int64(i64),
    }

    impl OwnedValue {
        pub(crate) fn view(&self) -> EdmValue<'_> {
            match self {
                Self::String(v) => EdmValue::String(v),
                Self::Binary(v) => EdmValue::Binary(v),
                Self::Boolean(v) => EdmValue::Boolean(*v),
                Self::DateTime(v) => EdmValue::DateTime(DateTime::from_ticks(*v).unwrap()),
                Self::Double(v) => EdmValue::Double(*v),
                Self::Guid(v) => EdmValue::Guid(Guid::from_bytes(*v)),
                Self::Int32(v) => EdmValue::Int32(*v),
                Self::Int64(v) => EdmValue::Int64(*v),
            }
        }
    }

    pub(crate) fn value() -> impl Strategy<Value = OwnedValue> {
        prop_oneof![
            ".{0,20}".prop_map(OwnedValue::String),
            proptest::collection::vec(any::<u8>(), 0..200).prop_map(OwnedValue::Binary),
            any::<bool>().prop_map(OwnedValue::Boolean),
            (0..=DateTime::MAX.ticks()).prop_map(OwnedValue::DateTime),
            any::<f64>()
                .prop_filter("not NaN, which does not equal itself", |f| !f.is_nan())
                .prop_map(OwnedValue::Double),
            any::<[u8; 16]>().prop_map(OwnedValue::Guid),
            any::<i32>().prop_map(OwnedValue::Int32),
            any::<i64>().prop_map(OwnedValue::Int64),
        ]
    }

    #[test]
    fn the_format_is_pinned() {
        let mut builder = RecordBuilder::default();
        builder.push("s", EdmValue::String("é"));
        builder.push("b", EdmValue::Binary(&[0xFF]));
        builder.push("o", EdmValue::Boolean(true));
        builder.push("t", EdmValue::DateTime(DateTime::from_ticks(0x0102_0304_0506_0708).unwrap()));
        builder.push("d", EdmValue::Double(1.5));
        builder.push("g", EdmValue::Guid(Guid::from_bytes([7; 16])));
        builder.push("i", EdmValue::Int32(-2));
        builder.push("l", EdmValue::Int64(3));
        let record = builder.finish(DateTime::from_ticks(9).unwrap());
        let expected: Vec<u8> = [
            &[1][..],
            &[0, 0, 0, 0, 0, 0, 0, 9],
            &[8],
            &[1, b's', 1, 2, 0xC3, 0xA9],
            &[1, b'b', 2, 1, 0xFF],
            &[1, b'o', 3, 1],
            &[1, b't', 4, 1, 2, 3, 4, 5, 6, 7, 8],
            &[1, b'd', 5, 0x3F, 0xF8, 0, 0, 0, 0, 0, 0],
            &[1, b'g', 6],
            &[7; 16],
            &[1, b'i', 7, 0xFF, 0xFF, 0xFF, 0xFE],
            &[1, b'l', 8, 0, 0, 0, 0, 0, 0, 0, 3],
        ]
        .concat();
        assert_eq!(record.as_bytes(), expected);
        let mut long = RecordBuilder::default();
        long.push(&"n".repeat(200), EdmValue::Binary(&vec![0; 20_000]));
        let bytes = long.finish(DateTime::MIN).0;
        assert_eq!(&bytes[10..12], [0xC8, 0x01], "lengths are encoded as little-endian groups of seven bits");
        assert_eq!(&bytes[212..216], [2, 0xA0, 0x9C, 0x01]);
    }

    proptest! {
        #[test]
        fn properties_read_back_as_they_were(values in proptest::collection::vec(value(), 0..20), ticks in 0..=DateTime::MAX.ticks()) {
            let mut builder = RecordBuilder::default();
            for (i, value) in values.iter().enumerate() {
                builder.push(&format!("p{i}"), value.view());
            }
            let record = builder.finish(DateTime::from_ticks(ticks).unwrap());
            let view = record.view().unwrap();
            prop_assert_eq!(view.timestamp().ticks(), ticks);
            prop_assert_eq!(view.len(), values.len());
            for (i, (property, value)) in view.properties().zip(&values).enumerate() {
                let property = property.unwrap();
                prop_assert_eq!(property.name().unwrap(), format!("p{i}"));
                prop_assert_eq!(property.value().unwrap(), value.view());
                prop_assert_eq!(view.get(&format!("p{i}")).unwrap(), Some(value.view()));
            }
            prop_assert_eq!(view.get("absent").unwrap(), None);
        }

        #[test]
        fn a_head_is_found_where_it_is_and_nowhere_else(
            properties in proptest::collection::vec(("[ab]{1,3}|[ab]{12,40}", value()), 1..6),
        ) {
            let mut builder = RecordBuilder::default();
            for (name, value) in &properties {
                builder.push(name, value.view());
            }
            let record = builder.finish(DateTime::MIN);
            let all: Vec<Property<'_>> = record.view().unwrap().properties().map(Result::unwrap).collect();
            for of in &all {
                let header = PropertyHeader::new(of);
                let mut rest = record.view().unwrap().properties();
                for property in &all {
                    let before = rest.rest;
                    let found = rest.next_with(&header);
                    let is_same = property.name == of.name && property.edm_type == of.edm_type;
                    prop_assert_eq!(found.is_some(), is_same);
                    if let Some(found) = found {
                        prop_assert_eq!(
                            (found.name, found.edm_type, found.value),
                            (property.name, property.edm_type, property.value)
                        );
                    } else {
                        prop_assert_eq!(rest.rest, before);
                        rest.next().unwrap().unwrap();
                    }
                }
                prop_assert!(rest.next_with(&header).is_none() && rest.next().is_none());
            }
        }

        #[test]
        fn damaged_bytes_are_an_error_and_never_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some(first) = bytes.first_mut() { *first = RECORD_VERSION; }
            if let Ok(view) = RecordView::new(&bytes) {
                for property in view.properties().flatten() {
                    let _ = (property.name(), property.value());
                }
            }
        }
    }

    #[test]
    fn a_check_reads_all_of_a_record() {
        let mut builder = RecordBuilder::default();
        builder.push("s", EdmValue::String("text"));
        let good = builder.finish(DateTime::MIN).0;
        let checked = |bytes: &[u8]| RecordView::new(bytes).and_then(|view| view.check());
        assert_eq!(checked(&good), Ok(()));
        assert_eq!(checked(&[&good[..], b"x"].concat()), Err(DamagedRecord), "trailing bytes");
        assert_eq!(checked(&good[..good.len() - 1]), Err(DamagedRecord), "truncated");
        let mut no_text = good.clone();
        *no_text.last_mut().unwrap() = 0xFF;
        assert_eq!(checked(&no_text), Err(DamagedRecord), "invalid UTF-8");
    }

    #[test]
    fn a_stamp_moves_the_timestamp_forward_and_changes_nothing_else() {
        let mut builder = RecordBuilder::default();
        builder.push("i", EdmValue::Int32(1));
        let at = |ticks| DateTime::from_ticks(ticks).unwrap();
        for (before, now, after) in [(10, 20, 20), (10, 10, 10), (10, 3, 10)] {
            let mut record = builder.clone().finish(at(before)).0;
            assert_eq!(stamp(&mut record, at(now)), Ok(at(after)));
            assert_eq!(record, builder.clone().finish(at(after)).0, "{before}, now {now}");
        }
        assert_eq!(stamp(&mut [RECORD_VERSION; HEADER_BYTES - 1], at(1)), Err(DamagedRecord));
    }

    #[test]
    fn other_versions_are_refused() {
        let mut bytes = RecordBuilder::default().finish(DateTime::MIN).0;
        bytes[0] = RECORD_VERSION + 1;
        assert_eq!(RecordView::new(&bytes).unwrap_err(), DamagedRecord);
    }

    #[test]
    fn a_record_keeps_little_of_the_memory_that_was_made_for_its_text() {
        let record = RecordBuilder::with_capacity(1024 * 1024).finish(DateTime::MIN);
        assert!(record.0.capacity() <= record.0.len() * CAPACITY_FACTOR_MAX);
    }

    #[test]
    fn the_size_follows_the_documented_formula() {
        let mut builder = RecordBuilder::default();
        builder.push("né", EdmValue::String("a😀"));
        builder.push("b", EdmValue::Binary(&[0; 5]));
        builder.push("o", EdmValue::Boolean(true));
        let expected = (8 + 4 + 2 * 3 + 4) + (8 + 2 + 5 + 4) + (8 + 2 + 1);
        assert_eq!(builder.formula_bytes(), expected);
        let bytes = builder.record_bytes();
        let record = builder.finish(DateTime::MIN);
        assert_eq!((record.as_bytes().len(), record.view().unwrap().record_bytes()), (bytes, bytes));
    }

    #[test]
    fn a_property_is_left_out_by_its_exact_name() {
        let mut properties = RecordBuilder::default();
        for name in ["a", "Etag", "etag"] {
            properties.push(name, EdmValue::String(name));
        }
        let mut others = RecordBuilder::default();
        others.push("a", EdmValue::String("a"));
        others.push("etag", EdmValue::String("etag"));
        assert_eq!(properties.without("Etag").finish(DateTime::MIN), others.clone().finish(DateTime::MIN));
        assert_eq!(others.clone().without("b"), others);
    }
}
