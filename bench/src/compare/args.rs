//! The command line of `compare`.

use crate::child::ServerArgs;
use crate::generator::workload::BATCH_ENTITIES;
use clap::Args;
use clap::builder::RangedU64ValueParser;

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Number of entities in the table
    #[arg(long, default_value_t = 100_000, value_parser = RangedU64ValueParser::<u64>::new().range(BATCH_ENTITIES..=1_000_000_000))]
    pub(crate) entities: u64,

    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u64>::new().range(1..=24 * 3600))]
    pub(crate) seconds: u64,

    /// Number of rounds of each measurement
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u64>::new().range(1..=99))]
    pub(crate) rounds: u64,

    /// Run one round of one second on 10,000 entities, to check that everything works rather than to measure it
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measure only the lines whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// Also measure the server at this URL. It must have the development account
    #[arg(long, value_name = "URL")]
    pub(crate) other: Option<String>,

    /// Process ID of the other server
    #[arg(long, requires = "other")]
    pub(crate) other_pid: Option<u32>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
