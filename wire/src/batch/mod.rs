//! Batches: the MIME envelope around an entity group transaction or a query (specification 05).
//!
//! [`read`] finds the operations of a request body, and the functions of the writing half frame their answers. For a
//! client, [`ChangesetWriter`] and [`read_responses`] do the same the other way round.
//!
//! Invariants:
//!
//! 1. Reading copies nothing: every text and body is a slice of the request.
//! 2. Reading takes time linear in the body, and stops behind the 100th operation.
//! 3. The line end may be CRLF or LF at every line, whatever the others are; answers have CRLF.
//!
//! This module must not know what an operation means: methods, targets and headers are texts here.

mod error;
mod multipart;
mod read;
mod request;
mod response;
mod target;
mod write;

pub use error::BatchError;
pub use read::{Batch, Changeset, PartRequest, read};
pub use request::ChangesetWriter;
pub use response::{PartResponse, read_responses};
pub use target::{AccountMismatch, PartTarget};
pub use write::{PartHead, end, start_changeset, start_part, write_etag, write_head};
