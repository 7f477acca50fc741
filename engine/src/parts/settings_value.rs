//! The encoding of a table's settings: one section for each setting that differs from the default.
//!
//! ```text
//! section = kind (1 byte), length of the content (2 bytes), content; sections are in the order of their kinds
//! 1: retention: seconds (4 bytes), name of the property (UTF-8; empty: the Timestamp)
//! ```
//!
//! Default settings have no sections. Numbers are big-endian. A version that does not know the kind of a section must
//! not use the table, so an unknown kind is an error. The bytes come from storage and may be damaged, so decoding can
//! fail but never panics. Decoded values pass through the same constructors as clients' values.

use model::{Retention, TableSettings};

const RETENTION: u8 = 1;

/// Returns the stored form of settings.
pub fn encode(settings: &TableSettings) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(retention) = &settings.retention {
        let property = retention.property().unwrap_or_default();
        push_section(&mut out, RETENTION, &[&retention.seconds().to_be_bytes(), property.as_bytes()].concat());
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
            _ => return None,
        }
    }
    Some(settings)
}

fn push_section(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    let length = u16::try_from(content.len()).expect("the limits of all settings are below 64 KiB");
    out.push(kind);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(content);
}

fn take_section<'b>(bytes: &mut &'b [u8]) -> Option<(u8, &'b [u8])> {
    let ([kind, length @ ..], rest) = bytes.split_first_chunk::<3>()?;
    let (content, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *bytes = rest;
    Some((*kind, content))
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
        let settings = |retention| TableSettings { retention };
        for (settings, bytes) in [
            (TableSettings::default(), &b""[..]),
            (settings(Retention::by_age(0x0102_0304)), b"\x01\0\x04\x01\x02\x03\x04"),
            (settings(Retention::by_property("Ends", 0)), b"\x01\0\x08\0\0\0\0Ends"),
        ] {
            assert_eq!(encode(&settings).escape_ascii().to_string(), bytes.escape_ascii().to_string());
            assert_eq!(decode(bytes), Some(settings));
        }
    }

    #[test]
    fn damage_and_later_settings_are_detected() {
        let value = encode(&TableSettings { retention: Retention::by_property("Ends", 7) });
        for length in 1..value.len() {
            assert_eq!(decode(&value[..length]), None, "cut to {length}");
        }
        let with = |more: &[u8]| decode(&[&value, more].concat());
        assert_eq!(with(b""), decode(&value));
        assert_eq!(with(b"\x02\0\0"), None, "a setting of a later version");
        assert_eq!(with(&value), None, "twice");
        assert_eq!(decode(b"\x01\0\x04\0\0\0\0"), None, "an age of zero");
        assert_eq!(decode(b"\x01\0\x06\0\0\0\x01a "), None, "no name");
    }
}
