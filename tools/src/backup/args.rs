use crate::option_values::StoreUrl;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use object_storage::{MalformedAddress, ObjectStorage, is_address};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// The examples at the end of the help of `backup`.
pub const BACKUP_EXAMPLES: &str = "\
Examples:
  rowhouse backup --data /var/lib/rowhouse --to /mnt/backup/rowhouse
      a snapshot of all data, whether or not a server is running
  rowhouse backup --data /var/lib/rowhouse --to /mnt/backup/rowhouse --keep 48 --quiet
      for cron, every half hour: keeps the backups of one day
  rowhouse backup --data /var/lib/rowhouse --to /mnt/backup/rowhouse --follow
      while the server runs with --keep-log: also adds all changes, every 5 seconds, until it is stopped
  rowhouse backup --data /var/lib/rowhouse --to s3://my-backups/rowhouse
      into S3-compatible storage, with the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
  rowhouse backup --data /var/lib/rowhouse --to az://my-backups/rowhouse
      into Azure Blob storage, with the credentials in AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY
  rowhouse backup --list /mnt/backup/rowhouse
  rowhouse backup --verify /mnt/backup/rowhouse
      reads all backups and checks every hash

The first backup writes all data. Each later backup writes only data that has changed, but is just as \
complete: it can be restored without the others.

While a server runs, the command gets a snapshot from it through a socket in the data folder, which only the owner of the \
folder may use; requests to the server do not wait for the backup. Run the command as the same user as the server. An interrupted \
backup is not listed, and the next backup reuses the data that it wrote.

A backup contains all data, unencrypted. It contains no accounts and no keys, because the data folder has none.

For data in PostgreSQL, use the tools of PostgreSQL, such as pg_dump or continuous archiving.";

/// The examples at the end of the help of `restore`.
pub const RESTORE_EXAMPLES: &str = "\
Examples:
  rowhouse restore --from /mnt/backup/rowhouse --data /var/lib/rowhouse-new
      the latest state: the newest backup, and the log that --follow added since, into a missing or empty folder
  rowhouse restore --from /mnt/backup/rowhouse --at 2031-03-01T09:30:00Z --data ./as-it-was
      the newest backup from this time or earlier, without the log
  rowhouse restore --from /mnt/backup/rowhouse --to 2031-03-01T09:31:02.5Z --data ./as-it-was
      exactly that instant, from a backup and the log that --follow added
  rowhouse restore --from s3://my-backups/rowhouse --data ./new
      from S3-compatible storage, with the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
  rowhouse restore --from /mnt/backup/rowhouse --table Cars=CarsBefore --data ./some
      only one table, under a different name
  rowhouse restore --from /mnt/backup/rowhouse --table Cars=CarsBefore --into http://127.0.0.1:10002/orchard --into-key-file key
      the same, into a running server, where entities get new Timestamps

Entities keep their Timestamps and ETags. All data is verified as it is read. A server refuses to open the folder until \
all data is on disk. After an interruption, run the same restore again with the same folder.";

/// The options of `backup` as given, without validation or defaults.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
pub struct BackupArgs {
    /// Data folder to back up, whether or not a server is using it
    #[arg(long, env = "ROWHOUSE_DATA", value_name = "DIR")]
    pub(super) data: Option<PathBuf>,

    /// Not supported: back up a database with its own tools, such as pg_dump
    #[arg(long, env = "ROWHOUSE_STORE", value_name = "URL", hide_env_values = true)]
    pub(super) store: Option<StoreUrl>,

    /// Folder for the backups of this data folder, created if missing; or s3://BUCKET/PREFIX or az://CONTAINER/PREFIX
    #[arg(long, env = "ROWHOUSE_BACKUP_TO", value_name = "REPOSITORY", value_parser = RepositoryAddress::parser(), required_unless_present_any = ["list", "verify"])]
    pub(super) to: Option<RepositoryAddress>,

    /// Keep only the newest COUNT backups: when the new backup is complete, remove older backups and the data that only
    /// they need
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) keep: Option<u32>,

    /// Keep adding the changes of a running server, so that any instant can be restored
    ///
    /// The server must run with --keep-log. Makes a backup first, unless the repository has one that the server's log
    /// continues. Ends only when it is stopped.
    #[arg(long)]
    pub(super) follow: bool,

    /// How often --follow adds changes
    #[arg(long, value_name = "DURATION", default_value = "5s", requires = "follow")]
    pub(super) every: String,

    /// List the backups in a repository instead of creating one
    #[arg(long, value_name = "REPOSITORY", value_parser = RepositoryAddress::parser(), conflicts_with_all = ["keep", "verify", "follow"])]
    pub(super) list: Option<RepositoryAddress>,

    /// Read all backups in a repository and check every hash, instead of creating one
    #[arg(long, value_name = "REPOSITORY", value_parser = RepositoryAddress::parser(), conflicts_with_all = ["keep", "follow"])]
    pub(super) verify: Option<RepositoryAddress>,

    /// Print nothing unless something goes wrong
    #[arg(long, short)]
    pub(super) quiet: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The options of `restore` as given, without validation or defaults.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
pub struct RestoreArgs {
    /// Folder with the backups, or s3://BUCKET/PREFIX or az://CONTAINER/PREFIX
    #[arg(long, value_name = "REPOSITORY", value_parser = RepositoryAddress::parser())]
    pub(super) from: RepositoryAddress,

    /// New data folder; must be missing or empty
    #[arg(long, value_name = "DIR", required_unless_present = "into", conflicts_with = "into")]
    pub(super) data: Option<PathBuf>,

    /// Restore the tables of --table into this running server, data folder or database instead, like rowhouse copy
    ///
    /// The entities get new Timestamps and ETags.
    #[arg(long, env = "ROWHOUSE_INTO", value_name = "PLACE", hide_env_values = true, requires = "tables")]
    pub(super) into: Option<String>,

    /// File with the account key or shared access signature for --into; alternatively, set ROWHOUSE_INTO_KEY
    #[arg(long, env = "ROWHOUSE_INTO_KEY_FILE", value_name = "FILE", requires = "into")]
    pub(super) into_key_file: Option<PathBuf>,

    /// Restore only the backup with this name, as listed by rowhouse backup --list, or latest for the newest one,
    /// without the log that continues it
    #[arg(long, value_name = "NAME", conflicts_with = "at")]
    pub(super) backup: Option<String>,

    /// Restore only the newest backup from this time or earlier, such as 2031-03-01T09:30:00Z, without the log that
    /// continues it
    #[arg(long, value_name = "TIME")]
    pub(super) at: Option<String>,

    /// Restore the state at this time, such as 2031-03-01T09:30:00Z, or after the transaction with this position, or
    /// the latest state [default: latest]
    ///
    /// Uses the newest backup before it, and the log that rowhouse backup --follow added. With a time, all transactions
    /// with this Timestamp or an earlier one are restored. A position is one of the change feed, such as
    /// 00000000000000004711-002, or the number of a transaction, such as 4711.
    #[arg(long, value_name = "TIME|POSITION|latest", conflicts_with_all = ["backup", "at"])]
    pub(super) to: Option<String>,

    /// Folder for a temporary folder, if the log needs one [default: TMPDIR, or the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(super) scratch: Option<PathBuf>,

    /// Restore only this table, optionally under a different name; can be repeated
    ///
    /// If the backup has several accounts, use ACCOUNT/NAME.
    #[arg(long = "table", value_name = "NAME[=NEW]")]
    pub(super) tables: Vec<String>,

    /// Restore tables without their retention, so that entities that have expired in the meantime exist again
    #[arg(long)]
    pub(super) without_retention: bool,

    /// Print nothing unless something goes wrong
    #[arg(long, short, conflicts_with = "into")]
    pub(super) quiet: bool,

    /// Print the result as JSON
    #[arg(long, conflicts_with = "into")]
    pub(super) json: bool,
}

/// The address of a repository.
#[derive(Debug, Clone)]
pub enum RepositoryAddress {
    /// A folder.
    Folder(PathBuf),
    /// Object storage, such as `s3://bucket/prefix`. Clones share their connections.
    Remote(ObjectStorage),
}

impl RepositoryAddress {
    /// Parses options. A path does not have to be UTF-8.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(Self::parse)
    }

    fn parse(text: OsString) -> Result<Self, MalformedAddress> {
        match text.to_str().filter(|text| is_address(text)) {
            Some(address) => Ok(Self::Remote(ObjectStorage::new(address.parse()?))),
            None => Ok(Self::Folder(text.into())),
        }
    }
}

impl fmt::Display for RepositoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Remote(objects) => objects.fmt(f),
        }
    }
}
