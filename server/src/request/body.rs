//! Request bodies: read whole, bounded in size and time.

use super::Failure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use md5::{Digest, Md5};
use model::limits::REQUEST_BODY_BYTES_MAX;
use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};
use tokio::time::timeout_at;
use wire::{ErrorCode, ServiceError};

/// How long a client may take to send a request with its body. The connection of a slower one is closed without a response.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How much of a too large body is read and dropped, so that the client gets to read the response, in bytes.
const DRAINED_BYTES_MAX: usize = REQUEST_BODY_BYTES_MAX;

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum BodyFailure {
    /// The client gets an error.
    Failed(Failure),
    /// The client gets an error, and the connection is closed, since it is not known where the next request begins.
    FailedForGood(Failure),
    /// The client stopped sending or was too slow: the connection is closed without a response.
    Aborted,
}

impl From<Failure> for BodyFailure {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Reads a body of at most 4 MiB of a request that began at this instant.
pub(crate) async fn read(body: Incoming, began: Instant) -> Result<Bytes, BodyFailure> {
    timeout_at((began + BODY_TIME).into(), read_bounded(body)).await.unwrap_or(Err(BodyFailure::Aborted))
}

async fn read_bounded(mut body: Incoming) -> Result<Bytes, BodyFailure> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut collected = BytesMut::with_capacity(announced.min(REQUEST_BODY_BYTES_MAX));
    let mut received = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| unreadable(&error))?.into_data() else { continue };
        received = received.saturating_add(data.len());
        if received <= REQUEST_BODY_BYTES_MAX {
            collected.extend_from_slice(&data);
        } else if received > REQUEST_BODY_BYTES_MAX + DRAINED_BYTES_MAX {
            break;
        }
    }
    if received > REQUEST_BODY_BYTES_MAX {
        return Err(Failure::service(ErrorCode::RequestBodyTooLarge).into());
    }
    Ok(collected.freeze())
}

/// The failure of a request whose body breaks off. The HTTP library reports a malformed chunk as the standard library does bad
/// data, and passes on the error of the connection if the client is gone.
///
/// UNVERIFIED (06 §6): the code, where the service responds with an HTML page.
fn unreadable(error: &hyper::Error) -> BodyFailure {
    let kind = error.source().and_then(|source| source.downcast_ref()).map(io::Error::kind);
    match kind {
        Some(ErrorKind::InvalidInput | ErrorKind::InvalidData) => {
            BodyFailure::FailedForGood(Failure::query(ServiceError::malformed_body()))
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
