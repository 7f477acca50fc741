//! The change log: logical decoding of the database's own log, by one server at a time, into a table that all servers
//! read.
//!
//! Invariants beyond those of [`engine::changes`]:
//!
//! 1. **Each transaction gets one position.** The server that decodes stores the transactions, their positions and how
//!    far it has decoded in one transaction, provided that nothing was stored since it last did (`decoder`). Only
//!    then does it permit the database to remove its own log up to there.
//! 2. **Nothing is skipped silently.** If the database has removed what was not decoded yet, or if its replication slot
//!    is missing, a new log begins at a later position, and all positions before it are dropped (`setup`).
//! 3. **A position is never given to two transactions**, even if the database is restored to an earlier state: a log
//!    begins at the number of microseconds since 1970, and there are fewer transactions than microseconds.

pub(crate) mod decoder;
pub(crate) mod pgoutput;
pub(crate) mod placements;
pub(crate) mod reading;
pub(crate) mod removal;
pub(crate) mod setup;
pub(crate) mod stored;
pub(crate) mod transactions;
pub(crate) mod trimming;
pub(crate) mod watching;
