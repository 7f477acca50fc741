//! The option of Storage Analytics.

use clap::Args;
use serde::Deserialize;

/// The options as they were given.
#[derive(Debug, Clone, Copy, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct AnalyticsArgs {
    /// Keep metrics about the requests of each account in the tables of Storage Analytics ($Metrics), as its service
    /// properties say. A new account then has metrics by the hour, for seven days
    #[arg(long, env = "ROWHOUSE_ANALYTICS", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub analytics: Option<bool>,
}

impl AnalyticsArgs {
    /// Fills options that are not given from another source.
    pub fn or(self, file: Self) -> Self {
        Self { analytics: self.analytics.or(file.analytics) }
    }
}
