//! The options of `rowhouse import`.

use crate::formats::FileFormat;
use clap::{Args, ValueEnum};
use client::WriteMode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Examples, for the end of the help.
pub const IMPORT_EXAMPLES: &str = "\
Examples:
  rowhouse import --from ./backup --to ./rowhouse-data
      everything that an export wrote, with the policies of its tables, into a data folder on which no server runs
  rowhouse import --from cars.csv --to http://127.0.0.1:10002/devstoreaccount1 --table cars
      one file into a table of a running server
  ROWHOUSE_TO_KEY='<key>' rowhouse import --from ./backup --to https://orchard.table.core.windows.net --mode replace
      into an account in the cloud, over what is there; the key stays out of the list of processes
  rowhouse import --from people.csv --types Age=Edm.Int32,Born=Edm.DateTime --to ./rowhouse-data --table people
      CSV without columns of types: what --types does not name becomes a string
  jq -c 'select(.Doors > 4)' cars.jsonl | rowhouse import --from - --to ./rowhouse-data --table cars
      out of a pipe
  rowhouse import --from cars.jsonl --to ./rowhouse-data --skip-bad 100 --bad-lines bad.jsonl
      passes over as many as 100 lines that are no entities, and keeps them in a file to be mended

Each line is one entity: an object with PartitionKey, RowKey and properties, and \"NAME@odata.type\":\"Edm.Int64\" where JSON
does not tell the type. In CSV the first line names the columns, and a column NAME@type holds the types. Timestamps and
ETags are passed over: only the target can give them.

Where to write to is said as for copy: a data folder, the URL of a service with its account, a connection string (best in
ROWHOUSE_TO), or a database. An account key or a shared access signature stands in ROWHOUSE_TO_KEY, or in the file of
--to-key-file. A signature cannot set policies: add --skip-policies.

Ctrl-C, a crash or a broken line do no harm: the same command goes on where it stopped, and writes nothing twice that
would not be the same. What comes out of a pipe is begun anew.";

/// What happens to entities that exist already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ImportMode {
    /// They are errors, unless they are the same already
    Insert,
    /// All their properties are replaced
    Replace,
    /// The properties of the file are set, the others stay
    Merge,
}

impl From<ImportMode> for WriteMode {
    fn from(mode: ImportMode) -> Self {
        match mode {
            ImportMode::Insert => Self::Insert,
            ImportMode::Replace => Self::Replace,
            ImportMode::Merge => Self::Merge,
        }
    }
}

/// The options of import as they were given; nothing is checked or filled in.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which shows no backticks")]
pub struct ImportArgs {
    /// What to read: the folder of an export, a file, or - for standard input
    #[arg(long, value_name = "DIR|FILE|-", allow_hyphen_values = true)]
    pub(super) from: PathBuf,

    /// Where to write to: a data folder, a database, the URL of a service with its account, or a connection string
    #[arg(long, env = "ROWHOUSE_TO", value_name = "PLACE", hide_env_values = true)]
    pub(super) to: String,

    /// File with the account key or shared access signature for --to; or put it in ROWHOUSE_TO_KEY
    #[arg(long, env = "ROWHOUSE_TO_KEY_FILE", value_name = "FILE")]
    pub(super) to_key_file: Option<PathBuf>,

    /// The account, if --to is a folder or a database [default: the one of the export, or the only one there is]
    #[arg(long, value_name = "NAME")]
    pub(super) account: Option<String>,

    /// For a file, the table [default: as the file is called]; for a folder, the tables to take out of it [default: all]
    #[arg(long = "table", visible_alias = "tables", value_name = "NAMES", value_delimiter = ',')]
    pub(super) tables: Vec<String>,

    /// What happens to entities that are there already
    #[arg(long, value_enum, default_value = "insert")]
    pub(super) mode: ImportMode,

    /// What a file is [default: what its name ends with, else jsonl]
    #[arg(long, value_enum)]
    pub(super) format: Option<FileFormat>,

    /// Types of properties for CSV that does not tell them, as NAME=Edm.Int32, separated by commas
    #[arg(long, value_name = "NAME=TYPE", value_delimiter = ',')]
    pub(super) types: Vec<String>,

    /// Most lines that are passed over because they are no entities, or because --mode insert finds another entity
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(super) skip_bad: u64,

    /// File that gets the lines that are passed over, as they are; only for one table
    #[arg(long, value_name = "FILE")]
    pub(super) bad_lines: Option<PathBuf>,

    /// Most transactions on their way at a time
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) parallel: u16,

    /// Leave out the stored access policies of tables
    #[arg(long)]
    pub(super) skip_policies: bool,

    /// File that keeps how far the import is [default: rowhouse-import-<from and to>.json in the current folder]
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
}
