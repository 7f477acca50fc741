//! Batches: the MIME envelope around an entity group transaction or a query (specification 05).
//!
//! Invariants:
//!
//! 1. Parsing copies nothing: every string and body is a slice of the request.
//! 2. Parsing takes time linear in the size of the body and counts the operations after the 100th without
//!    reading them.
//! 3. Each line may end with CRLF or LF; responses use CRLF.
//!
//! This module must not depend on the operations: here, methods, targets and headers are uninterpreted strings.

mod multipart;
mod read;
mod request;
mod response;
mod target;
mod write;

pub use multipart::BatchError;
pub use read::{Batch, Changeset, PartRequest, read};
pub use request::ChangesetWriter;
pub use response::{PartResponse, read_responses};
pub use target::{AccountMismatch, PartTarget};
pub use write::{PartHead, end, is_of_execution, names_index, start_changeset, start_part, write_head};
