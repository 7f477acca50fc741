//! Lines of a file, of a bounded length each, with where they stand.

use memchr::memchr;
use model::limits::EXPORT_LINE_BYTES_MAX;
use std::io::{BufRead, ErrorKind, Result};

/// Where a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// At every line break.
    Plain,
    /// At a line break that stands outside of quotes.
    Quoted,
}

/// Where in a record the next byte stands. A quote opens only where the reader of records lets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    /// At the beginning of a field.
    Start,
    /// In a field without quotes, or behind the quote that ended one.
    Plain,
    Quoted,
    /// Behind a quote in a quoted field, which ends it unless another quote follows.
    Closing,
}

const BYTE_ORDER_MARK: &[u8] = "\u{FEFF}".as_bytes();

impl Within {
    /// Behind a piece of a record that begins at a place of the file.
    fn after(self, piece: &[u8], offset: u64) -> Self {
        let mark = usize::try_from(offset).ok().and_then(|offset| BYTE_ORDER_MARK.get(offset..)).unwrap_or_default();
        if mark.is_empty() && memchr(b'"', piece).is_none() {
            return match (self, piece.last()) {
                (Self::Quoted, _) | (_, None) => self,
                (_, Some(b',')) => Self::Start,
                (_, Some(_)) => Self::Plain,
            };
        }
        piece.iter().enumerate().fold(self, |within, (at, byte)| match (within, byte) {
            (Self::Start, byte) if mark.get(at) == Some(byte) => Self::Start,
            (Self::Start | Self::Closing, b'"') => Self::Quoted,
            (Self::Quoted, b'"') => Self::Closing,
            (Self::Quoted, _) => Self::Quoted,
            (_, b',') => Self::Start,
            _ => Self::Plain,
        })
    }
}

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) bytes: &'a [u8],
    /// Counted from one; of a record of several lines the first.
    pub(crate) number: u64,
    /// How many lines of the file it takes.
    pub(crate) lines: u64,
    /// Its bytes are not all there, because it is longer than any entity.
    pub(crate) is_too_long: bool,
}

/// Reads line by line.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    shape: Shape,
    /// Behind the last line that was read, in bytes of the file.
    offset: u64,
    /// The number of that line.
    number: u64,
    buffer: Vec<u8>,
    line_bytes_max: usize,
}

impl<R: BufRead> Lines<R> {
    /// Begins at a place of a file behind so many lines.
    pub(crate) fn new(reader: R, shape: Shape, offset: u64, number: u64) -> Self {
        Self { reader, shape, offset, number, buffer: Vec::new(), line_bytes_max: EXPORT_LINE_BYTES_MAX }
    }

    /// Where the next line begins, in bytes, and how many lines are in front of it.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.offset, self.number)
    }

    /// The next line; the last one of a file needs no line break.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.buffer.clear();
        let number = self.number + 1;
        let (mut within, mut is_too_long, mut lines, mut is_within_line) = (Within::Start, false, 0, false);
        loop {
            let chunk = match self.reader.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            if chunk.is_empty() {
                break;
            }
            lines += u64::from(!is_within_line);
            let end = memchr(b'\n', chunk);
            let piece = end.and_then(|end| chunk.get(..=end)).unwrap_or(chunk);
            if self.shape == Shape::Quoted {
                within = within.after(piece, self.offset);
            }
            if !is_too_long {
                self.buffer.extend_from_slice(piece);
                is_too_long = self.buffer.len() > self.line_bytes_max;
            }
            let length = piece.len();
            self.reader.consume(length);
            self.offset += length as u64;
            is_within_line = end.is_none();
            if end.is_some() {
                self.number += 1;
                // A record without end, as a quote too many makes it, is not read to the end of the file.
                if within != Within::Quoted || is_too_long {
                    break;
                }
            }
        }
        if lines == 0 {
            return Ok(None);
        }
        let bytes = self.buffer.as_slice();
        let bytes = bytes.strip_suffix(b"\n").map_or(bytes, |bytes| bytes.strip_suffix(b"\r").unwrap_or(bytes));
        Ok(Some(Line { bytes, number, lines, is_too_long }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn all(text: &str, shape: Shape, capacity: usize) -> Vec<(String, u64, u64)> {
        let mut lines = Lines::new(BufReader::with_capacity(capacity, text.as_bytes()), shape, 0, 0);
        let (mut all, mut next) = (Vec::new(), 1);
        while let Some(line) = lines.next().unwrap() {
            let (text, number) = (String::from_utf8(line.bytes.to_vec()).unwrap(), line.number);
            assert_eq!(number, next, "lines are left out");
            next += line.lines;
            all.push((text, number, lines.position().0));
        }
        let broken = text.split_inclusive('\n').count() as u64;
        assert_eq!(next - 1, broken, "{text:?}");
        all
    }

    #[test]
    fn lines_of_both_shapes() {
        for capacity in 1..8 {
            let told = |line: &str, number, end| (line.to_owned(), number, end);
            assert_eq!(
                all("a\r\n\nb\"\n\"c", Shape::Plain, capacity),
                [told("a", 1, 3), told("", 2, 4), told("b\"", 3, 7), told("\"c", 4, 9)]
            );
            assert_eq!(
                all("a,\"b\nc\"\"\",d\nx\n", Shape::Quoted, capacity),
                [told("a,\"b\nc\"\"\",d", 1, 12), told("x", 3, 14)]
            );
            assert_eq!(all("", Shape::Plain, capacity), []);
        }
    }

    #[test]
    fn a_quote_in_the_middle_of_a_field_swallows_nothing() {
        let rows = ["p,1,5\" screen", "p,2,a", "p,3,b", "p,4,c\" end", "p,5,d"];
        for capacity in 1..20 {
            let lines = all(&rows.join("\n"), Shape::Quoted, capacity);
            assert_eq!(lines.iter().map(|line| line.0.as_str()).collect::<Vec<_>>(), rows);
            let bad = lines.iter().filter(|line| crate::formats::parse_csv_record(line.0.as_bytes()).is_err());
            assert_eq!(bad.count(), 2);
            for (text, count) in [
                ("\u{FEFF}\"a\nb\",c\nd", 2),
                ("x\u{FEFF}\"a\nb\",c\nd", 3),
                ("\"a\"b\",\nc", 2),
                ("a,\"\"\"\nb\"\"\n\"\nc", 2),
                ("a,\"b\"\"\n\"\"c,\n\",\nd", 2),
                ("\"\"\n\"\",\"\"\nc", 3),
            ] {
                assert_eq!(all(text, Shape::Quoted, capacity).len(), count, "{text:?} by {capacity}");
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        for shape in [Shape::Plain, Shape::Quoted] {
            let text = format!("\"{}\nnext\n", "x".repeat(100));
            let mut lines = Lines::new(BufReader::with_capacity(7, text.as_bytes()), shape, 0, 0);
            lines.line_bytes_max = 50;
            let line = lines.next().unwrap().unwrap();
            assert!(line.is_too_long && line.bytes.len() < 64);
            assert_eq!(lines.next().unwrap().unwrap().bytes, b"next");
            assert_eq!(lines.next().unwrap(), None);
        }
    }
}
