//! Guesses the type of a CSV column from its values. The explorer guesses in the same way (`explorer/web/core/edm.js`).

use super::value::push_value;
use model::{EdmType, RecordBuilder};

/// A Double preserves every decimal number with this many digits. Numbers with more digits are not guessed to be
/// Doubles.
const DOUBLE_DIGITS_MAX: usize = 15;
/// The length of a time with a date and a zone, such as 2031-04-01T06:30:00Z.
const TIME_CHARACTERS_MIN: usize = 20;
/// The length of a GUID without braces.
const GUID_CHARACTERS: usize = 36;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TypeGuess(Option<EdmType>);

impl TypeGuess {
    pub(crate) fn add(&mut self, text: &str) {
        let found = type_of(text);
        self.0 = Some(self.0.map_or(found, |known| common(known, found)));
    }

    /// Returns a string type if there was no value.
    pub(crate) fn edm_type(self) -> EdmType {
        self.0.unwrap_or(EdmType::String)
    }
}

fn common(one: EdmType, other: EdmType) -> EdmType {
    use EdmType::{Double, Int32, Int64, String};
    match (one, other) {
        _ if one == other => one,
        (Int32, Int64) | (Int64, Int32) => Int64,
        (Int32, Double) | (Double, Int32) => Double,
        // A Double would round a long whole number.
        _ => String,
    }
}

fn type_of(text: &str) -> EdmType {
    let is_of = |edm_type| push_value(&mut RecordBuilder::default(), "V", edm_type, text).is_ok();
    let digits = text.strip_prefix('-').unwrap_or(text);
    // A number with leading zeros is a code, and its zeros matter.
    let is_code = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if digits.starts_with(|first: char| first.is_ascii_digit()) && !is_code && !text.ends_with(['.', 'e', 'E']) {
        let is_whole = digits.bytes().all(|b| b.is_ascii_digit());
        let whole = [EdmType::Int32, EdmType::Int64].into_iter().find(|edm_type| is_of(*edm_type));
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let is_exact = mantissa.bytes().filter(u8::is_ascii_digit).count() <= DOUBLE_DIGITS_MAX;
        match whole {
            Some(whole) if is_whole => return whole,
            _ if !is_whole && is_exact && is_of(EdmType::Double) => return EdmType::Double,
            _ => {}
        }
    }
    if is_of(EdmType::Boolean) {
        EdmType::Boolean
    } else if text.len() >= TIME_CHARACTERS_MIN && text.ends_with('Z') && is_of(EdmType::DateTime) {
        EdmType::DateTime
    } else if text.len() == GUID_CHARACTERS && is_of(EdmType::Guid) {
        EdmType::Guid
    } else {
        EdmType::String
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_type_that_its_values_have_in_common() {
        for (values, expected) in [
            (&[][..], EdmType::String),
            (&["0", "-5", "2147483647"], EdmType::Int32),
            (&["1", "2147483648"], EdmType::Int64),
            (&["-9223372036854775808"], EdmType::Int64),
            // A number that does not fit in an Int64 would lose digits as a Double.
            (&["9223372036854775808"], EdmType::String),
            (&["9007199254740993", "1.5"], EdmType::String),
            (&["0.1234567890123456789"], EdmType::String),
            (&["1", "1.5", "0.5", "2e10"], EdmType::Double),
            (&["1e400"], EdmType::String),
            (&["007"], EdmType::String),
            (&["-01.5"], EdmType::String),
            (&["1."], EdmType::String),
            (&["+1"], EdmType::String),
            (&["-"], EdmType::String),
            (&["NaN"], EdmType::String),
            (&["true", "FALSE"], EdmType::Boolean),
            (&["true", "1"], EdmType::String),
            (&["2031-04-01T06:30:00Z", "2031-04-01T06:30:00.1234567Z"], EdmType::DateTime),
            (&["2031-04-01"], EdmType::String),
            (&["01234567-89ab-cdef-0123-456789abcdef"], EdmType::Guid),
            (&["{01234567-89ab-cdef-0123-456789abcdef}"], EdmType::String),
            (&["1", ""], EdmType::String),
            (&["words"], EdmType::String),
        ] {
            let mut guess = TypeGuess::default();
            for value in values {
                guess.add(value);
            }
            assert_eq!(guess.edm_type(), expected, "{values:?}");
        }
    }
}
