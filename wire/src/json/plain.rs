//! Objects in the form that nearly all bodies have: strings without escapes, and no value inside of a value.
//!
//! Invariant: what is taken here, the general parser takes too, as the same members. Everything else, well-formed or not,
//! is left to that parser, so that it alone decides what is refused.

use memchr::memchr2;

/// Bytes of a string that are asked at once.
const WORD_BYTES: usize = size_of::<u64>();
/// So many words of a string are asked before it counts as a long one, whose end is found faster by a search.
const WORDS_OF_SHORT: usize = 4;

/// A value of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// The text of a string in which nothing is escaped.
    Text(&'a str),
    /// Any other value as it stands in the body, without blanks around it.
    Raw(&'a str),
}

/// Hands on the members of an object one by one; `None`, perhaps after some of them, if the text is not plain.
pub(super) fn members<'a>(text: &'a str, mut take: impl FnMut(&'a str, Value<'a>)) -> Option<()> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.expect(b'{')?;
    if !scanner.takes(b'}') {
        loop {
            let name = scanner.string()?;
            scanner.expect(b':')?;
            take(name, scanner.value()?);
            if !scanner.takes(b',') {
                break;
            }
        }
        scanner.expect(b'}')?;
    }
    (scanner.next().is_none()).then_some(())
}

/// Reads the values of an object whose members have these names in this order; `None`, perhaps after some of them, if it has
/// other members or is not plain. The names are those of an object that was plain.
pub(super) fn values<'a, 'm>(text: &'a str, members: impl Iterator<Item = (&'m str, &'m mut Value<'a>)>) -> Option<()>
where
    'a: 'm,
{
    let mut scanner = Scanner { text, at: 0 };
    scanner.expect(b'{')?;
    for (place, (name, value)) in members.enumerate() {
        if place > 0 {
            scanner.expect(b',')?;
        }
        scanner.name(name)?;
        scanner.expect(b':')?;
        *value = scanner.value()?;
    }
    scanner.expect(b'}')?;
    (scanner.next().is_none()).then_some(())
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The next byte that is not blank, which stays where it is.
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = self.peek()?;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes a byte if it is the next one that is not blank.
    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.next() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.takes(byte).then_some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let start = self.at;
        let end = start + end_of_string(self.text.as_bytes().get(start..)?)?;
        self.at = end + 1;
        self.text.get(start..end)
    }

    /// Passes a string of this text, which is plain.
    fn name(&mut self, name: &str) -> Option<()> {
        self.expect(b'"')?;
        let (found, rest) = self.text.as_bytes().get(self.at..)?.split_at_checked(name.len())?;
        self.at += name.len() + 1;
        (found == name.as_bytes() && rest.first() == Some(&b'"')).then_some(())
    }

    fn value(&mut self) -> Option<Value<'a>> {
        if self.next()? == b'"' {
            return self.string().map(Value::Text);
        }
        let start = self.at;
        match self.peek()? {
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => self.number()?,
        }
        self.text.get(start..self.at).map(Value::Raw)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let is_next = self.text.as_bytes().get(self.at..)?.starts_with(word.as_bytes());
        self.at += word.len();
        is_next.then_some(())
    }

    fn number(&mut self) -> Option<()> {
        self.pass(|byte| byte == b'-');
        let has_leading_zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && has_leading_zero {
            return None;
        }
        if self.pass(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.pass(|byte| matches!(byte, b'e' | b'E')) {
            self.pass(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        Some(())
    }

    /// Passes at least one digit; answers how many there were.
    fn digits(&mut self) -> Option<usize> {
        let start = self.at;
        while self.pass(|byte| byte.is_ascii_digit()) {}
        (self.at > start).then_some(self.at - start)
    }

    /// Passes the very next byte if it is such a one.
    fn pass(&mut self, is_such: impl Fn(u8) -> bool) -> bool {
        let passes = self.peek().is_some_and(is_such);
        self.at += usize::from(passes);
        passes
    }
}

/// Where a string ends of which this is what follows the first quote; `None` if an escape or a control character is in it.
fn end_of_string(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for word in bytes.as_chunks::<WORD_BYTES>().0.iter().take(WORDS_OF_SHORT) {
        let found = special_bytes(u64::from_le_bytes(*word));
        if found != 0 {
            // The lowest mark is that of the first such byte.
            at += usize::try_from(found.trailing_zeros() / u8::BITS).ok()?;
            return (bytes.get(at) == Some(&b'"')).then_some(at);
        }
        at += WORD_BYTES;
    }
    let rest = bytes.get(at..)?;
    let (text, end) = rest.split_at_checked(memchr2(b'"', b'\\', rest)?)?;
    let has_control = text.iter().copied().fold(u8::MAX, u8::min) < b' ';
    (end.first() == Some(&b'"') && !has_control).then_some(at + text.len())
}

/// Marks the quotes, backslashes and control characters among eight bytes by the highest bit of each, all at once.
///
/// Bytes above the first that is marked may be marked for nothing, since the subtraction borrows from them.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; WORD_BYTES]);
    const HIGHEST_BITS: u64 = ONES << 7;
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word & HIGHEST_BITS;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    below(word, b' ') | equal(b'"') | equal(b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;
    use std::collections::BTreeMap;

    fn read(text: &str) -> Option<Vec<(&str, Value<'_>)>> {
        let mut list = Vec::new();
        members(text, |name, value| list.push((name, value)))?;
        Some(list)
    }

    #[test]
    fn plain_members_are_taken_as_they_stand() {
        let text = " {\"a\":\"x\",\n\"b\" : -0.5E+10 ,\"c\":null,\"é\":\"ü, of more than sixteen bytes\",\"\":0,\"t\":true}\r\n";
        let expected = vec![
            ("a", Value::Text("x")),
            ("b", Value::Raw("-0.5E+10")),
            ("c", Value::Raw("null")),
            ("é", Value::Text("ü, of more than sixteen bytes")),
            ("", Value::Raw("0")),
            ("t", Value::Raw("true")),
        ];
        assert_eq!(read(text), Some(expected));
        assert_eq!(read("{ }"), Some(Vec::new()));
    }

    #[test]
    fn everything_else_is_left_to_the_general_parser() {
        for text in [
            "",
            "{",
            "[]",
            "1",
            "{} x",
            "{}}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{,}",
            "{\"a\" 1}",
            "{a:1}",
            "{\"a\":\"\\n\"}",
            "{\"\\u0061\":1}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"x}",
            "{\"a\":{}}",
            "{\"a\":[1]}",
            "{\"a\":01}",
            "{\"a\":-}",
            "{\"a\":1.}",
            "{\"a\":.5}",
            "{\"a\":1e}",
            "{\"a\":+1}",
            "{\"a\":tru}",
            "{\"a\":nullx}",
            "{\"a\":1 2}",
            "{\"a\":NaN}",
            "{\"a\":\"sixteen bytes and \u{1} control\"}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn the_end_of_a_string_is_found_at_every_distance() {
        for length in 0..100 {
            let text = format!("{{\"{}\":1}}", "n".repeat(length));
            assert_eq!(read(&text), Some(vec![("n".repeat(length).as_str(), Value::Raw("1"))]));
            for special in ["\\n", "\u{1}", "\n", "\\"] {
                for behind in [0, 1, 40] {
                    let escaped = format!("{{\"{}{special}{}\":1}}", "n".repeat(length), "n".repeat(behind));
                    assert_eq!(read(&escaped), None, "{escaped}");
                }
            }
        }
    }

    #[test]
    fn what_is_taken_the_general_parser_takes_too() {
        let sample =
            r#"{"Name":"x y","n@odata.type":"Edm.Int64","n":"-7", "d":-10.5e+3,"z":0,"t":true,"f":false,"u":null}"#;
        let mut taken = 0;
        for at in 0..sample.len() {
            for byte in " \t\"\\{}[]:,0+-.eEntfu\u{1}x".chars() {
                for width in [0, 1] {
                    let text = [&sample[..at], &byte.to_string(), &sample[at + width..]].concat();
                    let Some(list) = read(&text) else { continue };
                    taken += 1;
                    let known: BTreeMap<&str, &RawValue> = serde_json::from_str(&text).expect(&text);
                    for (name, value) in &list {
                        let raw = match value {
                            Value::Text(inner) => format!("\"{inner}\""),
                            Value::Raw(raw) => (*raw).to_owned(),
                        };
                        let is_last = list.iter().rev().find(|(other, _)| other == name) == Some(&(*name, *value));
                        assert!(!is_last || known.get(name).is_some_and(|known| known.get() == raw), "{text}");
                    }
                }
            }
        }
        assert!(taken > 500, "{taken}");
    }
}
