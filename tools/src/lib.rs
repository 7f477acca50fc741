//! The commands that move, back up, check, change and follow data: copy, export, import, backup, restore, check,
//! follow, and the commands on tables, entities and signatures.
//!
//! Each command is a folder or a file with its options (`XxxArgs`), the examples in its help, and one function that
//! runs it and returns the exit code. Commands work on data folders and databases through `store`, and on running
//! servers through `client`. This crate must not depend on how the server handles a request or on where the program
//! reads its configuration.

pub mod backup;
pub mod balance;
pub mod check;
pub mod commands;
pub mod copy;
mod digest;
mod endpoints;
pub mod export;
mod file;
pub mod follow;
mod formats;
pub mod import;
mod option_values;
mod runtime;
pub mod sas;
mod state_file;
mod terminal;

pub use option_values::{StoreUrl, parse_account, parse_duration, shows_password};
pub use runtime::stop_signal;
pub use terminal::{counted, print, report_error};
