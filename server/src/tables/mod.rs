//! The tables of one account, as its requests use them.
//!
//! [`AccountTables`] is the only way from an operation to the engine. Around each call it applies what holds for every
//! operation: the targets of `--throttle`, the quota of the account, and the rules for tables of metrics
//! (`metrics_tables.rs`): every account has them, only the server writes them, and they may not have been created yet. So
//! operations know nothing of these. This folder must not know HTTP, formats or credentials.

mod account_tables;
mod metrics_tables;

pub(crate) use account_tables::{AccountTables, CommitFailure};
