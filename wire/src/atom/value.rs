//! The text of a value in Atom (specification 01 §6).
//!
//! This module must not know elements: it reads and writes the text inside of one.

use crate::binary::{read_base64, write_base64};
use crate::entity_body::{BodyError, datetime, finite_double};
use crate::number::write_double;
use crate::xml::is_character;
use model::{EdmType, EdmValue, Guid, RecordBuilder};
use std::borrow::Cow;

/// Whether a character is white space to XML.
pub(super) fn is_white_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Appends character data.
///
/// UNVERIFIED (03 §5.3): that characters which XML 1.0 does not allow, but a string may contain, are
/// written as references, as the XML writer of .NET does without its checks. Strict readers refuse them.
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    let mut plain_from = 0;
    for (at, c) in text.char_indices() {
        let reference = match c {
            '&' => "&amp;".into(),
            '<' => "&lt;".into(),
            '>' => "&gt;".into(),
            '\t' | '\n' => continue,
            '\r' => "&#xD;".into(),
            _ if is_character(c) => continue,
            _ => Cow::Owned(format!("&#x{:X};", u32::from(c))),
        };
        out.extend_from_slice(text.get(plain_from..at).unwrap_or_default().as_bytes());
        out.extend_from_slice(reference.as_bytes());
        plain_from = at + c.len_utf8();
    }
    out.extend_from_slice(text.get(plain_from..).unwrap_or_default().as_bytes());
}

/// Appends the value of an attribute in double quotes.
pub(super) fn write_attribute(out: &mut Vec<u8>, text: &str) {
    let mut escaped = Vec::with_capacity(text.len());
    write_text(&mut escaped, text);
    for byte in escaped {
        match byte {
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\t' => out.extend_from_slice(b"&#x9;"),
            b'\n' => out.extend_from_slice(b"&#xA;"),
            _ => out.push(byte),
        }
    }
}

/// Appends a value's text.
pub(super) fn write_value(out: &mut Vec<u8>, value: EdmValue<'_>) {
    match value {
        EdmValue::String(text) => write_text(out, text),
        EdmValue::Binary(bytes) => write_base64(out, bytes),
        EdmValue::Boolean(true) => out.extend_from_slice(b"true"),
        EdmValue::Boolean(false) => out.extend_from_slice(b"false"),
        EdmValue::DateTime(instant) => instant.write_to(out),
        EdmValue::Double(double) => write_atom_double(out, double),
        EdmValue::Guid(guid) => guid.write_to(out),
        EdmValue::Int32(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        EdmValue::Int64(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
    }
}

/// NaN and the infinities have the names of XML Schema (01 §6.2).
///
/// UNVERIFIED (01 §6.2): that a whole number has no fraction, as the XML conversion of .NET prints it.
fn write_atom_double(out: &mut Vec<u8>, double: f64) {
    if double.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if double.is_infinite() {
        out.extend_from_slice(if double > 0.0 { b"INF" } else { b"-INF" });
    } else {
        write_double(out, double);
        if out.ends_with(b".0") {
            out.truncate(out.len() - 2);
        }
    }
}

/// Appends a property from its text; white space around every type except a string is ignored.
///
/// UNVERIFIED (03 §5.2): which texts beyond those of XML Schema the service accepts.
pub(super) fn push_value(
    properties: &mut RecordBuilder,
    name: &str,
    edm_type: EdmType,
    text: &str,
) -> Result<(), BodyError> {
    let malformed = BodyError::Malformed;
    let trimmed = text.trim_matches(is_white_space);
    let binary;
    let value = match edm_type {
        EdmType::String => EdmValue::String(text),
        EdmType::Binary => {
            binary = decode_binary(trimmed)?;
            EdmValue::Binary(&binary)
        }
        EdmType::Boolean => EdmValue::Boolean(boolean(trimmed).ok_or(malformed)?),
        EdmType::DateTime => EdmValue::DateTime(datetime(name, trimmed)?),
        EdmType::Double => EdmValue::Double(double(trimmed).ok_or(malformed)?),
        EdmType::Guid => EdmValue::Guid(Guid::parse(trimmed).ok_or(malformed)?),
        EdmType::Int32 => EdmValue::Int32(trimmed.parse().map_err(|_| malformed)?),
        EdmType::Int64 => EdmValue::Int64(trimmed.parse().map_err(|_| malformed)?),
    };
    properties.push(name, value);
    Ok(())
}

/// Base64 that may be broken into lines. An empty text is an empty value: apart from strings only this type has one, so
/// an empty element is an error for all others (03 §5.2).
fn decode_binary(text: &str) -> Result<Vec<u8>, BodyError> {
    let joined: String = text.split(is_white_space).collect();
    read_base64(joined).ok_or(BodyError::Malformed)
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "1" => Some(true),
        "false" | "False" | "0" => Some(false),
        _ => None,
    }
}

/// A double, with the sign of zero kept (01 §6.2).
fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "INF" | "Infinity" => Some(f64::INFINITY),
        "-INF" | "-Infinity" => Some(f64::NEG_INFINITY),
        _ => finite_double(text),
    }
}
