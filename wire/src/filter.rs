//! `$filter` expressions: parsing, errors and printing (specification 04 §2, §7).
//!
//! Invariants:
//!
//! 1. Parsing never panics and never exhausts the stack: length and nesting are bounded.
//! 2. A printed filter parses to the same tree. The canonical tree preserves parentheses: operands chained by one
//!    operator without parentheses form a single `And` or `Or`; operands in parentheses remain a separate tree.
//! 3. A syntax error takes precedence over a type error, whatever their order in the expression.
//!
//! This module must not depend on how a filter is evaluated or planned.

mod lex;
mod parse;
mod print;

use crate::error::{ErrorCode, ServiceError};
use crate::filter::parse::Parser;
use model::Filter;
use model::limits::FILTER_TEXT_BYTES_MAX;
use model::name::utf16_units;
use std::borrow::Cow;
use std::fmt;

pub use print::print;

/// Parses a filter. The expression must already be decoded. White space around it is ignored. An empty expression is an
/// error here; see [`parse_optional`].
pub fn parse(text: &str) -> Result<Filter, FilterError> {
    if text.len() > FILTER_TEXT_BYTES_MAX {
        return Err(FilterError::invalid_input());
    }
    Parser::new(text)?.filter()
}

/// Parses a filter. Returns `None` for an empty or blank expression (04 §2).
pub fn parse_optional(text: &str) -> Result<Option<Filter>, FilterError> {
    if text.trim().is_empty() { Ok(None) } else { parse(text).map(Some) }
}

/// The error code of a rejected filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterErrorCode {
    /// The expression is malformed or combines incompatible types.
    InvalidInput,
    /// The expression is well-formed but uses features that the service does not support.
    NotImplemented,
}

/// The reason why a filter is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// The error code.
    pub code: FilterErrorCode,
    /// The message for the client (04 §7).
    pub message: Cow<'static, str>,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FilterError {}

impl From<FilterError> for ServiceError {
    fn from(error: FilterError) -> Self {
        let code = match error.code {
            FilterErrorCode::InvalidInput => ErrorCode::InvalidInput,
            FilterErrorCode::NotImplemented => ErrorCode::NotImplemented,
        };
        Self::new(code, error.message)
    }
}

impl FilterError {
    fn invalid_input() -> Self {
        Self::because(ErrorCode::InvalidInput.message())
    }

    fn not_implemented() -> Self {
        let message = Cow::Borrowed(ErrorCode::NotImplemented.message());
        Self { code: FilterErrorCode::NotImplemented, message }
    }

    fn because(message: impl Into<Cow<'static, str>>) -> Self {
        Self { code: FilterErrorCode::InvalidInput, message: message.into() }
    }

    /// Creates a syntax error. The position in the message is the number of UTF-16 code units up to the end of the
    /// offending token.
    fn syntax(text: &str, at: usize) -> Self {
        let position = utf16_units(text.get(..at).unwrap_or(text));
        Self::because(format!("Syntax error at position {position} in '{text}'."))
    }
}

#[cfg(test)]
mod tests;
