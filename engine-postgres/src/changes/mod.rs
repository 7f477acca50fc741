//! The change log: logical decoding of the database's own log, by one server at a time, into a table that all servers
//! read.
//!
pub(crate) mod decoder;
pub(crate) mod pgoutput;
pub(crate) mod reading;
pub(crate) mod removal;
pub(crate) mod setup;
pub(crate) mod stored;
pub(crate) mod transactions;
pub(crate) mod trimming;
pub(crate) mod watching;
