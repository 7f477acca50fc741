use crate::endpoints::WriteMode;
use crate::formats::FileFormat;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The examples at the end of the help of `import`.
pub const IMPORT_EXAMPLES: &str = "\
Examples:
  rowhouse import --from ./backup --to ./rowhouse-data
      everything that an export wrote, including table policies, into a data folder that no server is using
  rowhouse import --from cars.csv --to http://127.0.0.1:10002/devstoreaccount1 --table cars
      one file, into a table of a running server
  ROWHOUSE_TO_KEY='<key>' rowhouse import --from ./backup --to https://orchard.table.core.windows.net --mode replace
      into an account in the cloud, replacing existing entities; the key does not appear in the process list
  rowhouse import --from people.csv --types Age=Edm.Int32,Born=Edm.DateTime --to ./rowhouse-data --table people
      CSV without type columns: properties that --types does not list become strings, or, with --guess-types, what their values suggest
  jq -c 'select(.Doors > 4)' cars.jsonl | rowhouse import --from - --to ./rowhouse-data --table cars
      from a pipe
  rowhouse import --from cars.jsonl --to ./rowhouse-data --skip-bad 100 --bad-lines bad.jsonl
      skips up to 100 malformed lines, and saves them in a file for correction

Each line is one entity: an object with PartitionKey, RowKey and properties, and \"NAME@odata.type\":\"Edm.Int64\" for types that \
JSON does not have. In CSV, the first line names the columns, and a column NAME@type contains the types. Timestamps and ETags \
are ignored, because the target sets them.

The format of --to is the same as for copy: a data folder that no server is using, the URL of a service with its account, a \
connection string (preferably in ROWHOUSE_TO), or a database. The account key or shared access signature is read from \
ROWHOUSE_TO_KEY or from the --to-key-file file. A signature cannot set policies: add --skip-policies.

After Ctrl-C, a crash or a lost connection, the same command continues where it stopped. Entities that it writes twice are \
unchanged. An import from a pipe starts again at the first line.";

/// The treatment of existing entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ImportMode {
    /// An existing entity is an error, unless it is equal
    Insert,
    /// All properties of an existing entity are replaced
    Replace,
    /// The properties in the file are set, other properties are kept
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

/// The options of `import` as given, without validation or defaults.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
pub struct ImportArgs {
    /// Source: the folder of an export, a file, or - for standard input
    #[arg(long, value_name = "DIR|FILE|-", allow_hyphen_values = true)]
    pub(super) from: PathBuf,

    /// Target: a data folder, a database, the URL of a service with its account, or a connection string
    #[arg(long, env = "ROWHOUSE_TO", value_name = "PLACE", hide_env_values = true)]
    pub(super) to: String,

    /// File with the account key or shared access signature for --to; alternatively, set ROWHOUSE_TO_KEY
    #[arg(long, env = "ROWHOUSE_TO_KEY_FILE", value_name = "FILE")]
    pub(super) to_key_file: Option<PathBuf>,

    /// Account, if --to is a folder or a database [default: the account of the export, or the only existing account]
    #[arg(long, value_name = "NAME")]
    pub(super) account: Option<String>,

    /// For a file, the target table [default: the name of the file]; for a folder, the tables to import [default: all]
    #[arg(long = "table", visible_alias = "tables", value_name = "NAMES", value_delimiter = ',')]
    pub(super) tables: Vec<String>,

    /// What happens to existing entities
    #[arg(long, value_enum, default_value = "insert")]
    pub(super) mode: ImportMode,

    /// Format of a file [default: from its extension, otherwise jsonl]
    #[arg(long, value_enum)]
    pub(super) format: Option<FileFormat>,

    /// Property types for CSV without type columns, as comma-separated NAME=Edm.Int32
    #[arg(long, value_name = "NAME=TYPE", value_delimiter = ',')]
    pub(super) types: Vec<String>,

    /// Guess the types of CSV columns from the first 4000 records, if neither the file nor --types specifies them
    #[arg(long)]
    pub(super) guess_types: bool,

    /// Maximum number of lines to skip because they are malformed, or because --mode insert finds a different entity
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(super) skip_bad: u64,

    /// File to which skipped lines are copied byte for byte; only for an import of one table
    #[arg(long, value_name = "FILE")]
    pub(super) bad_lines: Option<PathBuf>,

    /// Maximum number of concurrent transactions
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) parallel: u16,

    /// Skip the stored access policies, the retention and the indexes of tables
    #[arg(long)]
    pub(super) skip_policies: bool,

    /// File that records the progress of the import [default: rowhouse-import-<from and to>.json in the current
    /// folder]
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
}
