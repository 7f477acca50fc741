//! The only place where panics are caught.
//!
//! Reading an open database is not guarded. Every block of a sorted file and every block header have 128-bit checksums,
//! and both are verified before the block is decoded. The contents of memtables were verified when the log was read.
//! While reading, damage therefore causes an error, and a panic would be a bug in the library.
//!
//! Two things are guarded:
//!
//! 1. Opening a tree. The library decodes names and values of files that it has not verified, and panics if they are
//!    not as expected. These are problems of the folder, so the caller gets an error that names the folder.
//! 2. The committer's work on a group of requests. The committer is the only thread that writes. A panic there, whether
//!    in the library or in this engine, would stop all writes to all tables until the server is restarted.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The guarded code panicked. The panic hook has already printed the message.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Runs a closure and converts a panic into an error. The caller must ensure that everything the closure changes can
/// still be used after a panic.
pub(crate) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| Panicked)
}
