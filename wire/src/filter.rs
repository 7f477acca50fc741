//! `$filter` expressions: parsing, errors and printing (specification 04 §2, §7), and string functions, an extension
//! (`docs/extensions.md`). Also the terms of `$select`, which have the same tokens.
//!
//! Invariants:
//!
//! 1. Parsing never panics and never exhausts the stack: length and nesting are bounded.
//! 2. A printed filter parses to the same tree, in the extended grammar if it contains a call. The canonical tree
//!    preserves parentheses: operands chained by one operator without parentheses form a single `And` or `Or`; operands
//!    in parentheses remain a separate tree.
//! 3. A syntax error takes precedence over a type error, whatever their order in the expression.
//!
//! This module must not depend on how a filter is evaluated or planned.

mod error;
mod hint;
pub(crate) mod lex;
mod parse;
mod print;
mod select_terms;
mod syntax;
mod syntax_kind;

use crate::filter::parse::Parser;
use crate::reason::ReasonKind;
use model::Filter;
use model::limits::FILTER_TEXT_BYTES_MAX;

pub use error::{FilterError, FilterErrorCode};
pub use parse::Grammar;
pub use print::print;
pub(crate) use select_terms::selected_names;

/// Parses a filter. The expression must already be decoded. White space around it is ignored. An empty expression is an
/// error here; see [`parse_optional`].
pub fn parse(text: &str, grammar: Grammar) -> Result<Filter, FilterError> {
    if text.len() > FILTER_TEXT_BYTES_MAX {
        let detail = format!("The filter has {} bytes; the limit is {FILTER_TEXT_BYTES_MAX}.", text.len());
        return Err(FilterError::invalid_input().because(ReasonKind::FilterTooLarge.because(detail)));
    }
    Parser::new(text, grammar)?.filter()
}

/// Parses a filter. Returns `None` for an empty or blank expression (04 §2).
pub fn parse_optional(text: &str, grammar: Grammar) -> Result<Option<Filter>, FilterError> {
    if text.trim().is_empty() { Ok(None) } else { parse(text, grammar).map(Some) }
}

#[cfg(test)]
mod tests;
