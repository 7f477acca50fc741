//! The response to a client that sends plain HTTP to a TLS port: it explains the mistake, in plain HTTP.
//!
//! Invariants:
//!
//! 1. The first byte determines the protocol. It is only peeked at, so a TLS connection costs one additional system
//!    call.
//! 2. No part of the request is kept, and at most [`DISCARDED_BYTES_MAX`] bytes of it are read. The caller limits the
//!    time, and the connection counts as one whose handshake is not complete.

use std::io::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// If a connection is closed with unread bytes, it is reset, and then the client may not see the response.
const DISCARDED_BYTES_MAX: usize = 64 * 1024;

/// The cloud uses the same error code for accounts that require HTTPS. Client libraries show it.
const RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 81\r\n\
    Connection: close\r\n\
    x-ms-error-code: AccountRequiresHttps\r\n\
    \r\n\
    This port speaks HTTPS, and the request is plain HTTP: use a URL with https://.\r\n";

/// Returns true if the first byte that arrives can begin an HTTP method. A TLS record begins with a control character.
pub(super) async fn starts_with_plain_http(stream: &TcpStream) -> Result<bool> {
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    Ok(count == 1 && first.iter().all(u8::is_ascii_uppercase))
}

pub(super) async fn refuse(mut stream: TcpStream) -> Result<()> {
    stream.write_all(RESPONSE).await?;
    stream.shutdown().await?;
    let (mut discarded, mut buffer) = (0, [0; 1024]);
    while discarded < DISCARDED_BYTES_MAX {
        match stream.read(&mut buffer).await? {
            0 => break,
            count => discarded += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::RESPONSE;

    #[test]
    fn the_length_of_the_answer_is_that_of_its_body() {
        let answer = std::str::from_utf8(RESPONSE).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
