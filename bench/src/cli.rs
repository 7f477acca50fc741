//! The command line.

use crate::churn::ChurnArgs;
use crate::client_library::ClientArgs;
use crate::compare::args::CompareArgs;
use crate::dataset::PER_PARTITION_DEFAULT;
use crate::process::Node;
use crate::raw::RawWorkload;
use crate::request::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use crate::workload::{BATCH_ENTITIES, Workload};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Measures Table services, and references to compare them with
///
/// Figures of different machines cannot be compared, so every figure here has a reference that is measured on the same
/// machine: a minimal HTTP server (`floor`) and the storage engine alone (`raw`). `compare` runs all of them.
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
    /// The table is created and filled if it is not there yet, and kept, so that the next run starts at once. Each
    /// workload runs a quarter of the time before it is measured. Workloads that read, overwrite and insert have a table
    /// each.
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Run the reference server: HTTP/1.1 with fixed responses, nothing is stored
    ///
    /// It accepts every request that `run` sends. It prints `listening on http://ADDR:PORT` and runs until it is
    /// stopped.
    Floor(FloorArgs),
    /// Measure the embedded engine without HTTP
    Raw(RawArgs),
    /// Measure a Rowhouse server and its references in alternation, and print the ratios against their budgets
    ///
    /// Everything runs in child processes, on temporary folders and free ports, and is removed afterwards. The figures
    /// are medians over the rounds.
    Compare(CompareArgs),
    /// Measure how long a Rowhouse server takes to start after a clean stop and after a kill, and the disk space of
    /// entities that are overwritten repeatedly
    Recovery(RecoveryArgs),
    /// Measure the cost of get, insert, upsert, pages and scans of a Rowhouse server at growing sizes of its table
    ///
    /// Every size is filled through the engine, in many partitions and in one, and compared with a server that stores
    /// nothing. Reads are measured on a working set that fits into the cache, whose cost may at most double, and on all
    /// entities.
    Growth(GrowthArgs),
    /// Measure scans, memory and disk of a Rowhouse server after histories that leave old versions and deletion marks
    ///
    /// A table is overwritten, and has entities inserted and deleted; a partition is used as a queue; a table is deleted.
    /// Each is measured right after, when the server was quiet, and one of them after a restart. Ratios are to the same
    /// reads of the fresh table. `compare` includes them.
    Churn(ChurnArgs),
    /// Measure the client library: processor time of get and insert beside a bare HTTP client, and a bulk load
    ///
    /// All figures are those of the client; the server is a child process, on a temporary folder. For the bulk load the memory
    /// is compared with that after a tenth of it.
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

/// A server, a workload and its size.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Address of the service, as in `TableEndpoint` of a connection string. Given several times for servers that share a
    /// database: they get the connections in turn
    #[arg(long, value_name = "URL", required = true)]
    pub(crate) endpoint: Vec<String>,

    /// The account
    #[arg(long, default_value = DEVELOPMENT_ACCOUNT)]
    pub(crate) account: String,

    /// The account's key; other users of this machine can see it
    #[arg(long, env = "ROWHOUSE_BENCH_KEY", default_value = DEVELOPMENT_KEY, hide_default_value = true, hide_env_values = true)]
    pub(crate) key: String,

    /// The workload to measure
    #[arg(long, value_enum)]
    pub(crate) workload: Workload,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    /// Use one table for every workload, the one that `--workload load` fills. Filters must then be measured before inserts,
    /// which change how many entities they select
    #[arg(long)]
    pub(crate) one_table: bool,

    /// Concurrent connections
    #[arg(long, default_value_t = 16, value_parser = connections())]
    pub(crate) connections: u64,

    #[command(flatten)]
    pub(crate) pressure: PressureArgs,

    /// Process id of the server on this machine, to report its processor time and memory. Given once for each server, the
    /// sums are reported
    #[arg(long)]
    pub(crate) pid: Vec<u32>,

    /// Process id of the server's database on this machine, to report the processor time of all its processes. Given once
    /// for each node of a cluster, with a name, the nodes are reported one by one
    #[arg(long, value_name = "[NAME=]PID", value_parser = Node::parse)]
    pub(crate) database_pid: Vec<Node>,

    /// Allow a server on another machine
    #[arg(long)]
    pub(crate) allow_remote: bool,
}

/// Load in addition to the workload.
#[derive(Debug, Args)]
pub(crate) struct PressureArgs {
    /// Operations per second over all connections [default: each connection begins the next one after the response to the
    /// last one]. An operation for which no connection was free counts from when it was due, so that pauses of the server
    /// are measured
    #[arg(long, value_name = "PER_SECOND", value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000_000))]
    pub(crate) rate: Option<u64>,

    /// Further connections that send a request twice a minute
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = background_connections())]
    pub(crate) idle: u64,

    /// Further connections that read pages at 80 KiB a second
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = background_connections())]
    pub(crate) slow_readers: u64,

    /// Further connections that query the table with a filter that finds nothing, one page after another
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = background_connections())]
    pub(crate) scans: u64,
}

/// The size of a measurement.
#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    /// Entities in the table, of 1 KiB each
    #[arg(long, default_value_t = 10_000, value_parser = entities())]
    pub(crate) entities: u64,

    /// Entities of one partition, a multiple of 100
    #[arg(long, default_value_t = PER_PARTITION_DEFAULT, value_parser = per_partition)]
    pub(crate) per_partition: u64,

    /// How long to measure, in seconds, as in 5 or 0.2
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = fractional_seconds)]
    pub(crate) seconds: Duration,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The reference server.
#[derive(Debug, Args)]
pub(crate) struct FloorArgs {
    /// Address and port; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,

    /// Accept requests without verifying their signature
    #[arg(long)]
    pub(crate) unsigned: bool,

    /// Append what is written to this file and sync it, in groups, before it is acknowledged. The file is overwritten.
    /// It must be on the file system to measure
    #[arg(long, value_name = "FILE")]
    pub(crate) durable: Option<PathBuf>,
}

/// The engine, a workload and its size.
#[derive(Debug, Args)]
pub(crate) struct RawArgs {
    /// Data folder. It is created and filled if needed, and kept
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,

    /// The workload to measure
    #[arg(long, value_enum)]
    pub(crate) workload: RawWorkload,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    /// Concurrent tasks [default: 64 for group64, 4 for batch100, else 1]
    #[arg(long, value_parser = connections())]
    pub(crate) tasks: Option<u64>,

    /// Memory for cached data, in MiB
    #[arg(long, default_value_t = 256, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 20))]
    pub(crate) cache_mib: u64,
}

/// The size of a recovery.
#[derive(Debug, Args)]
pub(crate) struct RecoveryArgs {
    /// The server [default: the file `rowhouse` beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) server_binary: Option<PathBuf>,

    /// Folder for the temporary folders, on the disk to measure [default: the system's]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,

    /// Entities of the server that is started
    #[arg(long, default_value_t = 1_000_000, value_parser = entities())]
    pub(crate) entities: u64,

    /// Starts of each kind
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u64>::new().range(1..=99))]
    pub(crate) starts: u64,

    /// Entities that are overwritten repeatedly
    #[arg(long, default_value_t = 100_000, value_parser = entities())]
    pub(crate) overwritten: u64,

    /// How often each of them is overwritten
    #[arg(long, default_value_t = 10, value_parser = RangedU64ValueParser::<u64>::new().range(1..=99))]
    pub(crate) rounds: u64,
}

/// Which sizes are measured, and for how long.
#[derive(Debug, Args)]
pub(crate) struct GrowthArgs {
    /// The server [default: the file `rowhouse` beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) server_binary: Option<PathBuf>,

    /// Folder for the temporary folders, on the disk to measure [default: the system's]. There is one at a time, of about
    /// 1 GiB for a million entities, and half as much again while it is filled
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,

    /// Entities in the table, from few to many, separated by commas; multiples of 1,000
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = growth_size,
          default_values_t = [10_000, 100_000, 1_000_000, 10_000_000])]
    pub(crate) sizes: Vec<u64>,

    /// Largest table that is also measured as one partition
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pub(crate) one_partition_max: u64,

    /// How long each measurement takes, in seconds
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<u64>::new().range(1..=3600))]
    pub(crate) seconds: u64,

    /// How often each measurement is made; medians are shown
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u64>::new().range(1..=99))]
    pub(crate) rounds: u64,

    /// Connections that work at a time
    #[arg(long, default_value_t = 16, value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000))]
    pub(crate) connections: u64,

    /// Memory of the server for cached data, in MiB
    #[arg(long, default_value_t = 256, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 20))]
    pub(crate) cache_mib: u64,

    /// Draw the processor time over the size into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn entities() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(BATCH_ENTITIES..=1_000_000_000)
}

fn connections() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=10_000)
}

fn background_connections() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(0..=1_000_000)
}

/// From a tenth of a second to a day.
fn fractional_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.1..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("it is not between 0.1 and 86400".to_owned())
    }
}

/// A transaction needs all its entities in one partition.
fn per_partition(text: &str) -> Result<u64, String> {
    let count: u64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if count > 0 && count.is_multiple_of(BATCH_ENTITIES) {
        Ok(count)
    } else {
        Err("it is not a multiple of 100".to_owned())
    }
}

/// A table of many partitions has 1,000 entities in each.
fn growth_size(text: &str) -> Result<u64, String> {
    let count: u64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (1000..=1_000_000_000).contains(&count) && count.is_multiple_of(1000) {
        Ok(count)
    } else {
        Err("it is not a multiple of 1,000 up to 1,000,000,000".to_owned())
    }
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
