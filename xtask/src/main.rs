//! `cargo xtask`: the project's own commands.
//!
//! `cargo xtask test` runs the checks and tests. [`steps`] is the table of its steps; to add one, add a row. The other
//! modules must not know any particular step, except the one that builds what the others run.

mod console;
mod count;
mod plan;
mod process;
mod run;
mod rust_tests;
mod service;
mod step;
mod steps;
mod test;
mod workspace;

use crate::plan::Selection;
use crate::step::{Step, Tier};
use crate::workspace::Workspace;
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const TEST_HELP: &str = "\
Runs the gate: the checks and tests that every change must pass. --quick runs only the checks that compile nothing at length, in two
minutes; --all also runs what GitHub runs every night.

Each step starts what it needs: a server on a free port, a PostgreSQL server in a temporary folder. It stops them when it ends, even
if the run is interrupted. Steps that need one processor run side by side; a step that needs the whole machine runs alone.
The quick steps come first, and all of them run. Afterwards, the run stops at the first failure. The last lines of the output are
the slowest tests, what failed, and the number of tests.

The compiler is the oldest supported version of Rust, if it is installed. If a tool for a step is not installed, the step is reported
as skipped; with CI=true, that is a failure.";

const TEST_EXAMPLES: &str = "\
Examples:
  cargo xtask test                          the gate
  cargo xtask test --quick                  before every push
  cargo xtask test --all                    everything, including packages, other platforms, retired clients and Citus
  cargo xtask test --list                   all steps: the tier, the time of the last run, and what each needs
  cargo xtask test --only crates            one step, of any tier
  cargo xtask test --only python go-client  all steps whose names begin with python-, and another one

A step that is left out runs anyway if a selected step uses its result; most use the programs of the step `build`. The logs of the
last run are in target/test. FUZZ_SECONDS is the time for each fuzz target (default: 3), and ROWHOUSE_SOAK_SECONDS the time of the
soak test (default: 30). ROWHOUSE_CRASH_ROUNDS and ROWHOUSE_HISTORY_ROUNDS are the numbers of rounds of the crash tests and of the
tests with histories.";

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The project's own commands")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the checks and tests, or some of them
    #[command(long_about = TEST_HELP, after_help = TEST_EXAMPLES)]
    Test(TestArgs),
    /// Run a command until it ends or standard input closes
    #[command(name = process::GUARD, hide = true)]
    Guard {
        #[arg(last = true, required = true)]
        line: Vec<OsString>,
    },
    /// Run test programs that Cargo has built
    #[command(hide = true)]
    RunTests(rust_tests::RunArgs),
}

#[derive(clap::Args)]
struct TestArgs {
    /// Run only the checks that compile nothing at length
    #[arg(long, conflicts_with_all = ["all", "only"])]
    quick: bool,
    /// Run everything
    #[arg(long, conflicts_with = "only")]
    all: bool,
    /// List all steps and what they need, without running them
    #[arg(long)]
    list: bool,
    /// Run only these steps, and the steps whose results they use
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Test this build of the server instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Guard { line } => process::guard(&line, std::io::stdin()).map(ExitCode::from),
        Command::Test(args) => test(args),
        Command::RunTests(args) => rust_tests::run(&args).map(exit_code),
    };
    done.unwrap_or_else(|error| {
        console::error(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

fn exit_code(has_passed: bool) -> ExitCode {
    if has_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn test(args: TestArgs) -> Result<ExitCode> {
    let tier = match (args.quick, args.all || args.list) {
        (true, _) => Tier::Quick,
        (false, false) => Tier::Gate,
        (false, true) => Tier::All,
    };
    let mut workspace = Workspace::new(args.program.as_deref(), tier == Tier::All)?;
    let selection = Selection { only: args.only, tier, has_program: args.program.is_some() };
    let steps = plan::select(steps::all(), &selection)?;
    if args.list {
        list(&steps, &workspace);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(notice) = workspace.select_toolchain() {
        console::line(&notice);
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(exit_code(test::run(&steps, &workspace, processors)?))
}

/// Prints each step with its tier, the time of its last run on this machine, and the tools and steps that it needs.
fn list(steps: &[Step], workspace: &Workspace) {
    let times = test::last_times(workspace);
    for step in steps {
        let tier = format!("{:?}", step.tier).to_lowercase();
        let time = times.get(step.name).map_or(String::new(), |seconds| format!("{seconds} s"));
        console::line(&format!("{:<20}  {tier:<5}  {time:>6}  {}", step.name, step.title));
        let tools = step.tools.iter().map(|tool| {
            let state = if workspace.has(tool) { String::new() } else { format!(", MISSING ({})", tool.hint) };
            format!("{}{state}", tool.name)
        });
        let after = step.after.iter().map(|name| format!("the step {name}"));
        let needs: Vec<_> = tools.chain(after).collect();
        if !needs.is_empty() {
            console::line(&format!("{:20}  {:13}  needs {}", "", "", needs.join("; ")));
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
