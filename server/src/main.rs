//! `rowhouse`: the server and its command line.
//!
//! The flow of a request stands in `service.rs`; one file an operation stands in `operations/`.
//! This crate must not know how an engine stores anything.

mod accounts;
mod admission;
mod answer;
mod authentication;
mod authorization;
mod bearer;
mod body;
mod call;
mod cli;
mod config;
mod connection;
mod copy;
mod cors;
mod failure;
mod listener;
mod oauth;
mod operations;
mod patience;
mod reload;
mod request_id;
mod response;
mod route;
mod sas_command;
mod serve;
mod service;
mod shared_access;
mod stall;
mod tls;

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
