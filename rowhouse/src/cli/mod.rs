//! The command line: commands and their options, which may also come from the environment or from a file.
//!
//! Nothing is validated here; `config.rs` does that.

mod azurite_args;
pub mod manual;
mod quota_args;
mod throttle_args;

pub use azurite_args::{AzuriteArgs, OAuthLevel};
pub use quota_args::QuotaArgs;
pub use throttle_args::ThrottleArgs;

use crate::accounts::{self, AccountsArgs};
use crate::certificate::{self, CertificateArgs};
use crate::health::{self, HealthArgs};
use crate::log::LogFormat;
use crate::promote::{PROMOTE_EXAMPLES, PromoteArgs};
use clap::builder::BoolishValueParser;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use manual::{CompletionsArgs, ManArgs};
use merge::Merge;
use model::Dialect;
use serde::Deserialize;
use server::{OAuthSection, Secondary};
use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;
use tools::StoreUrl;
use tools::backup::{self, BackupArgs, RestoreArgs};
use tools::balance::{self, BalanceArgs};
use tools::check::{self, CheckArgs};
use tools::commands::{ENTITY_EXAMPLES, EntityArgs, TABLE_EXAMPLES, TableArgs};
use tools::copy::{self, CopyArgs};
use tools::export::{self, ExportArgs};
use tools::follow::{FOLLOW_EXAMPLES, FollowArgs};
use tools::import::{self, ImportArgs};
use tools::sas::SasArgs;

/// A self-hosted Azure Table Storage server
///
/// Rowhouse speaks the Azure Table Storage protocol, so the client libraries you use with the cloud work unchanged.
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

impl Cli {
    /// Parses the words of a command line. The short help of servers has one line for each option, without wrapping.
    pub fn from_words(words: Vec<OsString>) -> Self {
        let is_server = words.get(1).is_some_and(|word| word == "serve" || word == "standby");
        let is_wrapped = !is_server || words.iter().all(|word| word != "-h");
        let definition = if is_wrapped { Self::command() } else { Self::command().term_width(0) };
        Self::from_arg_matches(&definition.get_matches_from(words)).unwrap_or_else(|error| error.exit())
    }
}

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server
    ///
    /// Without options, the server uses the well-known development account, listens on 127.0.0.1:10002 and stores its
    /// data in ./rowhouse-data. When it is ready, it prints the address and a connection string for client libraries.
    #[command(after_help = SHORT_HELP_END, after_long_help = EXAMPLES, override_usage = "rowhouse serve [OPTIONS]")]
    Serve(Box<ServeArgs>),

    /// Run as a drop-in replacement for the Azurite emulator, with the emulator's options
    ///
    /// Rowhouse itself serves tables; the emulator's own programs serve blobs and queues. The command prints the lines
    /// that tools wait for when they start the emulator, and it stops as the emulator does.
    #[command(after_long_help = azurite_args::EXAMPLES, args_override_self = true, disable_version_flag = true)]
    Azurite(Box<AzuriteArgs>),

    /// Follow a running server, and serve its data for reading
    ///
    /// A standby begins with a copy of the data, and then receives each change. It refuses writes. If the server that
    /// it follows is lost, the standby can become the new server (rowhouse promote). All options of serve apply,
    /// with their variables.
    #[command(
        after_help = SHORT_HELP_END,
        after_long_help = STANDBY_EXAMPLES,
        override_usage = "rowhouse standby [OPTIONS] --of <URL> --token-file <FILE>"
    )]
    Standby(Box<StandbyArgs>),

    /// Make a standby the primary
    #[command(after_long_help = PROMOTE_EXAMPLES)]
    Promote(PromoteArgs),

    /// Check whether a running server is ready, for container health checks
    ///
    /// The command finds the server through the environment or the options file, so run it with the same environment or
    /// file as the server. If the server has an admin listener, it requests /readyz there; otherwise, any response from
    /// the server counts.
    #[command(after_long_help = health::EXAMPLES)]
    Health(Box<HealthArgs>),

    /// Create accounts and their keys for an account file
    ///
    /// A running server reloads a changed file within a second, and immediately on SIGHUP.
    #[command(after_long_help = accounts::EXAMPLES)]
    Accounts(Box<AccountsArgs>),

    /// Create a TLS certificate and its private key
    ///
    /// The certificate is self-signed: clients trust it once they are given its file. For a public server, get a
    /// certificate from a certificate authority instead.
    #[command(after_long_help = certificate::EXAMPLES)]
    Certificate(Box<CertificateArgs>),

    /// Create a shared access signature: a token with limited rights for a limited time
    ///
    /// The token is signed with an account key, which is read from the same sources as for the server; no server needs
    /// to run. The command prints the token, a URL and a connection string that are ready to use.
    Sas(Box<SasArgs>),

    /// List, create and delete tables on a running server or in an account in the cloud
    #[command(after_long_help = TABLE_EXAMPLES)]
    Table(Box<TableArgs>),

    /// Read, query, count, write and delete entities on a running server or in an account in the cloud
    #[command(after_long_help = ENTITY_EXAMPLES)]
    Entity(Box<EntityArgs>),

    /// Deliver the changes of tables, in order, to a command, a webhook or standard output
    ///
    /// The server must keep its log (serve --keep-log). Each change is delivered at least once: the position of the
    /// last acknowledged change is recorded in a file, and the same command continues from there.
    #[command(after_long_help = FOLLOW_EXAMPLES)]
    Follow(Box<FollowArgs>),

    /// Copy tables between data folders, running servers and accounts in the cloud
    ///
    /// An interrupted copy continues where it stopped. The command shows its progress, and finally compares both sides
    /// entity by entity.
    #[command(after_long_help = copy::COPY_EXAMPLES)]
    Copy(Box<CopyArgs>),

    /// Export tables to files: JSON Lines, which preserves every type, or CSV
    ///
    /// The command reads several key ranges of a table in parallel and writes the entities in key order. An
    /// interrupted export continues where it stopped.
    #[command(after_long_help = export::EXPORT_EXAMPLES)]
    Export(Box<ExportArgs>),

    /// Import entities from files: the output of export, or JSON Lines and CSV files from other tools
    ///
    /// The command writes several transactions in parallel, each within one partition. An interrupted import continues
    /// where it stopped. For each invalid entity, the error names the file, line and column.
    #[command(after_long_help = import::IMPORT_EXAMPLES)]
    Import(Box<ImportArgs>),

    /// Back up a data folder, even while its server runs
    ///
    /// Each backup is a complete snapshot as of one point in time, and incremental on disk: data that has not changed
    /// since an earlier backup is not written again. A hash covers every byte.
    #[command(after_long_help = backup::BACKUP_EXAMPLES)]
    Backup(Box<BackupArgs>),

    /// Restore a backup into a new data folder, with all timestamps and ETags unchanged
    #[command(after_long_help = backup::RESTORE_EXAMPLES)]
    Restore(Box<RestoreArgs>),

    /// Verify a data folder or a backup repository from end to end, without changing it
    ///
    /// The command reports each problem with its location, and the number of items that it has checked.
    #[command(after_long_help = check::CHECK_EXAMPLES)]
    Check(Box<CheckArgs>),

    /// Show the load of the nodes of a Citus cluster, and even it out
    #[command(after_long_help = balance::BALANCE_EXAMPLES)]
    Balance(BalanceArgs),

    /// Print the completion script for a shell
    #[command(after_long_help = manual::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),

    /// Print the manual page of a command, or write the pages of all commands
    #[command(after_long_help = manual::MAN_EXAMPLES)]
    Man(ManArgs),
}

const EXAMPLES: &str = "\
Examples:
  rowhouse serve
      development account, data in ./rowhouse-data
  rowhouse serve --in-memory --listen 127.0.0.1:0
      for tests: any free port, nothing on disk; read the address from standard output
  rowhouse serve --in-memory --seed ./seed --test-controls
      for tests: starts with the tables in a folder; over HTTP, a test can set the clock, and take and restore snapshots
  rowhouse serve --data /var/lib/rowhouse --accounts /etc/rowhouse/accounts.toml
      your own accounts, from a file that 'rowhouse accounts new' writes, with sections such as
        [[account]]
        name = \"orchard\"
        key1 = \"<Base64, 64 random bytes>\"
        key2 = \"<Base64, 64 random bytes>\"
  rowhouse serve --listen 0.0.0.0:443 --accounts accounts.toml --tls-cert cert.pem --tls-key key.pem
      for the network; accounts and certificate may change while the server runs: it checks the files every half second, \
      and reloads them immediately on SIGHUP
  rowhouse serve --service cosmos --listen 127.0.0.1:8902 --tls-self-signed
      like Azure Cosmos DB for Table, over HTTPS; the log says which certificate clients must trust
  rowhouse serve --store postgres://rowhouse@db.example:5432/tables?sslmode=verify-full --store-password-file password
      data in PostgreSQL or a database that speaks its protocol, shared by any number of servers
  rowhouse serve --in-memory --rehearse all
      for testing a program: everything inconvenient that the cloud service may do; the log contains a seed that repeats it
  ROWHOUSE_ACCOUNT_KEYS='orchard:<key1>:<key2>' rowhouse serve
      your own accounts, from the environment

Every option can also be set in the environment, as ROWHOUSE_ followed by its name (ROWHOUSE_CACHE_MIB for --cache-mib), or in the \
file given with --config, such as listen = \"127.0.0.1:10002\". A flag overrides the environment, and the environment overrides the file.";

/// The last line of the short help of `serve` and `standby`.
const SHORT_HELP_END: &str =
    "Every option of serve is also a variable, such as ROWHOUSE_CACHE_MIB. --help has details and examples.";

/// The options of `serve` as given, without validation or defaults.
#[derive(Debug, Default, Args, Deserialize, Merge)]
#[command(mut_args(server_option))]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[merge(strategy = merge::option::overwrite_none)]
pub struct ServeArgs {
    // Help and docs/configuration.md show the options without a heading first: they are what most servers need.
    /// Read options from this TOML file
    #[arg(long, env = "ROWHOUSE_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,

    /// Address and port to listen on [default: 127.0.0.1:10002]; port 0 picks a free port
    #[arg(long, env = "ROWHOUSE_LISTEN", value_name = "ADDR:PORT")]
    pub listen: Option<String>,

    /// Data folder [default: ./rowhouse-data]; created if missing
    #[arg(long, env = "ROWHOUSE_DATA", value_name = "DIR", conflicts_with = "in_memory")]
    pub data: Option<PathBuf>,

    /// Keep all data in memory and discard it on exit; for tests
    #[arg(long, env = "ROWHOUSE_IN_MEMORY")]
    pub in_memory: Option<bool>,

    /// Keep the data in a PostgreSQL database, which any number of servers may share
    ///
    /// The password comes from --store-password-file or PGPASSWORD. It may be part of the URL only if the URL is not
    /// given on the command line. In the URL, sslmode=verify-full and sslrootcert=FILE enable TLS.
    ///
    /// If the URL lists several hosts (postgres://USER@A:5432,B:5432/DATABASE), the server uses the host that accepts
    /// writes, so after a failover it switches to the new one. With load_balance_hosts=random in the URL, it uses all
    /// of them, as Citus nodes that each accept any request.
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which must not contain backticks")]
    #[arg(long, env = "ROWHOUSE_STORE", value_name = "URL", hide_env_values = true, conflicts_with_all = ["data", "in_memory"])]
    pub store: Option<StoreUrl>,

    /// File with account names and keys; reloaded when it changes, and on SIGHUP
    ///
    /// Without it, and without keys in the environment (ROWHOUSE_ACCOUNT_KEYS), only the well-known development
    /// account exists.
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which must not contain backticks")]
    #[arg(long, env = "ROWHOUSE_ACCOUNTS", value_name = "FILE")]
    pub accounts: Option<PathBuf>,

    /// PEM file with the server's TLS certificate, followed by intermediate certificates
    ///
    /// With a certificate, the server accepts only HTTPS. The file is reloaded when it changes, and on SIGHUP.
    #[arg(long, env = "ROWHOUSE_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// PEM file with the private key of the TLS certificate
    #[arg(long, env = "ROWHOUSE_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Address and port of the admin listener [default: off]; port 0 picks a free port
    ///
    /// It serves liveness and readiness, metrics for Prometheus, and the log filter (docs/observability.md).
    #[arg(long, env = "ROWHOUSE_ADMIN", value_name = "ADDR:PORT")]
    pub admin: Option<String>,

    /// Log filter [default: info]
    ///
    /// "info,rowhouse::access=debug" adds one event for each request, debug also shows query plans, and individual
    /// modules can be selected, as in "info,store=debug". With --admin, the filter can be changed while the server
    /// runs.
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which must not contain backticks")]
    #[arg(long, env = "ROWHOUSE_LOG", value_name = "LEVEL")]
    pub log: Option<String>,

    /// When a write is acknowledged [default: sync]
    #[arg(long, env = "ROWHOUSE_DURABILITY", value_enum, help_heading = "Data folder")]
    pub durability: Option<DurabilityArg>,

    /// Memory for cached data, in MiB [default: 256]
    #[arg(long, env = "ROWHOUSE_CACHE_MIB", value_name = "MIB", help_heading = "Data folder")]
    pub cache_mib: Option<u64>,

    /// Minimum free space on the disk of the data folder, in MiB [default: 256]
    ///
    /// If less is free, only deletions are accepted. Writes that are not in sorted files yet, at most 64 MiB, count as
    /// used space, because they will need it. With 0, writes are accepted until the disk is full; then every write
    /// fails, even a deletion.
    #[arg(long, env = "ROWHOUSE_MIN_FREE_SPACE", value_name = "MIB", help_heading = "Data folder")]
    pub min_free_space: Option<u64>,

    /// File with the password for the --store database
    ///
    /// Each new connection to the database reads it again.
    #[arg(long, env = "ROWHOUSE_STORE_PASSWORD_FILE", value_name = "FILE", help_heading = "Database")]
    pub store_password_file: Option<PathBuf>,

    /// Maximum number of concurrent connections to the --store database [default: 32]
    ///
    /// Further requests wait for a connection. With load_balance_hosts=random, each node in the URL gets an equal share
    /// of the connections, rounded up, and other nodes of the cluster get the same number in addition.
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which must not contain backticks")]
    #[arg(long, env = "ROWHOUSE_STORE_CONNECTIONS", value_name = "COUNT", help_heading = "Database")]
    pub store_connections: Option<usize>,

    /// Distribute the entities in the --store database across the Citus workers
    #[arg(long, env = "ROWHOUSE_DISTRIBUTE", help_heading = "Database")]
    pub distribute: Option<bool>,

    /// What to do if Citus nodes have uneven loads [default: suggest]
    ///
    /// The servers measure the load of each shard; rowhouse balance --show prints it. One of the servers decides.
    #[arg(long, env = "ROWHOUSE_BALANCE", value_enum, value_name = "ACTION", help_heading = "Database")]
    pub balance: Option<BalanceArg>,

    /// Maximum number of shards to move or split in an hour [default: 20]
    ///
    /// Applies to --balance auto.
    #[arg(long, env = "ROWHOUSE_BALANCE_STEPS", value_name = "COUNT", help_heading = "Database")]
    pub balance_steps: Option<u32>,

    /// Keep the log of all changes for this time, such as 24h or 7d [default: no log]
    ///
    /// With it, the change feed exists ($Changes and $ChangesTABLE). The log is kept for at least this time, unless
    /// --keep-log-mib or a disk that is almost full removes it earlier. Without it, a log that was kept is removed.
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which must not contain backticks")]
    #[arg(long, env = "ROWHOUSE_KEEP_LOG", value_name = "DURATION", help_heading = "Change feed and standbys")]
    pub keep_log: Option<String>,

    /// Maximum size of the kept log, in MiB; 512 with --in-memory [default: 10240]
    #[arg(long, env = "ROWHOUSE_KEEP_LOG_MIB", value_name = "MIB", help_heading = "Change feed and standbys")]
    pub keep_log_mib: Option<u64>,

    /// Maximum number of open streams of changes [default: 64]
    ///
    /// An account can hold half of them.
    #[arg(long, env = "ROWHOUSE_MAX_CHANGE_STREAMS", value_name = "COUNT", help_heading = "Change feed and standbys")]
    pub max_change_streams: Option<usize>,

    /// Let standbys with the token in this file follow; requires --keep-log
    ///
    /// A standby that was away finds what it missed in the log, if that was not longer than --keep-log.
    #[arg(long, env = "ROWHOUSE_STANDBY_TOKEN_FILE", value_name = "FILE", help_heading = "Change feed and standbys")]
    pub standby_token_file: Option<PathBuf>,

    /// Where a write must be before it is acknowledged [default: primary]
    #[arg(long, env = "ROWHOUSE_ACKNOWLEDGE", value_enum, help_heading = "Change feed and standbys")]
    pub acknowledge: Option<AcknowledgeArg>,

    /// Time limit for a standby to confirm a write, in seconds [default: 10]
    ///
    /// After this time, the write is refused. Applies to --acknowledge standby.
    #[arg(
        long,
        env = "ROWHOUSE_ACKNOWLEDGE_SECONDS",
        value_name = "SECONDS",
        help_heading = "Change feed and standbys"
    )]
    pub acknowledge_seconds: Option<u64>,

    /// Serve HTTPS with a self-signed certificate that the server makes, keeps and renews
    ///
    /// It is for localhost, 127.0.0.1, ::1 and the names in --tls-hosts. DIR is relative to the data folder, or to the
    /// current folder if there is none. It contains the certificate, rowhouse-cert.pem, which clients must trust, and
    /// the private key, rowhouse-key.pem.
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which must not contain backticks")]
    #[arg(
        long,
        env = "ROWHOUSE_TLS_SELF_SIGNED",
        value_name = "DIR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ".",
        help_heading = "Network"
    )]
    pub tls_self_signed: Option<PathBuf>,

    /// Host names and IP addresses in the certificate of --tls-self-signed
    ///
    /// Can be repeated or comma-separated. They are required if other machines can reach the server.
    #[arg(long, env = "ROWHOUSE_TLS_HOSTS", value_name = "HOST", value_delimiter = ',', help_heading = "Network")]
    pub tls_hosts: Option<Vec<String>>,

    /// Domain under which accounts are addressed as ACCOUNT.DOMAIN
    ///
    /// Can be repeated or comma-separated. ACCOUNT.table.ANYTHING and ADDRESS/ACCOUNT always work.
    #[arg(long, env = "ROWHOUSE_DOMAIN", value_name = "DOMAIN", value_delimiter = ',', help_heading = "Network")]
    pub domain: Option<Vec<String>>,

    /// Account of requests whose URLs name no account of this server
    ///
    /// With it, ADDRESS/TABLE addresses a table of this account. The well-known account of --service cosmos is the
    /// default account unless there are other accounts.
    #[arg(long, env = "ROWHOUSE_DEFAULT_ACCOUNT", value_name = "ACCOUNT", help_heading = "Network")]
    pub default_account: Option<String>,

    /// Addresses of the reverse proxies in front of the server
    ///
    /// A request from such an address has the protocol and the client that its X-Forwarded-Proto and X-Forwarded-For
    /// headers name. Can be repeated or comma-separated.
    #[arg(
        long,
        env = "ROWHOUSE_TRUST_PROXY",
        value_name = "ADDRESS|NETWORK",
        value_delimiter = ',',
        help_heading = "Network"
    )]
    pub trust_proxy: Option<Vec<String>>,

    /// What ACCOUNT-secondary serves [default: self]
    #[arg(long, env = "ROWHOUSE_SECONDARY", value_enum, help_heading = "Network")]
    pub secondary: Option<SecondaryArg>,

    /// Also serve service statistics on the primary endpoint in path style
    ///
    /// The JavaScript client requests them there.
    #[arg(long, env = "ROWHOUSE_STATS_ON_PRIMARY", help_heading = "Network")]
    pub stats_on_primary: Option<bool>,

    /// Serve other machines with the development account
    ///
    /// The key of that account is public. Without this option, requests for the account must name this machine or a
    /// domain given with --domain, which keeps web pages from using the account; with it, they may name any host.
    #[arg(long, env = "ROWHOUSE_ALLOW_DEVELOPMENT_KEY_ON_NETWORK", help_heading = "Security")]
    pub allow_development_key_on_network: Option<bool>,

    /// Serve other machines without TLS
    ///
    /// For example, behind a proxy that terminates TLS.
    #[arg(long, env = "ROWHOUSE_ALLOW_PLAIN_HTTP_ON_NETWORK", help_heading = "Security")]
    pub allow_plain_http_on_network: Option<bool>,

    /// Let other machines reach the admin listener
    ///
    /// The listener requires no credential.
    #[arg(long, env = "ROWHOUSE_ALLOW_ADMIN_ON_NETWORK", help_heading = "Security")]
    pub allow_admin_on_network: Option<bool>,

    /// Maximum duration of a query, in seconds [default: 5]
    ///
    /// After this time, the server responds with a continuation token.
    #[arg(long, env = "ROWHOUSE_QUERY_SECONDS", value_name = "SECONDS", help_heading = "Limits")]
    pub query_seconds: Option<u64>,

    /// Maximum number of concurrent connections [default: 10000]
    ///
    /// When it is reached, the connection that has been idle longest is closed; if none is idle, new connections wait.
    #[arg(long, env = "ROWHOUSE_MAX_CONNECTIONS", value_name = "COUNT", help_heading = "Limits")]
    pub max_connections: Option<usize>,

    /// Maximum number of connections from one address [default: no limit]
    ///
    /// Further connections are refused. An IPv6 /64 network counts as one address.
    #[arg(long, env = "ROWHOUSE_MAX_CONNECTIONS_PER_ADDRESS", value_name = "COUNT", help_heading = "Limits")]
    pub max_connections_per_address: Option<usize>,

    /// Maximum number of requests in flight [default: 1024]
    ///
    /// Queries and batches of one account can use at most half of this number. Further requests wait for up to a
    /// second; then they are refused with 503 (server busy).
    #[arg(long, env = "ROWHOUSE_MAX_REQUESTS", value_name = "COUNT", help_heading = "Limits")]
    pub max_requests: Option<usize>,

    /// Memory for request and response bodies, in MiB [default: 512, at least 16]
    ///
    /// One account can use at most half of this memory, and one signature or token at most a quarter. Requests that
    /// need more wait for up to a second; then they are refused with 503 (server busy).
    #[arg(long, env = "ROWHOUSE_BODY_MIB", value_name = "MIB", help_heading = "Limits")]
    pub body_mib: Option<usize>,

    /// Time for requests in flight after SIGTERM or Ctrl-C, in seconds [default: 10]
    #[arg(long, env = "ROWHOUSE_SHUTDOWN_SECONDS", value_name = "SECONDS", help_heading = "Limits")]
    pub shutdown_seconds: Option<u64>,

    #[allow(missing_docs, reason = "the group has no help text, only options")]
    #[command(flatten, next_help_heading = "Quotas and throttling")]
    #[merge(strategy = Merge::merge)]
    #[serde(flatten)]
    pub quota: QuotaArgs,

    #[allow(missing_docs, reason = "the group has no help text, only options")]
    #[command(flatten, next_help_heading = "Quotas and throttling")]
    #[merge(strategy = Merge::merge)]
    #[serde(flatten)]
    pub throttle: ThrottleArgs,

    /// Serve the explorer, a page that shows tables in a browser, at /_rowhouse/
    ///
    /// Without this option, the explorer is on if the server listens only on this machine and has the development
    /// account. In it, you can do whatever the credential with which you sign in allows.
    #[arg(long, env = "ROWHOUSE_EXPLORER", value_name = "on|off", value_parser = BoolishValueParser::new(), help_heading = "Features")]
    pub explorer: Option<bool>,

    /// Cloud service that the server answers like [default: storage]
    ///
    /// Tables and entities are the same data with either, so a program can be tried against both
    /// (docs/compatibility.md).
    #[arg(long, env = "ROWHOUSE_SERVICE", value_enum, help_heading = "Features")]
    pub service: Option<ServiceArg>,

    /// Offer what the cloud service does not have, such as counts
    ///
    /// Without this option, requests for extensions fail as they do in the cloud (docs/extensions.md).
    #[arg(long, env = "ROWHOUSE_EXTENSIONS", help_heading = "Features")]
    pub extensions: Option<bool>,

    /// Accept entities of up to 2 MiB, with up to 255 properties and values of any size (docs/extensions.md)
    ///
    /// Needs --extensions. The cloud service refuses entities beyond 1 MiB or 252 properties, and values beyond 64 KiB.
    #[arg(long, env = "ROWHOUSE_LARGE_ENTITIES", help_heading = "Features")]
    pub large_entities: Option<bool>,

    /// Keep metrics about each account's requests in $Metrics tables, as Storage Analytics does
    ///
    /// The service properties of the account control which metrics are kept. A new account has hourly metrics, which
    /// are kept for seven days.
    #[arg(long, env = "ROWHOUSE_ANALYTICS", help_heading = "Features")]
    pub analytics: Option<bool>,

    /// Format of the log on standard error [default: text]
    #[arg(long, env = "ROWHOUSE_LOG_FORMAT", value_enum, help_heading = "Observability")]
    pub log_format: Option<LogFormat>,

    /// Requests for which the log tells why they are refused [default: development]
    ///
    /// docs/errors.md lists the reasons. At most 10 lines are written per second, after a burst of 100.
    #[arg(long, env = "ROWHOUSE_LOG_REASONS", value_enum, value_name = "WHOSE", help_heading = "Observability")]
    pub log_reasons: Option<LogReasonsArg>,

    /// Requests whose responses have the header x-ms-rowhouse-reason if they are refused [default: development]
    ///
    /// The header tells why (docs/errors.md). A client without a valid credential gets it only if the request alone
    /// shows the mistake, or for the development account.
    #[arg(long, env = "ROWHOUSE_REASON_HEADER", value_enum, value_name = "WHOSE", help_heading = "Observability")]
    pub reason_header: Option<ReasonHeaderArg>,

    /// Include metrics for each table [default: true]; at most 1000 tables
    ///
    /// Applies to the metrics of the --admin listener.
    #[arg(long, env = "ROWHOUSE_METRICS_PER_TABLE", help_heading = "Observability")]
    pub metrics_per_table: Option<bool>,

    /// Folder with the initial tables (docs/test-controls.md)
    ///
    /// The files are in JSON Lines format or as export writes them. The tables are loaded before the server is ready,
    /// into the account whose connection string the server prints, unless that account already has a table.
    #[arg(long, env = "ROWHOUSE_SEED", value_name = "DIR", help_heading = "Tests")]
    pub seed: Option<PathBuf>,

    /// Let a test control the server; requires --in-memory (docs/test-controls.md)
    ///
    /// Anyone who can reach the admin listener can then set the clock, create accounts, and save and restore all data.
    /// Without --admin, the listener uses a free port of this machine.
    #[arg(long, env = "ROWHOUSE_TEST_CONTROLS", help_heading = "Tests")]
    pub test_controls: Option<bool>,

    /// Behave as inconveniently as the real service may (docs/rehearsing.md)
    ///
    /// LIST is "all", or a comma-separated list of these, each with or without a value: partition-pages=100% and
    /// short-pages=50% (pages with fewer entities, and a continuation token), empty-pages=50%, creation=2s (how long
    /// the entities of a new table get 503), deletion=40s (how long TableBeingDeleted lasts), busy=5% (503 with
    /// Retry-After), targets (503 as with --throttle), lost-answers=2% (of completed writes), latency=20ms..200ms,
    /// properties=30s and policies=30s (delay until changes take effect). With all, NAME=off leaves out one condition.
    /// seed=N repeats the behavior of a server whose log contained that seed.
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which must not contain backticks")]
    #[arg(long, env = "ROWHOUSE_REHEARSE", value_name = "LIST", help_heading = "Tests")]
    pub rehearse: Option<String>,

    /// Shut down when standard input is closed, as on SIGTERM
    ///
    /// For a program that starts the server and holds the other end of a pipe: however that program exits, the server
    /// shuts down too.
    #[arg(long, env = "ROWHOUSE_STOP_WITH_STDIN", help_heading = "Tests")]
    pub stop_with_stdin: Option<bool>,

    /// Bearer tokens; only in the file.
    #[arg(skip)]
    pub oauth: Option<OAuthSection>,
}

/// The cloud service that the server answers like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceArg {
    /// Azure Table Storage
    Storage,
    /// Azure Cosmos DB for Table
    Cosmos,
}

impl From<ServiceArg> for Dialect {
    fn from(service: ServiceArg) -> Self {
        match service {
            ServiceArg::Storage => Self::Storage,
            ServiceArg::Cosmos => Self::Cosmos,
        }
    }
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityArg {
    /// Once the write is on disk, so that it survives a power loss
    Sync,
    /// Immediately; the write reaches the disk within 100 ms. A power loss may lose the last 100 ms of writes; a crash
    /// of the server loses none
    Interval,
}

/// What to do about an uneven load of the nodes of a Citus cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalanceArg {
    /// Move and split shards
    Auto,
    /// Log what auto would do
    Suggest,
    /// Nothing; the load is not measured
    Off,
}

/// Where a write must be before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcknowledgeArg {
    /// On this server; a standby receives it soon afterwards
    Primary,
    /// On the disks of this server and of its standby, so that the promotion of the standby loses nothing; while the
    /// standby is away, writes are refused
    Standby,
}

/// The examples at the end of the help of `standby`.
const STANDBY_EXAMPLES: &str = "\
Examples:
  openssl rand -hex 32 > token
  rowhouse serve --data ./primary --keep-log 24h --standby-token-file token
      the primary
  rowhouse standby --of http://127.0.0.1:10002 --token-file token --data ./standby --listen 127.0.0.1:10012
      a standby on the same machine, for a try
  rowhouse serve --data ./primary --keep-log 24h --standby-token-file token --acknowledge standby
      a primary that acknowledges a write when its standby has it, too

A standby needs a missing or empty folder. It serves the same accounts as its primary, so give it the same account file. \
Its statistics (?restype=service&comp=stats) show the time up to which it has all writes.";

/// The options of `standby`.
#[derive(Debug, Args)]
pub struct StandbyArgs {
    /// Address of the server to follow, without an account
    #[arg(long, env = "ROWHOUSE_STANDBY_OF", value_name = "URL")]
    pub of: String,

    /// File with the token that the primary has in its --standby-token-file
    #[arg(long, env = "ROWHOUSE_TOKEN_FILE", value_name = "FILE")]
    pub token_file: PathBuf,

    /// Become the standby for which a primary with --acknowledge standby waits; the previous one no longer counts
    #[arg(long)]
    pub replace: bool,

    /// The options of the server.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// The requests for which the log tells why they are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogReasonsArg {
    /// Those for the development account, whose key is public
    Development,
    /// All
    All,
    /// All, with the values that are wrong, which may be parts of entities
    AllWithValues,
    /// None
    None,
}

/// The requests whose responses tell why they are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReasonHeaderArg {
    /// Those for the development account, whose key is public
    Development,
    /// All
    All,
    /// None
    None,
}

/// What the secondary endpoint serves. There is no second copy of the data, but client libraries that read from the
/// secondary endpoint or request its replication lag still work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecondaryArg {
    /// Nothing: every request is refused, as in an account without read access to its secondary endpoint
    Off,
    /// The data of the primary endpoint, read-only
    #[value(name = "self")]
    #[serde(rename = "self")]
    Mirror,
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
    /// Fills missing options from the file.
    pub(crate) fn or(mut self, mut file: Self) -> Self {
        // Data is kept in only one location, and a flag or the environment overrides the file as a whole.
        if self.store.is_some() {
            (file.data, file.in_memory) = (None, None);
        }
        if self.data.is_some() || self.in_memory == Some(true) {
            file.store = None;
        }
        // A data folder and --in-memory exclude each other, whatever sources they come from.
        if self.in_memory == Some(true) {
            file.data = None;
        }
        self.merge(file);
        self
    }
}

/// Omits a variable that follows from the name of the option from the help, and makes the value of a Boolean option
/// optional.
fn server_option(arg: Arg) -> Arg {
    let follows =
        arg.get_env().is_some_and(|name| *name == *format!("ROWHOUSE_{}", arg.get_id().as_str().to_uppercase()));
    let arg = arg.hide_env(follows);
    if arg.get_value_parser().type_id() != TypeId::of::<bool>() || !arg.get_action().takes_values() {
        return arg;
    }
    let default_name = arg.get_id().as_str().to_ascii_uppercase();
    let has_name = arg.get_value_names().is_some_and(|names| names.iter().all(|name| **name != *default_name));
    let arg = if has_name { arg } else { arg.value_name("BOOL") };
    arg.hide_possible_values(true).num_args(0..=1).require_equals(true).default_missing_value("true")
}
