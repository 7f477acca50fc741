//! `rowhouse table` and `rowhouse entity`: one operation on a service, for scripts and for people.
//!
//! `connection.rs` says on which service, `property.rs` reads what is written, `output.rs` and `grid.rs` write what was
//! read, and `failure.rs` turns errors into words and exit codes.

mod connection;
mod entity;
mod failure;
mod grid;
mod output;
mod property;
mod table;

pub use entity::{ENTITY_EXAMPLES, EntityArgs};
pub use table::{TABLE_EXAMPLES, TableArgs};

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting")?;
    match runtime.block_on(work) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Whoever read the output has seen enough.
        Err(error) if failure::is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            crate::terminal::report_error(&error);
            Ok(ExitCode::from(failure::exit_code(&error)))
        }
    }
}
