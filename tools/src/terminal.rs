//! What commands write for the person at the terminal, beside the log.

use anyhow::Context;
use std::fmt::Display;
use std::io::Write;

/// Writes a result to standard output.
pub fn print(result: &impl Display) -> anyhow::Result<()> {
    write!(std::io::stdout().lock(), "{result}").context("writing to standard output")
}

/// Writes an error and its causes to standard error.
#[allow(clippy::print_stderr, reason = "errors of commands are for the person at the terminal")]
pub fn report_error(error: &anyhow::Error) {
    eprintln!("rowhouse: {error:#}");
}
