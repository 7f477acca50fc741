//! The options for tests and development: the initial data, and the test controls.

use clap::Args;
use merge::Merge;
use serde::Deserialize;
use std::path::PathBuf;

/// The options as given.
#[derive(Debug, Clone, Default, Args, Deserialize, Merge)]
#[merge(strategy = merge::option::overwrite_none)]
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
    #[arg(long, env = "ROWHOUSE_TEST_CONTROLS")]
    pub test_controls: Option<bool>,
}
