use memchr::memchr;
use model::limits::EXPORT_LINE_BYTES_MAX;
use std::io::{BufRead, ErrorKind, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A line ends at every line break.
    Lines,
    /// A record ends at a line break outside quotes.
    CsvRecords,
}

/// As in the record parser, a quote opens a field only at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CsvState {
    FieldStart,
    /// In an unquoted field, or after a closing quote.
    Unquoted,
    Quoted,
    /// After a quote in a quoted field, which ends the field unless another quote follows.
    QuoteInQuoted,
}

const BYTE_ORDER_MARK: &[u8] = "\u{FEFF}".as_bytes();

impl CsvState {
    /// The piece begins at the given offset of the file.
    fn after(self, piece: &[u8], offset: u64) -> Self {
        let mark = usize::try_from(offset).ok().and_then(|offset| BYTE_ORDER_MARK.get(offset..)).unwrap_or_default();
        if mark.is_empty() && memchr(b'"', piece).is_none() {
            return match (self, piece.last()) {
                (Self::Quoted, _) | (_, None) => self,
                (_, Some(b',')) => Self::FieldStart,
                (_, Some(_)) => Self::Unquoted,
            };
        }
        piece.iter().enumerate().fold(self, |state, (at, byte)| match (state, byte) {
            (Self::FieldStart, byte) if mark.get(at) == Some(byte) => Self::FieldStart,
            (Self::FieldStart | Self::QuoteInQuoted, b'"') => Self::Quoted,
            (Self::Quoted, b'"') => Self::QuoteInQuoted,
            (Self::Quoted, _) => Self::Quoted,
            (_, b',') => Self::FieldStart,
            _ => Self::Unquoted,
        })
    }
}

/// A line without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) bytes: &'a [u8],
    /// The number of the first line, starting at 1.
    pub(crate) number: u64,
    /// The number of lines that a CSV record spans; otherwise 1.
    pub(crate) lines: u64,
    /// True if the line is longer than any entity. Only its beginning is kept.
    pub(crate) is_too_long: bool,
}

#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    framing: Framing,
    /// The offset at which the last line ends.
    offset: u64,
    number: u64,
    buffer: Vec<u8>,
    line_bytes_max: usize,
}

impl<R: BufRead> Lines<R> {
    /// `number` lines precede the offset.
    pub(crate) fn new(reader: R, framing: Framing, offset: u64, number: u64) -> Self {
        Self { reader, framing, offset, number, buffer: Vec::new(), line_bytes_max: EXPORT_LINE_BYTES_MAX }
    }

    pub(crate) fn position(&self) -> (u64, u64) {
        (self.offset, self.number)
    }

    /// The last line of a file needs no line break.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.buffer.clear();
        let number = self.number + 1;
        let (mut state, mut is_too_long, mut lines, mut is_within_line) = (CsvState::FieldStart, false, 0, false);
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
            if self.framing == Framing::CsvRecords {
                state = state.after(piece, self.offset);
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
                // An unclosed quote results in a record that is too long. Such a record must not contain the rest of
                // the file.
                if state != CsvState::Quoted || is_too_long {
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineError {
    /// The position of the error in bytes, starting at 1.
    pub(crate) column: usize,
    pub(crate) reason: String,
}

impl LineError {
    pub(crate) fn at_column(column: usize, reason: impl Into<String>) -> Self {
        Self { column, reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn all(text: &str, framing: Framing, capacity: usize) -> Vec<(String, u64, u64)> {
        let mut lines = Lines::new(BufReader::with_capacity(capacity, text.as_bytes()), framing, 0, 0);
        let (mut all, mut next) = (Vec::new(), 1);
        while let Some(line) = lines.next().unwrap() {
            let (text, number) = (String::from_utf8(line.bytes.to_vec()).unwrap(), line.number);
            assert_eq!(number, next, "lines are missing");
            next += line.lines;
            all.push((text, number, lines.position().0));
        }
        let broken = text.split_inclusive('\n').count() as u64;
        assert_eq!(next - 1, broken, "{text:?}");
        all
    }

    #[test]
    fn lines_of_both_framings() {
        for capacity in 1..8 {
            let line = |line: &str, number, end| (line.to_owned(), number, end);
            assert_eq!(
                all("a\r\n\nb\"\n\"c", Framing::Lines, capacity),
                [line("a", 1, 3), line("", 2, 4), line("b\"", 3, 7), line("\"c", 4, 9)]
            );
            assert_eq!(
                all("a,\"b\nc\"\"\",d\nx\n", Framing::CsvRecords, capacity),
                [line("a,\"b\nc\"\"\",d", 1, 12), line("x", 3, 14)]
            );
            assert_eq!(all("", Framing::Lines, capacity), []);
        }
    }

    #[test]
    fn a_quote_in_the_middle_of_a_field_swallows_nothing() {
        let rows = ["p,1,5\" screen", "p,2,a", "p,3,b", "p,4,c\" end", "p,5,d"];
        for capacity in 1..20 {
            let lines = all(&rows.join("\n"), Framing::CsvRecords, capacity);
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
                assert_eq!(all(text, Framing::CsvRecords, capacity).len(), count, "{text:?} by {capacity}");
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        for framing in [Framing::Lines, Framing::CsvRecords] {
            let text = format!("\"{}\nnext\n", "x".repeat(100));
            let mut lines = Lines::new(BufReader::with_capacity(7, text.as_bytes()), framing, 0, 0);
            lines.line_bytes_max = 50;
            let line = lines.next().unwrap().unwrap();
            assert!(line.is_too_long && line.bytes.len() < 64);
            assert_eq!(lines.next().unwrap().unwrap().bytes, b"next");
            assert_eq!(lines.next().unwrap(), None);
        }
    }
}
