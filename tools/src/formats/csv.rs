//! Comma-separated values as specified by RFC 4180. The reader also accepts line breaks without carriage returns.
//!
//! A record is parsed as a whole; `lines.rs` finds its end.

use super::LineError;
use std::borrow::Cow;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) text: Cow<'a, str>,
    /// An empty field without quotes may represent a missing value.
    pub(crate) is_quoted: bool,
    /// The position of the field in bytes, starting at 1.
    pub(crate) column: usize,
}

/// Quotes the field if necessary. Fields that begin or end with a space are also quoted, because some readers remove
/// such spaces.
pub(crate) fn write_field(out: &mut Vec<u8>, text: &[u8]) {
    let needs_quotes = text.iter().any(|b| matches!(b, b'"' | b',' | b'\r' | b'\n'))
        || text.first().is_some_and(|b| *b == b' ' || *b == 0xEF)
        || text.last() == Some(&b' ');
    if !needs_quotes {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for part in text.split_inclusive(|b| *b == b'"') {
        out.extend_from_slice(part);
        if part.last() == Some(&b'"') {
            out.push(b'"');
        }
    }
    out.push(b'"');
}

/// The record must not include its final line break.
pub(crate) fn parse(record: &[u8]) -> Result<Vec<Field<'_>>, LineError> {
    let text = std::str::from_utf8(record)
        .map_err(|error| LineError::at_column(error.valid_up_to() + 1, "this is not UTF-8"))?;
    let mut fields = Vec::new();
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let column = at + 1;
        let (field, length) = match rest.strip_prefix('"') {
            None => {
                let plain = rest.split(',').next().unwrap_or_default();
                if let Some(quote) = plain.find('"') {
                    return Err(LineError::at_column(
                        at + quote + 1,
                        "a quote inside a field that does not begin with one",
                    ));
                }
                (Cow::Borrowed(plain), plain.len())
            }
            Some(quoted) => {
                let (content, length) = unquoted(quoted)
                    .ok_or_else(|| LineError::at_column(column, "the quote that begins here is not closed"))?;
                (content, length + 1)
            }
        };
        fields.push(Field { text: field, is_quoted: rest.starts_with('"'), column });
        at += length;
        match text.as_bytes().get(at) {
            None => return Ok(fields),
            Some(b',') => at += 1,
            Some(_) => {
                return Err(LineError::at_column(at + 1, "a comma is missing after the closing quote of a field"));
            }
        }
    }
}

/// `quoted` begins after the opening quote. Returns the content, and its length including the closing quote.
fn unquoted(quoted: &str) -> Option<(Cow<'_, str>, usize)> {
    let mut search = 0;
    loop {
        let quote = search + quoted.get(search..)?.find('"')?;
        if quoted.as_bytes().get(quote + 1) == Some(&b'"') {
            search = quote + 2;
            continue;
        }
        let content = quoted.get(..quote)?;
        let content =
            if content.contains('"') { Cow::Owned(content.replace("\"\"", "\"")) } else { Cow::Borrowed(content) };
        return Some((content, quote + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_and_their_quotes() {
        let fields = parse(b"a,,\"\",\"x \"\"y\"\", z\r\n\", b ").unwrap();
        let read: Vec<_> = fields.iter().map(|field| (field.text.as_ref(), field.is_quoted, field.column)).collect();
        let expected =
            [("a", false, 1), ("", false, 3), ("", true, 4), ("x \"y\", z\r\n", true, 7), (" b ", false, 22)];
        assert_eq!(read, expected);
        assert_eq!(parse(b"").unwrap().len(), 1);
    }

    #[test]
    fn malformed_records() {
        for (record, column) in [(&b"a,b\"c"[..], 4), (b"a,\"b", 3), (b"\"a\"b,c", 4), (b"a,\xFF", 3)] {
            assert_eq!(parse(record).unwrap_err().column, column, "{}", String::from_utf8_lossy(record));
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(texts in proptest::collection::vec("[ ,\"\r\na-é\u{FEFF}]{0,8}", 1..5)) {
            let mut record = Vec::new();
            for (at, text) in texts.iter().enumerate() {
                if at > 0 {
                    record.push(b',');
                }
                write_field(&mut record, text.as_bytes());
            }
            let fields = parse(&record).unwrap();
            prop_assert_eq!(fields.iter().map(|field| field.text.as_ref()).collect::<Vec<_>>(), texts);
        }
    }
}
