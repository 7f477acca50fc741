//! The command line.

use crate::commands::compare::CompareArgs;
use crate::commands::curve::CurveArgs;
use crate::generator::request::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use crate::generator::workload::Workload;
use crate::process::Node;
use crate::size_args::{SizeArgs, connections};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Measure Table services and references to compare them with
///
/// Figures from different machines are not comparable, so every figure has a reference that is measured on the same
/// machine: a minimal HTTP server (`floor`). `compare` measures both.
#[derive(Debug, Parser)]
#[command(name = "rowhouse-bench", version, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure a workload against a server, and print the result as JSON
    ///
    /// The table is created and filled if it does not exist, and kept, so the next run can start immediately. Each
    /// workload first runs for a quarter of the time without being measured. Workloads that read, overwrite and insert
    /// use separate tables.
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Run the reference server: HTTP/1.1 with fixed responses, without storing anything
    ///
    /// It accepts every request that `run` sends. It prints `listening on http://ADDR:PORT` and runs until it is
    /// stopped.
    Floor(FloorArgs),
    /// Measure a Rowhouse server and the floor in alternation, and print the ratios with their budgets
    ///
    /// Everything runs in child processes with temporary folders and free ports, and is removed afterwards. The figures
    /// are medians over the rounds.
    Compare(CompareArgs),
    /// Measure the load of a large table through a Rowhouse server, and the server at increasing sizes of the table
    ///
    /// The table is loaded in transactions of 100 entities. At each size, the command measures gets, pages, a filter
    /// and upserts, the disk space, the startup after a kill, and a backup. Without --endpoint, it starts a server with
    /// a temporary folder. An entity of 100 bytes takes about 75 bytes there, up to 50% more while the table is filled,
    /// and about 45 bytes in the backup, which is removed before the next load.
    #[command(after_long_help = CURVE_EXAMPLES)]
    Curve(CurveArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  rowhouse serve --data /tmp/bench-data &
  rowhouse-bench run --endpoint http://127.0.0.1:10002 --workload get --connections 16 --pid $!
      point reads on 16 connections, with the processor time of the server
  rowhouse-bench run --endpoint http://127.0.0.1:10002 --workload query-filter --entities 1000000
      a filter over a million entities
  rowhouse-bench run --endpoint http://127.0.0.1:10002 --workload upsert --rate 5000 --seconds 180
      steady writes: the longest latency shows pauses, and errors show operations that were never begun";

const CURVE_EXAMPLES: &str = "\
Examples:
  rowhouse-bench curve --folder /a/folder/on/the/disk
      1, 10 and 100 million entities of 100 bytes, about 15 GB of disk
  rowhouse-bench curve --sizes 1000000,5000000 --endpoint http://127.0.0.1:10002 --pid 4711 --database-pid 4712
      a running server with --store, with the processor time of its database";

/// A server, a workload and its size.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// URL of the service, like `TableEndpoint` in a connection string. Repeat the option for servers that share a
    /// database; the connections are distributed among them
    #[arg(long, value_name = "URL", required = true)]
    pub(crate) endpoint: Vec<String>,

    /// Name of the account
    #[arg(long, default_value = DEVELOPMENT_ACCOUNT)]
    pub(crate) account: String,

    /// The account's key. Other users of this machine can see it
    #[arg(long, env = "ROWHOUSE_BENCH_KEY", default_value = DEVELOPMENT_KEY, hide_default_value = true, hide_env_values = true)]
    pub(crate) key: String,

    /// The workload to measure
    #[arg(long, value_enum)]
    pub(crate) workload: Workload,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    /// Send 80% of the operations of get, upsert, merge and mixed to these partitions, which are numbered from 0, such
    /// as 3,17,40
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub(crate) hot: Vec<u64>,

    /// Use one table for all workloads, the one that `--workload load` fills. In this case, measure filters before
    /// inserts, which change the number of matching entities
    #[arg(long)]
    pub(crate) one_table: bool,

    /// Concurrent connections
    #[arg(long, default_value_t = 16, value_parser = connections())]
    pub(crate) connections: usize,

    /// Operations per second over all connections [default: each connection starts the next operation after the
    /// previous response]. If no connection is free, the latency of an operation counts from the time at which it was
    /// due, so pauses of the server are measured
    #[arg(long, value_name = "PER_SECOND", value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000_000))]
    pub(crate) rate: Option<u64>,

    /// Process ID of the server on this machine, to report its processor time and memory. Repeat the option for several
    /// servers; the sums are reported
    #[arg(long)]
    pub(crate) pid: Vec<u32>,

    /// Process ID of the server's database on this machine, to report the processor time of all its processes. For the
    /// nodes of a cluster, repeat the option with a name for each node; the nodes are reported separately
    #[arg(long, value_name = "[NAME=]PID", value_parser = Node::parse)]
    pub(crate) database_pid: Vec<Node>,

    /// Allow a server on another machine
    #[arg(long)]
    pub(crate) allow_remote: bool,
}

/// The reference server.
#[derive(Debug, Args)]
pub(crate) struct FloorArgs {
    /// Address and port; port 0 selects a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,

    /// Accept requests without verifying their signature
    #[arg(long)]
    pub(crate) unsigned: bool,

    /// Append request bodies to this file and sync them in groups before acknowledging the requests. An existing file
    /// is overwritten. The file must be on the file system to measure
    #[arg(long, value_name = "FILE")]
    pub(crate) durable: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let run = |extra: &str| {
            let line = format!("rowhouse-bench run --endpoint http://127.0.0.1:1 --workload get {extra}");
            Cli::try_parse_from(line.split_whitespace())
        };
        for good in [
            "",
            "--entities 1000000 --per-partition 1000000",
            "--seconds 1 --connections 256 --pid 1",
            "--rate 5000",
            "--one-table --seconds 0.2",
            "--hot 3,17",
            "--database-pid 1 --pid 2 --pid 3 --endpoint http://127.0.0.1:2",
        ] {
            assert!(run(good).is_ok(), "{good}");
        }
        for bad in [
            "--entities 99",
            "--connections 0",
            "--seconds 0",
            "--seconds NaN",
            "--per-partition 150",
            "--workload put",
            "--hot x",
            "--database-pid x",
        ] {
            assert!(run(bad).is_err(), "{bad}");
        }
    }
}
