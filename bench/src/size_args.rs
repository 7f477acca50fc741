//! The options for the size of a measurement, and the ranges of counts.

use crate::dataset::{EntitySize, PER_PARTITION_DEFAULT};
use crate::generator::workload::BATCH_ENTITIES;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use std::str::FromStr;
use std::time::Duration;

/// The size of a measurement.
#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    /// Number of entities in the table
    #[arg(long, default_value_t = 10_000, value_parser = entities())]
    pub(crate) entities: u64,

    /// Size of each entity's JSON, in bytes
    #[arg(long, value_enum, default_value = "1024")]
    pub(crate) entity_bytes: EntitySize,

    /// Number of entities per partition, a multiple of 100
    #[arg(long, default_value_t = PER_PARTITION_DEFAULT, value_parser = per_partition)]
    pub(crate) per_partition: u64,

    /// Duration of the measurement in seconds, such as 5 or 0.2
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = fractional_seconds)]
    pub(crate) seconds: Duration,
}

pub(crate) fn entities() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(BATCH_ENTITIES..=1_000_000_000)
}

pub(crate) fn connections() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=10_000)
}

fn number<T: FromStr>(text: &str, is_valid: impl FnOnce(&T) -> bool, expected: &str) -> Result<T, String> {
    let number = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if is_valid(&number) { Ok(number) } else { Err(format!("it is not {expected}")) }
}

fn fractional_seconds(text: &str) -> Result<Duration, String> {
    let seconds = number(text, |seconds| (0.1..=86_400.0).contains(seconds), "between 0.1 and 86400")?;
    Ok(Duration::from_secs_f64(seconds))
}

fn per_partition(text: &str) -> Result<u64, String> {
    number(text, |count: &u64| *count > 0 && count.is_multiple_of(BATCH_ENTITIES), "a multiple of 100")
}

/// The entities must fill whole partitions, because a table of many partitions has 1,000 entities in each.
pub(crate) fn thousands(text: &str) -> Result<u64, String> {
    let is_valid = |count: &u64| (1000..=1_000_000_000).contains(count) && count.is_multiple_of(1000);
    number(text, is_valid, "a multiple of 1,000 up to 1,000,000,000")
}
