//! Runs the command on the command line, and turns its result into an exit code.

use crate::azurite;
use crate::cli::{Cli, Command, manual};
use crate::config::{self, AccountKeys, Config};
use crate::log::LogFormat;
use crate::process::configure_allocator;
use crate::{accounts, certificate, health, promote, serve};
use model::Dialect;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;
use tools::sas::{SasArgs, SigningAccount};
use tools::{backup, balance, check, commands, copy, export, follow, import, print, report_error, sas};

/// Runs the command on the command line.
pub fn run() -> ExitCode {
    platform::process::make_new_files_private();
    let command = Cli::from_words(command_line(std::env::args_os())).command;
    let runs_server = matches!(command, Command::Serve(_) | Command::Standby(_) | Command::Azurite(_));
    let moves_data = matches!(command, Command::Copy(_) | Command::Export(_) | Command::Import(_));
    if runs_server || moves_data {
        // Must run before any file is read: a pipe can be read only once.
        configure_allocator();
    }
    match run_command(command) {
        Ok(code) => code,
        Err(error) => {
            // Printed, not logged: the log may not have been started.
            report_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Returns the words of the command line. If the program is called `azurite`, through a link, inserts the command
/// `azurite`: tools start the emulator by this name.
fn command_line(mut words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<_> = words.next().into_iter().collect();
    if line.first().is_some_and(|program| Path::new(program).file_stem() == Some(OsStr::new("azurite"))) {
        line.push("azurite".into());
    }
    line.extend(words);
    line
}

fn run_command(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => Config::from_environment(*args).and_then(serve::run_alone).map(|()| ExitCode::SUCCESS),
        Command::Standby(args) => Config::of_standby(*args).and_then(serve::run_alone).map(|()| ExitCode::SUCCESS),
        Command::Promote(args) => {
            let (report, code) = promote::run(args)?;
            print(&report)?;
            Ok(code)
        }
        Command::Azurite(args) => azurite::run(*args),
        Command::Sas(args) => create_sas(*args),
        Command::Accounts(args) => accounts::run(*args).and_then(|text| printed(&text)),
        Command::Certificate(args) => certificate::run(*args).and_then(|text| printed(&text)),
        Command::Health(args) => health::run(*args).and_then(|text| printed(&text)),
        Command::Completions(args) => printed(&manual::completions(&args)),
        Command::Man(args) => manual::man(&args).and_then(|text| printed(&text)),
        Command::Table(args) => commands::run_table(&args),
        Command::Entity(args) => commands::run_entity(&args),
        Command::Follow(args) => follow::run(&args),
        Command::Copy(args) => with_log("warn", || copy::run(&args)),
        Command::Backup(args) => with_log("warn", || backup::run_backup(&args)),
        Command::Restore(args) => with_log("warn", || backup::run_restore(&args)),
        Command::Balance(args) => with_log("warn", || balance::run(&args)),
        Command::Check(args) => with_log("error", || check::run(&args)),
        Command::Export(args) => with_log("warn", || export::run(&args)),
        Command::Import(args) => with_log("warn", || import::run(&args)),
    }
}

fn printed(result: &str) -> anyhow::Result<ExitCode> {
    print(&result)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a command with a log that shows warnings or errors in addition to the result.
fn with_log(levels: &str, command: impl FnOnce() -> anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    let _control = crate::log::start(LogFormat::Text, levels, None)?;
    command()
}

fn create_sas(args: SasArgs) -> anyhow::Result<ExitCode> {
    let (accounts, _) = config::accounts(
        args.account_file(),
        config::account_keys().as_deref().map(AccountKeys::from_server_variable),
        Dialect::default(),
    )?;
    let accounts: Vec<SigningAccount> =
        accounts.all().map(|(name, keys)| SigningAccount { name: name.clone(), keys: keys.to_vec() }).collect();
    sas::run(args, &accounts, SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_called_azurite_is_the_command() {
        let line = |words: &[&str]| command_line(words.iter().map(OsString::from));
        assert_eq!(line(&["/usr/bin/azurite", "-s"]), ["/usr/bin/azurite", "azurite", "-s"]);
        assert_eq!(line(&["azurite.exe"]), ["azurite.exe", "azurite"]);
        assert_eq!(line(&["rowhouse", "azurite"]), ["rowhouse", "azurite"]);
        assert!(line(&[]).is_empty());
    }
}
