//! The terms of `$select` (specification 04 §4). They have the tokens of filters, and the same errors in tokens.
//!
//! This module must not depend on what is selected.

use super::lex::{Lexer, LiteralKind, Token, TokenKind};
use super::syntax::{SyntaxError, SyntaxErrorKind};
use crate::error::{ErrorCode, ServiceError};
use crate::reason::ReasonKind;
use model::limits::FILTER_TEXT_BYTES_MAX;

/// Returns the names that a list selects, in the order of the list. `*` stands for all properties.
///
/// UNVERIFIED (04 §4): all rules and messages except the message for a term of several names (reported). They are those
/// of the OData library that has this message. In addition, a path and a name with a dot are refused: no property has
/// such a name, and in JSON, names with a dot are annotations.
///
/// The messages contain the list, so a list that is longer than a filter may be gets the general one.
pub(crate) fn selected_names(list: &str) -> Result<Vec<&str>, ServiceError> {
    let is_quoted = list.len() <= FILTER_TEXT_BYTES_MAX;
    read_names(list).map_err(|error| if is_quoted { error } else { too_long(list) })
}

fn too_long(list: &str) -> ServiceError {
    let detail = format!("The list has {} bytes, of which at most {FILTER_TEXT_BYTES_MAX} are read.", list.len());
    ServiceError::from(ErrorCode::InvalidInput).because(ReasonKind::SelectInvalid.because(detail))
}

/// Returns the error for a list that is wrong at one position.
fn select_error(error: SyntaxError) -> ServiceError {
    let detail = format!("The list of names is wrong at position {}.", error.position);
    let reason = ReasonKind::SelectInvalid.because(detail).quoting(&error.rest);
    ServiceError::from(error).because(reason)
}

fn read_names(list: &str) -> Result<Vec<&str>, ServiceError> {
    let mut terms = Terms { list, lexer: Lexer::new(list), peeked: None };
    let mut names = Vec::new();
    let mut is_nested = false;
    // A comma may end the list, and a closing parenthesis ends it like the end of the text.
    while !matches!(terms.peek()?.kind, TokenKind::End | TokenKind::CloseParenthesis) {
        let term = terms.term()?;
        is_nested |= term.is_nested;
        names.push(term.name);
    }
    if is_nested { Err(terms.invalid()) } else { Ok(names) }
}

struct Term<'t> {
    name: &'t str,
    /// Whether the term is a path, or its name has a dot.
    is_nested: bool,
}

struct Terms<'t> {
    list: &'t str,
    lexer: Lexer<'t>,
    peeked: Option<Token<'t>>,
}

impl<'t> Terms<'t> {
    /// Returns the next token without consuming it.
    fn peek(&mut self) -> Result<Token<'t>, ServiceError> {
        let token = match self.peeked {
            Some(token) => token,
            None => self.lexer.next().map_err(select_error)?,
        };
        self.peeked = Some(token);
        Ok(token)
    }

    fn next(&mut self) -> Result<Token<'t>, ServiceError> {
        let token = self.peek()?;
        self.peeked = None;
        Ok(token)
    }

    /// Reads a term and the comma after it.
    fn term(&mut self) -> Result<Term<'t>, ServiceError> {
        let mut term = self.segment()?;
        let mut end = self.next()?;
        while end.kind == TokenKind::Slash {
            // A slash may end the list.
            if self.peek()?.kind != TokenKind::End {
                self.segment()?;
                term.is_nested = true;
            }
            end = self.next()?;
        }
        if matches!(end.kind, TokenKind::End | TokenKind::Comma) { Ok(term) } else { Err(self.invalid()) }
    }

    /// Reads a segment of a path: a name, possibly with dots, or a star.
    fn segment(&mut self) -> Result<Term<'t>, ServiceError> {
        let first = self.next()?;
        let next = self.peek()?;
        if next.text == "." {
            if !is_name(first) {
                return Err(self.syntax_error(first));
            }
            self.dotted()?;
            return Ok(Term { name: first.text, is_nested: true });
        }
        let is_star = first.text == "*" && next.kind != TokenKind::Slash;
        if is_star || is_name(first) {
            return Ok(Term { name: first.text, is_nested: false });
        }
        Err(select_error(SyntaxError::new(SyntaxErrorKind::IdentifierExpected, self.list, first.start, first.end())))
    }

    /// Reads the dots after a name, and the name after each of them. The last one may be a star.
    fn dotted(&mut self) -> Result<(), ServiceError> {
        while self.peek()?.text == "." {
            self.next()?;
            let part = self.next()?;
            let is_last_star = part.text == "*" && matches!(self.peek()?.kind, TokenKind::End | TokenKind::Comma);
            if !is_name(part) && !is_last_star {
                return Err(self.syntax_error(part));
            }
        }
        Ok(())
    }

    fn invalid(&self) -> ServiceError {
        ServiceError::invalid_input(format!("Term '{}' is not valid in a $select or $expand expression.", self.list))
            .because(ReasonKind::SelectInvalid.because("").quoting(self.list))
    }

    fn syntax_error(&self, token: Token<'_>) -> ServiceError {
        select_error(SyntaxError::new(SyntaxErrorKind::UnexpectedToken, self.list, token.start, token.end()))
    }
}

/// Returns true for a token that can be the name of a property. Unlike in filters, the words for Boolean values are
/// literals only in lower case.
fn is_name(token: Token<'_>) -> bool {
    match token.kind {
        TokenKind::Identifier => true,
        TokenKind::Literal(LiteralKind::Boolean) => !matches!(token.text, "true" | "false"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::name::check_property_name;
    use proptest::prelude::*;

    #[test]
    fn lists_that_are_accepted() {
        for (list, names) in [
            ("", &[][..]),
            (" \t ", &[]),
            ("a", &["a"]),
            (" a , b,c ", &["a", "b", "c"]),
            ("a,b,", &["a", "b"]),
            ("a/", &["a"]),
            ("*", &["*"]),
            ("a,*,a", &["a", "*", "a"]),
            ("_x1,Größe,True", &["_x1", "Größe", "True"]),
            ("a,)b", &["a"]),
            (")", &[]),
            ("eq,and,datetime", &["eq", "and", "datetime"]),
        ] {
            assert_eq!(selected_names(list).unwrap(), names, "{list}");
        }
    }

    #[test]
    fn lists_that_are_refused() {
        let term = |list: &str| format!("Term '{list}' is not valid in a $select or $expand expression.");
        for list in [
            "PartitionKey Row Active",
            "a b",
            "a,b c,d",
            "a/b",
            "a/b/",
            "a/b,c",
            "a/*",
            "a.b",
            "odata.etag",
            "a,odata.etag",
            "a . b",
            "a.*",
            "Row-1",
            "a 'b'",
            "a(b)",
            "a)",
            "a=1",
            "a:b",
            "**",
            "* a",
        ] {
            assert_eq!(selected_names(list).unwrap_err().message, term(list), "{list}");
        }
        let long = format!("{}^", "a".repeat(FILTER_TEXT_BYTES_MAX));
        assert_eq!(selected_names(&long), Err(ErrorCode::InvalidInput.into()));
        for (list, position) in [
            (",", 0),
            ("a,,b", 2),
            ("é,,b", 2),
            ("'Row'", 0),
            ("a,'b'", 2),
            ("1", 0),
            ("-1", 0),
            ("a,-b", 2),
            ("(a)", 0),
            ("/a", 0),
            ("a/,b", 2),
            ("a//b", 2),
            ("*/a", 0),
            ("true", 0),
            ("null", 0),
            ("guid'x'", 0),
            (".a", 0),
        ] {
            let expected = format!("An identifier was expected at position {position}.");
            assert_eq!(selected_names(list).unwrap_err().message, expected, "{list}");
        }
        for (list, position) in [("a.", 2), ("a..b", 3), ("'x'.a", 3), ("a.1", 3), ("a.*.b", 3), ("a.b,c.", 6)] {
            let expected = format!("Syntax error at position {position} in '{list}'.");
            assert_eq!(selected_names(list).unwrap_err().message, expected, "{list}");
        }
        // The errors of the lexer.
        for list in ["^", "a^", "a,^", "a/b,^", "'Row", "a,'", "guid'x", "1.a", "a;b", "$count", "\"a\""] {
            let message = selected_names(list).unwrap_err().message;
            assert!(message.contains(list) && !message.starts_with("Term"), "{list}: {message}");
        }
    }

    proptest! {
        #[test]
        fn a_list_of_property_names_is_read_as_it_was_written(names in prop::collection::vec("[a-zA-Z_é][a-zA-Z0-9_é]{0,9}", 0..5)) {
            prop_assume!(!names.iter().any(|name| ["true", "false", "null", "NaN", "INF"].contains(&name.as_str())));
            let list = names.join(", ");
            prop_assert_eq!(selected_names(&list).unwrap(), names);
        }

        #[test]
        fn any_list_is_read_without_panic(list in "[a-c ,/.*'()$;^1é😀-]{0,12}|\\PC{0,20}") {
            for name in selected_names(&list).unwrap_or_default() {
                prop_assert!(name == "*" || check_property_name(name).is_ok() || !name.is_ascii());
            }
        }
    }
}
