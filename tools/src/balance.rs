//! `rowhouse balance`: shows the load of the nodes of a Citus cluster, and takes the step that evens it out.

use crate::StoreUrl;
use crate::runtime::{block_on, stop_signal, until_stopped};
use crate::store_url::read_password;
use crate::terminal::{escaped, print};
use anyhow::ensure;
use clap::{ArgGroup, Args};
use engine_postgres::{Advice, BalanceReport, Load, NodeLoad, Step};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

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

    /// File with the password for the --store database
    #[arg(long, env = "ROWHOUSE_STORE_PASSWORD_FILE", value_name = "FILE")]
    store_password_file: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `rowhouse balance`.
pub fn run(args: &BalanceArgs) -> anyhow::Result<ExitCode> {
    let password = args.store_password_file.as_deref().map(read_password).transpose()?;
    let (url, password) = (args.store.0.as_str(), password.as_deref());
    block_on(async {
        let stop = stop_signal()?;
        until_stopped(stop, async {
            let report = BalanceReport::read(url, password).await?;
            if args.show {
                return print(&if args.json { format!("{}\n", as_json(&report)) } else { as_text(&report) });
            }
            ensure!(report.servers > 0, "no server measures the load now, so there is nothing to decide by");
            let Advice::Do { step, .. } = &report.advice else {
                return print(&format_args!("{}\n", advice(&report.advice)));
            };
            report.take(step, url, password).await?;
            print(&format_args!("done: {step}\n"))
        })
        .await
    })?;
    Ok(ExitCode::SUCCESS)
}

fn advice(advice: &Advice) -> String {
    match advice {
        Advice::Idle => "nothing to do: there is little load".to_owned(),
        Advice::OneNode => "nothing to do: fewer than two nodes may have shards".to_owned(),
        Advice::Even => "nothing to do: no node has 10% more load than the average".to_owned(),
        Advice::Stuck { excess } => format!(
            "nothing can be done: the hottest node has {excess:.2} times the average load, but no move or split would \
             change that; a partition cannot be divided"
        ),
        Advice::Do { step, before, after } => {
            format!("{step}: the hottest node now has {before:.2} times the average load, and then {after:.2} times")
        }
    }
}

fn columns(load: &Load) -> String {
    format!("{:>8.3} {:>9.1} {:>9.1} {:>10.1} {:>9.3}", load.cost(), load.reads, load.writes, load.rows, load.seconds)
}

const HEADINGS: &str = "    load   reads/s  writes/s     rows/s   waiting";

fn as_text(report: &BalanceReport) -> String {
    let cluster = &report.cluster;
    let mut text = format!("measured by {} servers\n\n{:<28} shards {HEADINGS}\n", report.servers, "node");
    let mut write = |line: std::fmt::Arguments<'_>| text.write_fmt(line).expect("writing to a string cannot fail");
    for node in &cluster.nodes {
        let count = cluster.shards_of(node).count();
        let name = format!("{} {}", node.id, node.name);
        write(format_args!("{name:<28} {count:>6} {}\n", columns(&cluster.load_of(node))));
    }
    let mut shards: Vec<_> = cluster.shards.iter().collect();
    shards.sort_by(|a, b| b.cost().total_cmp(&a.cost()));
    write(format_args!("\n{:<28}   node {HEADINGS}\n", "hottest shards"));
    for shard in shards.into_iter().take(SHARDS_SHOWN) {
        let node = cluster.nodes.iter().find(|node| node.group == shard.group).map_or(0, |node| node.id);
        write(format_args!("{:<28} {node:>6} {}\n", shard.id, columns(&shard.load)));
    }
    write(format_args!("\nhottest partitions              load  account, table and partition key\n"));
    for partition in report.partitions.iter().take(PARTITIONS_SHOWN) {
        let (account, table, key) = (&partition.account, &partition.table, escaped(&partition.key));
        write(format_args!("{:>36.3}  {account} {table} {key}\n", partition.cost));
    }
    if !report.steps.is_empty() {
        write(format_args!("\nsteps of the last day\n"));
    }
    for step in &report.steps {
        let ended = match (&step.ended, &step.error) {
            (_, Some(error)) => format!("failed: {}", escaped(error)),
            (Some(ended), None) => {
                format!("took {} s", ended.duration_since(step.began).unwrap_or_default().as_secs())
            }
            (None, None) => "running, or interrupted".to_owned(),
        };
        write(format_args!("{}  {}  {ended}\n", time(step.began), step.step));
    }
    write(format_args!("\n{}\n", advice(&report.advice)));
    text
}

fn time(time: SystemTime) -> String {
    model::DateTime::from_system_time(time).to_string()
}

fn as_json(report: &BalanceReport) -> Value {
    let cluster = &report.cluster;
    let load = |load: &Load| {
        json!({
            "load": load.cost(), "reads_per_second": load.reads, "writes_per_second": load.writes,
            "rows_per_second": load.rows, "waiting": load.seconds,
        })
    };
    let node = |node: &NodeLoad| {
        json!({
            "id": node.id, "name": node.name, "may_have_shards": node.may_have_shards,
            "shards": cluster.shards_of(node).count(), "load": load(&cluster.load_of(node)),
        })
    };
    let node_of = |group| cluster.nodes.iter().find(|node| node.group == group).map(|node| node.id);
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    json!({
        "servers": report.servers,
        "nodes": cluster.nodes.iter().map(node).collect::<Vec<_>>(),
        "shards": cluster.shards.iter().map(|shard| json!({
            "id": shard.id, "first": shard.first, "last": shard.last, "node": node_of(shard.group), "load": load(&shard.load),
        })).collect::<Vec<_>>(),
        "partitions": report.partitions.iter().map(|partition| json!({
            "account": partition.account, "table": partition.table, "partition": partition.key, "load": partition.cost,
        })).collect::<Vec<_>>(),
        "steps": report.steps.iter().map(|step| json!({
            "began": seconds(step.began), "step": step.step, "ended": step.ended.map(seconds), "error": step.error,
        })).collect::<Vec<_>>(),
        "advice": advice(&report.advice),
        "step": match &report.advice {
            Advice::Do { step: Step::Move { shard, from, to }, .. } => json!({ "move": shard, "from": from, "to": to }),
            Advice::Do { step: Step::Split { shard, points, nodes }, .. } => {
                json!({ "split": shard, "points": points, "nodes": nodes })
            }
            Advice::Idle | Advice::OneNode | Advice::Even | Advice::Stuck { .. } => Value::Null,
        },
    })
}
