//! The option for Storage Analytics.

use clap::Args;
use serde::Deserialize;

/// The options as given.
#[derive(Debug, Clone, Copy, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct AnalyticsArgs {
    /// Keep metrics about each account's requests in the tables of Storage Analytics ($Metrics)
    ///
    /// The service properties of the account control which metrics are kept. A new account has hourly metrics, which
    /// are kept for seven days.
    #[arg(long, env = "ROWHOUSE_ANALYTICS", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub analytics: Option<bool>,
}

impl AnalyticsArgs {
    /// Fills missing options from another source.
    pub fn or(self, file: Self) -> Self {
        Self { analytics: self.analytics.or(file.analytics) }
    }
}
