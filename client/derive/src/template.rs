//! Templates of keys: literals and fields.

use model::KeyText;
use model::key::KeyError;
use std::ops::RangeInclusive;
use syn::{Error, LitStr};

/// The greatest 64-bit number has twenty digits.
pub(crate) const PADDED_DIGITS: RangeInclusive<usize> = 1..=20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Plain,
    Padded(usize),
    Inverted,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Literal(String),
    Field(String, Format),
}

/// A validated template: its literals are allowed in a key, and no two parts of variable width are adjacent.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) parts: Vec<Part>,
}

impl Template {
    pub(crate) fn of_field(field: String, format: Format) -> Self {
        Self { parts: vec![Part::Field(field, format)] }
    }

    /// Errors point to the literal.
    pub(crate) fn parse(literal: &LitStr) -> syn::Result<Self> {
        let fail = |message: String| Error::new(literal.span(), message);
        let parts = parse(&literal.value()).map_err(fail)?;
        let template = Self { parts };
        template.check().map_err(fail)?;
        Ok(template)
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, Format)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Field(field, format) => Some((field.as_str(), *format)),
            Part::Literal(_) => None,
        })
    }

    /// Returns the field if the key consists of only that field.
    pub(crate) fn single(&self) -> Option<(&str, Format)> {
        match self.parts.as_slice() {
            [Part::Field(field, format)] => Some((field, *format)),
            _ => None,
        }
    }

    fn check(&self) -> Result<(), String> {
        // The last field of variable width that no literal has followed yet.
        let mut open: Option<&str> = None;
        for part in &self.parts {
            match part {
                Part::Literal(text) => {
                    KeyText::new(text).map_err(|error| match error {
                        KeyError::TooLong => "the text is longer than the maximum length of a key".to_owned(),
                        error => format!("'{text}' cannot be in a key: {error}"),
                    })?;
                    open = None;
                }
                Part::Field(field, Format::Plain) => {
                    if let Some(before) = open {
                        return Err(format!(
                            "nothing separates '{before}' from '{field}', so the key could not be split into parts; \
                             put a literal between them, or give one of them a fixed width"
                        ));
                    }
                    open = Some(field);
                }
                Part::Field(_, Format::Padded(_) | Format::Inverted) => {}
            }
        }
        Ok(())
    }
}

fn parse(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '{' | '}' if characters.peek() == Some(&c) => {
                characters.next();
                literal.push(c);
            }
            '{' => {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                let mut inside = String::new();
                loop {
                    match characters.next() {
                        Some('}') => break,
                        Some('{') | None => return Err(unbalanced("{", "{{")),
                        Some(c) => inside.push(c),
                    }
                }
                parts.push(field(&inside)?);
            }
            '}' => return Err(unbalanced("}", "}}")),
            other => literal.push(other),
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    Ok(parts)
}

fn unbalanced(brace: &str, escaped: &str) -> String {
    format!("unmatched `{brace}`; write `{escaped}` for a literal brace")
}

fn field(inside: &str) -> Result<Part, String> {
    let (name, format) = match inside.split_once(':') {
        None => (inside, Format::Plain),
        Some((name, "inverted")) => (name, Format::Inverted),
        Some((name, format)) => {
            let digits = format.strip_prefix('0').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
            let digits = digits.and_then(|digits| digits.parse().ok()).filter(|digits| PADDED_DIGITS.contains(digits));
            let digits = digits.ok_or_else(|| {
                format!(
                    "'{format}' is not a format; expected `inverted`, or a zero and a width from {} to {}, such as `08`",
                    PADDED_DIGITS.start(),
                    PADDED_DIGITS.end()
                )
            })?;
            (name, Format::Padded(digits))
        }
    };
    if name.is_empty() {
        return Err("a field is missing between `{` and `}`".to_owned());
    }
    Ok(Part::Field(name.to_owned(), format))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Part {
        Part::Literal(text.to_owned())
    }

    fn field(name: &str, format: Format) -> Part {
        Part::Field(name.to_owned(), format)
    }

    fn checked(text: &str) -> Result<Vec<Part>, String> {
        let template = Template { parts: parse(text)? };
        template.check().map(|()| template.parts)
    }

    #[test]
    fn templates() {
        for (text, expected) in [
            ("", vec![]),
            ("config", vec![literal("config")]),
            ("{{a}}", vec![literal("{a}")]),
            ("{a}", vec![field("a", Format::Plain)]),
            ("a{b:inverted}{c:08}", vec![literal("a"), field("b", Format::Inverted), field("c", Format::Padded(8))]),
            ("{a:020}{b}", vec![field("a", Format::Padded(20)), field("b", Format::Plain)]),
            ("{a}_{b}", vec![field("a", Format::Plain), literal("_"), field("b", Format::Plain)]),
        ] {
            assert_eq!(checked(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_template() {
        for (text, message) in [
            ("{a", "unmatched `{`"),
            ("a}", "unmatched `}`"),
            ("{a{b}}", "unmatched `{`"),
            ("{}", "a field is missing"),
            ("{:08}", "a field is missing"),
            ("{a:8}", "'8' is not a format"),
            ("{a:00}", "'00' is not a format"),
            ("{a:021}", "'021' is not a format"),
            ("{a:0+1}", "'0+1' is not a format"),
            ("{a:Inverted}", "'Inverted' is not a format"),
            ("{a}{b}", "nothing separates 'a' from 'b'"),
            ("{a}{c:04}{b}", "nothing separates 'a' from 'b'"),
            ("a/b", "'a/b' cannot be in a key"),
        ] {
            let error = checked(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
