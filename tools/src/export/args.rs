use crate::formats::FileFormat;
use clap::Args;
use std::path::PathBuf;

/// The examples at the end of the help of `export`.
pub const EXPORT_EXAMPLES: &str = "\
Examples:
  rowhouse export --from ./rowhouse-data --to ./backup
      all tables of a data folder as JSON Lines: ./backup/cars.jsonl and so on, and ./backup/export.json, \
      which lists them
  rowhouse export --from http://127.0.0.1:10002/devstoreaccount1 --table cars --to cars.csv
      one table of a running server as CSV, with a column for each property and one for its type
  ROWHOUSE_FROM_KEY='<key>' rowhouse export --from https://orchard.table.core.windows.net --table 'log*' --to ./logs
      some tables of an account in the cloud; the key does not appear in the process list
  rowhouse export --from ./rowhouse-data --table cars --filter \"Doors gt 4\" --select Doors,Weight --to - | jq .
      some entities and properties, to a pipe

The format of --from is the same as for copy: a data folder that no server is using, the URL of a service with its account, a \
connection string (preferably in ROWHOUSE_FROM), or a database. The account key or shared access signature is read from \
ROWHOUSE_FROM_KEY or from the --from-key-file file. A signature cannot read table policies: add --skip-policies. A \
signature for a single table cannot list tables: add --table NAME.

After Ctrl-C, a crash or a lost connection, the same command continues where it stopped; its state file is next to the \
target. Do not write to the tables during the export, because it is not a snapshot.";

/// The options of `export` as given, without validation or defaults.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
pub struct ExportArgs {
    /// Source: a data folder, a database, the URL of a service with its account, or a connection string
    #[arg(long, env = "ROWHOUSE_FROM", value_name = "PLACE", hide_env_values = true)]
    pub(super) from: String,

    /// Target: a folder, which gets one file per table; a file for one table; or - for standard output
    #[arg(long, value_name = "DIR|FILE|-", allow_hyphen_values = true)]
    pub(super) to: PathBuf,

    /// File with the account key or shared access signature for --from; alternatively, set ROWHOUSE_FROM_KEY
    #[arg(long, env = "ROWHOUSE_FROM_KEY_FILE", value_name = "FILE")]
    pub(super) from_key_file: Option<PathBuf>,

    /// Account to export, if --from has several
    #[arg(long, value_name = "NAME")]
    pub(super) account: Option<String>,

    /// Tables to export, comma-separated or repeated; a name that ends with * is a prefix [default: all]
    #[arg(long = "table", visible_alias = "tables", value_name = "NAMES", value_delimiter = ',')]
    pub(super) tables: Vec<String>,

    /// Format of the files [default: from the extension of FILE, otherwise jsonl]
    #[arg(long, value_enum)]
    pub(super) format: Option<FileFormat>,

    /// Write only matching entities, such as "PartitionKey eq 'north' and Count gt 5"
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    pub(super) filter: Option<String>,

    /// Write only these properties, comma-separated; the keys are always written
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) select: Vec<String>,

    /// Write the Timestamp of each entity and, in JSON, its ETag; import ignores them
    #[arg(long)]
    pub(super) with_timestamps: bool,

    /// Maximum number of key ranges that are read in parallel
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) parallel: u16,

    /// Skip the stored access policies, the retention and the indexes of tables
    #[arg(long)]
    pub(super) skip_policies: bool,

    /// Replace an existing export
    #[arg(long)]
    pub(super) overwrite: bool,
}
