//! JSON strings. All characters except printable ASCII are escaped, as in the service (specification 03 §3.6).
//!
//! Invariant: the output is ASCII.
//!
//! This module must not depend on what a string is used for.

use model::record::DamagedRecord;

/// The number of bytes that are tested together, without a branch for each byte.
const GROUP_BYTES: usize = 64;

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
        let mut characters = escaped.chars();
        if let Some(c) = characters.next() {
            write_escape(out, c);
        }
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

fn is_escaped(b: u8) -> bool {
    !(b' '..=b'~').contains(&b) || b == b'"' || b == b'\\'
}

fn first_escaped(bytes: &[u8]) -> Option<usize> {
    for (index, group) in bytes.chunks(GROUP_BYTES).enumerate() {
        if group.iter().fold(false, |any, b| any | is_escaped(*b)) {
            return group.iter().position(|b| is_escaped(*b)).map(|at| index * GROUP_BYTES + at);
        }
    }
    None
}

fn write_escape(out: &mut Vec<u8>, c: char) {
    let short = match c {
        '"' => b'"',
        '\\' => b'\\',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\u{8}' => b'b',
        '\u{C}' => b'f',
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let digit = |shift: u16| {
                    let digit = u32::from(*unit >> shift & 0xF);
                    u8::try_from(char::from_digit(digit, 16).unwrap_or('0')).unwrap_or(b'0')
                };
                out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
            }
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
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
