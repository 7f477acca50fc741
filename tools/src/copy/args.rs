use clap::Args;
use std::path::PathBuf;

/// The examples at the end of the help of `copy`.
pub const COPY_EXAMPLES: &str = "\
Examples:
  rowhouse copy --from http://127.0.0.1:10002/devstoreaccount1 --to ./rowhouse-data
      from the development emulator, or from a running Rowhouse, into a new data folder
  ROWHOUSE_FROM_KEY='<key>' rowhouse copy --from https://orchard.table.core.windows.net --to /var/lib/rowhouse
      a whole account in the cloud; the key does not appear in the process list
  rowhouse copy --from ./rowhouse-data --to https://orchard.table.core.windows.net --to-key-file orchard.key
      the other direction; choose an account with --account if the folder has several
  rowhouse copy --from ./old --to ./new --tables 'cars,log*'
      one table, and all tables whose names begin with 'log'
  rowhouse copy --follow --no-verify --from http://127.0.0.1:10002/orchard --to 'postgres://rowhouse@pg/tables'
      while clients write to the source; run it again without --no-verify when they have stopped
  rowhouse copy --from ./old --to ./new --verify-only
      compares both sides without copying

Where to copy from and to:
  a path                                        a data folder; no server may run on it
  http://HOST:PORT/ACCOUNT                      a service in path style
  https://ACCOUNT.table.core.windows.net        a service in host style
  postgres://USER@HOST:PORT/DATABASE            a database that servers share; pass its password like a key
  DefaultEndpointsProtocol=...;AccountName=...  a connection string; better in ROWHOUSE_FROM or ROWHOUSE_TO, because
                                                other users of the machine can read the command line

Credentials: a service needs an account key or a shared access signature (a token, a URL or a connection string) in \
ROWHOUSE_FROM_KEY or ROWHOUSE_TO_KEY, or in the file given by --from-key-file or --to-key-file. The development account \
needs none. A signature cannot read or set table policies: add --skip-policies.

The copy includes tables, entities, stored access policies and service properties. Timestamps and ETags are new, \
because the target sets them. Without --follow, do not write to either side during the copy.

After Ctrl-C, a crash or a lost connection, the same command continues where it stopped, according to its state file. The \
exit code is 0 if everything was copied and both sides are equal, and 1 otherwise.";

/// The options of `copy` as given, without validation or defaults.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
pub struct CopyArgs {
    /// Source: a data folder, a database, the URL of a service with its account, or a connection string
    #[arg(long, env = "ROWHOUSE_FROM", value_name = "PLACE", hide_env_values = true)]
    pub(super) from: String,

    /// Target, like --from; a missing data folder is created
    #[arg(long, env = "ROWHOUSE_TO", value_name = "PLACE", hide_env_values = true)]
    pub(super) to: String,

    /// File with the account key or shared access signature for --from; alternatively, set ROWHOUSE_FROM_KEY
    #[arg(long, env = "ROWHOUSE_FROM_KEY_FILE", value_name = "FILE")]
    pub(super) from_key_file: Option<PathBuf>,

    /// File with the account key or shared access signature for --to; alternatively, set ROWHOUSE_TO_KEY
    #[arg(long, env = "ROWHOUSE_TO_KEY_FILE", value_name = "FILE")]
    pub(super) to_key_file: Option<PathBuf>,

    /// Copy only this account [default: all accounts of --from]
    #[arg(long, value_name = "NAME")]
    pub(super) account: Option<String>,

    /// Name of the account in the target folder [default: as in --from]
    #[arg(long, value_name = "NAME")]
    pub(super) to_account: Option<String>,

    /// Copy only these tables, comma-separated; a name that ends with * is a prefix
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) tables: Vec<String>,

    /// Maximum number of concurrent transactions [default: 16, or 256 into a data folder]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) parallel: Option<u16>,

    /// Write into tables that already contain entities: entities with the same keys are replaced, other entities are
    /// kept
    #[arg(long)]
    pub(super) overwrite: bool,

    /// Skip the stored access policies, the retention and the indexes of tables
    #[arg(long)]
    pub(super) skip_policies: bool,

    /// Skip the service properties: CORS rules, logging, metrics
    #[arg(long)]
    pub(super) skip_properties: bool,

    /// Also apply the changes that the source, a running server with --keep-log, has made since the copy began. Keeps
    /// the state file: the same command, run again, applies only what has changed since
    #[arg(long, conflicts_with = "verify_only")]
    pub(super) follow: bool,

    /// Do not compare both sides after the copy
    #[arg(long, conflicts_with = "verify_only")]
    pub(super) no_verify: bool,

    /// Only compare both sides, without copying
    #[arg(long)]
    pub(super) verify_only: bool,

    /// File that records the progress of the copy [default: rowhouse-copy-<from and to>.json in the current folder]
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
}
