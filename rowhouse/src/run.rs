//! From the command line to the command, and from its result to the exit code.

use crate::cli::{Cli, Command, manual};
use crate::config::{self, Config};
use crate::{health, serve};
use clap::Parser;
use server::LogFormat;
use std::process::ExitCode;
use std::time::SystemTime;
use tools::sas::{SasArgs, SigningAccount};
use tools::{backup, check, commands, copy, export, import, print, report_error, sas};

/// Runs the command that the command line names.
pub fn run() -> ExitCode {
    match run_command(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            // Printed and not logged: the log may not have been started.
            report_error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run_command(command: Command) -> anyhow::Result<ExitCode> {
    let success = |()| ExitCode::SUCCESS;
    let success_if = |is_good| if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    match command {
        Command::Serve(args) => Config::from_environment(*args).and_then(serve::run).map(success),
        Command::Sas(args) => sign(*args).map(success),
        Command::Copy(args) => {
            start_log("warn")?;
            copy::run(&args).map(|outcome| success_if(outcome == copy::Outcome::Complete))
        }
        Command::Health(args) => health::run(*args).and_then(|result| print(&result)).map(success),
        Command::Completions(args) => print(&manual::completions(&args)).map(success),
        Command::Man(args) => manual::man(&args).and_then(|page| print(&page)).map(success),
        Command::Backup(args) => {
            start_log("warn")?;
            backup::back_up(&args).map(success_if)
        }
        Command::Restore(args) => {
            start_log("warn")?;
            backup::restore(&args).map(success)
        }
        Command::Check(args) => {
            start_log("error")?;
            Ok(check::run(&args).map_or_else(
                |error| {
                    report_error(&error);
                    ExitCode::from(check::NOT_CHECKED)
                },
                success_if,
            ))
        }
        Command::Table(args) => commands::run_table(&args),
        Command::Entity(args) => commands::run_entity(&args),
        Command::Export(args) => {
            start_log("warn")?;
            export::run(&args).map(success)
        }
        Command::Import(args) => {
            start_log("warn")?;
            import::run(&args).map(success)
        }
    }
}

/// Starts the log of a command, which shows warnings or errors besides the result.
fn start_log(levels: &str) -> anyhow::Result<()> {
    // The filter stays as it is.
    let _control = server::start_log(LogFormat::Text, levels)?;
    Ok(())
}

/// Makes a shared access signature with the keys that the server would use.
fn sign(args: SasArgs) -> anyhow::Result<()> {
    let (accounts, _) = config::accounts(args.account_file(), config::account_keys().as_deref())?;
    let accounts: Vec<SigningAccount> =
        accounts.all().map(|(name, keys)| SigningAccount { name: name.clone(), keys: keys.to_vec() }).collect();
    print(&sas::run(args, &accounts, SystemTime::now())?)
}
