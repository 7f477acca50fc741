//! Why the body of a batch or of its response cannot be read.
//!
//! The texts are for the log and never sent to a client.

/// Why a batch cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchError {
    /// The media type of the request is not `multipart/mixed` with a boundary.
    ContentType,
    /// The body is not a batch; the text says why, for the log.
    Malformed(&'static str),
    /// The body has a change set that cannot be read.
    MalformedChangeset(&'static str),
}
