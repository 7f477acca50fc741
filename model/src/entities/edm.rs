//! EDM types and values: the eight types that a property can have (specification 01 §6).
//!
//! This module must not depend on how values are written or stored, except for the type tags of the record format.

use crate::DateTime;
use crate::limits::UTF16_UNIT_BYTES;
use crate::name::utf16_units;
use std::cmp::Ordering;
use std::fmt;

/// The length of a Guid's text form, in bytes.
const GUID_TEXT_BYTES: usize = 36;
/// The index of each byte's two digits in the text form. The bytes in between are hyphens.
const GUID_DIGITS_AT: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// A 128-bit identifier. Its text form is lower-case and hyphenated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid([u8; 16]);

impl Guid {
    /// Returns a Guid from its bytes, in the order of the text form.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, in the order of the text form. The bytes sort in the same order as the text form.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Appends the text form.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.text());
    }

    /// Parses a Guid in either letter case: hyphenated, also in braces or parentheses, or as 32 digits (01 §6.5).
    pub fn parse(text: &str) -> Option<Self> {
        let is_bare = text.len() == 2 * GUID_DIGITS_AT.len();
        if is_bare {
            return Self::from_digits(text.as_bytes(), |index| 2 * index);
        }
        let in_pair = |open, close| text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
        let text = in_pair('{', '}').or_else(|| in_pair('(', ')')).unwrap_or(text).as_bytes();
        let guid = Self::from_digits(text, |index| GUID_DIGITS_AT.get(index).copied().unwrap_or(GUID_TEXT_BYTES))?;
        // The digits were just read, so only a missing hyphen can differ.
        guid.text().eq_ignore_ascii_case(text).then_some(guid)
    }

    /// Reads the two digits of each byte at the given offset.
    fn from_digits(text: &[u8], at: impl Fn(usize) -> usize) -> Option<Self> {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        let mut bytes = [0; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let [high, low] = text.get(at(index)..)?.first_chunk()?;
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }

    fn text(&self) -> [u8; GUID_TEXT_BYTES] {
        let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' - 10 + value };
        let mut text = [b'-'; GUID_TEXT_BYTES];
        for (byte, at) in self.0.iter().zip(GUID_DIGITS_AT) {
            if let Some(digits) = text.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                *digits = [digit(byte >> 4), digit(byte & 0xF)];
            }
        }
        text
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).expect("only ASCII was written"))
    }
}

/// The type of a property value. The numbers belong to the record format and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EdmType {
    /// UTF-16 text, at most 32,768 code units.
    String = 1,
    /// Bytes, at most 65,536.
    Binary = 2,
    /// True or false.
    Boolean = 3,
    /// An instant; see [`DateTime`].
    DateTime = 4,
    /// An IEEE 754 binary64 number.
    Double = 5,
    /// A 128-bit identifier.
    Guid = 6,
    /// A signed 32-bit integer.
    Int32 = 7,
    /// A signed 64-bit integer.
    Int64 = 8,
}

impl EdmType {
    /// Returns the name that annotations use, such as `Edm.Int64`.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "Edm.String",
            Self::Binary => "Edm.Binary",
            Self::Boolean => "Edm.Boolean",
            Self::DateTime => "Edm.DateTime",
            Self::Double => "Edm.Double",
            Self::Guid => "Edm.Guid",
            Self::Int32 => "Edm.Int32",
            Self::Int64 => "Edm.Int64",
        }
    }

    /// Returns the type with the given annotation name, or `None` for any other name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::String, Self::Binary, Self::Boolean, Self::DateTime, Self::Double, Self::Guid, Self::Int32, Self::Int64]
            .into_iter()
            .find(|edm_type| edm_type.name() == name)
    }

    pub(crate) fn from_tag(tag: u8) -> Option<Self> {
        Some(match tag {
            1 => Self::String,
            2 => Self::Binary,
            3 => Self::Boolean,
            4 => Self::DateTime,
            5 => Self::Double,
            6 => Self::Guid,
            7 => Self::Int32,
            8 => Self::Int64,
            _ => return None,
        })
    }
}

/// A property value, borrowed from its storage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EdmValue<'a> {
    /// See [`EdmType::String`].
    String(&'a str),
    /// See [`EdmType::Binary`].
    Binary(&'a [u8]),
    /// See [`EdmType::Boolean`].
    Boolean(bool),
    /// See [`EdmType::DateTime`].
    DateTime(DateTime),
    /// See [`EdmType::Double`].
    Double(f64),
    /// See [`EdmType::Guid`].
    Guid(Guid),
    /// See [`EdmType::Int32`].
    Int32(i32),
    /// See [`EdmType::Int64`].
    Int64(i64),
}

impl EdmValue<'_> {
    /// Returns the type of this value.
    pub fn edm_type(&self) -> EdmType {
        match self {
            Self::String(_) => EdmType::String,
            Self::Binary(_) => EdmType::Binary,
            Self::Boolean(_) => EdmType::Boolean,
            Self::DateTime(_) => EdmType::DateTime,
            Self::Double(_) => EdmType::Double,
            Self::Guid(_) => EdmType::Guid,
            Self::Int32(_) => EdmType::Int32,
            Self::Int64(_) => EdmType::Int64,
        }
    }

    /// Returns the size that this value adds to an entity, in bytes, by the documented formula (01 §5).
    pub fn formula_bytes(&self) -> usize {
        match self {
            Self::String(text) => 4 + UTF16_UNIT_BYTES * utf16_units(text),
            Self::Binary(bytes) => 4 + bytes.len(),
            Self::Boolean(_) => 1,
            Self::DateTime(_) | Self::Double(_) | Self::Int64(_) => 8,
            Self::Guid(_) => 16,
            Self::Int32(_) => 4,
        }
    }

    /// Returns whether a single value has more than the given number of bytes, two for each UTF-16 code unit of a
    /// string (01 §5).
    pub fn is_larger_than(&self, bytes_max: usize) -> bool {
        match self {
            // A string never has more UTF-16 code units than UTF-8 bytes, so the code units of most strings need not be
            // counted.
            Self::String(text) => {
                let units_max = bytes_max / UTF16_UNIT_BYTES;
                text.len() > units_max && utf16_units(text) > units_max
            }
            Self::Binary(bytes) => bytes.len() > bytes_max,
            _ => false,
        }
    }
}

/// Compares two strings by UTF-16 code unit, the order that the service uses for all strings (01 §3, 04 §3.4).
pub fn compare_ordinal(a: &str, b: &str) -> Ordering {
    let common = a.bytes().zip(b.bytes()).find(|(x, y)| x != y);
    match common {
        Some((x, y)) => crate::key::ordinal_byte(x).cmp(&crate::key::ordinal_byte(y)),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn guids_are_read_in_the_forms_of_net_and_written_hyphenated() {
        let text = "0b0c0d0e-1111-4222-8333-444455556666";
        let bare = text.replace('-', "");
        for form in [text, &bare, &format!("{{{text}}}"), &format!("({text})")] {
            assert_eq!(Guid::parse(form).unwrap().to_string(), text);
            assert_eq!(Guid::parse(&form.to_uppercase()).unwrap().to_string(), text);
        }
        for bad in [
            "",
            "{}",
            "{0b0c0d0e111142228333444455556666}",
            "{0b0c0d0e-1111-4222-8333-444455556666",
            "{0b0c0d0e-1111-4222-8333-444455556666)",
            "({0b0c0d0e-1111-4222-8333-444455556666})",
            "0b0c0d0e11114222833344445555666g",
            "0b0c0d0e-111142228333-4444555566",
            "é0c0d0e111142228333444455556666",
            "{0x0b0c0d0e,0x1111,0x4222,{0x83,0x33,0x44,0x44,0x55,0x55,0x66,0x66}}",
            "0b0c0d0e-1111-4222-8333-44445555666g",
            "0b0c0d0e-1111-4222-8333-4444555566666",
            "0b0c0d0e-1111-4222-83334-44455556666",
            "0b0c0d0e01111-4222-8333-444455556666",
            "+b0c0d0e-1111-4222-8333-444455556666",
            "é0c0d0e-1111-4222-8333-444455556666",
        ] {
            assert_eq!(Guid::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn texts_of_guids_are_those_of_the_uuid_crate(bytes: [u8; 16]) {
            let (guid, expected) = (Guid::from_bytes(bytes), uuid::Uuid::from_bytes(bytes).hyphenated().to_string());
            prop_assert_eq!(guid.to_string(), expected.clone());
            prop_assert_eq!(Guid::parse(&expected), Some(guid));
            prop_assert_eq!(Guid::parse(&expected.to_uppercase()), Some(guid));
        }

        #[test]
        fn guids_are_read_as_by_the_uuid_crate(text in "[0-9a-gA-F]{8}-[0-9a-f]{4}[-0][0-9a-f]{4}-[0-9a-f]{4}-[-0-9a-f]{12}") {
            let expected = uuid::Uuid::try_parse(&text).ok().map(|uuid| Guid::from_bytes(uuid.into_bytes()));
            prop_assert_eq!(Guid::parse(&text), expected);
        }
    }

    #[test]
    fn type_names_and_tags_are_inverse() {
        for tag in 0..=u8::MAX {
            if let Some(edm_type) = EdmType::from_tag(tag) {
                assert_eq!(edm_type as u8, tag);
                assert_eq!(EdmType::from_name(edm_type.name()), Some(edm_type));
            }
        }
        assert_eq!(EdmType::from_name("Edm.Decimal"), None);
    }

    proptest! {
        #[test]
        fn ordinal_order_is_the_order_of_utf16_code_units(a in "\\PC{0,6}", b in "\\PC{0,6}") {
            let units = |s: &str| s.encode_utf16().collect::<Vec<_>>();
            prop_assert_eq!(compare_ordinal(&a, &b), units(&a).cmp(&units(&b)));
        }
    }

    #[test]
    fn astral_characters_sort_before_the_private_use_area() {
        assert_eq!(compare_ordinal("\u{1F600}", "\u{E000}"), Ordering::Less);
        assert_eq!(compare_ordinal("\u{1F600}", "\u{FFFD}"), Ordering::Less);
        assert_eq!(compare_ordinal("\u{1F600}", "\u{D7FF}"), Ordering::Greater);
        assert_eq!(compare_ordinal("B", "b"), Ordering::Less);
        assert_eq!(compare_ordinal("b", "bB"), Ordering::Less);
    }
}
