//! `rowhouse table` and `rowhouse entity`: single operations on a service, for scripts and for people.
//!
//! This module must not depend on any endpoint except a service.

mod confirmation;
mod connection;
mod entity;
mod other_types;
mod output;
mod table;
mod table_index;

pub(crate) use connection::{ConnectionArgs, connection_help, exit_code, from_service};
pub use entity::{ENTITY_EXAMPLES, EntityArgs};
pub use table::{TABLE_EXAMPLES, TableArgs};

use crate::terminal::{is_broken_pipe, report_error};
use anyhow::Context;
use std::process::ExitCode;

/// Runs `rowhouse table`.
pub fn run_table(args: &TableArgs) -> anyhow::Result<ExitCode> {
    finish(table::run(args))
}

/// Runs `rowhouse entity`.
pub fn run_entity(args: &EntityArgs) -> anyhow::Result<ExitCode> {
    finish(entity::run(args))
}

fn finish(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<ExitCode> {
    // One thread is enough for one operation, and a runtime with one thread starts faster.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting")?;
    match runtime.block_on(work) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // A reader that stops early, such as `head`, is not an error.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            report_error(&error);
            Ok(ExitCode::from(exit_code(&error)))
        }
    }
}
