//! `rowhouse-bench`: the load generator and its references.
//!
//! A figure is meaningful only in comparison with another figure from the same machine and the same minute. The
//! generator (`run`) and a minimal server (`floor`) are therefore one program, and `compare` measures the floor and the
//! server alternately.
//!
//! This crate must not depend on how a server works internally.

mod child;
mod cli;
mod commands;
mod dataset;
mod generator;
mod process;
mod report;
mod run;
mod size_args;

use anyhow::{Context, bail};
use clap::Parser;
use cli::{Cli, Command, FloorArgs, RunArgs};
use commands::{compare, curve, floor};
use dataset::Usage;
use generator::request::{DEVELOPMENT_KEY, Endpoint};
use report::print_json;
use run::{Measurement, Target};
use std::process::ExitCode;
use wire::signing::AccountKey;

/// The same allocator as in the server, so that the allocator does not affect the comparison.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run_workload(&args),
        Command::Floor(args) => serve_floor(args),
        Command::Compare(args) => compare::run(&args),
        Command::Curve(args) => curve::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            report_error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run_workload(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let key = AccountKey::parse(&args.key)
        .context("the value of --key or ROWHOUSE_BENCH_KEY is not the Base64 form of at least 16 bytes")?;
    let partitions = args.size.entities / args.size.per_partition;
    if let Some(hot) = args.hot.iter().find(|hot| **hot >= partitions) {
        bail!("there is no partition {hot} in --hot: the table has {partitions} partitions, which are numbered from 0");
    }
    let targets = run::targets(&args.endpoint, &args.pid, |endpoint, process| {
        let endpoint = Endpoint::parse(endpoint, &args.account, args.allow_remote)?;
        Ok(Target { endpoint, account: args.account.clone(), key: key.clone(), process })
    })?;
    let measurement = Measurement {
        per_partition: args.size.per_partition,
        entity_size: args.size.entity_bytes,
        rate: args.rate,
        hot: args.hot.clone(),
        usage: if args.one_table { Usage::Growing } else { args.workload.usage() },
        ..Measurement::new(args.workload, args.size.entities, args.connections, args.size.seconds)
    };
    let report = run::measure_all(&targets, &args.database_pid, &measurement)?;
    print_json(&report)?;
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn serve_floor(args: FloorArgs) -> anyhow::Result<ExitCode> {
    let key = AccountKey::parse(DEVELOPMENT_KEY).context("decoding the development key")?;
    let log = args.durable.map(|path| floor::GroupLog::create(&path).with_context(|| path.display().to_string()));
    let floor = floor::Floor::new((!args.unsigned).then_some(key), log.transpose()?);
    runtime()?.block_on(floor.serve(args.listen))?;
    Ok(ExitCode::SUCCESS)
}

/// The references use the same kind of runtime as the server.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")
}

#[allow(clippy::print_stderr, reason = "the final error is printed to the terminal")]
fn report_error(error: &anyhow::Error) {
    eprintln!("rowhouse-bench: {error:#}");
}
