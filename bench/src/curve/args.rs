use crate::child::ServerArgs;
use crate::dataset::EntitySize;
use crate::process::Node;
use crate::size_args::{connections, thousands};
use clap::Args;
use clap::builder::RangedU64ValueParser;

/// The sizes and durations of the measurements.
#[derive(Debug, Args)]
pub(crate) struct CurveArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Measure running servers instead, which share a database: their URLs. In this case, startup, backup and disk are
    /// not measured
    #[arg(long, value_name = "URL", conflicts_with_all = ["server_binary", "folder", "cache_mib"])]
    pub(crate) endpoint: Vec<String>,

    /// Process IDs of these servers
    #[arg(long, requires = "endpoint")]
    pub(crate) pid: Vec<u32>,

    /// Process IDs of the nodes of their database
    #[arg(long, value_name = "[NAME=]PID", value_parser = Node::parse, requires = "endpoint")]
    pub(crate) database_pid: Vec<Node>,

    /// Numbers of entities in the table, in ascending order and separated by commas; multiples of 1,000
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = thousands,
          default_values_t = [1_000_000, 10_000_000, 100_000_000])]
    pub(crate) sizes: Vec<u64>,

    /// Size of each entity's JSON, in bytes
    #[arg(long, value_enum, default_value = "100")]
    pub(crate) entity_bytes: EntitySize,

    /// Duration of each measurement except loads and scans, in seconds
    #[arg(long, default_value_t = 5, value_parser = RangedU64ValueParser::<u64>::new().range(1..=3600))]
    pub(crate) seconds: u64,

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
