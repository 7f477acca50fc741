//! What the author of a wrong filter probably meant, for the reason of the refusal.
//!
//! Invariant: a hint contains no words of the filter except operators and functions of OData, because all others may be
//! values.
//!
//! This module must not depend on the grammar: it looks only at the text around a mistake.

use super::syntax_kind::SyntaxErrorKind;
use model::EdmType;
use model::name::utf16_units;

const OPERATORS: [&str; 15] =
    ["eq", "ne", "gt", "ge", "lt", "le", "and", "or", "not", "in", "add", "sub", "mul", "div", "mod"];
const FUNCTIONS: [&str; 27] = [
    "startswith",
    "endswith",
    "contains",
    "substringof",
    "substring",
    "tolower",
    "toupper",
    "trim",
    "length",
    "indexof",
    "replace",
    "concat",
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "date",
    "time",
    "now",
    "round",
    "floor",
    "ceiling",
    "cast",
    "isof",
    "matchesPattern",
];
/// The functions that the extended grammar has.
const EXTENDED: [&str; 4] = ["startswith", "endswith", "contains", "substringof"];
const STRINGS: &str = "A string needs apostrophes, as in Name eq 'x'.";

/// Returns the hint for an error of syntax in the text from `start` to `end`, in bytes.
pub(super) fn syntax(kind: SyntaxErrorKind, text: &str, start: usize, end: usize) -> String {
    let before = text.get(..start).unwrap_or(text);
    let token = text.get(start..end).unwrap_or_default();
    let position = utf16_units(before);
    match kind {
        SyntaxErrorKind::InvalidCharacter(character) => invalid_character(character, position),
        SyntaxErrorKind::UnterminatedString => format!(
            "The string that begins at position {position} has no closing apostrophe. An apostrophe inside a string is \
             doubled, as in 'O''Brien'."
        ),
        SyntaxErrorKind::UnterminatedLiteral => {
            format!("The literal that begins at position {position} has no closing apostrophe.")
        }
        SyntaxErrorKind::DigitExpected => {
            format!("The number at position {position} has no digits after its point or exponent.")
        }
        _ if token == "=" => format!("'=' at position {position} is not an operator: write eq."),
        _ if token.is_empty() => {
            let opened = before.matches('(').count() > before.matches(')').count();
            let expected = if opened { "')'" } else { "a property or a literal" };
            format!("The filter ends at position {position}, where {expected} is expected.")
        }
        SyntaxErrorKind::ExpressionExpected => {
            format!("A property or a literal is expected at position {position}.")
        }
        SyntaxErrorKind::IdentifierExpected => format!("A name is expected at position {position}."),
        _ => unexpected(token, before, position),
    }
}

/// Returns the hint for a token after a complete operand.
fn unexpected(token: &str, before: &str, position: usize) -> String {
    let operator = OPERATORS.into_iter().find(|operator| operator.eq_ignore_ascii_case(token));
    match (operator, before.chars().next_back()) {
        (Some(operator), _) if operator != token => {
            format!("Operators are written in lower case: write {operator} at position {position}.")
        }
        _ if token.eq_ignore_ascii_case("like") => format!(
            "The service has no operator like (position {position}). For a prefix, compare with a range, as in Name ge \
             'ab' and Name lt 'ac'."
        ),
        _ if token == ")" => format!("The parenthesis at position {position} closes none."),
        (_, Some('\'')) => format!(
            "A string ends directly before position {position}. An apostrophe inside a string is doubled, as in \
             'O''Brien'."
        ),
        (_, Some(last)) if (last.is_alphanumeric() || last == '_') && !ends_with_number(before) => format!(
            "A name ends directly before position {position}. Names consist of letters, digits and '_'. {STRINGS}"
        ),
        (_, Some(last)) if last.is_alphanumeric() => format!(
            "A number ends directly before position {position}. {STRINGS} A Guid is written guid'...', a time \
             datetime'...', and an Edm.Int64 with an L at its end."
        ),
        _ => format!(
            "An operator (eq, ne, gt, ge, lt, le, and, or) or the end of the filter or of the parentheses is expected at \
             position {position}. {STRINGS}"
        ),
    }
}

/// Returns true if the word at the end of a text, which is not empty, begins with a digit.
fn ends_with_number(text: &str) -> bool {
    let word = text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    word.starts_with(|c: char| c.is_ascii_digit())
}

fn invalid_character(character: char, position: usize) -> String {
    let meant = match character {
        '!' => "Write ne instead of !=, and not (...) instead of !.",
        '<' | '>' => "Write lt, le, gt or ge.",
        '&' => "Write and instead of &&.",
        '|' => "Write or instead of ||.",
        '"' => "Strings are in apostrophes ('), not in quotation marks.",
        '\u{2018}' | '\u{2019}' | '\u{201C}' | '\u{201D}' | '`' | '\u{B4}' => {
            "Strings are in plain apostrophes (U+0027)."
        }
        '%' => "The filter may have been percent-encoded twice.",
        '+' => "A space in a URL is written %20 or +, and %2B is a plus.",
        '$' => "Options of the query are separated from the filter by &.",
        _ => STRINGS,
    };
    format!("The character '{character}' at position {position} cannot stand outside a string. {meant}")
}

/// Returns the hint for a comparison in which both sides are properties, of which the given one is the right.
pub(super) fn two_properties(right: &str, position: usize) -> String {
    if right.eq_ignore_ascii_case("null") {
        return format!(
            "'null' at position {position} is read as a property. Entities have no null values, so no filter can find \
             them."
        );
    }
    format!(
        "The word at position {position} is read as a property, and two properties cannot be compared. {STRINGS} A Guid \
         is written guid'...', a time datetime'...'."
    )
}

/// Returns the hint for the operator `in` where it is not supported.
pub(super) fn in_operator(position: usize) -> String {
    format!(
        "The service has no operator in (position {position}). Join comparisons with or, as in RowKey eq '1' or RowKey eq \
         '2'. Rowhouse has it with --extensions."
    )
}

/// Returns the hint for the call of a function that is not supported.
pub(super) fn function(name: &str, position: usize, is_extended: bool) -> String {
    if let Some(operator) = OPERATORS.into_iter().find(|operator| operator.eq_ignore_ascii_case(name)) {
        return format!("Operators are written in lower case: write {operator} at position {position}.");
    }
    let Some(function) = FUNCTIONS.into_iter().find(|function| function.eq_ignore_ascii_case(name)) else {
        return format!("Functions are not supported, and a function is called at position {position}.");
    };
    let instead = "To find a prefix, compare with a range, as in Name ge 'ab' and Name lt 'ac'.";
    match (EXTENDED.contains(&function), is_extended) {
        (true, true) => format!("Functions are written in lower case: write {function} at position {position}."),
        (true, false) => format!(
            "The service has no function {function} (position {position}). {instead} Rowhouse has it with --extensions."
        ),
        (false, _) => format!("The service has no function {function} (position {position}). {instead}"),
    }
}

/// Returns how a literal of a type is written.
pub(super) fn form(edm_type: EdmType) -> &'static str {
    match edm_type {
        EdmType::String => "'text'",
        EdmType::Binary => "X'0A1B', with two hexadecimal digits for each byte",
        EdmType::Boolean => "true or false",
        EdmType::DateTime => "datetime'2031-03-14T08:15:30Z', from the year 1601 on",
        EdmType::Double => "1.5, 1e10 or another number up to 1.7e308, NaN or INF",
        EdmType::Guid => "guid'c9da6455-213d-42c9-9a79-3e9149a57833'",
        EdmType::Int32 => "a number from -2147483648 to 2147483647; a larger one needs an L at its end (Edm.Int64)",
        EdmType::Int64 => "a number of at most 64 bits with an L at its end, as in 5000000000L",
    }
}
