//! The options of `rowhouse import`.

use crate::endpoints::WriteMode;
use crate::formats::FileFormat;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The examples at the end of the help of import.
pub const IMPORT_EXAMPLES: &str = "\
Examples:
  rowhouse import --from ./backup --to ./rowhouse-data
      everything that an export wrote, with the policies of its tables, into a data folder on which no server runs
  rowhouse import --from cars.csv --to http://127.0.0.1:10002/devstoreaccount1 --table cars
      one file into a table of a running server
  ROWHOUSE_TO_KEY='<key>' rowhouse import --from ./backup --to https://orchard.table.core.windows.net --mode replace
      into an account in the cloud, where existing entities are replaced; the key does not appear in the list of processes
  rowhouse import --from people.csv --types Age=Edm.Int32,Born=Edm.DateTime --to ./rowhouse-data --table people
      CSV without columns of types: what --types does not name becomes a string, or with --guess-types what its values are
  jq -c 'select(.Doors > 4)' cars.jsonl | rowhouse import --from - --to ./rowhouse-data --table cars
      from a pipe
  rowhouse import --from cars.jsonl --to ./rowhouse-data --skip-bad 100 --bad-lines bad.jsonl
      skips up to 100 lines that are not entities, and keeps them in a file to be corrected

Each line is one entity: an object with PartitionKey, RowKey and properties, and \"NAME@odata.type\":\"Edm.Int64\" where JSON \
does not have the type. In CSV the first line names the columns, and a column NAME@type has the types. Timestamps and \
ETags are ignored, because the target sets them.

--to is given as for copy: a data folder on which no server runs, the URL of a service with its account, a connection string \
(best in ROWHOUSE_TO), or a database. An account key or a shared access signature is read from ROWHOUSE_TO_KEY, or from the \
file of --to-key-file. A signature cannot set policies: add --skip-policies.

After Ctrl-C, a crash or a lost connection, the same command continues where it stopped; entities that it writes again are \
the same. An import from a pipe begins again with the first line.";

/// What happens to entities that exist already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ImportMode {
    /// An existing entity is an error, unless it is equal
    Insert,
    /// All properties of an existing entity are replaced
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

    /// The account, if --to is a folder or a database [default: the one of the export, or the only one that exists]
    #[arg(long, value_name = "NAME")]
    pub(super) account: Option<String>,

    /// For a file, the table [default: the name of the file]; for a folder, the tables to import [default: all]
    #[arg(long = "table", visible_alias = "tables", value_name = "NAMES", value_delimiter = ',')]
    pub(super) tables: Vec<String>,

    /// What happens to entities that exist already
    #[arg(long, value_enum, default_value = "insert")]
    pub(super) mode: ImportMode,

    /// Format of a file [default: by its extension, else jsonl]
    #[arg(long, value_enum)]
    pub(super) format: Option<FileFormat>,

    /// Types of properties for CSV without columns of types, as NAME=Edm.Int32, separated by commas
    #[arg(long, value_name = "NAME=TYPE", value_delimiter = ',')]
    pub(super) types: Vec<String>,

    /// Guess the types of CSV columns that have none in the file or in --types from the first 4000 records
    #[arg(long)]
    pub(super) guess_types: bool,

    /// Most lines that are skipped because they are not entities, or because --mode insert finds a different entity
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(super) skip_bad: u64,

    /// File for the skipped lines, byte for byte; only with one table
    #[arg(long, value_name = "FILE")]
    pub(super) bad_lines: Option<PathBuf>,

    /// Most transactions that are written at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) parallel: u16,

    /// Leave out the stored access policies of tables
    #[arg(long)]
    pub(super) skip_policies: bool,

    /// File that records how far the import is [default: rowhouse-import-<from and to>.json in the current folder]
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
}
