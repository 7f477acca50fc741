//! The options of `rowhouse export`.

use crate::formats::FileFormat;
use clap::Args;
use std::path::PathBuf;

/// The examples at the end of the help of export.
pub const EXPORT_EXAMPLES: &str = "\
Examples:
  rowhouse export --from ./rowhouse-data --to ./backup
      all tables of a data folder as JSON lines: ./backup/cars.jsonl and so on, and ./backup/export.json, \
      which lists them
  rowhouse export --from http://127.0.0.1:10002/devstoreaccount1 --table cars --to cars.csv
      one table of a running server as CSV, with a column for each property and one for its type
  ROWHOUSE_FROM_KEY='<key>' rowhouse export --from https://orchard.table.core.windows.net --table 'log*' --to ./logs
      some tables of an account in the cloud; the key does not appear in the list of processes
  rowhouse export --from ./rowhouse-data --table cars --filter \"Doors gt 4\" --select Doors,Weight --to - | jq .
      some entities and properties, into a pipe

--from is given as for copy: a data folder on which no server runs, the URL of a service with its account, a connection \
string (best in ROWHOUSE_FROM), or a database. An account key or a shared access signature is read from ROWHOUSE_FROM_KEY, \
or from the file of --from-key-file. A signature cannot read the policies of tables: add --skip-policies. One for a single \
table cannot list tables: add --table NAME.

After Ctrl-C, a crash or a lost connection, the same command continues where it stopped; its state file is next to the \
target. Do not write to the tables during the export, because it is not a snapshot.";

/// The options of export as they were given; nothing is checked or filled in.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which shows no backticks")]
pub struct ExportArgs {
    /// Where to read from: a data folder, a database, the URL of a service with its account, or a connection string
    #[arg(long, env = "ROWHOUSE_FROM", value_name = "PLACE", hide_env_values = true)]
    pub(super) from: String,

    /// Where to write to: a folder, which gets a file for each table; a file for one table; or - for standard output
    #[arg(long, value_name = "DIR|FILE|-", allow_hyphen_values = true)]
    pub(super) to: PathBuf,

    /// File with the account key or shared access signature for --from; or put it in ROWHOUSE_FROM_KEY
    #[arg(long, env = "ROWHOUSE_FROM_KEY_FILE", value_name = "FILE")]
    pub(super) from_key_file: Option<PathBuf>,

    /// The account, if --from has several
    #[arg(long, value_name = "NAME")]
    pub(super) account: Option<String>,

    /// The tables, separated by commas or repeated; a name that ends with * is a prefix [default: all]
    #[arg(long = "table", visible_alias = "tables", value_name = "NAMES", value_delimiter = ',')]
    pub(super) tables: Vec<String>,

    /// Format of the files [default: by the extension of FILE, else jsonl]
    #[arg(long, value_enum)]
    pub(super) format: Option<FileFormat>,

    /// Write only entities that match, such as "PartitionKey eq 'north' and Count gt 5"
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    pub(super) filter: Option<String>,

    /// Write only these properties, separated by commas; the keys are always written
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) select: Vec<String>,

    /// Write the Timestamp of each entity, and its ETag in JSON; import ignores them
    #[arg(long)]
    pub(super) with_timestamps: bool,

    /// Most key ranges that are read at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) parallel: u16,

    /// Leave out the stored access policies of tables
    #[arg(long)]
    pub(super) skip_policies: bool,

    /// Replace an existing export
    #[arg(long)]
    pub(super) overwrite: bool,
}
