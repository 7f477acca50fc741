//! The change log: logical decoding of the logs of the database's nodes, by one server at a time, into a table that all
//! servers read.
//!
//! Invariants beyond those of [`engine::changes`]:
//!
//! 1. **Each transaction gets one position.** The server that decodes stores the transactions, their positions and how
//!    far it has decoded the log of each node in one transaction, provided that nothing was stored since it last did
//!    (`decoder`). Only then does it permit the nodes to remove their logs up to there.
//! 2. **Nothing is skipped silently.** If a node has removed what was not decoded yet, if a replication slot is
//!    missing, or if the order of changes is unknown, a new log begins at a later position, and all positions before
//!    it are dropped (`setup`).
//! 3. **A position is never given to two transactions**, even if the database is restored to an earlier state: a log
//!    begins at the number of microseconds since 1970, and there are fewer transactions than microseconds.

pub(crate) mod decode_error;
pub(crate) mod decoder;
pub(crate) mod merging;
pub(crate) mod nodes;
pub(crate) mod order;
pub(crate) mod pgoutput;
pub(crate) mod reading;
pub(crate) mod removal;
pub(crate) mod setup;
pub(crate) mod stored;
pub(crate) mod streams;
pub(crate) mod transactions;
pub(crate) mod watching;
