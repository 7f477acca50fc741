//! The text of doubles (specification 01 §6.2, 03 §3.6).

use std::num::FpCategory;

/// Appends the shortest text that reads back to the same double, in the layout of the service:
/// `5.0`, `-0.25`, `1E+300`, `1E-05`.
///
/// The value must be finite; NaN and the infinities have texts of their own in each format.
pub fn write_double(out: &mut Vec<u8>, value: f64) {
    if value.classify() == FpCategory::Zero {
        out.extend_from_slice(if value.is_sign_negative() { b"-0.0" } else { b"0.0" });
        return;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let mut buffer = zmij::Buffer::new();
    let (digits, exponent) = digits_of(buffer.format_finite(value.abs()));
    layout(out, &digits, exponent);
}

/// The significant digits of a plain or scientific text, and the power of ten of the first one.
fn digits_of(text: &str) -> (Vec<u8>, i32) {
    let (mantissa, power) = match text.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse().unwrap_or(0)),
        None => (text, 0),
    };
    let point = mantissa.find('.').unwrap_or(mantissa.len());
    let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let leading = digits.iter().take_while(|d| **d == b'0').count().min(digits.len().saturating_sub(1));
    digits.drain(..leading);
    while digits.len() > 1 && digits.last() == Some(&b'0') {
        digits.pop();
    }
    let exponent = i32::try_from(point).unwrap_or(0) - 1 - i32::try_from(leading).unwrap_or(0) + power;
    (digits, exponent)
}

/// Exponents from 15 up and below -5 are scientific, as .NET's round-trip format prints them.
fn layout(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    if (-5..15).contains(&exponent) {
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
            (0.000_01, "0.00001"),
            (0.000_001, "1E-06"),
            (123_456.75, "123456.75"),
            (100_000_000_000_000.0, "100000000000000.0"),
            (1e15, "1E+15"),
            (1.25e15, "1.25E+15"),
            (1e300, "1E+300"),
            (f64::MAX, "1.7976931348623157E+308"),
            (5e-324, "5E-324"),
            (-2.5e-10, "-2.5E-10"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    proptest! {
        #[test]
        fn the_text_reads_back_to_the_same_double(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            let read: f64 = text(value).parse().unwrap();
            prop_assert_eq!(read.to_bits(), value.to_bits());
        }
    }
}
