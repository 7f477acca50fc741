//! Property values as text: in CSV fields, on the command line and on a terminal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::datetime::DateTimeError;
use model::{DateTime, EdmType, EdmValue, Guid, RecordBuilder};
use wire::number::write_double;

/// Appends strings unchanged, binaries in Base64, and everything else as in JSON.
pub(crate) fn write_value(out: &mut Vec<u8>, value: EdmValue<'_>) {
    match value {
        EdmValue::String(text) => out.extend_from_slice(text.as_bytes()),
        EdmValue::Binary(bytes) => out.extend_from_slice(STANDARD.encode(bytes).as_bytes()),
        EdmValue::Boolean(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        EdmValue::DateTime(instant) => instant.write_to(out),
        EdmValue::Double(double) if double.is_nan() => out.extend_from_slice(b"NaN"),
        EdmValue::Double(double) if double.is_infinite() => {
            out.extend_from_slice(if double > 0.0 { b"Infinity" } else { b"-Infinity" });
        }
        EdmValue::Double(double) => write_double(out, double),
        EdmValue::Guid(guid) => guid.write_to(out),
        EdmValue::Int32(number) => out.extend_from_slice(number.to_string().as_bytes()),
        EdmValue::Int64(number) => out.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// The error is a message for the user.
pub(crate) fn push_value(
    properties: &mut RecordBuilder,
    name: &str,
    edm_type: EdmType,
    text: &str,
) -> Result<(), String> {
    let refused = |expected: &str| format!("the value of '{name}' is not {} ({expected})", edm_type.name());
    let binary;
    let value = match edm_type {
        EdmType::String => EdmValue::String(text),
        EdmType::Binary => {
            binary = STANDARD.decode(text).map_err(|_| refused("bytes in Base64"))?;
            EdmValue::Binary(&binary)
        }
        EdmType::Boolean => match text {
            "true" | "True" | "TRUE" => EdmValue::Boolean(true),
            "false" | "False" | "FALSE" => EdmValue::Boolean(false),
            _ => return Err(refused("true or false")),
        },
        EdmType::DateTime => EdmValue::DateTime(DateTime::parse(text).map_err(|error| match error {
            DateTimeError::Malformed => refused("a time such as 2031-04-01T06:30:00.1234567Z"),
            DateTimeError::OutOfRange(_) => refused("a time in the year 1601 or later"),
        })?),
        EdmType::Double => {
            EdmValue::Double(double(text).ok_or_else(|| refused("a number, NaN, Infinity or -Infinity"))?)
        }
        EdmType::Guid => {
            EdmValue::Guid(Guid::parse(text).ok_or_else(|| refused("such as 01234567-89ab-cdef-0123-456789abcdef"))?)
        }
        EdmType::Int32 => EdmValue::Int32(text.parse().map_err(|_| refused("a whole number of 32 bits"))?),
        EdmType::Int64 => EdmValue::Int64(text.parse().map_err(|_| refused("a whole number of 64 bits"))?),
    };
    properties.push(name, value);
    Ok(())
}

fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        // The standard library also accepts other spellings of infinity, which are invalid here.
        _ if text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E')) => {
            text.parse().ok().filter(|double: &f64| double.is_finite())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_read_back_from_its_text() {
        for (value, text) in [
            (EdmValue::String("a,\"b\"\n\u{1F600}"), "a,\"b\"\n\u{1F600}"),
            (EdmValue::String(""), ""),
            (EdmValue::Binary(&[]), ""),
            (EdmValue::Binary(&[0, 255]), "AP8="),
            (EdmValue::Boolean(true), "true"),
            (
                EdmValue::DateTime(DateTime::parse("2031-04-01T06:30:00.1234567Z").unwrap()),
                "2031-04-01T06:30:00.1234567Z",
            ),
            (EdmValue::Double(-0.0), "-0.0"),
            (EdmValue::Double(5.0), "5.0"),
            (EdmValue::Double(1e300), "1E+300"),
            (EdmValue::Double(f64::NEG_INFINITY), "-Infinity"),
            (EdmValue::Guid(Guid::from_bytes([0xA5; 16])), "a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5"),
            (EdmValue::Int32(-5), "-5"),
            (EdmValue::Int64(i64::MIN), "-9223372036854775808"),
        ] {
            let mut written = Vec::new();
            write_value(&mut written, value);
            assert_eq!(String::from_utf8(written).unwrap(), text);
            let (mut expected, mut read) = (RecordBuilder::default(), RecordBuilder::default());
            expected.push("a", value);
            push_value(&mut read, "a", value.edm_type(), text).unwrap();
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn malformed_values_are_refused() {
        for (edm_type, text) in [
            (EdmType::Binary, "A"),
            (EdmType::Boolean, "1"),
            (EdmType::DateTime, "2031"),
            (EdmType::DateTime, "1600-01-01T00:00:00Z"),
            (EdmType::Double, "inf"),
            (EdmType::Double, "1e999"),
            (EdmType::Guid, "x"),
            (EdmType::Int32, "2147483648"),
            (EdmType::Int64, ""),
        ] {
            let error = push_value(&mut RecordBuilder::default(), "Price", edm_type, text).unwrap_err();
            assert!(error.starts_with(&format!("the value of 'Price' is not {}", edm_type.name())), "{error}");
        }
    }
}
