//! Reads whole request bodies, within limits on size and time.

use crate::clock;
use crate::failure::Failure;
use crate::limits::memory::RequestMemory;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use md5::{Digest, Md5};
use model::limits::{REQUEST_BODY_BYTES_MAX, REQUEST_BODY_BYTES_PER_SECOND_MIN, REQUEST_BODY_PROGRESS_SECONDS};
use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use wire::reason::ReasonKind;
use wire::{ErrorCode, ServiceError};

/// The timeout for sending a body. If a client is slower, its connection is closed without a response.
const BODY_TIME: Duration = Duration::from_secs(30);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(REQUEST_BODY_PROGRESS_SECONDS as u64);
/// The minimum number of bytes of a body that must arrive in one interval, unless the body is complete before the
/// interval ends.
const PROGRESS_BYTES_MIN: usize = REQUEST_BODY_BYTES_PER_SECOND_MIN * REQUEST_BODY_PROGRESS_SECONDS;
/// The number of bytes beyond the maximum size that are read from a rejected body and dropped.
const DRAINED_BYTES_MAX: usize = REQUEST_BODY_BYTES_MAX;
/// The maximum size of a body that is read and dropped after its request was rejected, in bytes.
const DISCARDED_BYTES_MAX: u64 = 64 * 1024;
/// The memory that each byte of a body requires: for the byte itself, and for the records made from the body.
const MEMORY_FACTOR: usize = 2;
/// The minimum size of the buffer for a body that is at least this long, in bytes.
const BUFFER_BYTES_MIN: usize = 8 * 1024;

#[derive(Debug)]
pub(crate) enum BodyFailure {
    /// The client gets an error.
    Failed(Failure),
    /// The client gets an error, and the connection is closed, because it is not known where the next request begins.
    FailedAndClose(Failure),
    /// The client stopped sending or was too slow. The connection is closed without a response.
    Aborted,
}

impl From<Failure> for BodyFailure {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Reads and drops the unread body of a rejected request, if it is short and arrives soon. If a body is left unread,
/// the HTTP library closes the connection, and a client that has already sent its next request fails.
pub(crate) async fn discard(body: &mut Incoming) {
    if body.size_hint().lower() > DISCARDED_BYTES_MAX {
        return;
    }
    let deadline = Instant::from(clock::instant()) + PROGRESS_INTERVAL;
    let mut left = DISCARDED_BYTES_MAX;
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
        let bytes = frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
        let Some(fewer) = left.checked_sub(bytes) else { return };
        left = fewer;
    }
}

/// Reads a body of at most 4 MiB. Acquires memory for the body as it arrives.
pub(crate) async fn read(body: &mut Incoming, memory: &RequestMemory<'_>) -> Result<Bytes, BodyFailure> {
    let mut buffer = BodyBuffer::new(body, memory);
    let began = Instant::from(clock::instant());
    let (mut interval_end, mut received_before) = (began + PROGRESS_INTERVAL, 0);
    while buffer.received <= REQUEST_BODY_BYTES_MAX + DRAINED_BYTES_MAX {
        // The end of the interval interrupts only the wait for the client, so that no received data is lost.
        match timeout_at(interval_end, body.frame()).await {
            Ok(None) => break,
            Ok(Some(frame)) => {
                if let Ok(data) = frame.map_err(|error| malformed_body(&error))?.into_data() {
                    buffer.add(&data).await;
                }
            }
            Err(_) if buffer.received - received_before < PROGRESS_BYTES_MIN => return Err(BodyFailure::Aborted),
            Err(_) if interval_end >= began + BODY_TIME => return Err(BodyFailure::Aborted),
            Err(_) => (interval_end, received_before) = (interval_end + PROGRESS_INTERVAL, buffer.received),
        }
    }
    buffer.finish()
}

struct BodyBuffer<'m> {
    memory: &'m RequestMemory<'m>,
    bytes: Vec<u8>,
    received: usize,
    /// The maximum length of the body.
    announced: usize,
    /// The reason for rejecting the body. It is received anyway, so that the client can read the response.
    refused: Option<Failure>,
}

impl<'m> BodyBuffer<'m> {
    fn new(body: &Incoming, memory: &'m RequestMemory<'m>) -> Self {
        let announced = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let announced = announced.unwrap_or(REQUEST_BODY_BYTES_MAX).min(REQUEST_BODY_BYTES_MAX);
        Self { memory, bytes: Vec::new(), received: 0, announced, refused: None }
    }

    async fn add(&mut self, data: &[u8]) {
        self.received = self.received.saturating_add(data.len());
        if self.refused.is_none() && self.received > REQUEST_BODY_BYTES_MAX {
            let detail = format!("The body has more than {REQUEST_BODY_BYTES_MAX} bytes (4 MiB).");
            let reason = ReasonKind::BodyTooLarge.because(detail);
            self.refused = Some(Failure::service(ServiceError::from(ErrorCode::RequestBodyTooLarge).because(reason)));
        }
        if self.refused.is_some() {
            return;
        }
        if self.received > self.bytes.capacity() {
            let usual = (2 * self.bytes.capacity()).max(BUFFER_BYTES_MIN).min(self.announced);
            let capacity = self.received.max(usual);
            if let Err(busy) = self.memory.acquire(MEMORY_FACTOR * (capacity - self.bytes.capacity())).await {
                self.bytes = Vec::new();
                drop(self.memory.take());
                self.refused = Some(busy);
                return;
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
    }

    fn finish(self) -> Result<Bytes, BodyFailure> {
        match self.refused {
            Some(failure) => Err(failure.into()),
            None => Ok(Bytes::from(self.bytes)),
        }
    }
}

/// Returns the failure of a request whose body breaks off. The HTTP library reports a malformed chunk in the same way
/// as the standard library reports invalid data, and passes on the connection error if the client has disconnected.
///
/// UNVERIFIED (06 §6): the error code, where the service responds with an HTML page.
fn malformed_body(error: &hyper::Error) -> BodyFailure {
    let kind = error.source().and_then(|source| source.downcast_ref()).map(io::Error::kind);
    match kind {
        Some(ErrorKind::InvalidInput | ErrorKind::InvalidData) => {
            let error = ServiceError::malformed_body().because(ReasonKind::BodyBroken.because(""));
            BodyFailure::FailedAndClose(Failure::query(error))
        }
        _ => BodyFailure::Aborted,
    }
}

/// Compares a body with the `Content-MD5` header, if there is one.
///
/// UNVERIFIED (07 §1): that the Table service checks it.
pub(crate) fn check_md5(header: Option<&str>, body: &[u8]) -> Result<(), ServiceError> {
    let Some(header) = header.map(str::trim).filter(|header| !header.is_empty()) else { return Ok(()) };
    let expected: [u8; 16] =
        STANDARD.decode(header).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(ErrorCode::InvalidMd5)?;
    let actual: [u8; 16] = Md5::digest(body).into();
    if actual == expected { Ok(()) } else { Err(ErrorCode::Md5Mismatch.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5() {
        assert_eq!(check_md5(None, b"x"), Ok(()));
        assert_eq!(check_md5(Some("1B2M2Y8AsgTpgAmY7PhCfg=="), b""), Ok(()));
        assert_eq!(check_md5(Some("1B2M2Y8AsgTpgAmY7PhCfg=="), b"x"), Err(ErrorCode::Md5Mismatch.into()));
        assert_eq!(check_md5(Some("x"), b"x"), Err(ErrorCode::InvalidMd5.into()));
    }
}
