//! Errors of syntax in OData expressions, with the messages of the service (specification 04 §7).
//!
//! Filters and the keys in URLs have the same tokens, so they share these messages.
//!
//! This module must not depend on tokens or on a grammar: its callers determine what is wrong, and where.

use super::hint;
pub(crate) use super::syntax_kind::SyntaxErrorKind;
use crate::error::ServiceError;
use model::name::utf16_units;

/// An error of syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// The message for the client.
    pub(crate) message: String,
    /// What is wrong if the text is a filter.
    pub(super) hint: String,
    /// The text that is wrong, and what follows it.
    pub(super) rest: String,
    /// The position of the wrong text, in UTF-16 code units.
    pub(super) position: usize,
}

impl SyntaxError {
    /// Creates the error for the text from `start` to `end`, in bytes. Messages count positions in UTF-16 code units,
    /// and name the start or the end, depending on the kind.
    ///
    /// UNVERIFIED (04 §7): all messages except those for a token that cannot follow, an unterminated string and an
    /// invalid character. They are the messages of the OData library whose other messages the service sends. Also
    /// UNVERIFIED: the message for a character above U+FFFF, which the library does not read as a whole.
    pub(crate) fn new(kind: SyntaxErrorKind, text: &str, start: usize, end: usize) -> Self {
        Self {
            message: message(kind, text, start, end),
            hint: hint::syntax(kind, text, start, end),
            rest: text.get(start..).unwrap_or_default().to_owned(),
            position: utf16_units(text.get(..start).unwrap_or(text)),
        }
    }
}

fn message(kind: SyntaxErrorKind, text: &str, start: usize, end: usize) -> String {
    let is_at_end = matches!(
        kind,
        SyntaxErrorKind::UnexpectedToken
            | SyntaxErrorKind::UnterminatedString
            | SyntaxErrorKind::UnterminatedLiteral
            | SyntaxErrorKind::DigitExpected
    );
    let position = utf16_units(text.get(..if is_at_end { end } else { start }).unwrap_or(text));
    let problem = match kind {
        SyntaxErrorKind::UnexpectedToken => "Syntax error at",
        SyntaxErrorKind::ExpressionExpected => "Expression expected at",
        SyntaxErrorKind::OperatorExpected => "')' or operator expected at",
        SyntaxErrorKind::ArgumentExpected => "')' or ',' expected at",
        SyntaxErrorKind::DigitExpected => "A digit was expected at",
        SyntaxErrorKind::UnterminatedString => "There is an unterminated string literal at",
        SyntaxErrorKind::UnterminatedLiteral => "There is an unterminated literal at",
        SyntaxErrorKind::InvalidCharacter(character) => {
            return format!("Syntax error: character '{character}' is not valid at position {position} in '{text}'.");
        }
        SyntaxErrorKind::IdentifierExpected => {
            return format!("An identifier was expected at position {position}.");
        }
    };
    format!("{problem} position {position} in '{text}'.")
}

impl From<SyntaxError> for ServiceError {
    fn from(error: SyntaxError) -> Self {
        Self::invalid_input(error.message)
    }
}
