//! The option for Storage Analytics.

use clap::Args;
use merge::Merge;
use serde::Deserialize;

/// The options as given.
#[derive(Debug, Clone, Copy, Default, Args, Deserialize, Merge)]
#[merge(strategy = merge::option::overwrite_none)]
#[serde(rename_all = "kebab-case", default)]
pub struct AnalyticsArgs {
    /// Keep metrics about each account's requests in the tables of Storage Analytics ($Metrics)
    ///
    /// The service properties of the account control which metrics are kept. A new account has hourly metrics, which
    /// are kept for seven days.
    #[arg(long, env = "ROWHOUSE_ANALYTICS")]
    pub analytics: Option<bool>,
}
