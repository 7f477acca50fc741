//! `rowhouse balance`: shows the load of the nodes of a Citus cluster, and takes the step that evens it out.

use crate::StoreUrl;
use crate::runtime::{block_on, stop_signal, until_stopped};
use crate::terminal::{escaped, print};
use anyhow::ensure;
use clap::{ArgGroup, Args};
use engine::LoadReport;
use engine::load::{LoadRates, StepResult};
use engine_citus::{read_load, take_step};
use engine_postgres::Password;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

/// The examples at the end of the help of `balance`.
pub const BALANCE_EXAMPLES: &str = "\
Examples:
  rowhouse balance --show --store postgres://rowhouse@worker1,worker2/tables
      the load of each node and shard, the hottest partitions, and what would even it out
  rowhouse balance --show --json --store postgres://rowhouse@worker1,worker2/tables
      the same for scripts
  rowhouse balance --take --store postgres://rowhouse@worker1,worker2/tables
      does what would even it out, once: moves or splits one shard

The servers measure the load if they run with --balance suggest (the default) or --balance auto; with auto, they also move and split \
shards by themselves. The load is the estimated processor time of the node: 1.0 keeps one processor core busy.

The exit code of --take is 1 if the step failed, and 0 if it succeeded or if there was nothing to do.";

const SHARDS_SHOWN: usize = 10;
const PARTITIONS_SHOWN: usize = 10;

/// The options of `balance` as given.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("action").required(true))]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
pub struct BalanceArgs {
    /// Show the load, and the step that would even it out
    #[arg(long, group = "action")]
    show: bool,

    /// Take that step now, and wait until it is completed
    #[arg(long, group = "action")]
    take: bool,

    /// URL of the Citus database, as for serve
    #[arg(long, env = "ROWHOUSE_STORE", value_name = "URL", hide_env_values = true)]
    store: StoreUrl,

    /// File with the password for the --store database; each new connection to the database reads it again
    #[arg(long, env = "ROWHOUSE_STORE_PASSWORD_FILE", value_name = "FILE")]
    store_password_file: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `rowhouse balance`.
pub fn run(args: &BalanceArgs) -> anyhow::Result<ExitCode> {
    let password = args.store_password_file.as_deref().map(Password::in_file).transpose()?;
    let (url, password) = (args.store.0.as_str(), password.as_ref());
    block_on(async {
        let stop = stop_signal()?;
        until_stopped(stop, async {
            let report = read_load(url, password).await?;
            if args.show {
                let shown = if args.json { serde_json::to_string(&report)? + "\n" } else { as_text(&report) };
                return print(&shown);
            }
            ensure!(report.servers > 0, "no server measures the load now, so there is nothing to decide by");
            let Some(step) = &report.step else {
                return print(&format_args!("{}\n", report.advice));
            };
            take_step(step, url, password).await?;
            print(&format_args!("done: {step}\n"))
        })
        .await
    })?;
    Ok(ExitCode::SUCCESS)
}

fn columns(rates: &LoadRates) -> String {
    let LoadRates { load, reads_per_second, writes_per_second, rows_per_second, waiting } = rates;
    format!("{load:>8.3} {reads_per_second:>9.1} {writes_per_second:>9.1} {rows_per_second:>10.1} {waiting:>9.3}")
}

const HEADINGS: &str = "    load   reads/s  writes/s     rows/s   waiting";

fn as_text(report: &LoadReport) -> String {
    let mut text = format!("measured by {} servers\n\n{:<28} shards {HEADINGS}\n", report.servers, "node");
    let mut write = |line: std::fmt::Arguments<'_>| text.write_fmt(line).expect("writing to a string cannot fail");
    for node in &report.nodes {
        let name = format!("{} {}", node.id, node.name);
        write(format_args!("{name:<28} {:>6} {}\n", node.shards, columns(&node.load)));
    }
    let mut shards: Vec<_> = report.shards.iter().collect();
    shards.sort_by(|a, b| b.load.load.total_cmp(&a.load.load));
    write(format_args!("\n{:<28}   node {HEADINGS}\n", "hottest shards"));
    for shard in shards.into_iter().take(SHARDS_SHOWN) {
        let node = shard.node.unwrap_or_default();
        write(format_args!("{:<28} {node:>6} {}\n", shard.id, columns(&shard.load)));
    }
    write(format_args!("\nhottest partitions              load  account, table and partition key\n"));
    for partition in report.partitions.iter().take(PARTITIONS_SHOWN) {
        let (account, table, key) = (&partition.account, &partition.table, escaped(&partition.partition));
        write(format_args!("{:>36.3}  {account} {table} {key}\n", partition.load));
    }
    if !report.steps.is_empty() {
        write(format_args!("\nsteps of the last day\n"));
    }
    for step in &report.steps {
        let ended = match step.result() {
            StepResult::Failed(error) => format!("failed: {}", escaped(error)),
            StepResult::Completed { seconds } => format!("took {seconds} s"),
            StepResult::Unfinished => "running, or interrupted".to_owned(),
        };
        write(format_args!("{}  {}  {ended}\n", time(step.began), step.step));
    }
    write(format_args!("\n{}\n", report.advice));
    text
}

/// Converts Unix time in seconds.
fn time(seconds: u64) -> String {
    model::DateTime::from_system_time(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}
