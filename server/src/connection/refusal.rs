//! Requests that the HTTP library refuses before a handler sees them: what is wrong, and what is known of their heads.
//!
//! Invariant: a reason has a bounded length and contains no values of headers, no part of a URL except one character,
//! and no control characters. Anyone can cause one, and the head may contain a credential.

use super::raw_query::{KeptHead, is_refused};
use http::header::{HOST, USER_AGENT};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use memchr::memchr;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use std::fmt::{self, Write as _};

/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;
/// The first line of every HTTP/2 connection without TLS.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2";
/// Begins the last word of a request line.
const VERSION: &[u8] = b" HTTP/";
/// The maximum number of headers that the HTTP library accepts.
const HEADERS_MAX: usize = 100;
/// Longer methods and header names are not shown.
const SHOWN_BYTES_MAX: usize = 40;
/// Longer paths are truncated.
const PATH_BYTES_MAX: usize = 1024;
/// What a path must not contain. In the library's type for URLs, a `#` would end it.
const ENCODED_IN_PATH: &AsciiSet = &CONTROLS.add(b' ').add(b'<').add(b'>').add(b'`').add(b'#');
/// The headers that responses repeat, or that describe the request in the access log.
const KNOWN_HEADERS: [HeaderName; 3] = [HOST, USER_AGENT, HeaderName::from_static("x-ms-client-request-id")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// A TLS handshake on a port for plain HTTP.
    Tls,
    /// A connection with HTTP/2.
    Http2,
    Method,
    Target,
    TargetTooLong,
    Version,
    Header,
    ContentLength,
    TransferEncoding,
    /// The head is too large or has too many headers.
    HeadTooLarge,
    /// An error that this version of the HTTP library does not have.
    Other,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal<'h> {
    pub(crate) kind: RefusalKind,
    /// The beginning of the request, as far as it is known.
    head: &'h [u8],
}

impl<'h> Refusal<'h> {
    /// Creates the refusal of a request. `unread` is what the library has received and not yet used.
    pub(super) fn new(kind: RefusalKind, unread: &'h [u8], kept: &'h KeptHead) -> Self {
        let head = match kind {
            RefusalKind::ContentLength | RefusalKind::TransferEncoding | RefusalKind::Other => kept.dropped(unread),
            RefusalKind::Target if !kept.begins_with(unread) => kept.dropped(unread),
            _ => unread,
        };
        let blank_lines = head.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let refusal = Self { kind, head: head.get(blank_lines..).unwrap_or_default() };
        let kind = match kind {
            RefusalKind::Method if refusal.head.first() == Some(&TLS_HANDSHAKE) => RefusalKind::Tls,
            RefusalKind::Version if refusal.head.starts_with(HTTP2_PREFACE) => RefusalKind::Http2,
            // To the HTTP library, the version begins at the second space.
            RefusalKind::Version if refusal.target().contains(&b' ') => RefusalKind::Target,
            RefusalKind::Target if refusal.has_no_version() => RefusalKind::Version,
            kind => kind,
        };
        Self { kind, ..refusal }
    }

    /// Returns the status of the HTTP library's own response.
    pub(crate) fn status(&self) -> StatusCode {
        match self.kind {
            RefusalKind::TargetTooLong => StatusCode::URI_TOO_LONG,
            RefusalKind::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns what is known of the request. An unknown method is `-`, and an unknown path is `/`.
    pub(crate) fn parts(&self) -> Parts {
        let method = self.method().and_then(|method| Method::from_bytes(method.as_bytes()).ok());
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = method.unwrap_or_else(|| Method::from_bytes(b"-").expect("a hyphen may occur in methods"));
        parts.uri = self.path().parse().unwrap_or_else(|_| Uri::from_static("/"));
        for name in KNOWN_HEADERS {
            if let Some(value) = self.header(name.as_str()).and_then(|value| HeaderValue::from_bytes(value).ok()) {
                parts.headers.insert(name, value);
            }
        }
        parts
    }

    /// Returns the path of the target, in which characters that a path must not contain are encoded.
    fn path(&self) -> String {
        let target = self.target();
        let end = memchr(b'?', target).unwrap_or(target.len()).min(PATH_BYTES_MAX);
        percent_encode(target.get(..end).unwrap_or_default(), ENCODED_IN_PATH).to_string()
    }

    /// Returns the method, or `None` if it is unknown or invalid.
    pub(super) fn method(&self) -> Option<&'h str> {
        let line = self.request_line();
        let method = line.get(..memchr(b' ', line)?)?;
        let is_method = (1..=SHOWN_BYTES_MAX).contains(&method.len()) && method.iter().all(|byte| is_token(*byte));
        std::str::from_utf8(method).ok().filter(|_| is_method)
    }

    /// Returns the target of the request, or an empty string if it is unknown.
    fn target(&self) -> &'h [u8] {
        let line = self.request_line();
        let Some(start) = memchr(b' ', line) else { return b"" };
        let rest = line.get(start + 1..).unwrap_or_default();
        let version = rest.windows(VERSION.len()).rposition(|window| window == VERSION);
        rest.get(..version.unwrap_or(rest.len())).unwrap_or_default().trim_ascii_end()
    }

    /// Returns the value of the first header with the given name.
    fn header(&self, name: &str) -> Option<&'h [u8]> {
        self.header_lines().find_map(|line| {
            let (found, value) = line.split_at_checked(memchr(b':', line)?)?;
            found.eq_ignore_ascii_case(name.as_bytes()).then(|| value.get(1..).unwrap_or_default().trim_ascii())
        })
    }

    /// Returns true if the whole first line is known and names no version.
    fn has_no_version(&self) -> bool {
        let line = self.request_line();
        line.len() < self.head.len() && !line.windows(VERSION.len()).any(|window| window == VERSION)
    }

    fn request_line(&self) -> &'h [u8] {
        self.lines().next().unwrap_or_default()
    }

    fn lines(&self) -> impl Iterator<Item = &'h [u8]> + use<'h> {
        self.head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn header_lines(&self) -> impl Iterator<Item = &'h [u8]> + use<'h> {
        self.lines().skip(1).take_while(|line| !line.is_empty())
    }
}

/// Returns what is wrong with the request, and what would be right.
impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RefusalKind::Tls => f.write_str(
                "the client begins a TLS handshake, and this port speaks plain HTTP: use a URL with http://, or give \
                 the server a certificate (--tls-cert, --tls-key)",
            ),
            RefusalKind::Http2 => f.write_str("the client speaks HTTP/2, and this port speaks HTTP/1.1"),
            RefusalKind::Method => f.write_str(
                "the request does not begin with a method: a character in front of the first space is not allowed in \
                 methods",
            ),
            RefusalKind::Target => write_target_reason(f, self.target()),
            RefusalKind::TargetTooLong => {
                write!(f, "the URL is longer than {} bytes", model::limits::REQUEST_TARGET_BYTES_MAX)
            }
            RefusalKind::Version => f.write_str("the first line of the request does not end with HTTP/1.1 or HTTP/1.0"),
            RefusalKind::Header => write_header_reason(f, self.header_lines()),
            RefusalKind::ContentLength => {
                f.write_str("the Content-Length is not a number, or is given twice with different values")
            }
            RefusalKind::TransferEncoding => f.write_str(
                "the Transfer-Encoding is not chunked, which is the only one that is supported, or the request is \
                 HTTP/1.0, which has none",
            ),
            RefusalKind::HeadTooLarge => match self.header_lines().count() {
                count if count > HEADERS_MAX => write!(f, "the request has more than {HEADERS_MAX} headers"),
                _ => write!(f, "the URL and the headers of the request have more than {} bytes", self.head.len()),
            },
            RefusalKind::Other => f.write_str("the head of the request is malformed"),
        }
    }
}

/// Returns what the HTTP library refused, or `None` if the connection ended for another reason.
///
/// The library keeps the kinds of its errors private. Their texts are the only way to tell them apart; the tests fail
/// if the library changes a text.
pub(super) fn kind(error: &hyper::Error) -> Option<RefusalKind> {
    if error.is_parse_version_h2() {
        return Some(RefusalKind::Http2);
    }
    if !error.is_parse() {
        return None;
    }
    Some(match error.to_string().as_str() {
        "invalid HTTP method parsed" => RefusalKind::Method,
        "invalid HTTP version parsed" => RefusalKind::Version,
        "invalid URI" => RefusalKind::Target,
        "URI too long" => RefusalKind::TargetTooLong,
        "invalid HTTP header parsed" => RefusalKind::Header,
        "invalid content-length parsed" => RefusalKind::ContentLength,
        "invalid transfer-encoding parsed" | "unexpected transfer-encoding parsed" => RefusalKind::TransferEncoding,
        "message head is too large" => RefusalKind::HeadTooLarge,
        _ => RefusalKind::Other,
    })
}

fn write_target_reason(f: &mut fmt::Formatter<'_>, target: &[u8]) -> fmt::Result {
    let query = memchr(b'?', target).unwrap_or(target.len());
    let refused = target.iter().enumerate().find(|(at, byte)| is_refused(**byte, *at > query));
    match refused {
        Some((_, b' ')) => f.write_str("the URL contains a space, which must be written as %20"),
        Some((_, byte)) if byte.is_ascii_graphic() => {
            write!(f, "the URL contains the character {}, which must be written as %{byte:02X}", char::from(*byte))
        }
        Some((_, byte)) => write!(f, "the URL contains the control character {byte:#04x}"),
        None if std::str::from_utf8(target).is_err() => {
            f.write_str("the URL contains bytes that are not UTF-8: write every character beyond ASCII as %XX")
        }
        // The library has dropped the head.
        None => f.write_str("the URL is malformed, or contains a character that must be written as %XX"),
    }
}

fn write_header_reason<'h>(f: &mut fmt::Formatter<'_>, lines: impl Iterator<Item = &'h [u8]>) -> fmt::Result {
    let is_value = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    for (line, number) in lines.zip(1_usize..) {
        let Some((name, value)) = memchr(b':', line).and_then(|colon| line.split_at_checked(colon)) else {
            return write!(f, "line {number} of the headers has no colon");
        };
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return write!(
                f,
                "the name in line {number} of the headers is empty, or has a character that is not allowed"
            );
        }
        if !value.iter().all(is_value) {
            f.write_str("the value of the header ")?;
            for byte in name.iter().take(SHOWN_BYTES_MAX) {
                f.write_char(char::from(*byte))?;
            }
            return f.write_str(" contains a control character");
        }
    }
    f.write_str("a header is malformed")
}

/// Returns true if the byte may occur in a method or in the name of a header (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
