//! The options of `rowhouse backup` and `rowhouse restore`.

use crate::store_url::StoreUrl;
use clap::Args;
use std::path::PathBuf;

/// The examples at the end of the help of backup.
pub const BACKUP_EXAMPLES: &str = "\
Examples:
  rowhouse backup --data /var/lib/rowhouse --to /mnt/backup/rowhouse
      all data as they are at this moment, whether a server runs or not
  rowhouse backup --data /var/lib/rowhouse --to /mnt/backup/rowhouse --keep 48 --quiet
      for cron, every half hour: keeps the backups of one day
  rowhouse backup --list /mnt/backup/rowhouse
  rowhouse backup --verify /mnt/backup/rowhouse
      reads all backups and checks every hash

The first backup writes everything. Each later one writes only what has changed since, and is as complete as the first: \
it can be restored without the others.

While a server runs, the command asks it for a snapshot, through a socket in the data folder that only the owner of the \
folder may use; no request waits for it. Run it as the user that the server runs as. An interrupted backup is \
not listed, and the next one uses what it wrote.

A backup contains all data, unencrypted. It has no accounts and keys, because the data folder has none.

Data in PostgreSQL are backed up with the tools of PostgreSQL, such as pg_dump or continuous archiving.";

/// The examples at the end of the help of restore.
pub const RESTORE_EXAMPLES: &str = "\
Examples:
  rowhouse restore --from /mnt/backup/rowhouse --data /var/lib/rowhouse-new
      the newest backup, into a folder that is missing or empty
  rowhouse restore --from /mnt/backup/rowhouse --at 2031-03-01T09:30:00Z --data ./as-it-was
      the newest backup up to this instant
  rowhouse restore --from /mnt/backup/rowhouse --table Cars=CarsBefore --data ./some
      only one table, under another name
  rowhouse restore --from /mnt/backup/rowhouse --table Cars=CarsBefore --into http://127.0.0.1:10002/orchard --into-key-file key
      the same into a running server, where entities get new Timestamps

Entities keep their Timestamps and ETags. All data are checked while they are read. No server opens the folder before all of \
them are on disk; run an interrupted restore again with the same folder.";

/// The options of backup as they were given; nothing is checked or filled in.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which shows no backticks")]
pub struct BackupArgs {
    /// Data folder to back up, whether a server runs on it or not
    #[arg(long, env = "ROWHOUSE_DATA", value_name = "DIR")]
    pub(super) data: Option<PathBuf>,

    /// Not supported: a database is backed up with its own tools, such as pg_dump
    #[arg(long, env = "ROWHOUSE_STORE", value_name = "URL", hide_env_values = true)]
    pub(super) store: Option<StoreUrl>,

    /// Folder for the backups of this data folder; created if it is missing
    #[arg(long, env = "ROWHOUSE_BACKUP_TO", value_name = "REPOSITORY", required_unless_present_any = ["list", "verify"])]
    pub(super) to: Option<PathBuf>,

    /// Keep only the newest COUNT backups: once the new one is complete, remove the others and what only they need
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) keep: Option<u32>,

    /// List the backups of a repository, and make none
    #[arg(long, value_name = "REPOSITORY", conflicts_with_all = ["keep", "verify"])]
    pub(super) list: Option<PathBuf>,

    /// Read all backups of a repository and check every hash, and make none
    #[arg(long, value_name = "REPOSITORY", conflicts_with = "keep")]
    pub(super) verify: Option<PathBuf>,

    /// Print nothing unless something goes wrong
    #[arg(long, short)]
    pub(super) quiet: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The options of restore as they were given; nothing is checked or filled in.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which shows no backticks")]
pub struct RestoreArgs {
    /// Folder with the backups
    #[arg(long, value_name = "REPOSITORY")]
    pub(super) from: PathBuf,

    /// New data folder; it must be missing or empty
    #[arg(long, value_name = "DIR", required_unless_present = "into", conflicts_with = "into")]
    pub(super) data: Option<PathBuf>,

    /// Write the tables of --table into this running server, data folder or database instead, as rowhouse copy does.
    /// Their entities get new Timestamps and ETags
    #[arg(long, env = "ROWHOUSE_INTO", value_name = "PLACE", hide_env_values = true, requires = "tables")]
    pub(super) into: Option<String>,

    /// File with the account key or shared access signature for --into; or put it in ROWHOUSE_INTO_KEY
    #[arg(long, env = "ROWHOUSE_INTO_KEY_FILE", value_name = "FILE", requires = "into")]
    pub(super) into_key_file: Option<PathBuf>,

    /// Name of the backup, as rowhouse backup --list shows it [default: the newest]
    #[arg(long, value_name = "NAME", conflicts_with = "at")]
    pub(super) backup: Option<String>,

    /// Take the newest backup up to this instant, such as 2031-03-01T09:30:00Z
    #[arg(long, value_name = "TIME")]
    pub(super) at: Option<String>,

    /// Restore only this table, under another name if one is given; may be repeated.
    /// With several accounts: ACCOUNT/NAME
    #[arg(long = "table", value_name = "NAME[=NEW]")]
    pub(super) tables: Vec<String>,

    /// Print nothing unless something goes wrong
    #[arg(long, short, conflicts_with = "into")]
    pub(super) quiet: bool,

    /// Print the result as JSON
    #[arg(long, conflicts_with = "into")]
    pub(super) json: bool,
}
