//! Doubles as text (specification 01 §6.2, 03 §3.6).
//!
//! Invariant: the text of a double parses to the same double.
//!
//! This module must not depend on the formats that contain the text.

use std::num::FpCategory;
use std::ops::Range;

/// Appends a double as the service formats it: `5.0`, `-0.25`, `1E+300`, `1E-05`.
///
/// The form is the round-trip format of the .NET Framework (recorded): 15 digits if they parse to the same double,
/// otherwise 17. The value must be finite; each format has its own names for NaN and the infinities.
pub fn write_double(out: &mut Vec<u8>, value: f64) {
    if value.classify() == FpCategory::Zero {
        out.extend_from_slice(if value.is_sign_negative() { b"-0.0" } else { b"0.0" });
        return;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let (size, mut buffer) = (value.abs(), zmij::Buffer::new());
    let text = buffer.format_finite(size);
    if PLAIN.contains(&size) && text.len() <= SHORT_DIGIT_COUNT + ".".len() {
        // The library formats these doubles as the service does. Using its output saves 0.03 µs.
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let mut digits = Digits::default();
    let mut exponent = digits.read(text);
    // The length of the shortest round-trip text determines how many digits are needed. For the smallest doubles, not
    // even 15 digits are exact, so their digits differ from the shortest text.
    let precision = if digits.length > SHORT_DIGIT_COUNT { LONG_DIGIT_COUNT } else { SHORT_DIGIT_COUNT };
    if precision == LONG_DIGIT_COUNT || size < f64::MIN_POSITIVE {
        digits = Digits::default();
        exponent = digits.read(&format!("{size:.*e}", precision - 1));
    }
    layout(out, digits.as_bytes(), exponent, precision);
}

/// The doubles that the library formats as the service does: at most 15 digits before the decimal point and at most two
/// zeros after it.
const PLAIN: Range<f64> = 0.001..1e15;

/// The number of digits that the service writes if they are enough.
const SHORT_DIGIT_COUNT: usize = 15;
/// The number of digits that the service writes otherwise. They are always enough.
const LONG_DIGIT_COUNT: usize = 17;
/// The maximum number of digits, with space for zeros around the significant digits of a double.
const DIGITS_MAX: usize = 32;

#[derive(Default)]
struct Digits {
    digits: [u8; DIGITS_MAX],
    length: usize,
}

impl Digits {
    fn as_bytes(&self) -> &[u8] {
        self.digits.get(..self.length).unwrap_or_default()
    }

    /// Parses a plain or scientific number with at least one digit. Returns the exponent (the power of ten) of the
    /// first significant digit.
    fn read(&mut self, text: &str) -> i32 {
        let (mantissa, power) = match text.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse().unwrap_or(0)),
            None => (text, 0),
        };
        let point = mantissa.find('.').unwrap_or(mantissa.len());
        let mut leading = 0;
        for digit in mantissa.bytes().filter(u8::is_ascii_digit) {
            if self.length == 0 && digit == b'0' {
                leading += 1;
            } else if let Some(slot) = self.digits.get_mut(self.length) {
                *slot = digit;
                self.length += 1;
            }
        }
        while self.length > 1 && self.as_bytes().ends_with(b"0") {
            self.length -= 1;
        }
        i32::try_from(point).unwrap_or(0) - 1 - leading + power
    }
}

/// Writes the digits. The notation is scientific if there are more digits before the point than `precision`, or more
/// than three zeros after it.
fn layout(out: &mut Vec<u8>, digits: &[u8], exponent: i32, precision: usize) {
    let whole_digits = usize::try_from(exponent).map_or(0, |exponent| exponent + 1);
    if exponent >= -4 && whole_digits <= precision {
        plain(out, digits, exponent);
        return;
    }
    let (first, rest) = digits.split_at(digits.len().min(1));
    out.extend_from_slice(first);
    if !rest.is_empty() {
        out.push(b'.');
        out.extend_from_slice(rest);
    }
    out.extend_from_slice(if exponent < 0 { b"E-" } else { b"E+" });
    if exponent.abs() < 10 {
        out.push(b'0');
    }
    out.extend_from_slice(itoa::Buffer::new().format(exponent.abs()).as_bytes());
}

fn plain(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    let Ok(whole) = usize::try_from(exponent + 1) else {
        out.extend_from_slice(b"0.");
        out.extend((exponent + 1..0).map(|_| b'0'));
        out.extend_from_slice(digits);
        return;
    };
    let (before, after) = digits.split_at(whole.min(digits.len()));
    if before.is_empty() {
        out.push(b'0');
    }
    out.extend_from_slice(before);
    out.extend((digits.len()..whole).map(|_| b'0'));
    out.push(b'.');
    out.extend_from_slice(if after.is_empty() { b"0" } else { after });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_double(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn layout_of_the_service() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (5.0, "5.0"),
            (-3.0, "-3.0"),
            (3.1, "3.1"),
            (0.5, "0.5"),
            (0.001, "0.001"),
            (0.000_999, "0.000999"),
            (999_999_999_999_999.9, "999999999999999.88"),
            (0.000_1, "0.0001"),
            (0.000_123_456_789_012_345, "0.000123456789012345"),
            (0.000_01, "1E-05"),
            (0.000_001, "1E-06"),
            (123_456.75, "123456.75"),
            (100_000_000_000_000.0, "100000000000000.0"),
            (1e15, "1E+15"),
            (1.25e15, "1.25E+15"),
            (std::f64::consts::PI, "3.1415926535897931"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.1, "1.1"),
            (1.234_567_890_123_46e24, "1.23456789012346E+24"),
            (9_223_372_036_854_775_808_000.0, "9.2233720368547758E+21"),
            (1_234_567_890_123_456.0, "1234567890123456.0"),
            (123_456_789_012_345_680.0, "1.2345678901234568E+17"),
            (1e300, "1E+300"),
            (f64::MAX, "1.7976931348623157E+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (5e-324, "4.94065645841247E-324"),
            (-2.5e-10, "-2.5E-10"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    proptest! {
        #[test]
        fn plain_numbers_have_the_layout_of_all_others(value in 0.001..1e15_f64, whole in 1.0..1e15_f64, places in 0..4) {
            for value in [value, whole.trunc(), whole.trunc() / 10_f64.powi(places)] {
                let mut digits = Digits::default();
                let exponent = digits.read(zmij::Buffer::new().format_finite(value));
                let mut out = Vec::new();
                layout(&mut out, digits.as_bytes(), exponent, SHORT_DIGIT_COUNT);
                if digits.length <= SHORT_DIGIT_COUNT {
                    prop_assert_eq!(text(value), String::from_utf8(out).unwrap());
                }
            }
        }

        #[test]
        fn the_text_reads_back_to_the_same_double(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            let read: f64 = text(value).parse().unwrap();
            prop_assert_eq!(read.to_bits(), value.to_bits());
        }
    }
}
