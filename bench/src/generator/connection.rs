//! A persistent HTTP/1.1 connection with one request at a time.
//!
//! The connection uses no HTTP library, to leave as much processor time as possible to the server on the same machine.
//! It parses the head of a response in place, and does not copy the body.
//!
//! This module must not depend on the meaning of the responses.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HEAD_BYTES_MAX: usize = 64 * 1024;
/// This size exceeds the length of any page.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
const HEADERS_MAX: usize = 64;
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    /// The continuation token as received: the partition key and the row key.
    pub(crate) next: Option<(String, Option<String>)>,
    pub(crate) closes: bool,
    pub(crate) has_retry_after: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    bytes: usize,
    status: u16,
    framing: Framing,
    next: Option<(String, Option<String>)>,
    closes: bool,
    has_retry_after: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(READ_BYTES) })
    }

    pub(crate) async fn exchange(&mut self, head: &[u8], body: &[u8]) -> Result<Response<'_>> {
        self.buffer.clear();
        self.send(&mut [IoSlice::new(head), IoSlice::new(body)]).await?;
        let head = loop {
            self.read_more().await?;
            if let Some(head) = parse_head(&self.buffer)? {
                break head;
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(malformed("the head of a response is too long"));
            }
        };
        let end = match head.framing {
            Framing::Length(length) => self.read_length(head.bytes, length).await?,
            Framing::Chunked => self.read_chunks(head.bytes).await?,
        };
        let body = self.buffer.get(head.bytes..end).unwrap_or_default();
        let Head { status, next, closes, has_retry_after, .. } = head;
        Ok(Response { status, body, next, closes, has_retry_after })
    }

    /// Sends several buffers together, so that the body of a batch need not be copied.
    async fn send(&mut self, mut pieces: &mut [IoSlice<'_>]) -> Result<()> {
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            match self.stream.write_vectored(pieces).await? {
                0 => return Err(ErrorKind::WriteZero.into()),
                sent => IoSlice::advance_slices(&mut pieces, sent),
            }
        }
        Ok(())
    }

    async fn read_more(&mut self) -> Result<()> {
        self.buffer.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => {
                Err(Error::new(ErrorKind::UnexpectedEof, "the server closed the connection before its response ended"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the end of the body.
    async fn read_length(&mut self, start: usize, length: usize) -> Result<usize> {
        let end = start + length;
        if length > BODY_BYTES_MAX {
            return Err(malformed("the body of a response is too long"));
        }
        self.buffer.reserve(end.saturating_sub(self.buffer.len()));
        while self.buffer.len() < end {
            self.read_more().await?;
        }
        if self.buffer.len() > end { Err(malformed("bytes follow the response")) } else { Ok(end) }
    }

    /// Joins the chunks in place. Returns the end of the body.
    async fn read_chunks(&mut self, start: usize) -> Result<usize> {
        let (mut end, mut at) = (start, start);
        loop {
            let line_end = loop {
                match memchr::memmem::find(self.buffer.get(at..).unwrap_or_default(), b"\r\n") {
                    Some(found) => break at + found,
                    None => self.read_more().await?,
                }
            };
            let size = chunk_size(self.buffer.get(at..line_end).unwrap_or_default())?;
            let (chunk, next) = (line_end + 2, line_end + 2 + size + 2);
            if next > start + BODY_BYTES_MAX {
                return Err(malformed("the body of a response is too long"));
            }
            // Servers send no trailers, so an empty line follows the last chunk.
            while self.buffer.len() < next {
                self.read_more().await?;
            }
            if size == 0 {
                return Ok(end);
            }
            self.buffer.copy_within(chunk..chunk + size, end);
            (end, at) = (end + size, next);
        }
    }
}

/// Returns `None` if the head is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(malformed("the response is not HTTP/1.1")),
    };
    let status = response.code.unwrap_or_default();
    // Responses with these statuses have no body and may have no header with its length.
    let mut framing = (status == 204 || status == 304).then_some(Framing::Length(0));
    let (mut partition, mut row, mut closes, mut has_retry_after) = (None, None, false, false);
    for header in response.headers.iter() {
        let text = || std::str::from_utf8(header.value).map_err(|_| malformed("a header is not text"));
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let length = text()?.trim().parse().map_err(|_| malformed("Content-Length is not a number"))?;
            framing.get_or_insert(Framing::Length(length));
        } else if is("transfer-encoding") {
            framing = Some(Framing::Chunked);
        } else if is("connection") {
            closes = text()?.eq_ignore_ascii_case("close");
        } else if is("retry-after") {
            has_retry_after = text()?.trim().parse::<u32>().is_ok();
        } else if is("x-ms-continuation-nextpartitionkey") {
            partition = Some(text()?.to_owned());
        } else if is("x-ms-continuation-nextrowkey") {
            row = Some(text()?.to_owned());
        }
    }
    let framing = framing.ok_or_else(|| malformed("the response does not specify its length"))?;
    let next = partition.map(|partition| (partition, row));
    Ok(Some(Head { bytes: length, status, framing, next, closes, has_retry_after }))
}

fn chunk_size(line: &[u8]) -> Result<usize> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let text = std::str::from_utf8(digits).unwrap_or_default().trim();
    let size = usize::from_str_radix(text, 16).map_err(|_| malformed("the size of a chunk is not a number"))?;
    if size > BODY_BYTES_MAX { Err(malformed("a chunk is too long")) } else { Ok(size) }
}

fn malformed(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// The bytes arrive in pieces of the given size.
    async fn response_to(bytes: &'static str, piece: usize) -> Result<(u16, String)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            for piece in bytes.as_bytes().chunks(piece) {
                stream.write_all(piece).await.unwrap();
                stream.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let mut connection = Connection::open(address).await?;
        let response = connection.exchange(b"", b"").await?;
        let result = (response.status, String::from_utf8_lossy(response.body).into_owned());
        server.abort();
        Ok(result)
    }

    #[tokio::test]
    async fn bodies_by_length_and_by_chunks_in_any_pieces() {
        for (bytes, status, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"),
            ("HTTP/1.1 204 No Content\r\nETag: x\r\n\r\n", 204, ""),
            (
                "HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
                202,
                "hello",
            ),
        ] {
            for piece in [1, 7, 1000] {
                assert_eq!(response_to(bytes, piece).await.unwrap(), (status, body.to_owned()), "{piece}: {bytes}");
            }
        }
    }

    #[tokio::test]
    async fn malformed_responses_are_errors() {
        for bytes in [
            "",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "SMTP ready\r\n\r\n",
        ] {
            assert!(response_to(bytes, 1000).await.is_err(), "{bytes}");
        }
    }

    #[test]
    fn the_head_has_the_continuation_token_and_the_end_of_the_connection() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\
            x-ms-continuation-NextPartitionKey: 1!4!cA--\r\nx-ms-continuation-NextRowKey: 1!4!cg--\r\n\r\n";
        let head = parse_head(bytes).unwrap().unwrap();
        assert_eq!(head.next, Some(("1!4!cA--".to_owned(), Some("1!4!cg--".to_owned()))));
        assert!(head.closes && !head.has_retry_after);
        let busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        assert!(parse_head(busy).unwrap().unwrap().has_retry_after);
        assert_eq!(head.bytes, bytes.len());
        assert_eq!(parse_head(b"HTTP/1.1 200 OK\r\ncontent-le").unwrap(), None);
    }
}
