//! The encoding of a table's settings: one section for each setting that differs from the default.
//!
//! ```text
//! section = kind (1 byte), length of the content (2 bytes), content; sections are in the order of their kinds
//! 1: retention: seconds (4 bytes), name of the property (UTF-8; empty: the Timestamp)
//! 2: indexes: for each, the length of the name of the property (2 bytes), and the name (UTF-8)
//! ```
//!
//! Default settings have no sections. Numbers are big-endian. A version that does not know the kind of a section must
//! not use the table, so an unknown kind is an error. The bytes come from storage and may be damaged, so decoding can
//! fail but never panics. Decoded values pass through the same constructors as clients' values.

use model::limits::TABLE_INDEXES_MAX;
use model::{IndexedProperty, Retention, TableSettings};

const RETENTION: u8 = 1;
const INDEXES: u8 = 2;

/// Returns the stored form of settings.
pub fn encode(settings: &TableSettings) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(retention) = &settings.retention {
        let property = retention.property().unwrap_or_default();
        push_section(&mut out, RETENTION, &[&retention.seconds().to_be_bytes(), property.as_bytes()].concat());
    }
    if !settings.indexes.is_empty() {
        let mut content = Vec::new();
        for property in &settings.indexes {
            push_length(&mut content, property.as_str().len());
            content.extend_from_slice(property.as_str().as_bytes());
        }
        push_section(&mut out, INDEXES, &content);
    }
    out
}

/// Decodes settings. Returns `None` if the bytes are damaged or were written by a newer version.
pub fn decode(mut bytes: &[u8]) -> Option<TableSettings> {
    let mut settings = TableSettings::default();
    let mut last = 0;
    while !bytes.is_empty() {
        let (kind, content) = take_section(&mut bytes)?;
        if kind <= last {
            return None;
        }
        last = kind;
        match kind {
            RETENTION => settings.retention = Some(decode_retention(content)?),
            INDEXES => settings.indexes = decode_indexes(content)?,
            _ => return None,
        }
    }
    Some(settings)
}

fn push_section(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    out.push(kind);
    push_length(out, content.len());
    out.extend_from_slice(content);
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    let length = u16::try_from(length).expect("the limits of all settings are below 64 KiB");
    out.extend_from_slice(&length.to_be_bytes());
}

fn take_section<'b>(bytes: &mut &'b [u8]) -> Option<(u8, &'b [u8])> {
    let ([kind, length @ ..], rest) = bytes.split_first_chunk::<3>()?;
    let (content, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *bytes = rest;
    Some((*kind, content))
}

fn decode_indexes(mut content: &[u8]) -> Option<Vec<IndexedProperty>> {
    let mut indexes = Vec::new();
    while !content.is_empty() {
        let (length, rest) = content.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        content = rest;
        indexes.push(IndexedProperty::new(std::str::from_utf8(name).ok()?)?);
    }
    (1..=TABLE_INDEXES_MAX).contains(&indexes.len()).then_some(indexes)
}

fn decode_retention(content: &[u8]) -> Option<Retention> {
    let (seconds, property) = content.split_first_chunk()?;
    let seconds = u32::from_be_bytes(*seconds);
    match std::str::from_utf8(property).ok()? {
        "" => Retention::by_age(seconds),
        property => Retention::by_property(property, seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_pinned() {
        let settings = |retention| TableSettings { retention, ..TableSettings::default() };
        let indexes = ["A", "é"].iter().filter_map(|name| IndexedProperty::new(name)).collect();
        for (settings, bytes) in [
            (TableSettings::default(), &b""[..]),
            (settings(Retention::by_age(0x0102_0304)), b"\x01\0\x04\x01\x02\x03\x04"),
            (settings(Retention::by_property("Ends", 0)), b"\x01\0\x08\0\0\0\0Ends"),
            (TableSettings { indexes, ..TableSettings::default() }, b"\x02\0\x07\0\x01A\0\x02\xC3\xA9"),
        ] {
            assert_eq!(encode(&settings).escape_ascii().to_string(), bytes.escape_ascii().to_string());
            assert_eq!(decode(bytes), Some(settings));
        }
    }

    #[test]
    fn damage_and_later_settings_are_detected() {
        let value = encode(&TableSettings { retention: Retention::by_property("Ends", 7), ..TableSettings::default() });
        for length in 1..value.len() {
            assert_eq!(decode(&value[..length]), None, "cut to {length}");
        }
        let with = |more: &[u8]| decode(&[&value, more].concat());
        assert_eq!(with(b""), decode(&value));
        assert_eq!(with(b"\xFF\0\0"), None, "a setting of a later version");
        for damaged in [&b"\x02\0\0"[..], b"\x02\0\x01\0", b"\x02\0\x03\0\x02A", b"\x02\0\x02\0\0"] {
            assert_eq!(decode(damaged), None, "{}", damaged.escape_ascii());
        }
        assert_eq!(with(&value), None, "twice");
        assert_eq!(decode(b"\x01\0\x04\0\0\0\0"), None, "an age of zero");
        assert_eq!(decode(b"\x01\0\x06\0\0\0\x01a "), None, "no name");
    }
}
