//! The command line.

use crate::child::ServerArgs;
use crate::churn::ChurnArgs;
use crate::client_library::ClientArgs;
use crate::compare::args::CompareArgs;
use crate::curve::CurveArgs;
use crate::engine::raw::RawArgs;
use crate::generator::background::BackgroundLoad;
use crate::generator::request::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use crate::generator::workload::Workload;
use crate::process::Node;
use crate::size_args::{SizeArgs, connections, entities, thousands};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Measure Table services and references to compare them with
///
/// Figures from different machines are not comparable, so every figure has a reference that is measured on the same
/// machine: a minimal HTTP server (`floor`) and the storage engine without a server (`raw`). `compare` runs all of
/// them.
#[derive(Debug, Parser)]
#[command(name = "rowhouse-bench", version, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure a workload against a server
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
    /// Measure the embedded engine without HTTP
    Raw(RawArgs),
    /// Measure a Rowhouse server and its references in alternation, and print the ratios with their budgets
    ///
    /// Everything runs in child processes with temporary folders and free ports, and is removed afterwards. The figures
    /// are medians over the rounds.
    Compare(CompareArgs),
    /// Measure the startup time of a Rowhouse server after a clean shutdown and after a kill, and the disk space of
    /// repeatedly overwritten entities
    Recovery(RecoveryArgs),
    /// Measure the cost of get, insert, upsert, pages and scans of a Rowhouse server at increasing table sizes
    ///
    /// Only one temporary folder exists at a time. It takes about 1 GiB for a million entities, and 50% more while it
    /// is filled.
    ///
    /// For every size, the table is filled through the engine, once in many partitions and once in a single one, and
    /// compared with a server that stores nothing. Reads are measured on a working set that fits into the cache, where
    /// the cost may at most double, and on all entities.
    Growth(GrowthArgs),
    /// Measure the load of a large table through a Rowhouse server, and the server at increasing sizes of the table
    ///
    /// The table is loaded in transactions of 100 entities. At each size, the command measures gets, pages, a filter
    /// and upserts, the disk space, the startup after a kill, and a backup. Without --endpoint, it starts a server with
    /// a temporary folder. An entity of 100 bytes takes about 75 bytes there, up to 50% more while the table is filled,
    /// and about 45 bytes in the backup, which is removed before the next load.
    #[command(after_long_help = CURVE_EXAMPLES)]
    Curve(CurveArgs),
    /// Measure scans, memory and disk usage of a Rowhouse server after histories that leave old versions and tombstones
    ///
    /// In the histories, a table is overwritten and then entities are inserted and deleted in it, a partition is used
    /// as a queue, and a table is deleted. Each history is measured immediately and after a quiet period, and one of
    /// them also after a restart. Ratios refer to the same reads of the newly filled table. `compare` includes these
    /// histories.
    Churn(ChurnArgs),
    /// Measure the client library: processor time of get and insert compared with a bare HTTP client, and a bulk load
    ///
    /// All figures refer to the client; the server is a child process with a temporary folder. For the bulk load, the
    /// final memory is compared with the memory after a tenth of the load.
    Client(ClientArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  rowhouse serve --data /tmp/bench-data &
  rowhouse-bench run --endpoint http://127.0.0.1:10002 --workload get --connections 16 --pid $!
      point reads on 16 connections, with the processor time of the server
  rowhouse-bench run --endpoint http://127.0.0.1:10002 --workload query-filter --entities 1000000 --json
      a filter over a million entities, with the result as JSON
  rowhouse-bench run --endpoint http://127.0.0.1:10002 --workload upsert --rate 5000 --seconds 180
      steady writes: the longest latency shows pauses, and errors show operations that were never begun
  rowhouse-bench run --endpoint http://127.0.0.1:10002 --workload get --connections 1000 --idle 10000 --pid $!
      a thousand busy connections beside ten thousand idle ones, with the memory before and after";

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

    #[command(flatten)]
    pub(crate) pressure: PressureArgs,

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

/// Load in addition to the workload.
#[derive(Debug, Args)]
pub(crate) struct PressureArgs {
    /// Operations per second over all connections [default: each connection starts the next operation after the
    /// previous response]. If no connection is free, the latency of an operation counts from the time at which it was
    /// due, so pauses of the server are measured
    #[arg(long, value_name = "PER_SECOND", value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000_000))]
    pub(crate) rate: Option<u64>,

    #[command(flatten)]
    pub(crate) background: BackgroundLoad,
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

#[derive(Debug, Args)]
pub(crate) struct RecoveryArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Number of entities on the server whose startup is measured
    #[arg(long, default_value_t = 1_000_000, value_parser = entities())]
    pub(crate) entities: u64,

    /// Number of startups of each kind
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u64>::new().range(1..=99))]
    pub(crate) starts: u64,

    /// Number of entities that are overwritten repeatedly
    #[arg(long, default_value_t = 100_000, value_parser = entities())]
    pub(crate) overwritten: u64,

    /// Number of times that each of these entities is overwritten
    #[arg(long, default_value_t = 10, value_parser = RangedU64ValueParser::<u64>::new().range(1..=99))]
    pub(crate) rounds: u64,
}

/// The sizes and durations of the measurements.
#[derive(Debug, Args)]
pub(crate) struct GrowthArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Numbers of entities in the table, in ascending order and separated by commas; multiples of 1,000
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = thousands,
          default_values_t = [10_000, 100_000, 1_000_000, 10_000_000])]
    pub(crate) sizes: Vec<u64>,

    /// Largest table that is also measured as one partition
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pub(crate) one_partition_max: u64,

    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<u64>::new().range(1..=3600))]
    pub(crate) seconds: u64,

    /// Number of repetitions of each measurement; medians are reported
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u64>::new().range(1..=99))]
    pub(crate) rounds: u64,

    /// Number of concurrent connections
    #[arg(long, default_value_t = 16, value_parser = connections())]
    pub(crate) connections: usize,

    /// Size of the server's cache, in MiB
    #[arg(long, default_value_t = 256, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 20))]
    pub(crate) cache_mib: u64,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
            "--seconds 1 --connections 256 --json --pid 1",
            "--rate 5000 --idle 10000 --slow-readers 8 --scans 64",
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

    #[test]
    fn sizes_of_growth() {
        let sizes = |list: &str| match Cli::try_parse_from(["rowhouse-bench", "growth", "--sizes", list]) {
            Ok(Cli { command: Command::Growth(args) }) => Some(args.sizes),
            _ => None,
        };
        assert_eq!(sizes("10000,3000000"), Some(vec![10_000, 3_000_000]));
        for bad in ["", "0", "1500", "x", "10000,", "2000000000"] {
            assert_eq!(sizes(bad), None, "{bad}");
        }
        assert!(matches!(
            Cli::parse_from(["rowhouse-bench", "growth"]).command,
            Command::Growth(args) if args.sizes == [10_000, 100_000, 1_000_000, 10_000_000]
        ));
    }
}
