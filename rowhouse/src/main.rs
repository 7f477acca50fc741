//! `rowhouse`: the server and its command line.
//!
//! The flow of a request stands in `service.rs`; one file an operation stands in `operations/`.
//! This crate must not know how an engine stores anything.

mod access_log;
mod accounts;
mod admin;
mod admission;
mod analytics;
mod answer;
mod arrived;
mod authentication;
mod authorization;
mod backup;
mod bearer;
mod body;
mod call;
mod check;
mod cli;
mod commands;
mod completed;
mod config;
mod connection;
mod control;
mod copy;
mod cors;
#[cfg(test)]
mod drift;
mod export;
mod failure;
mod formats;
mod head;
mod health;
mod import;
mod listener;
mod log;
mod manual;
mod memory;
mod metrics;
mod notify;
mod oauth;
mod open_files;
mod operation_kind;
mod operations;
mod outbound;
mod patience;
mod places;
mod quota;
mod reload;
mod request_id;
mod response;
mod route;
mod sas_command;
mod second_thread;
mod segments;
mod serve;
mod service;
mod shared_access;
mod stall;
mod throttle;
mod tls;
mod traces;
mod version;

use anyhow::Context;
use clap::Parser;
use cli::{Cli, Command};
use config::Config;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let result = match Cli::parse().command {
        Command::Serve(args) => Config::from_environment(*args).and_then(serve::run).map(done),
        Command::Sas(args) => sas_command::run(*args, SystemTime::now()).and_then(|made| say(&made)).map(done),
        Command::Copy(args) => copy::run(&args).map(|outcome| match outcome {
            copy::Outcome::Complete => ExitCode::SUCCESS,
            copy::Outcome::Different => ExitCode::FAILURE,
        }),
        Command::Health(args) => health::run(*args).and_then(|answer| say(&answer)).map(done),
        Command::Completions(args) => say(&manual::completions(&args)).map(done),
        Command::Man(args) => manual::man(&args).and_then(|page| say(&page)).map(done),
        Command::Backup(args) => {
            backup::back_up(&args).map(|is_well| if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Restore(args) => backup::restore(&args).map(done),
        Command::Check(args) => match check::run(&args) {
            Ok(true) => Ok(ExitCode::SUCCESS),
            Ok(false) => Ok(ExitCode::FAILURE),
            Err(error) => {
                complain(&error);
                Ok(ExitCode::from(check::NOT_CHECKED))
            }
        },
        Command::Table(args) => commands::run_table(&args),
        Command::Entity(args) => commands::run_entity(&args),
        Command::Export(args) => export::run(&args).map(done),
        Command::Import(args) => import::run(&args).map(done),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            // The log may not be set up yet, and this is for the person at the terminal.
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Writes what was asked for to standard output.
fn say(result: &impl Display) -> anyhow::Result<()> {
    write!(std::io::stdout().lock(), "{result}").context("writing to standard output")
}

#[allow(clippy::print_stderr, reason = "the last words of the program go to the terminal")]
fn complain(error: &anyhow::Error) {
    eprintln!("rowhouse: {error:#}");
}
