//! `rowhouse`: the server and its command line.
//!
//! The flow of a request stands in `service.rs`; one file an operation stands in `operations/`.
//! This crate must not know how an engine stores anything.

mod accounts;
mod answer;
mod authentication;
mod authorization;
mod bearer;
mod body;
mod call;
mod cli;
mod config;
mod connection;
mod failure;
mod listener;
mod oauth;
mod operations;
mod reload;
mod response;
mod route;
mod serve;
mod service;
mod shared_access;
mod tls;

use clap::Parser;
use cli::{Cli, Command};
use config::Config;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Cli { command: Command::Serve(args) } = Cli::parse();
    let result = Config::from_environment(*args).and_then(serve::run);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The log may not be set up yet, and this is for the person at the terminal.
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stderr, reason = "the last words of the program go to the terminal")]
fn complain(error: &anyhow::Error) {
    eprintln!("rowhouse: {error:#}");
}
