//! The options for tests and development: the initial data, and the test controls.

use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;

/// The options as given.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct TestArgs {
    /// Folder with the initial tables, in JSON Lines format or as export writes them (docs/test-controls.md)
    ///
    /// The tables are loaded before the server is ready, into the account whose connection string the server prints,
    /// unless that account already has a table.
    #[arg(long, env = "ROWHOUSE_SEED", value_name = "DIR")]
    pub seed: Option<PathBuf>,

    /// Let a test control the server through the admin listener; requires --in-memory (docs/test-controls.md)
    ///
    /// Anyone who can reach the listener can set the clock, create accounts, and save and restore all data. Without
    /// --admin, the listener uses a free port of this machine.
    #[arg(long, env = "ROWHOUSE_TEST_CONTROLS", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub test_controls: Option<bool>,
}

impl TestArgs {
    /// Fills missing options from another source.
    pub fn or(self, file: Self) -> Self {
        Self { seed: self.seed.or(file.seed), test_controls: self.test_controls.or(file.test_controls) }
    }
}
