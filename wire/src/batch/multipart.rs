//! Multipart bodies: the parts and their header lines.
//!
//! This module must not depend on what the parts of a batch are for.

use crate::reason::{Reason, ReasonKind};
use memchr::{memchr, memmem};
use model::limits::{BATCH_BOUNDARY_CHARS_MAX, BATCH_PART_HEADER_BYTES_MAX};

/// Returns the boundary of a `multipart/mixed` media type, whether quoted or not. Returns `None` for other media types,
/// or if the boundary is missing.
pub(super) fn boundary(content_type: &str) -> Option<&str> {
    let (media_type, mut parameters) = content_type.split_once(';')?;
    if !media_type.trim().eq_ignore_ascii_case("multipart/mixed") {
        return None;
    }
    loop {
        let (name, rest) = parameters.split_once('=')?;
        let (value, rest) = parameter_value(rest.trim_start())?;
        // Parameters without a value may precede the name.
        let name = name.rsplit(';').next().unwrap_or_default().trim();
        if name.eq_ignore_ascii_case("boundary") {
            let is_usable = (1..=BATCH_BOUNDARY_CHARS_MAX).contains(&value.len());
            return is_usable.then_some(value);
        }
        parameters = rest;
    }
}

fn parameter_value(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (value, rest) = quoted.split_once('"')?;
        return Some((value, rest.split_once(';').map_or("", |(_, rest)| rest)));
    }
    let (value, rest) = text.split_once(';').unwrap_or((text, ""));
    Some((value.trim_end(), rest))
}

/// An iterator over the parts of a multipart body: the bytes between delimiters, without the line breaks that belong to
/// the delimiters. Bytes before the first delimiter and after the last one are ignored.
pub(super) struct Parts<'a> {
    body: &'a [u8],
    delimiter: memmem::Finder<'static>,
    /// The start of the next part; `None` after the last one.
    next: Option<usize>,
    is_closed: bool,
}

struct Delimiter {
    /// The start of the line break that precedes it.
    start: usize,
    end: usize,
    is_last: bool,
}

impl<'a> Parts<'a> {
    pub(super) fn new(boundary: &str, body: &'a [u8]) -> Result<Self, BatchError> {
        let delimiter = memmem::Finder::new(format!("--{boundary}").as_bytes()).into_owned();
        let mut parts = Self { body, delimiter, next: None, is_closed: false };
        let first = parts.delimiter_from(0).ok_or(BatchError::Malformed("the boundary does not occur in the body"))?;
        parts.pass(&first);
        Ok(parts)
    }

    /// Returns true if the body contains the closing delimiter. Valid only after the last part.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn pass(&mut self, delimiter: &Delimiter) {
        // White space after a delimiter is not a part: one client ends its batches without the two hyphens. `any` stops
        // at the first other character. Otherwise, long trailing white space would be read for every delimiter.
        let rest = self.body.get(delimiter.end..).unwrap_or_default();
        let is_followed = rest.iter().any(|byte| !byte.is_ascii_whitespace());
        self.next = (is_followed && !delimiter.is_last).then_some(delimiter.end);
        self.is_closed = delimiter.is_last;
    }

    /// Returns the first delimiter at or after `from`. The delimiter is on a separate line, or it follows a JSON object
    /// on the same line: a C++ client writes no line break between a body and the next delimiter.
    fn delimiter_from(&self, mut from: usize) -> Option<Delimiter> {
        loop {
            let found = from + self.delimiter.find(self.body.get(from..)?)?;
            let after = found + self.delimiter.needle().len();
            let before = self.body.get(..found)?;
            let may_begin = before.last().is_none_or(|byte| matches!(byte, b'\n' | b'}'));
            if may_begin && let Some((end, is_last)) = self.end_of_line(after) {
                let before = before.strip_suffix(b"\n").unwrap_or(before);
                let before = before.strip_suffix(b"\r").unwrap_or(before);
                return Some(Delimiter { start: before.len(), end, is_last });
            }
            // A boundary contains no line break, so no line starts inside the match.
            from = after;
        }
    }

    /// Returns the end of a delimiter line, and whether `--` marks it as the last one. Returns `None` if anything
    /// except white space follows.
    fn end_of_line(&self, from: usize) -> Option<(usize, bool)> {
        let rest = self.body.get(from..)?;
        let (is_last, rest) = rest.strip_prefix(b"--").map_or((false, rest), |rest| (true, rest));
        // Read only white space, because a long line may contain many strings that look like delimiters.
        let blank = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r')).count();
        let length = match rest.get(blank) {
            None => blank,
            Some(b'\n') => blank + 1,
            Some(_) => return None,
        };
        Some((self.body.len() - rest.len() + length, is_last))
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.next?;
        let end = if let Some(delimiter) = self.delimiter_from(start) {
            self.pass(&delimiter);
            delimiter.start
        } else {
            self.next = None;
            self.body.len()
        };
        // Adjacent delimiters share a line break, so the part between them would end before it starts.
        Some(self.body.get(start..end).unwrap_or_default())
    }
}

/// An iterator over the lines of a part, up to the size limit of its headers.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    left_bytes: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(part: &'a [u8]) -> Self {
        Self { rest: part, left_bytes: BATCH_PART_HEADER_BYTES_MAX }
    }

    /// Returns the next line without its line ending, or `None` at the end of the part.
    pub(super) fn next(&mut self) -> Result<Option<&'a [u8]>, BatchError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let end = memchr(b'\n', self.rest).map_or(self.rest.len(), |end| end + 1);
        self.left_bytes =
            self.left_bytes.checked_sub(end).ok_or(BatchError::Malformed("the headers of a part are too large"))?;
        let (line, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, b""));
        self.rest = rest;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Returns the next header, or `None` at the blank line after the headers or at the end of the part.
    pub(super) fn next_header(&mut self) -> Result<Option<Header<'a>>, BatchError> {
        match self.next()? {
            None => Ok(None),
            Some(line) if line.trim_ascii().is_empty() => Ok(None),
            Some(line) => Header::read(line).map(Some),
        }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

pub(super) struct Header<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

impl<'a> Header<'a> {
    fn read(line: &'a [u8]) -> Result<Self, BatchError> {
        let malformed = BatchError::Malformed("a header line is malformed");
        let colon = memchr(b':', line).ok_or(malformed)?;
        let (name, value) = line.split_at_checked(colon).ok_or(malformed)?;
        let name = name.trim_ascii_end();
        if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
            return Err(malformed);
        }
        Ok(Self { name, value: value.strip_prefix(b":").unwrap_or(value).trim_ascii() })
    }

    /// Returns true if this header has the given name, ignoring case.
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns the value, which must be visible ASCII.
    pub(super) fn text(&self) -> Result<&'a str, BatchError> {
        let is_visible = self.value.iter().all(|b| matches!(b, b' '..=b'~' | b'\t'));
        let text = std::str::from_utf8(self.value).ok().filter(|_| is_visible);
        text.ok_or(BatchError::Malformed("a header contains characters that are not allowed"))
    }
}

/// The reason why a batch cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchError {
    /// The media type of the request is not `multipart/mixed` with a boundary.
    ContentType,
    /// The body is not a batch; the message states the reason for the log.
    Malformed(&'static str),
    /// The body contains a malformed changeset; the number of operations that were read before the error follows.
    MalformedChangeset(&'static str, usize),
}

impl BatchError {
    /// Returns the reason for the client.
    pub fn reason(self) -> Reason {
        let malformed = |why: &str| ReasonKind::BatchMalformed.because(format!("The batch is malformed: {why}."));
        match self {
            Self::ContentType => ReasonKind::BatchContentType.because(""),
            Self::Malformed(why) => malformed(why),
            Self::MalformedChangeset(why, index) => malformed(why).at_index(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(body: &str) -> (Vec<&str>, bool) {
        let mut parts = Parts::new("b", body.as_bytes()).unwrap();
        let list: Vec<_> = parts.by_ref().map(|part| std::str::from_utf8(part).unwrap()).collect();
        (list, parts.is_closed())
    }

    #[test]
    fn boundaries() {
        for (content_type, expected) in [
            ("multipart/mixed; boundary=batch_1", Some("batch_1")),
            ("multipart/mixed;boundary=\"a;b=c\"", Some("a;b=c")),
            ("Multipart/Mixed ; charset=utf-8; Boundary = x ; y=z", Some("x")),
            ("multipart/mixed; odd; charset=\"a;b\"; boundary=x", Some("x")),
            ("multipart/mixed", None),
            ("multipart/mixed; boundary=", None),
            ("multipart/mixed; boundary=\"x", None),
            ("multipart/mixed; xboundary=x", None),
            ("application/json; boundary=x", None),
            ("", None),
        ] {
            assert_eq!(boundary(content_type), expected, "{content_type}");
        }
        assert!(boundary(&format!("multipart/mixed; boundary={}", "b".repeat(70))).is_some());
        assert!(boundary(&format!("multipart/mixed; boundary={}", "b".repeat(71))).is_none());
    }

    #[test]
    fn parts_lie_between_delimiter_lines() {
        for (body, expected, is_closed) in [
            ("--b\r\none\r\n--b\r\ntwo\r\n--b--\r\n", vec!["one", "two"], true),
            ("--b\none\n--b\r\ntwo\n--b--", vec!["one", "two"], true),
            ("text\r\n\r\n--b \t\r\none\r\n\r\n--b--  \r\nepilogue\r\n--b\r\n", vec!["one\r\n"], true),
            ("--b\r\n--b\r\n--b--", vec!["", ""], true),
            ("--b\r\n--bc\r\n-- b\r\n--b x\r\n--b--", vec!["--bc\r\n-- b\r\n--b x"], true),
            ("--b\n{}--b\n{ }--b--", vec!["{}", "{ }"], true),
            ("--b\r\n --b\r\nx--b\r\n--x--b\r\n--b--", vec![" --b\r\nx--b\r\n--x--b"], true),
            ("--b--", vec![], true),
            ("--b\r\none\r\n--b\0--b\r\n--b--", vec!["one\r\n--b\0--b"], true),
            ("--b\r\none", vec!["one"], false),
            ("--b\r\none\r\n--b", vec!["one"], false),
            ("--b\none\n--b\n", vec!["one"], false),
            ("--b\none\n--b\r\n\r\n", vec!["one"], false),
            ("--b\n", vec![], false),
        ] {
            assert_eq!(parts(body), (expected, is_closed), "{body:?}");
        }
        assert!(Parts::new("b", b"text --b\r\n").is_err());
    }

    #[test]
    fn headers_are_bounded_and_tolerant_of_white_space() {
        let mut lines = Lines::new(b"content-TYPE \t:  x y \nB:\r\n\r\nrest");
        let first = lines.next_header().unwrap().unwrap();
        assert!(first.is("Content-Type"));
        assert_eq!(first.text(), Ok("x y"));
        assert_eq!(lines.next_header().unwrap().unwrap().text(), Ok(""));
        assert!(lines.next_header().unwrap().is_none());
        assert_eq!(lines.rest(), b"rest");
        for malformed in ["no colon\r\n", ": x", "a b: x", " folded: x", "\u{e9}: x"] {
            assert!(Lines::new(malformed.as_bytes()).next_header().is_err(), "{malformed}");
        }
        assert!(Lines::new("a: \u{e9}".as_bytes()).next_header().unwrap().unwrap().text().is_err());
        let long = format!("a: {}\r\n", "x".repeat(BATCH_PART_HEADER_BYTES_MAX));
        assert!(Lines::new(long.as_bytes()).next_header().is_err());
    }
}
