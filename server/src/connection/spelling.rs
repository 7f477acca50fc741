//! Writes the header names of responses as the service spells them, and the `Content-Length` of a response to which the
//! HTTP library gives none.
//!
//! The library writes names in lower case. It can write other letter cases only from a map that belongs to one response
//! (`preserve_header_case`), which costs at least twice as much as the comparisons here.
//!
//! Invariants:
//!
//! 1. Only names in heads change, and no head changes its length. All other bytes are passed on as they are.
//! 2. The end of a response follows from its head and its chunks, as for a client (RFC 9112, section 6.3). If anything
//!    else than a head follows, all further bytes of the connection are passed on as they are.
//! 3. At most one head is held, and only until the next write or flush. The library's own response to a request that it
//!    refuses is held until the connection is shut down, so that a better one can take its place (`watch.rs`).

use http::header::CONTENT_LENGTH;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::Body;
use memchr::memchr_iter;
use std::io::{self, IoSlice};
use std::iter;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::header_names::{self, spelled_in_line};

/// Replaces `Content-Length` on the way of a response without a body through the HTTP library. Both names have the same
/// length.
const LENGTH_WITHOUT_BODY: HeaderName = HeaderName::from_static("length-no-body");
const MARK: &[u8] = b"length-no-body:";
/// The maximum number of slices in one write: those that the HTTP library passes, and a head.
const SLICES_MAX: usize = 65;
/// A write with fewer slices uses a smaller array, which takes less time to prepare.
const FEW_SLICES: usize = 8;
/// A buffer that a longer head needed is freed after the head, in bytes.
const KEPT_BYTES_MAX: usize = 1024;

/// Makes the HTTP library pass on the length of a response without a body.
///
/// HTTP forbids the header on 204 (RFC 9110, section 8.6), and the library drops it. The service sends it, and Mono's
/// `HttpWebRequest` loses some of the responses that lack it. On responses to HEAD requests, the library's own header
/// would look like the length of a body that follows.
pub(super) fn announce_length<B: Body + Default>(response: &mut Response<B>, is_head: bool) {
    let is_empty = response.status() == StatusCode::NO_CONTENT;
    if !is_empty && (!is_head || response.status() == StatusCode::NOT_MODIFIED) {
        return;
    }
    let length = match response.headers_mut().remove(CONTENT_LENGTH) {
        _ if is_empty => Some(HeaderValue::from_static("0")),
        Some(length) => Some(length),
        None => response.body().size_hint().exact().map(HeaderValue::from),
    };
    if let Some(length) = length {
        response.headers_mut().insert(LENGTH_WITHOUT_BODY, length);
        // From a body, the library would derive another length.
        *response.body_mut() = B::default();
    }
}

/// What the next byte from the HTTP library belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Head,
    /// A body, or the end of one, with this many bytes.
    Body(u64),
    /// The line with the size of a chunk, of which these digits were read.
    ChunkSize(u64),
    /// A chunk, or the end of one, with this many bytes, including its line break.
    Chunk(u64),
    /// The rest of the connection.
    Rest,
}

impl Place {
    /// Moves past the given bytes, at most to the next head. Returns the number of bytes passed.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            match self {
                Self::Head => break,
                Self::Rest => return bytes.len(),
                Self::Body(left) | Self::Chunk(left) => {
                    let count = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= count as u64;
                    rest = rest.get(count..).unwrap_or_default();
                    match self {
                        Self::Body(0) => *self = Self::Head,
                        Self::Chunk(0) => *self = Self::ChunkSize(0),
                        _ => {}
                    }
                }
                Self::ChunkSize(size) => {
                    let digit = char::from(*first).to_digit(16);
                    let longer = digit.and_then(|digit| size.checked_mul(16)?.checked_add(digit.into()));
                    *self = match (first, longer) {
                        (_, Some(size)) => Self::ChunkSize(size),
                        (b'\r', None) => Self::ChunkSize(*size),
                        // The last chunk is followed by an empty line, because no response has trailers.
                        (b'\n', None) if *size == 0 => Self::Body(LINE_BREAK.len() as u64),
                        (b'\n', None) => size.checked_add(LINE_BREAK.len() as u64).map_or(Self::Rest, Self::Chunk),
                        _ => Self::Rest,
                    };
                    rest = after;
                }
            }
        }
        bytes.len() - rest.len()
    }
}

const LINE_BREAK: &[u8] = b"\r\n";

/// Copies the head at the beginning of `bytes` and spells its names. Returns what follows it, or `None` if there is no
/// complete head.
fn copy_head(bytes: &[u8], head: &mut Vec<u8>) -> Option<Place> {
    let status = bytes.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    let mut ends = memchr_iter(b'\n', bytes);
    let mut start = ends.next()? + 1;
    head.clear();
    head.extend_from_slice(bytes);
    let mut framing = None;
    loop {
        let end = ends.next()?;
        let line = bytes.get(start..end)?;
        if line == b"\r" {
            head.truncate(end + 1);
            break;
        }
        if let Some(spelling) = spelled_in_line(line) {
            match spelling {
                header_names::CONTENT_LENGTH => framing = Some(body_of(line.get(spelling.len() + 1..)?)?),
                header_names::TRANSFER_ENCODING => framing = Some(Place::ChunkSize(0)),
                _ => {}
            }
            head.get_mut(start..start + spelling.len())?.copy_from_slice(spelling.as_bytes());
        } else if line.starts_with(MARK) {
            framing = Some(Place::Head);
            head.get_mut(start..start + header_names::CONTENT_LENGTH.len())?
                .copy_from_slice(header_names::CONTENT_LENGTH.as_bytes());
        }
        start = end + 1;
    }
    Some(match status {
        b"101" => Place::Rest,
        [b'1', ..] | b"204" | b"304" => Place::Head,
        // Without a length, the body ends with the connection.
        _ => framing.unwrap_or(Place::Rest),
    })
}

/// Returns the body with the length in a header's value.
fn body_of(value: &[u8]) -> Option<Place> {
    let length = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
    Some(if length == 0 { Place::Head } else { Place::Body(length) })
}

/// Returns true if the bytes are a complete response of the HTTP library itself, which refuses a request whose head it
/// cannot read.
fn is_refusal(bytes: &[u8]) -> bool {
    let is_refused = |head: &[u8]| {
        let status = head.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
        matches!(status, Some(b"400" | b"414" | b"431"))
    };
    let is_own = |line: &[u8]| {
        matches!(line, b"connection: close" | b"content-length: 0") || line.starts_with(b"date: ") || line.is_empty()
    };
    let lines = || bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    is_refused(bytes)
        && bytes.ends_with(b"\r\n\r\n")
        && lines().skip(1).all(is_own)
        && lines().any(|line| line == b"connection: close")
}

/// A stream on which the HTTP library writes responses.
#[derive(Debug)]
pub(crate) struct SpellingStream<S> {
    stream: S,
    place: Place,
    /// A head that the HTTP library has written.
    head: Vec<u8>,
    /// The number of bytes of the head that were sent.
    sent: usize,
    /// Whether the head is the library's own response to a request that it refuses.
    is_held: bool,
}

impl<S: AsyncWrite + Unpin> SpellingStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, place: Place::Head, head: Vec::new(), sent: 0, is_held: false }
    }

    /// Returns the stream below, without the library's own response to a request that it refuses. Returns `None` if an
    /// earlier response is incomplete, so that no other can follow.
    pub(super) fn into_inner(self) -> Option<S> {
        let is_complete = self.is_held || self.head.is_empty();
        (is_complete && self.place == Place::Head).then_some(self.stream)
    }

    fn poll_send_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_held {
            return Poll::Ready(Ok(()));
        }
        while let Some(unsent) = self.head.get(self.sent..).filter(|unsent| !unsent.is_empty()) {
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, unsent))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.count_sent(count);
        }
        Poll::Ready(Ok(()))
    }

    fn count_sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.head.len() {
            self.sent = 0;
            self.head.clear();
            self.head.shrink_to(KEPT_BYTES_MAX);
        }
    }

    /// Sends the rest of the head, and what follows the first `skipped` bytes of `parts` up to the next head. Returns
    /// the number of bytes sent of `parts`.
    fn poll_send<const SLICES: usize>(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
        skipped: usize,
    ) -> Poll<io::Result<usize>> {
        let unsent = self.head.get(self.sent..).unwrap_or_default();
        let mut slices = [IoSlice::new(&[]); SLICES];
        let (mut after, mut of_parts, mut used) = (self.place, 0, 0);
        let parts = slices_after(parts, skipped);
        let until_head = parts.clone().map(|part| {
            let count = after.pass(part);
            of_parts += count;
            part.get(..count).unwrap_or_default()
        });
        for (slice, part) in slices.iter_mut().zip(iter::once(unsent).chain(until_head).filter(|part| !part.is_empty()))
        {
            *slice = IoSlice::new(part);
            used += 1;
        }
        let of_head = unsent.len();
        let slices = slices.get(..used).unwrap_or_default();
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
        self.count_sent(count.min(of_head));
        let sent = count.saturating_sub(of_head);
        if sent == of_parts {
            self.place = after;
        } else {
            let mut left = sent;
            for part in parts {
                left -= self.place.pass(part.get(..left).unwrap_or(part));
            }
        }
        Poll::Ready(Ok(sent))
    }
}

/// Returns the slices that remain after the first `skipped` bytes.
fn slices_after<'a>(parts: &'a [IoSlice<'a>], mut skipped: usize) -> impl Iterator<Item = &'a [u8]> + Clone {
    parts.iter().filter_map(move |part| {
        let rest = part.get(skipped..);
        skipped = skipped.saturating_sub(part.len());
        rest.filter(|rest| !rest.is_empty())
    })
}

impl<S: AsyncRead + Unpin> AsyncRead for SpellingStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SpellingStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send_head(cx))?;
        let mut of_head = 0;
        if this.place == Place::Head
            && let Some(first) = parts.iter().find(|part| !part.is_empty())
        {
            this.place = copy_head(first, &mut this.head).unwrap_or_else(|| {
                this.head.clear();
                Place::Rest
            });
            of_head = this.head.len();
            if is_refusal(first) {
                this.is_held = true;
                return Poll::Ready(Ok(of_head));
            }
        }
        let sent = if parts.len() < FEW_SLICES {
            this.poll_send::<FEW_SLICES>(cx, parts, of_head)
        } else {
            this.poll_send::<SLICES_MAX>(cx, parts, of_head)
        };
        match sent {
            // The next write or flush sends it.
            Poll::Pending if of_head > 0 => Poll::Ready(Ok(of_head)),
            sent => sent.map_ok(|sent| of_head + sent),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_head(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_held = false;
        ready!(self.poll_send_head(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// A stream that accepts a few bytes in every other attempt.
    #[derive(Debug)]
    struct SlowStream {
        received: Vec<u8>,
        step: usize,
        is_full: bool,
    }

    impl AsyncWrite for SlowStream {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
            self.is_full = !self.is_full;
            if self.is_full {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let count = data.len().min(self.step);
            self.received.extend_from_slice(&data[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            self.poll_write(cx, &all)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Writes like the HTTP library, which repeats what was not accepted, and returns what the client receives.
    async fn received(parts: &[&str], step: usize) -> String {
        let mut stream = SpellingStream::new(SlowStream { received: Vec::new(), step, is_full: false });
        let mut unsent: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        while !unsent.is_empty() {
            let slices: Vec<_> = unsent.iter().map(|part| IoSlice::new(part)).collect();
            let mut count = stream.write_vectored(&slices).await.unwrap();
            assert!(count > 0, "{unsent:?}");
            while let Some(first) = unsent.first_mut() {
                let passed = count.min(first.len());
                *first = &first[passed..];
                count -= passed;
                if !first.is_empty() {
                    break;
                }
                unsent.remove(0);
            }
        }
        stream.flush().await.unwrap();
        assert_eq!(stream.head.len(), 0, "nothing is held after a flush");
        String::from_utf8(stream.stream.received).unwrap()
    }

    async fn check(parts: &[&str], expected: &str) {
        for step in [1, 2, 3, 7, 50, 10_000] {
            assert_eq!(received(parts, step).await, expected, "{step} bytes at a time");
        }
        // The HTTP library puts everything in one slice if the stream does not support several.
        assert_eq!(received(&[&parts.concat()], 10_000).await, expected);
    }

    /// A body that looks like the head of a response.
    const BODY: &str = "HTTP/1.1 200 OK\r\netag: x\r\ncontent-length: 9\r\n\r\n";

    #[tokio::test]
    async fn names_are_spelled_in_heads_and_nowhere_else() {
        let head = format!("HTTP/1.1 200 OK\r\netag: etag: x\r\ncontent-length: {}\r\n\r\n", BODY.len());
        let spelled = format!("HTTP/1.1 200 OK\r\nETag: etag: x\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());
        let (start, end) = BODY.split_at(20);
        check(&[&head, BODY, &head, start, "", end], &format!("{spelled}{spelled}")).await;
        let own = "HTTP/1.1 200 OK\r\nx-ms-rowhouse-position: x\r\nx-unknown: x\r\ncontent-length: 0\r\n\r\n";
        check(&[own, own], &own.replace("content-length", "Content-Length").repeat(2)).await;
    }

    #[tokio::test]
    async fn the_next_head_follows_a_response_without_a_body() {
        for (head, spelled) in [
            (
                "HTTP/1.1 204 No Content\r\nlength-no-body: 0\r\n\r\n",
                "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
            ),
            ("HTTP/1.1 200 OK\r\nlength-no-body: 99\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"),
            ("HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"),
            ("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"),
            (
                "HTTP/1.0 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
                "HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
            ),
        ] {
            check(&[head, head, head], &spelled.repeat(3)).await;
        }
    }

    #[tokio::test]
    async fn the_next_head_follows_the_last_chunk() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let size = format!("{:X}\r\n", BODY.len());
        let long = "etag: x\r\n".repeat(40);
        let spelled =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size}{BODY}\r\n168\r\n{long}\r\n0\r\n\r\n");
        let parts = [head, &size, BODY, "\r\n", "168\r\n", &long, "\r\n", "0\r\n\r\n"];
        check(&parts.repeat(2), &spelled.repeat(2)).await;
    }

    #[tokio::test]
    async fn without_a_head_the_rest_of_the_connection_is_passed_on() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n";
        let spelled = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";
        // In this order: no head, a body that ends with the connection, unreadable lengths, another protocol.
        for (rest, passed) in [
            ("xx", "xx"),
            ("HTTP/1.0 200 OK\r\netag: x\r\n\r\n", "HTTP/1.0 200 OK\r\nETag: x\r\n\r\n"),
            ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8x\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8x\r\n",
            ),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n"),
        ] {
            check(&[head, "x", rest, head, "x"], &format!("{spelled}x{passed}{head}x")).await;
        }
        for rest in ["HTTP/1.1 200 OK\r\ncontent-length", "HTTP/1.1 200 OK\r\n", "HTTP/1.1"] {
            check(&[head, "x", rest], &format!("{spelled}x{rest}")).await;
        }
    }

    #[tokio::test]
    async fn the_librarys_own_refusal_is_held_until_the_connection_is_shut_down() {
        let own = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: now\r\n\r\n";
        let other = own.replace("date: now", "server: x");
        let (mut client, stream) = duplex(1024);
        let mut stream = SpellingStream::new(stream);
        for head in [other.as_str(), own] {
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
        let spelled = other.replace("connection", "Connection").replace("content-length", "Content-Length");
        let mut received = vec![0; other.len()];
        client.read_exact(&mut received).await.unwrap();
        assert_eq!(String::from_utf8(received).unwrap(), spelled.replace("server", "Server"));
        // Without another response, the library's own one is better than none.
        stream.shutdown().await.unwrap();
        let mut rest = String::new();
        client.read_to_string(&mut rest).await.unwrap();
        assert!(rest.starts_with("HTTP/1.1 400 Bad Request\r\n") && rest.len() == own.len(), "{rest}");

        let (mut client, stream) = duplex(1024);
        let mut stream = SpellingStream::new(stream);
        stream.write_all(own.as_bytes()).await.unwrap();
        stream.into_inner().unwrap().shutdown().await.unwrap();
        let mut rest = String::new();
        assert_eq!(client.read_to_string(&mut rest).await.unwrap(), 0, "it is dropped");
    }

    #[test]
    fn only_responses_without_a_body_announce_their_length() {
        let marked = |status: u16, length: Option<&str>, body: &'static str, is_head: bool| {
            let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            if let Some(length) = length {
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_str(length).unwrap());
            }
            announce_length(&mut response, is_head);
            let value = |name: HeaderName| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            (value(CONTENT_LENGTH), value(LENGTH_WITHOUT_BODY), response.body().size_hint().exact().unwrap())
        };
        let length = |text: &str| Some(text.to_owned());
        assert_eq!(marked(200, Some("3"), "abc", false), (length("3"), None, 3));
        for is_head in [false, true] {
            assert_eq!(marked(304, None, "", is_head), (None, None, 0));
            assert_eq!(marked(204, Some("0"), "", is_head), (None, length("0"), 0));
            assert_eq!(marked(204, None, "", is_head), (None, length("0"), 0));
        }
        assert_eq!(marked(200, Some("3"), "abc", true), (None, length("3"), 0));
        assert_eq!(marked(200, None, "abc", true), (None, length("3"), 0));
    }
}
