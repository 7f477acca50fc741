//! Text representation of values in Atom (specification 01 §6).
//!
//! This module must not depend on elements: it reads and writes only the text inside an element.

use crate::encoding::binary::{read_base64, write_base64};
use crate::entity_body::{BodyError, datetime, finite_double};
use crate::number::write_double;
use crate::xml::is_character;
use model::{EdmType, EdmValue, Guid, RecordBuilder};
use std::borrow::Cow;

pub(super) fn is_white_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// UNVERIFIED (03 §5.3): characters that a string may contain but XML 1.0 does not allow are written as references, as
/// by the XML writer of .NET when its checks are disabled. Strict readers reject them.
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

/// Appends the text of an attribute value, which the caller must place in double quotes.
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

/// NaN and the infinities have the names from XML Schema (01 §6.2). UNVERIFIED (01 §6.2): a whole number is written
/// without a fraction, as in the XML conversion of .NET.
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

/// White space around the text is ignored for every type except string. Only strings and binary values can be empty, so
/// an empty element is an error for all other types (03 §5.2). UNVERIFIED (01 §6.5): which strings the service accepts
/// beyond those of XML Schema.
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
            binary = read_base64(trimmed.as_bytes()).ok_or(malformed)?;
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

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "1" => Some(true),
        "false" | "False" | "0" => Some(false),
        _ => None,
    }
}

/// Parses a double, keeping the sign of zero (01 §6.2).
fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "INF" | "Infinity" => Some(f64::INFINITY),
        "-INF" | "-Infinity" => Some(f64::NEG_INFINITY),
        _ => finite_double(text),
    }
}
