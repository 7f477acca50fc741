//! The command line: commands and their options, which may also come from the environment or from a file.
//!
//! Nothing is checked here; `config.rs` does that.

mod analytics_args;
mod azurite_args;
pub mod manual;
mod quota_args;
mod test_args;
mod throttle_args;

pub use analytics_args::AnalyticsArgs;
pub use azurite_args::{AzuriteArgs, OAuthLevel};
pub use quota_args::QuotaArgs;
pub use test_args::TestArgs;
pub use throttle_args::ThrottleArgs;

use crate::accounts::{self, AccountsArgs};
use crate::certificate::{self, CertificateArgs};
use crate::health::{self, HealthArgs};
use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use manual::{CompletionsArgs, ManArgs};
use serde::Deserialize;
use server::{LogFormat, OAuthSection, Secondary};
use std::path::PathBuf;
use tools::StoreUrl;
use tools::backup::{self, BackupArgs, RestoreArgs};
use tools::check::{self, CheckArgs};
use tools::commands::{ENTITY_EXAMPLES, EntityArgs, TABLE_EXAMPLES, TableArgs};
use tools::copy::{self, CopyArgs};
use tools::export::{self, ExportArgs};
use tools::import::{self, ImportArgs};
use tools::sas::SasArgs;

/// Rowhouse keeps Azure Tables on your own machine.
///
/// It speaks the Azure Table Storage protocol, so the client libraries you use with the cloud work unchanged.
#[derive(Debug, Parser)]
#[command(
    name = "rowhouse",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server
    ///
    /// Without any option it serves the well-known development account on 127.0.0.1:10002 and keeps the data in
    /// ./rowhouse-data. When it is ready it prints the address and a connection string for client libraries.
    #[command(after_long_help = EXAMPLES)]
    Serve(Box<ServeArgs>),

    /// Run in the place of the Azurite emulator, with its options: tables by this server, blobs and queues by its own programs
    ///
    /// It prints the lines that tools wait for which start the emulator, and stops as the emulator does.
    #[command(after_long_help = azurite_args::EXAMPLES, args_override_self = true, disable_version_flag = true)]
    Azurite(Box<AzuriteArgs>),

    /// Make a shared access signature: a token with limited rights for a limited time
    ///
    /// It is signed with a key of the account, which is read as the server reads it; no server is needed. It prints the
    /// token, a URL and a connection string that are ready to use.
    Sas(Box<SasArgs>),

    /// Make accounts and their keys for a file of accounts
    ///
    /// A running server reads a file that changed within a second, and at once on SIGHUP.
    #[command(after_long_help = accounts::EXAMPLES)]
    Accounts(Box<AccountsArgs>),

    /// Make a certificate and its private key, for a server with TLS
    ///
    /// The certificate signs itself, so clients trust it once they are given its file. For a server that strangers use, get a
    /// certificate from an authority instead.
    #[command(after_long_help = certificate::EXAMPLES)]
    Certificate(Box<CertificateArgs>),

    /// Copy everything from one place to another: data folders, running servers, accounts in the cloud
    ///
    /// It continues where it stopped, shows its progress, and at the end compares both sides entity by entity.
    #[command(after_long_help = copy::COPY_EXAMPLES)]
    Copy(Box<CopyArgs>),

    /// Back up a data folder, while its server runs: complete each time, and incremental on disk
    ///
    /// The snapshot is of one instant. What did not change since an earlier backup is not written again, and every byte is
    /// covered by a hash.
    #[command(after_long_help = backup::BACKUP_EXAMPLES)]
    Backup(Box<BackupArgs>),

    /// Restore a backup into a new data folder, with every Timestamp and ETag as it was
    #[command(after_long_help = backup::RESTORE_EXAMPLES)]
    Restore(Box<RestoreArgs>),

    /// Check a data folder, or a repository of backups, from end to end, and change nothing
    ///
    /// It reports what is wrong and where, and counts what is there.
    #[command(after_long_help = check::CHECK_EXAMPLES)]
    Check(Box<CheckArgs>),

    /// Ask a running server whether it is ready, for health checks of containers
    ///
    /// It finds the server by the environment or the file of options: run it with those of the server. With an admin
    /// listener it requests /readyz there; without one, any response of the server counts.
    #[command(after_long_help = health::EXAMPLES)]
    Health(Box<HealthArgs>),

    /// Print the script that completes commands and options in a shell
    #[command(after_long_help = manual::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),

    /// Print the manual page of a command, or write the pages of all
    #[command(after_long_help = manual::MAN_EXAMPLES)]
    Man(ManArgs),

    /// Write tables to files: JSON lines that keep every type, or CSV
    ///
    /// It reads several key ranges of a table at a time, continues where it stopped, and writes the entities in the order
    /// of their keys.
    #[command(after_long_help = export::EXPORT_EXAMPLES)]
    Export(Box<ExportArgs>),

    /// Read files of entities into tables: what export wrote, and JSON lines or CSV of other tools
    ///
    /// It writes several transactions at a time, each of one partition, continues where it stopped, and names file, line
    /// and column of whatever is not an entity.
    #[command(after_long_help = import::IMPORT_EXAMPLES)]
    Import(Box<ImportArgs>),

    /// List, create and delete tables of a running server or an account in the cloud
    #[command(after_long_help = TABLE_EXAMPLES)]
    Table(Box<TableArgs>),

    /// Read, query, count, write and delete entities of a running server or an account in the cloud
    #[command(after_long_help = ENTITY_EXAMPLES)]
    Entity(Box<EntityArgs>),
}

const EXAMPLES: &str = "\
Examples:
  rowhouse serve
      development account, data in ./rowhouse-data
  rowhouse serve --in-memory --listen 127.0.0.1:0
      for tests: a free port, nothing on disk; read the address from standard output
  rowhouse serve --in-memory --seed ./seed --test-controls
      for tests: begins with the tables of a folder; over HTTP a test sets the clock, takes snapshots and returns to them
  rowhouse serve --data /var/lib/rowhouse --accounts /etc/rowhouse/accounts.toml
      accounts of your own, from a file that 'rowhouse accounts new' writes, with sections such as
        [[account]]
        name = \"orchard\"
        key1 = \"<Base64, 64 random bytes>\"
        key2 = \"<Base64, 64 random bytes>\"
  rowhouse serve --listen 0.0.0.0:443 --accounts accounts.toml --tls-cert cert.pem --tls-key key.pem
      for the network; accounts and certificate may change while the server runs: it looks every half second, and \
      reads them again at once on SIGHUP
  rowhouse serve --store postgres://rowhouse@db.example:5432/tables?sslmode=verify-full --store-password-file password
      data in PostgreSQL, or a database that speaks its protocol, shared by as many servers as you start
  rowhouse serve --in-memory --rehearse all
      for tests of a program: every awkward thing that the service in the cloud may do; the log names a seed that repeats it
  ROWHOUSE_ACCOUNT_KEYS='orchard:<key1>:<key2>' rowhouse serve
      accounts of your own, from the environment

Every option can also be given in the environment, as ROWHOUSE_ and its name, or in the file that --config \
names, such as listen = \"127.0.0.1:10002\". A flag wins over the environment, and that over the file.";

/// The options of serve as they were given; nothing is checked or filled in.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ServeArgs {
    /// Read options from this TOML file
    #[arg(long, env = "ROWHOUSE_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,

    /// Address and port to serve [default: 127.0.0.1:10002]; port 0 takes a free one
    #[arg(long, env = "ROWHOUSE_LISTEN", value_name = "ADDR:PORT")]
    pub listen: Option<String>,

    /// Folder that keeps the data [default: ./rowhouse-data]; created if missing
    #[arg(long, env = "ROWHOUSE_DATA", value_name = "DIR", conflicts_with = "in_memory")]
    pub data: Option<PathBuf>,

    /// Keep everything in memory and lose it at the end; for tests
    #[arg(long, env = "ROWHOUSE_IN_MEMORY", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub in_memory: Option<bool>,

    /// Keep the data in a PostgreSQL database, which any number of servers may share.
    /// Its password comes from --store-password-file or PGPASSWORD, or stands in the address, if that is not on the
    /// command line. In the address, sslmode=verify-full and sslrootcert=FILE ask for TLS. Of several hosts
    /// (postgres://USER@A:5432,B:5432/DATABASE) the one that writes is taken, so after a failover the next one;
    /// with load_balance_hosts=random in the address all are used, as nodes of Citus that each take any request
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which shows no backticks")]
    #[arg(long, env = "ROWHOUSE_STORE", value_name = "URL", hide_env_values = true, conflicts_with_all = ["data", "in_memory"])]
    pub store: Option<StoreUrl>,

    /// File with the password of the database of --store
    #[arg(long, env = "ROWHOUSE_STORE_PASSWORD_FILE", value_name = "FILE")]
    pub store_password_file: Option<PathBuf>,

    /// Most connections to the database of --store at one time [default: 32]; requests that need one wait.
    /// With load_balance_hosts=random each node gets an equal share of them, rounded up
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which shows no backticks")]
    #[arg(long, env = "ROWHOUSE_STORE_CONNECTIONS", value_name = "COUNT")]
    pub store_connections: Option<usize>,

    /// Spread the entities in the database of --store over the workers of Citus
    #[arg(long, env = "ROWHOUSE_DISTRIBUTE", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub distribute: Option<bool>,

    /// File with account names and keys; without it, and without keys in the environment (see the examples),
    /// there is only the well-known development account. Read again when it changes, and on SIGHUP
    #[arg(long, env = "ROWHOUSE_ACCOUNTS", value_name = "FILE")]
    pub accounts: Option<PathBuf>,

    /// PEM file with the server's TLS certificate, then the intermediate certificates; with it the server speaks HTTPS only.
    /// Read again when it changes, and on SIGHUP
    #[arg(long, env = "ROWHOUSE_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// PEM file with the private key of the TLS certificate
    #[arg(long, env = "ROWHOUSE_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// When a write is acknowledged [default: sync]
    #[arg(long, env = "ROWHOUSE_DURABILITY", value_enum)]
    pub durability: Option<DurabilityArg>,

    /// Memory for cached data, in MiB [default: 256]
    #[arg(long, env = "ROWHOUSE_CACHE_MIB", value_name = "MIB")]
    pub cache_mib: Option<u64>,

    /// Free space on the disk of the data folder below which nothing but deletions is taken, in MiB [default: 256];
    /// with 0 every write is accepted until the disk is full, and then none is, deletions included
    #[arg(long, env = "ROWHOUSE_MIN_FREE_SPACE", value_name = "MIB")]
    pub min_free_space: Option<u64>,

    /// Domain under which accounts are addressed as ACCOUNT.DOMAIN; may be repeated or separated by commas.
    /// ACCOUNT.table.ANYTHING and ADDRESS/ACCOUNT work always
    #[arg(long, env = "ROWHOUSE_DOMAIN", value_name = "DOMAIN", value_delimiter = ',')]
    pub domain: Option<Vec<String>>,

    /// What ACCOUNT-secondary serves [default: self]: the same data for reading, or nothing
    #[arg(long, env = "ROWHOUSE_SECONDARY", value_enum)]
    pub secondary: Option<SecondaryArg>,

    /// Serve service statistics on the primary address too, in path style, where the JavaScript client asks for them
    #[arg(long, env = "ROWHOUSE_STATS_ON_PRIMARY", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub stats_on_primary: Option<bool>,

    /// Serve the explorer, which shows tables in a browser, at /_rowhouse/. Without this option it is on for a server that listens
    /// on this machine only and has the development account. It can do what the credential allows that you sign in with
    #[arg(long, env = "ROWHOUSE_EXPLORER", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_name = "on|off", hide_possible_values = true, value_parser = BoolishValueParser::new())]
    pub explorer: Option<bool>,

    /// How long a query may run before it responds with a continuation token, in seconds [default: 5]
    #[arg(long, env = "ROWHOUSE_QUERY_SECONDS", value_name = "SECONDS")]
    pub query_seconds: Option<u64>,

    /// Most connections at one time [default: 10000]; for a further one, the connection is closed that has waited longest
    /// without a request, and if all have requests, it waits
    #[arg(long, env = "ROWHOUSE_MAX_CONNECTIONS", value_name = "COUNT")]
    pub max_connections: Option<usize>,

    /// Most connections of one address, or of one IPv6 network of 64 bits, at one time [default: no limit]; further ones are
    /// refused
    #[arg(long, env = "ROWHOUSE_MAX_CONNECTIONS_PER_ADDRESS", value_name = "COUNT")]
    pub max_connections_per_address: Option<usize>,

    /// Most requests in work at one time [default: 1024], of which queries and batches of one account can be half; further ones
    /// wait for up to a second, and are then refused with 503 (server busy)
    #[arg(long, env = "ROWHOUSE_MAX_REQUESTS", value_name = "COUNT")]
    pub max_requests: Option<usize>,

    /// Memory for the bodies of requests and responses, in MiB [default: 512, at least 16]; one account can hold half
    /// of it, one signature or token a quarter; requests that need more wait for up to a second, and are then refused with 503
    /// (server busy)
    #[arg(long, env = "ROWHOUSE_BODY_MIB", value_name = "MIB")]
    pub body_mib: Option<usize>,

    /// How long requests may go on after SIGTERM or Ctrl-C, in seconds [default: 10]
    #[arg(long, env = "ROWHOUSE_SHUTDOWN_SECONDS", value_name = "SECONDS")]
    pub shutdown_seconds: Option<u64>,

    /// Stop when standard input ends, as on SIGTERM. For a program that starts the server and holds the other end of a pipe: however
    /// that program ends, the server ends with it
    #[arg(long, env = "ROWHOUSE_STOP_WITH_STDIN", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub stop_with_stdin: Option<bool>,

    /// Form of the log on standard error [default: text]
    #[arg(long, env = "ROWHOUSE_LOG_FORMAT", value_enum)]
    pub log_format: Option<LogFormatArg>,

    /// What is logged [default: info]; "info,rowhouse::access=debug" adds one event for each request, debug also shows
    /// query plans, and parts can be chosen, as in "info,store=debug". With --admin it can be changed while the server runs
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which shows no backticks")]
    #[arg(long, env = "ROWHOUSE_LOG", value_name = "LEVEL")]
    pub log: Option<String>,

    /// Serve other machines although everybody knows the development account's key, under any host name. Without it,
    /// requests for that account must name this machine or a domain of --domain, which keeps web pages from it
    #[arg(long, env = "ROWHOUSE_ALLOW_DEVELOPMENT_KEY_ON_NETWORK", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub allow_development_key_on_network: Option<bool>,

    /// Serve other machines without TLS, for instance behind a proxy that has it
    #[arg(long, env = "ROWHOUSE_ALLOW_PLAIN_HTTP_ON_NETWORK", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub allow_plain_http_on_network: Option<bool>,

    /// Address and port of the admin listener: whether the server is alive and ready, metrics for Prometheus, and the filter
    /// of the log (docs/observability.md). Off unless given; port 0 takes a free one
    #[arg(long, env = "ROWHOUSE_ADMIN", value_name = "ADDR:PORT")]
    pub admin: Option<String>,

    /// Let other machines reach the admin listener, although it asks for no credential
    #[arg(long, env = "ROWHOUSE_ALLOW_ADMIN_ON_NETWORK", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub allow_admin_on_network: Option<bool>,

    /// Whether the metrics of --admin show tables separately [default: true]; at most 1000 of them
    #[arg(long, env = "ROWHOUSE_METRICS_PER_TABLE", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub metrics_per_table: Option<bool>,

    // Throttling.
    #[allow(missing_docs, reason = "the group adds its options and no text of its own")]
    #[command(flatten)]
    #[serde(flatten)]
    pub throttle: ThrottleArgs,

    /// For tests: be as awkward as the real service may be (docs/rehearsing.md). LIST is "all", or some of these, separated by commas,
    /// each with a value or without: partition-pages=100% and short-pages=50% (pages with fewer entities, and a continuation
    /// token), empty-pages=50%, deletion=40s (TableBeingDeleted for so long), busy=5% (503 with Retry-After),
    /// targets (503 as --throttle), lost-answers=2% (of writes that were done), latency=20ms..200ms, properties=30s and
    /// policies=30s (until they take effect). NAME=off leaves one out of all; seed=N repeats what a server did whose log named
    /// that seed
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which shows no backticks")]
    #[arg(long, env = "ROWHOUSE_REHEARSE", value_name = "LIST")]
    pub rehearse: Option<String>,

    // Quotas.
    #[allow(missing_docs, reason = "the group adds its options and no text of its own")]
    #[command(flatten)]
    #[serde(flatten)]
    pub quota: QuotaArgs,

    // Storage Analytics.
    #[allow(missing_docs, reason = "the group adds its options and no text of its own")]
    #[command(flatten)]
    #[serde(flatten)]
    pub analytics: AnalyticsArgs,

    // Tests and development.
    #[allow(missing_docs, reason = "the group adds its options and no text of its own")]
    #[command(flatten)]
    #[serde(flatten)]
    pub tests: TestArgs,

    /// Bearer tokens; only in the file.
    #[arg(skip)]
    pub oauth: Option<OAuthSection>,
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityArg {
    /// Once it is on disk: survives power loss
    Sync,
    /// At once, and on disk within 100 ms: power loss may take the last 100 ms, a crash of the server nothing
    Interval,
}

/// What the secondary endpoint serves. There is no second copy of the data; client libraries that read from the
/// secondary endpoint, or ask for its replication lag, work all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecondaryArg {
    /// Nothing: every request is refused, as on an account without read access to its secondary
    Off,
    /// What the primary endpoint serves, for reading only
    #[value(name = "self")]
    #[serde(rename = "self")]
    Mirror,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormatArg {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

impl From<LogFormatArg> for LogFormat {
    fn from(format: LogFormatArg) -> Self {
        match format {
            LogFormatArg::Text => Self::Text,
            LogFormatArg::Json => Self::Json,
        }
    }
}

impl From<SecondaryArg> for Secondary {
    fn from(secondary: SecondaryArg) -> Self {
        match secondary {
            SecondaryArg::Off => Self::Off,
            SecondaryArg::Mirror => Self::Mirror,
        }
    }
}

impl ServeArgs {
    /// Fills options that are not given from another source.
    pub(crate) fn or(self, file: Self) -> Self {
        // Data are kept in one place, and a flag or the environment wins over the file as a whole.
        let has_database = self.store.is_some();
        let has_other = self.in_memory == Some(true) || self.data.is_some();
        Self {
            config: self.config,
            listen: self.listen.or(file.listen),
            // A data folder and --in-memory exclude each other, whichever source they come from.
            data: if has_database || self.in_memory == Some(true) { self.data } else { self.data.or(file.data) },
            in_memory: if has_database { self.in_memory } else { self.in_memory.or(file.in_memory) },
            store: if has_other { self.store } else { self.store.or(file.store) },
            store_password_file: self.store_password_file.or(file.store_password_file),
            store_connections: self.store_connections.or(file.store_connections),
            distribute: self.distribute.or(file.distribute),
            accounts: self.accounts.or(file.accounts),
            tls_cert: self.tls_cert.or(file.tls_cert),
            tls_key: self.tls_key.or(file.tls_key),
            durability: self.durability.or(file.durability),
            cache_mib: self.cache_mib.or(file.cache_mib),
            min_free_space: self.min_free_space.or(file.min_free_space),
            domain: self.domain.or(file.domain),
            secondary: self.secondary.or(file.secondary),
            stats_on_primary: self.stats_on_primary.or(file.stats_on_primary),
            explorer: self.explorer.or(file.explorer),
            query_seconds: self.query_seconds.or(file.query_seconds),
            max_connections: self.max_connections.or(file.max_connections),
            max_connections_per_address: self.max_connections_per_address.or(file.max_connections_per_address),
            max_requests: self.max_requests.or(file.max_requests),
            body_mib: self.body_mib.or(file.body_mib),
            shutdown_seconds: self.shutdown_seconds.or(file.shutdown_seconds),
            stop_with_stdin: self.stop_with_stdin.or(file.stop_with_stdin),
            log_format: self.log_format.or(file.log_format),
            log: self.log.or(file.log),
            allow_development_key_on_network: self
                .allow_development_key_on_network
                .or(file.allow_development_key_on_network),
            allow_plain_http_on_network: self.allow_plain_http_on_network.or(file.allow_plain_http_on_network),
            admin: self.admin.or(file.admin),
            allow_admin_on_network: self.allow_admin_on_network.or(file.allow_admin_on_network),
            metrics_per_table: self.metrics_per_table.or(file.metrics_per_table),
            throttle: self.throttle.or(file.throttle),
            rehearse: self.rehearse.or(file.rehearse),
            quota: self.quota.or(file.quota),
            analytics: self.analytics.or(file.analytics),
            tests: self.tests.or(file.tests),
            oauth: file.oauth,
        }
    }
}
