use super::{CACHE_MIB, QUIET_SECONDS};
use crate::child::ServerArgs;
use clap::Args;
use clap::builder::RangedU64ValueParser;

/// The size of the histories.
#[derive(Debug, Args)]
pub(crate) struct ChurnArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Number of entities in each table, and number of overwrites, inserts and deletions
    #[arg(long, default_value_t = 100_000, value_parser = RangedU64ValueParser::<u64>::new().range(1000..=1_000_000_000))]
    pub(crate) entities: u64,

    /// Duration of each measured read, in seconds
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u64>::new().range(1..=3600))]
    pub(crate) seconds: u64,

    /// Duration for which a quiet server receives no requests, in seconds
    #[arg(long, default_value_t = QUIET_SECONDS, value_parser = RangedU64ValueParser::<u64>::new().range(0..=3600))]
    pub(crate) quiet_seconds: u64,

    /// Size of the server's cache, in MiB
    #[arg(long, default_value_t = CACHE_MIB, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 20))]
    pub(crate) cache_mib: u64,

    /// Measure only the histories that have a stage whose name contains this text, such as "queue"
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
