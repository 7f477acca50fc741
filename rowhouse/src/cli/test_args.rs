//! The option of the controls for tests.

use clap::Args;
use serde::Deserialize;

/// The options as they were given.
#[derive(Debug, Clone, Copy, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct TestArgs {
    /// For tests only, with --in-memory: let everyone who reaches the admin listener set the clock, make accounts, keep and
    /// restore all data (docs/test-controls.md). Without --admin, it listens on a free port of this machine
    #[arg(long, env = "ROWHOUSE_TEST_CONTROLS", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub test_controls: Option<bool>,
}

impl TestArgs {
    /// Fills options that are not given from another source.
    pub fn or(self, file: Self) -> Self {
        Self { test_controls: self.test_controls.or(file.test_controls) }
    }
}
