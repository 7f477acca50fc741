//! JSON strings. All characters except printable ASCII are escaped, as in the service (specification 03 §3.6).
//!
//! Invariant: the output is ASCII.
//!
//! This module must not depend on what a string is used for.

use model::record::DamagedRecord;

/// The number of bytes that are tested together, without a branch for each byte.
const GROUP_BYTES: usize = 64;

/// The number of characters without an escape after which the next escape is searched for in groups again. In most
/// texts, escaped characters occur in clusters, and the search costs more than a few characters do.
const PLAIN_CHARACTERS: usize = 8;

/// The value in [`ESCAPES`] of a byte that is written as it is.
const NO_ESCAPE: u8 = 0;

/// The value in [`ESCAPES`] of a byte that is part of a character whose escape consists of hexadecimal digits.
const UNICODE: u8 = b'u';

/// The character after the backslash in the escape of each byte.
const ESCAPES: [u8; 256] = {
    let mut escapes = [NO_ESCAPE; 256];
    let (mut b, mut rest) = (0, escapes.as_mut_slice());
    while let Some((escape, after)) = rest.split_first_mut() {
        *escape = match b {
            b'"' | b'\\' => b,
            b' '..=b'~' => NO_ESCAPE,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            12 => b'f',
            _ => UNICODE,
        };
        (b, rest) = (b.wrapping_add(1), after);
    }
    escapes
};

/// Writes a quoted string.
pub fn write_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_escaped(out, text);
    out.push(b'"');
}

/// Writes text that may not be valid UTF-8, without quotes. Text that needs no escapes is ASCII, so it is not checked.
pub(crate) fn write_escaped_bytes(out: &mut Vec<u8>, text: &[u8]) -> Result<(), DamagedRecord> {
    if first_escaped(text).is_none() {
        out.extend_from_slice(text);
    } else {
        write_escaped(out, std::str::from_utf8(text).map_err(|_| DamagedRecord)?);
    }
    Ok(())
}

pub(crate) fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    while let Some(at) = first_escaped(rest.as_bytes()) {
        // The preceding bytes are ASCII, so a character begins here.
        let (plain, escaped) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.extend_from_slice(plain.as_bytes());
        rest = write_characters(out, escaped);
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Writes characters one by one until several in a row need no escape. Returns the rest of the text.
fn write_characters<'a>(out: &mut Vec<u8>, text: &'a str) -> &'a str {
    let mut characters = text.chars();
    let mut plain = 0;
    while plain < PLAIN_CHARACTERS
        && let Some(c) = characters.next()
    {
        plain = if write_character(out, c) { 0 } else { plain + 1 };
    }
    characters.as_str()
}

/// Returns whether the character needed an escape.
fn write_character(out: &mut Vec<u8>, c: char) -> bool {
    match (u8::try_from(c).map_or(UNICODE, escape_of), u16::try_from(u32::from(c))) {
        (NO_ESCAPE, _) => {
            out.push(u8::try_from(c).unwrap_or_default());
            return false;
        }
        (UNICODE, Ok(unit)) => write_unit(out, unit),
        (UNICODE, Err(_)) => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| write_unit(out, *unit)),
        (short, _) => out.extend_from_slice(&[b'\\', short]),
    }
    true
}

/// Writes the escape of a UTF-16 code unit. Computes its four digits together, a byte for each.
fn write_unit(out: &mut Vec<u8>, unit: u16) {
    let unit = u32::from(unit);
    let digits = (unit >> 12) | (unit & 0x0F00) | ((unit & 0x00F0) << 12) | ((unit & 0x000F) << 24);
    let is_letter = ((digits + 0x0606_0606) >> 4) & 0x0101_0101;
    let [a, b, c, d] = (digits + 0x3030_3030 + is_letter * u32::from(b'a' - b'9' - 1)).to_le_bytes();
    out.extend_from_slice(&[b'\\', b'u', a, b, c, d]);
}

fn escape_of(b: u8) -> u8 {
    ESCAPES.get(usize::from(b)).copied().unwrap_or(UNICODE)
}

fn is_escaped(b: u8) -> bool {
    !(b' '..=b'~').contains(&b) || b == b'"' || b == b'\\'
}

fn first_escaped(bytes: &[u8]) -> Option<usize> {
    for (index, group) in bytes.chunks(GROUP_BYTES).enumerate() {
        if group.iter().fold(false, |any, b| any | is_escaped(*b)) {
            return group.iter().position(|b| escape_of(*b) != NO_ESCAPE).map(|at| index * GROUP_BYTES + at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_json_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_the_service_escapes_them() {
        assert_eq!(written("a\"\\/'<>&\n\u{1}\u{7f}é😀"), r#""a\"\\/'<>&\n\u0001\u007f\u00e9\ud83d\ude00""#);
    }

    /// The strings cover complete and partial groups.
    #[test]
    fn an_escape_is_found_at_every_place_of_a_text_of_every_length() {
        for length in 0..100 {
            let plain = "x".repeat(length);
            assert_eq!(written(&plain), format!("\"{plain}\""));
            for at in 0..length {
                for (c, escape) in [('"', "\\\""), ('\\', "\\\\"), ('\u{1F}', "\\u001f"), ('é', "\\u00e9")] {
                    let (before, after) = ("x".repeat(at), "x".repeat(length - at - 1));
                    assert_eq!(written(&format!("{before}{c}{after}")), format!("\"{before}{escape}{after}\""));
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_damage() {
        let mut out = Vec::new();
        assert_eq!(write_escaped_bytes(&mut out, b"plain"), Ok(()));
        assert_eq!(write_escaped_bytes(&mut out, "é".as_bytes()), Ok(()));
        assert_eq!(out, b"plain\\u00e9");
        assert_eq!(write_escaped_bytes(&mut out, b"\xFFx"), Err(DamagedRecord));
    }
}
