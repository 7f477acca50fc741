//! The command line of `growth`.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use std::path::PathBuf;

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
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = size,
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

/// A table of many partitions has 1,000 entities in each.
fn size(text: &str) -> Result<u64, String> {
    let count: u64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (1000..=1_000_000_000).contains(&count) && count.is_multiple_of(1000) {
        Ok(count)
    } else {
        Err("it is not a multiple of 1,000 up to 1,000,000,000".to_owned())
    }
}
