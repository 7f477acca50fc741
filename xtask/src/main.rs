//! `cargo xtask`: the project's own commands.
//!
//! `cargo xtask test` runs all checks and tests. [`steps`] is the table of its steps; to add one, add a row. The other
//! modules must not know any particular step, except the one that builds the server.

mod console;
mod count;
mod plan;
mod process;
mod run;
mod service;
mod step;
mod steps;
mod test;
mod workspace;

use crate::plan::Selection;
use crate::step::Step;
use crate::workspace::Workspace;
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const TEST_HELP: &str = "\
Runs every check and every test of the repository, from the format check to the real client libraries.

Each step starts what it needs: a server on a free port, a PostgreSQL server in a temporary folder. It stops them when it ends, even
if the run is interrupted. Steps that need one processor run side by side; a step that needs the whole machine runs alone.
The run stops at the first failure. The last line of the output counts the tests.

If a tool for a step is not installed, the step is reported as skipped; with CI=true, that is a failure.";

const TEST_EXAMPLES: &str = "\
Examples:
  cargo xtask test                          all steps
  cargo xtask test --list                   the steps, and what each needs
  cargo xtask test --only crates            one step
  cargo xtask test --only python go-client  all steps whose names begin with python-, and another one
  cargo xtask test --from javascript        continue after a failure

A step that is left out runs anyway if a selected step uses its result; most use the release build of the server (program).
The logs of the last run are in target/test. FUZZ_SECONDS is the time for each fuzz target (default: 3), and
ROWHOUSE_SOAK_SECONDS the time of the soak test (default: 30). ROWHOUSE_CRASH_ROUNDS and ROWHOUSE_HISTORY_ROUNDS are the
numbers of rounds of the crash tests and of the tests with histories.";

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The project's own commands")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run all checks and tests, or some of them
    #[command(long_about = TEST_HELP, after_help = TEST_EXAMPLES)]
    Test(TestArgs),
    /// Run a command until it ends or standard input closes
    #[command(name = process::GUARD, hide = true)]
    Guard {
        #[arg(last = true, required = true)]
        line: Vec<OsString>,
    },
}

#[derive(clap::Args)]
struct TestArgs {
    /// List the steps and what they need, without running them
    #[arg(long)]
    list: bool,
    /// Run only these steps, and the steps whose results they use
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Run this step and all later ones
    #[arg(long, value_name = "NAME", conflicts_with = "only")]
    from: Option<String>,
    /// Also run the cases on a Citus cluster, if PostgreSQL has the extension
    ///
    /// Without the extension, nothing counts as skipped, because distributions do not package it.
    #[arg(long)]
    with_citus: bool,
    /// Test this build of the server instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// The number of steps that run at a time [default: the number of processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Guard { line } => process::guard(&line, std::io::stdin()).map(ExitCode::from),
        Command::Test(args) => test(args),
    };
    done.unwrap_or_else(|error| {
        console::error(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

fn test(args: TestArgs) -> Result<ExitCode> {
    let workspace = Workspace::new(args.program.as_deref(), args.with_citus)?;
    let selection = Selection {
        only: args.only,
        from: args.from,
        with_citus: args.with_citus || args.list,
        has_program: args.program.is_some(),
    };
    let steps = plan::select(steps::all(), &selection)?;
    if args.list {
        list(&steps, &workspace);
        return Ok(ExitCode::SUCCESS);
    }
    let processors = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let passed = test::run(&steps, &workspace, processors)?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints each step, with the tools and the steps that it needs.
fn list(steps: &[Step], workspace: &Workspace) {
    for step in steps {
        console::line(&format!("{:<20}  {}", step.name, step.title));
        let option = step.is_for_citus.then(|| "--with-citus".to_owned());
        let tools = step.tools.iter().map(|tool| {
            let state = if workspace.has(tool) { String::new() } else { format!(", MISSING ({})", tool.hint) };
            format!("{}{state}", tool.name)
        });
        let after = step.after.iter().map(|name| format!("the step {name}"));
        let needs: Vec<_> = option.into_iter().chain(tools).chain(after).collect();
        if !needs.is_empty() {
            console::line(&format!("{:20}  needs {}", "", needs.join("; ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_options_is_consistent() {
        Cli::command().debug_assert();
    }
}
