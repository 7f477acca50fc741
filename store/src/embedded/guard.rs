//! The one place where a panic is caught.
//!
//! Reading an open database is not guarded. Every block of a sorted file has a checksum of 128 bits, and its head another
//! one, and both are compared before the block is decoded; what the memtables hold was checked when the journals were read.
//! So damage is an error there, and a panic would be a mistake in the library's code.
//!
//! Two things are guarded:
//!
//! 1. Opening a database. The library decodes names and values of files that it has not checked, and stops with a panic at
//!    those that it does not expect: a folder in `keyspaces` whose name is no number, a folder that is named like a
//!    journal, a keyspace without its settings, a memtable whose highest sequence number is not that of its journal. These
//!    are states of a folder, so the caller gets an error that names the folder.
//! 2. The committer's work on a group of requests. It is the only thread that writes, so a panic there, be it of the
//!    library or of this engine, would end all writes to all tables until the next start.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The guarded code panicked. The panic hook has already printed its message.
#[derive(Debug)]
pub(super) struct Panicked;

/// Runs something, and answers whether it panicked.
///
/// The caller vouches that what the closure changes may be used after a panic.
pub(super) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| Panicked)
}
