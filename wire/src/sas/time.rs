//! Times in tokens and in policies.

use model::DateTime;

/// Maximum number of fractional digits of a second in a time (08 §4).
const FRACTION_DIGITS_MAX: usize = 7;

/// Parses a time in a token or in a policy (08 §4): a date, or a date and a time with its offset from UTC.
///
/// UNVERIFIED (08 §4): a time without an offset is rejected.
pub fn parse_time(text: &str) -> Option<DateTime> {
    const DATE_BYTES: usize = "YYYY-MM-DD".len();
    if text.len() == DATE_BYTES {
        return DateTime::parse(&format!("{text}T00:00Z")).ok();
    }
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    if fraction.bytes().take_while(u8::is_ascii_digit).count() > FRACTION_DIGITS_MAX {
        return None;
    }
    let has_offset = text.ends_with('Z') || text.get(DATE_BYTES..).is_some_and(|time| time.contains(['+', '-']));
    if has_offset { DateTime::parse(text).ok() } else { None }
}
