//! Errors of parsing a batch request or a batch response.
//!
//! The messages are for the log and are never sent to a client.

/// The reason why a batch cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchError {
    /// The media type of the request is not `multipart/mixed` with a boundary.
    ContentType,
    /// The body is not a batch; the message states the reason for the log.
    Malformed(&'static str),
    /// The body contains a malformed changeset.
    MalformedChangeset(&'static str),
}
