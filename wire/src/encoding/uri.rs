//! Percent-encoding, and the URLs in responses (specification 02 §1, 03 §4).
//!
//! This module must not depend on which resources exist.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::borrow::Cow;

/// All characters except the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Like [`RESERVED`], but without the characters that RFC 2396 did not reserve (recorded for `!` and `*`; 02 §5.1).
/// Quotes are doubled.
const RESERVED_IN_LITERAL: &AsciiSet = &RESERVED.remove(b'\'').remove(b'!').remove(b'*').remove(b'(').remove(b')');
/// Like [`RESERVED`], but without commas, for a list of names.
const RESERVED_IN_LIST: &AsciiSet = &RESERVED.remove(b',');

/// Decodes percent-escapes once. Returns `None` if the result is not UTF-8. A percent sign that does not start an
/// escape is kept.
pub fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    percent_decode_str(text).decode_utf8().ok()
}

/// Decodes a name or value of a query string: `+` is a space (04 §1).
pub fn form_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return percent_decode(text);
    }
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(|decoded| Cow::Owned(decoded.into_owned()))
}

/// Appends a key for the URL of an entity: percent-encoded, with quotes doubled but not encoded.
pub fn write_key(out: &mut Vec<u8>, key: &str) {
    let doubled = if key.contains('\'') { Cow::Owned(key.replace('\'', "''")) } else { Cow::Borrowed(key) };
    for part in utf8_percent_encode(&doubled, RESERVED_IN_LITERAL) {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends `table(PartitionKey='…',RowKey='…')`.
pub fn write_entity_address(out: &mut Vec<u8>, table: &str, partition: &str, row: &str) {
    write_table_name(out, table);
    out.extend_from_slice(b"(PartitionKey='");
    write_key(out, partition);
    out.extend_from_slice(b"',RowKey='");
    write_key(out, row);
    out.extend_from_slice(b"')");
}

/// Appends `Tables('name')`.
pub fn write_table_address(out: &mut Vec<u8>, table: &str) {
    out.extend_from_slice(b"Tables('");
    write_table_name(out, table);
    out.extend_from_slice(b"')");
}

/// Appends a table name for a URL. Names of metrics tables start with a dollar sign, which is encoded (01 §2).
fn write_table_name(out: &mut Vec<u8>, table: &str) {
    match table.strip_prefix('$') {
        Some(rest) => out.extend_from_slice(&[b"%24", rest.as_bytes()].concat()),
        None => out.extend_from_slice(table.as_bytes()),
    }
}

/// Encodes a list of names for `&$select=` in a context URL: commas are kept, and spaces are encoded (03 §3.5).
pub fn encode_list(list: &str) -> String {
    utf8_percent_encode(list, RESERVED_IN_LIST).to_string()
}

/// Encodes all characters except the unreserved ones, for a name or value of a query string.
pub fn encode_component(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_addresses() {
        let address = |partition, row| {
            let mut out = Vec::new();
            write_entity_address(&mut out, "t", partition, row);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(address("a b'c", "é"), "t(PartitionKey='a%20b''c',RowKey='%C3%A9')");
        assert_eq!(address("", "-_.~"), "t(PartitionKey='',RowKey='-_.~')");
        assert_eq!(address("\"$&+,:=@%", "!*()"), "t(PartitionKey='%22%24%26%2B%2C%3A%3D%40%25',RowKey='!*()')");
    }

    #[test]
    fn names_of_metrics_are_escaped_in_addresses() {
        let mut out = Vec::new();
        write_table_address(&mut out, "$MetricsTransactionsTable");
        assert_eq!(out, b"Tables('%24MetricsTransactionsTable')");
    }

    #[test]
    fn decoding() {
        assert_eq!(percent_decode("a%27b+%25").as_deref(), Some("a'b+%"));
        assert_eq!(percent_decode("%zz%").as_deref(), Some("%zz%"));
        assert_eq!(percent_decode("%FF"), None);
        assert_eq!(form_decode("a+b%2Bc").as_deref(), Some("a b+c"));
        assert_eq!(encode_list("Model, Doors"), "Model,%20Doors");
    }
}
