//! The tables of one account, as its requests use them.
//!
//! [`AccountTables`] is the one way of an operation to the engine. Around each call it takes the steps that hold for every
//! operation: the targets of `--throttle`, the quota of the account, and the tables of metrics (`metrics_tables.rs`), which
//! every account has, which only the server writes, and which may not have been made yet. So no operation knows of any of
//! these. This folder must not know HTTP, formats or credentials.

mod account_tables;
mod metrics_tables;

pub(crate) use account_tables::{AccountTables, CommitFailure};
