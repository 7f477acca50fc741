//! The tokens of OData expressions: filters, and the keys in URLs.
//!
//! This module must not depend on the grammar, that is, on which token may follow which.

use super::syntax::{SyntaxError, SyntaxErrorKind};
use std::borrow::Cow;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    End,
    OpenParenthesis,
    CloseParenthesis,
    Comma,
    Minus,
    Slash,
    Equal,
    /// A character of OData's grammar that this service does not use.
    Symbol,
    /// A property, an operator or a function, depending on its position.
    Identifier,
    Literal(LiteralKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LiteralKind {
    Null,
    Boolean,
    String,
    Binary,
    DateTime,
    Guid,
    Double,
    Int32,
    Int64,
    /// A literal of a type that no property has: decimal, single, time and others.
    Foreign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'t str,
    /// The start of the token, in bytes.
    pub(crate) start: usize,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// Returns the next token. After the last token, it always returns `End`.
    pub(crate) fn next(&mut self) -> Result<Token<'t>, SyntaxError> {
        let rest = self.rest().trim_start();
        self.at = self.text.len() - rest.len();
        let (kind, length) = self.scan(rest)?;
        let (text, _) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let token = Token { kind, text, start: self.at };
        self.at = token.end();
        Ok(token)
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the kind and length in bytes of the token at the beginning of `rest`, which starts at the current
    /// position.
    fn scan(&self, rest: &str) -> Result<(TokenKind, usize), SyntaxError> {
        let Some(first) = rest.chars().next() else {
            return Ok((TokenKind::End, 0));
        };
        Ok(match first {
            '(' => (TokenKind::OpenParenthesis, 1),
            ')' => (TokenKind::CloseParenthesis, 1),
            ',' => (TokenKind::Comma, 1),
            '/' => (TokenKind::Slash, 1),
            '=' => (TokenKind::Equal, 1),
            '?' | '.' | '*' | ':' => (TokenKind::Symbol, 1),
            '\'' => (TokenKind::Literal(LiteralKind::String), self.string_length(rest)?),
            '-' => self.minus(rest)?,
            '0'..='9' => self.number(rest, 0)?,
            _ if starts_identifier(first) => self.identifier(rest)?,
            _ => return Err(self.error(SyntaxErrorKind::InvalidCharacter(first), 0)),
        })
    }

    /// Creates the error for the text from the current position to an offset from it.
    fn error(&self, kind: SyntaxErrorKind, offset: usize) -> SyntaxError {
        SyntaxError::new(kind, self.text, self.at, self.at + offset)
    }

    /// A quote inside a string literal is doubled.
    fn string_length(&self, rest: &str) -> Result<usize, SyntaxError> {
        let mut length = 1;
        loop {
            let tail = rest.get(length..).unwrap_or_default();
            let Some(quote) = tail.find('\'') else {
                return Err(self.error(SyntaxErrorKind::UnterminatedString, rest.len()));
            };
            length += quote + 1;
            if !rest.get(length..).is_some_and(|tail| tail.starts_with('\'')) {
                return Ok(length);
            }
            length += 1;
        }
    }

    /// Scans a minus, which belongs to a number that directly follows it.
    fn minus(&self, rest: &str) -> Result<(TokenKind, usize), SyntaxError> {
        let tail = rest.strip_prefix('-').unwrap_or_default();
        if tail.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number(rest, 1);
        }
        if identifier_length(tail) == INFINITY.len() && tail.starts_with(INFINITY) {
            return Ok((TokenKind::Literal(LiteralKind::Double), 1 + INFINITY.len()));
        }
        Ok((TokenKind::Minus, 1))
    }

    /// Scans a number whose digits begin at offset `sign`.
    fn number(&self, rest: &str, sign: usize) -> Result<(TokenKind, usize), SyntaxError> {
        let bytes = rest.as_bytes();
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let digits = |from: usize| bytes.iter().skip(from).take_while(|b| b.is_ascii_digit()).count();
        let required_digits = |from: usize| match digits(from) {
            0 => Err(self.error(SyntaxErrorKind::DigitExpected, from)),
            count => Ok(from + count),
        };
        let mut kind = LiteralKind::Int32;
        let mut length = sign + digits(sign);
        if byte(length) == b'.' {
            kind = LiteralKind::Double;
            length = required_digits(length + 1)?;
        }
        if matches!(byte(length), b'e' | b'E') {
            kind = LiteralKind::Double;
            let signed = usize::from(matches!(byte(length + 1), b'+' | b'-'));
            length = required_digits(length + 1 + signed)?;
        }
        let (kind, length) = match byte(length) {
            b'd' | b'D' => (LiteralKind::Double, length + 1),
            b'l' | b'L' => (LiteralKind::Int64, length + 1),
            b'm' | b'M' | b'f' | b'F' => (LiteralKind::Foreign, length + 1),
            _ => (kind, length),
        };
        Ok((TokenKind::Literal(kind), length))
    }

    fn identifier(&self, rest: &str) -> Result<(TokenKind, usize), SyntaxError> {
        let length = identifier_length(rest);
        let (word, tail) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if let (Some(kind), Some(quoted)) = (literal_prefix(word), tail.strip_prefix('\'')) {
            let Some(quote) = quoted.find('\'') else {
                return Err(self.error(SyntaxErrorKind::UnterminatedLiteral, rest.len()));
            };
            return Ok((TokenKind::Literal(kind), length + quote + 2));
        }
        let kind = match word {
            "null" => TokenKind::Literal(LiteralKind::Null),
            _ if boolean(word).is_some() => TokenKind::Literal(LiteralKind::Boolean),
            NOT_A_NUMBER | INFINITY => TokenKind::Literal(LiteralKind::Double),
            _ => TokenKind::Identifier,
        };
        Ok((kind, length))
    }
}

/// Returns the text between the quotes of a literal.
pub(crate) fn quoted(literal: &str) -> &str {
    literal.split_once('\'').and_then(|(_, rest)| rest.strip_suffix('\'')).unwrap_or_default()
}

/// Returns the value of a string literal, in which quotes are doubled.
pub(crate) fn string(literal: &str) -> Cow<'_, str> {
    let text = quoted(literal);
    if text.contains('\'') { Cow::Owned(text.replace("''", "'")) } else { Cow::Borrowed(text) }
}

/// Parses a Boolean literal, ignoring case (04 §2.1).
pub(crate) fn boolean(word: &str) -> Option<bool> {
    if word.eq_ignore_ascii_case("true") {
        return Some(true);
    }
    word.eq_ignore_ascii_case("false").then_some(false)
}

/// The literal for NaN (UNVERIFIED, 04 §2.1).
pub(crate) const NOT_A_NUMBER: &str = "NaN";
/// The literal for positive infinity (UNVERIFIED, 04 §2.1).
pub(crate) const INFINITY: &str = "INF";

/// Returns the kind of literal that a word introduces when a quote follows it. UNVERIFIED: any letter case is accepted,
/// as in the OData library of the service; 04 §2.1 specifies lower case.
fn literal_prefix(word: &str) -> Option<LiteralKind> {
    const PREFIXES: [(&str, LiteralKind); 8] = [
        ("datetime", LiteralKind::DateTime),
        ("guid", LiteralKind::Guid),
        ("binary", LiteralKind::Binary),
        ("X", LiteralKind::Binary),
        ("datetimeoffset", LiteralKind::Foreign),
        ("time", LiteralKind::Foreign),
        ("geography", LiteralKind::Foreign),
        ("geometry", LiteralKind::Foreign),
    ];
    PREFIXES.into_iter().find(|(prefix, _)| prefix.eq_ignore_ascii_case(word)).map(|(_, kind)| kind)
}

fn starts_identifier(character: char) -> bool {
    character == '_' || character.is_alphabetic()
}

/// Returns the length of the longest name at the beginning of `text`; see [`model::name::check_property_name`].
fn identifier_length(text: &str) -> usize {
    let continues = |c: char| {
        if c.is_ascii() { c == '_' || c.is_ascii_alphanumeric() } else { !c.is_control() && !c.is_whitespace() }
    };
    text.find(|c| !continues(c)).unwrap_or(text.len())
}
