//! The options for tests and development: what the server begins with, and what a test may do to it.

use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;

/// The options as they were given.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct TestArgs {
    /// Folder with the tables to begin with, as JSON lines or as export writes them (docs/test-controls.md). They are loaded before
    /// the server is ready, into the account whose connection string it prints, unless that has a table already
    #[arg(long, env = "ROWHOUSE_SEED", value_name = "DIR")]
    pub seed: Option<PathBuf>,

    /// For tests only, with --in-memory: let everyone who reaches the admin listener set the clock, make accounts, keep and
    /// restore all data (docs/test-controls.md). Without --admin, it listens on a free port of this machine
    #[arg(long, env = "ROWHOUSE_TEST_CONTROLS", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub test_controls: Option<bool>,
}

impl TestArgs {
    /// Fills options that are not given from another source.
    pub fn or(self, file: Self) -> Self {
        Self { seed: self.seed.or(file.seed), test_controls: self.test_controls.or(file.test_controls) }
    }
}
