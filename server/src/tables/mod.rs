//! The tables of one account, as its requests use them.
//!
//! [`AccountTables`] is the only way from an operation to the engine. It applies what is common to all operations: the
//! targets of `--throttle`, the quota of the account, and the rules for metrics tables (`metrics_tables.rs`). Every
//! account has metrics tables. Only the server writes them, and they may not have been created yet. Operations do not
//! depend on any of this. Code in this folder must not depend on HTTP, formats or credentials.

mod account_tables;
mod changes;
mod confined_view;
mod deletion;
mod metrics_tables;
mod sweep;

pub(crate) use account_tables::{AccountTables, EveryEntity};
pub(crate) use changes::ChangesEnd;
pub(crate) use deletion::Deletion;
pub(crate) use sweep::run as sweep;
