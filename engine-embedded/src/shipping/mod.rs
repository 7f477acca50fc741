//! What the engine offers to replication: the log and a copy of the tree for standbys, and the folder and the log that
//! a standby fills with them.
//!
//! A standby begins with a base copy, the contents of the tree at one transaction, and then receives the records of the
//! log that follow. It appends them as they are, so sequences, Timestamps and table IDs are the same, and positions of
//! the change log stay valid when it becomes the primary. Merges, flushes and segments are the standby's own.
//!
//! Invariants:
//!
//! 1. Only synced records are sent.
//! 2. A folder in which a base copy is incomplete is opened only to begin again.
//!
//! The module must not know how servers exchange this, nor what they decide about each other: that is in the crate
//! `replication`.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod primary;
mod records;
mod standby;

pub use primary::{BaseCopy, KeptForStandby, PrimaryLog, ReadRecordsError};
pub use records::{FrameError, RecordBatch};
pub use standby::{AppendError, PromotableFolder, StandbyFolder, StandbyLog};

/// The reason why a fenced primary refuses writes.
pub(crate) const FENCED: &str = "a standby was promoted, so nothing may be written to this server any more";
/// The reason why a standby refuses writes.
const STANDBY: &str = "this server is a standby; only its primary can be written";
