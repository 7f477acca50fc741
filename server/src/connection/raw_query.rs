//! Accepts characters in the query part of a URL that the HTTP library refuses: `"`, `<` and `>`, unencoded.
//!
//! The service accepts them: its HTTP layer passes a query part on as it is (specification 02 §1). Most clients encode
//! them; programs without a client library may not. No signature covers the query part as it is written, so the server
//! can encode the characters itself.
//!
//! The library has dropped the head when it refuses it. Therefore, the bytes of a head whose first line contains such a
//! character are kept until the request begins. If the head is refused, they are encoded and read again.
//!
//! Invariants:
//!
//! 1. Bytes are changed only if the library has refused the head that begins with them. No other request can change.
//! 2. A head is kept only while its first line is incomplete or contains such a character. All other requests cost two
//!    searches of their first line.

use memchr::{memchr, memchr_iter, memchr3};
use std::mem;
use tokio::io::ReadBuf;

#[derive(Debug, Default)]
pub(super) struct KeptHead {
    /// What was received since the head began; empty if it is not kept.
    bytes: Vec<u8>,
    /// The number of bytes received since the head began.
    received: usize,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Skipping,
    Beginning,
    Keeping,
    /// The bytes from this one on have yet to be read again.
    Replaying(usize),
}

impl KeptHead {
    /// Nothing of the next head has been received.
    pub(super) fn begin(&mut self) {
        if !matches!(self.state, State::Beginning | State::Replaying(_)) {
            *self = Self { state: State::Beginning, ..Self::default() };
        }
    }

    pub(super) fn kept_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds received bytes of the head, or of what follows it.
    pub(super) fn receive(&mut self, received: &[u8]) {
        self.received += received.len();
        if !matches!(self.state, State::Beginning | State::Keeping) {
            return;
        }
        let is_first = mem::replace(&mut self.state, State::Keeping) == State::Beginning;
        let line_end = memchr(b'\n', received);
        if let (true, Some(end)) = (is_first, line_end)
            && !has_raw_character(received.get(..end).unwrap_or_default())
        {
            self.state = State::Skipping;
            return;
        }
        let was_complete = self.bytes.contains(&b'\n');
        self.bytes.extend_from_slice(received);
        if !was_complete && line_end.is_some() && !has_raw_character(first_line(&self.bytes)) {
            (self.bytes, self.state) = (Vec::new(), State::Skipping);
        }
    }

    /// Returns the head that the library has dropped when it refused it. `unread` is what follows the head. Returns an
    /// empty slice if the head was not kept, or if other requests precede it.
    pub(super) fn dropped(&self, unread: &[u8]) -> &[u8] {
        let head = self.bytes.get(..self.bytes.len().saturating_sub(unread.len())).unwrap_or_default();
        let end = head_end(head).unwrap_or(head.len());
        // The library drops line breaks in front of what follows the head.
        let is_only = head.get(end..).unwrap_or_default().iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        if is_only { head } else { b"" }
    }

    /// Returns true if nothing but line breaks precedes `unread` in what was received since the head began.
    pub(super) fn begins_with(&self, unread: &[u8]) -> bool {
        self.received.saturating_sub(unread.len()) < SHORTEST_HEAD.len()
    }

    /// Encodes the query part of a refused head, to be read again. Returns false if that would not help.
    pub(super) fn encode(&mut self) -> bool {
        let Some(encoded) = encoded(&self.bytes) else { return false };
        (self.bytes, self.state) = (encoded, State::Replaying(0));
        true
    }

    /// Returns true if bytes were copied that are read again.
    pub(super) fn replay(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let State::Replaying(from) = self.state else { return false };
        let left = self.bytes.get(from..).unwrap_or_default();
        let count = left.len().min(buf.remaining());
        buf.put_slice(left.get(..count).unwrap_or_default());
        if count == left.len() {
            (self.bytes, self.state) = (Vec::new(), State::Skipping);
        } else {
            self.state = State::Replaying(from + count);
        }
        count > 0
    }
}

const SHORTEST_HEAD: &[u8] = b"GET / HTTP/1.1\n\n";

/// Returns the position after the first empty line.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let is_empty = |at: usize| match bytes.get(at + 1..)? {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    };
    memchr_iter(b'\n', bytes).find_map(is_empty)
}

/// Returns true if the HTTP library refuses the character in this part of a target.
pub(super) fn is_refused(byte: u8, is_in_query: bool) -> bool {
    match byte {
        b'"' => is_in_query,
        b'`' => !is_in_query,
        byte => byte <= b' ' || matches!(byte, b'<' | b'>' | 0x7f),
    }
}

fn has_raw_character(line: &[u8]) -> bool {
    memchr3(b'"', b'<', b'>', line).is_some()
}

fn first_line(bytes: &[u8]) -> &[u8] {
    bytes.get(..memchr(b'\n', bytes).unwrap_or(bytes.len())).unwrap_or_default()
}

/// Returns the bytes with an encoded query part. Returns `None` if they do not begin with a request line, or if the
/// library would refuse the target nevertheless.
fn encoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let line = first_line(bytes);
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let query = memchr(b'?', target)?;
    let is_request = words.next().is_none()
        && method.iter().all(u8::is_ascii_uppercase)
        && target.first() == Some(&b'/')
        && matches!(version.trim_ascii_end(), b"HTTP/1.1" | b"HTTP/1.0");
    let is_other_refused = |(at, byte): (usize, &u8)| {
        let is_in_query = at > query;
        is_refused(*byte, is_in_query) && !(is_in_query && matches!(byte, b'"' | b'<' | b'>'))
    };
    let start = method.len() + 1 + query;
    let end = method.len() + 1 + target.len();
    let raw = bytes.get(start..end)?;
    if !is_request || !has_raw_character(raw) || target.iter().enumerate().any(is_other_refused) {
        return None;
    }
    let mut encoded = Vec::with_capacity(bytes.len() + raw.len());
    encoded.extend_from_slice(bytes.get(..start)?);
    for byte in raw {
        match byte {
            b'"' => encoded.extend_from_slice(b"%22"),
            b'<' => encoded.extend_from_slice(b"%3C"),
            b'>' => encoded.extend_from_slice(b"%3E"),
            byte => encoded.push(*byte),
        }
    }
    encoded.extend_from_slice(bytes.get(end..)?);
    Some(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replayed(kept: &mut KeptHead) -> String {
        let mut all = Vec::new();
        let mut space = [0; 7];
        loop {
            let mut buf = ReadBuf::new(&mut space);
            if !kept.replay(&mut buf) {
                return String::from_utf8(all).unwrap();
            }
            all.extend_from_slice(buf.filled());
        }
    }

    #[test]
    fn only_heads_with_a_raw_character_in_their_first_line_are_kept() {
        let usual = "GET /t?a=b HTTP/1.1\r\nIf-Match: \"<>\"\r\n\r\n{\"a\":1}";
        let raw = "GET /t?a=\"b HTTP/1.1\r\nHost: h\r\n\r\nbody";
        for step in [1, 5, 15, 1000] {
            for (sent, is_kept) in [(usual, false), (raw, true)] {
                let mut kept = KeptHead::default();
                kept.receive(b"\"");
                assert_eq!(kept.kept_bytes(), 0, "nothing has begun");
                kept.begin();
                for piece in sent.as_bytes().chunks(step) {
                    kept.receive(piece);
                }
                assert_eq!(kept.bytes, if is_kept { sent.as_bytes() } else { b"" }, "{step}");
                assert_eq!(kept.encode(), is_kept);
                kept.begin();
                assert_eq!(replayed(&mut kept), if is_kept { raw.replace('"', "%22") } else { String::new() });
                kept.begin();
                assert!(kept.bytes.is_empty());
            }
        }
    }

    #[test]
    fn a_dropped_head_is_known_if_no_other_precedes_it() {
        let (head, other) = ("GET /\"?a HTTP/1.1\r\nHost: h\r\n\r\n", "GET /b HTTP/1.1\r\n\r\n");
        let kept = |sent: &[&str]| {
            let mut kept = KeptHead::default();
            kept.begin();
            kept.receive(sent.concat().as_bytes());
            kept
        };
        for body in ["", "{}", "\r\n\r\nx"] {
            let unread = body.trim_start().as_bytes();
            let of_head = kept(&[head, body]);
            assert!(of_head.dropped(unread).starts_with(head.as_bytes()), "{body:?}");
            assert!(!of_head.begins_with(unread));
            assert_eq!(kept(&[head, other, body]).dropped(unread), b"", "{body:?}");
            assert_eq!(kept(&[other, body]).dropped(unread), b"", "not kept");
        }
        assert!(kept(&["\r\n", head]).begins_with(head.as_bytes()));
    }

    #[test]
    fn only_the_query_part_of_a_request_line_is_encoded() {
        let encode = |head: &str| encoded(head.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
        let whole = "POST /a?b=<\">&c='%22?' HTTP/1.0\r\nx: \"<>\"\r\n\r\n<\">";
        assert_eq!(encode(whole).unwrap(), whole.replacen("<\">", "%3C%22%3E", 1));
        assert_eq!(encode("GET /\"?\" HTTP/1.1\n").unwrap(), "GET /\"?%22 HTTP/1.1\n");
        for refused in [
            "GET /a?b HTTP/1.1\r\n",
            "GET /a\"b HTTP/1.1\r\n",
            "GET /a<b?c=\" HTTP/1.1\r\n",
            "GET /a`b?c=\" HTTP/1.1\r\n",
            "GET /a?b=\" c HTTP/1.1\r\n",
            "GET /a?b=\"\t HTTP/1.1\r\n",
            "GET a?b=\" HTTP/1.1\r\n",
            "get /a?b=\" HTTP/1.1\r\n",
            "GET /a?b=\" HTTP/2.0\r\n",
            "GET /a?b=\"",
            "\r\nGET /a?b=\" HTTP/1.1\r\n",
            "",
        ] {
            assert_eq!(encode(refused), None, "{refused}");
        }
    }
}
