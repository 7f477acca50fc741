//! The configuration: turns the options into validated values in one step.
//!
//! This module reads files and the environment, so the server need not know where a setting comes from.

use crate::cli::{AcknowledgeArg, BalanceArg, DurabilityArg, LogReasonsArg, ReasonHeaderArg, ServeArgs, StandbyArgs};
use crate::log::LogFormat;
use crate::self_signed::SelfSigned;
use anyhow::{Context, anyhow, bail, ensure};
use clap::{Arg, Args};
use engine::KeepChanges;
use engine_citus::Balance;
use engine_postgres::{Password, PostgresOptions};
use model::limits::REQUEST_TIMEOUT_SECONDS_MAX;
use model::{AccountName, Dialect};
use replication::{FollowerSettings, Token};
use rustls::ServerConfig;
use server::{Access, Accounts, BearerTokens, Files, MEMORY_BYTES_MIN, OAuthConfig};
use server::{ReasonAudience, ReasonSettings, RehearsalSettings, Secondary, Settings, TrustedProxies};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tools::{StoreUrl, parse_duration};

/// The variable that contains account names and keys. There is no corresponding command line option.
const ACCOUNT_KEYS_VARIABLE: &str = "ROWHOUSE_ACCOUNT_KEYS";

/// The variable that contains the password of the database, as for the PostgreSQL programs.
const STORE_PASSWORD_VARIABLE: &str = "PGPASSWORD";
/// Bytes per MiB, the unit of sizes in options.
const MIB: usize = 1024 * 1024;
/// The default of `--store-connections`.
const STORE_CONNECTIONS_DEFAULT: usize = 32;
/// The default of `--acknowledge-seconds`.
const ACKNOWLEDGE_SECONDS_DEFAULT: u64 = 10;
/// The address of the admin listener that `--test-controls` implies.
const TEST_CONTROLS_ADMIN: &str = "127.0.0.1:0";
/// The default of `--balance-steps`.
const BALANCE_STEPS_DEFAULT: u32 = 20;
/// The maximum of `--store-connections`. Too many connections slow down a database.
const STORE_CONNECTIONS_MAX: usize = 1000;

/// Names and keys of accounts from the environment.
#[derive(Debug, Clone, Copy)]
pub struct AccountKeys<'t> {
    /// The variable that contains the names and keys.
    pub variable: &'static str,
    /// `name:key1[:key2]` entries, separated by semicolons.
    pub text: &'t str,
}

impl<'t> AccountKeys<'t> {
    /// Returns the value of the server's own variable.
    pub fn from_server_variable(text: &'t str) -> Self {
        Self { variable: ACCOUNT_KEYS_VARIABLE, text }
    }
}

/// Everything that `serve` needs, validated.
#[derive(Debug)]
pub struct Config {
    /// Who can reach the server, and how.
    pub exposure: Exposure,
    /// Where the data is kept.
    pub storage: Storage,
    /// The log, the admin listener, and everything else around the server.
    pub process: ProcessSettings,
    /// The accounts, and how clients and the server prove their identity.
    pub access: Access,
    /// The settings of the server itself.
    pub server: Settings,
}

/// The settings of the process in which the server runs.
#[derive(Debug)]
pub struct ProcessSettings {
    /// Files with secrets that are read only at startup.
    pub secret_files: Vec<PathBuf>,
    /// Whether the end of standard input stops the server.
    pub stop_with_stdin: bool,
    /// The format of the log.
    pub log_format: LogFormat,
    /// The filter of the log.
    pub log: String,
    /// The file of the log; `None` for standard error.
    pub log_file: Option<PathBuf>,
    /// The address of the admin listener; `None` if there is none.
    pub admin: Option<SocketAddr>,
    /// Whether metrics show tables separately.
    pub metrics_per_table: bool,
    /// Whether an option turns the explorer on or off, instead of the default.
    pub decides_about_explorer: bool,
    /// How much of the change log is kept; `None` keeps none.
    pub keep_changes: Option<KeepChanges>,
    /// The token of the standbys that may follow; `None` if none may.
    pub(crate) standbys: Option<Token>,
    /// The time after which a write that no standby confirms is refused; `None` if writes do not wait for a standby.
    pub confirmation_timeout: Option<Duration>,
    /// The primary that this server follows as a standby.
    pub(crate) primary: Option<FollowerSettings>,
    /// The folder with the initial tables.
    pub seed: Option<PathBuf>,
    /// Whether tests may control the server through the admin listener.
    pub test_controls: bool,
    /// The certificate that the server makes when the data is open; `None` if it does not make one.
    pub(crate) self_signed: Option<SelfSigned>,
}

/// Where the data is kept.
#[derive(Debug)]
pub enum Storage {
    /// In memory, discarded on exit.
    Memory,
    /// In a folder, with the embedded engine.
    Folder {
        /// The folder, created if missing.
        path: PathBuf,
        /// When a write is acknowledged.
        durability: DurabilityArg,
        /// Memory for cached blocks, in bytes.
        cache_bytes: u64,
        /// Free space below which only deletions are accepted, in bytes.
        min_free_bytes: u64,
    },
    /// In a PostgreSQL database.
    Database(PostgresOptions, Balance),
}

impl Config {
    /// Validates the options, reads the files they name, and fills in the defaults.
    pub fn new(args: ServeArgs, account_keys: Option<AccountKeys<'_>>) -> anyhow::Result<Self> {
        let mut secret_files = Vec::new();
        let args = match &args.config {
            None => args,
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
                let options = ServeArgs::augment_args(clap::Command::new("serve"));
                let names: Vec<&str> = options.get_arguments().filter_map(Arg::get_long).chain(["oauth"]).collect();
                let file: ServeArgs =
                    server::parse_toml(&text, &names).with_context(|| format!("reading {}", path.display()))?;
                let is_secret = file.store.as_ref().is_some_and(|url| engine_postgres::has_password(&url.0));
                secret_files.extend(is_secret.then(|| path.clone()));
                args.or(file)
            }
        };
        let dialect = args.service.map(Dialect::from).unwrap_or_default();
        let (accounts, account_file) = accounts(args.accounts.as_deref(), account_keys, dialect)?;
        let tls = tls(&args)?;
        let exposure = Exposure {
            listen: address(args.listen.as_deref().unwrap_or("127.0.0.1:10002"))?,
            is_tls: tls.is_some() || args.tls_self_signed.is_some(),
            allows_development_key: args.allow_development_key_on_network == Some(true),
            allows_plain_http: args.allow_plain_http_on_network == Some(true),
        };
        exposure.check_accounts(&accounts)?;
        exposure.check_transport()?;
        // On by default for development, where it shows nothing that the public key does not already give access to.
        let has_explorer_by_default = exposure.listen.ip().is_loopback() && accounts.have_well_known_key();
        let tokens =
            args.oauth.as_ref().map(OAuthConfig::new).transpose()?.map(|oauth| BearerTokens::OAuth(Box::new(oauth)));
        let check_accounts = Box::new(move |accounts: &_| exposure.check_accounts(accounts));
        let storage = storage(&args)?;
        secret_files.extend(args.store_password_file.clone());
        secret_files.extend(args.standby_token_file.clone());
        let default_account = default_account(args.default_account.as_deref(), &accounts)?;
        let server = server_settings(&args, exposure, has_explorer_by_default)?;
        let server = Settings { dialect, default_account, ..server };
        let self_signed = self_signed(&args, exposure.listen, &storage)?;
        let process = ProcessSettings { self_signed, ..process_settings(args, secret_files, &storage)? };
        let access = Access { accounts, account_file, check_accounts, tokens, tls };
        Ok(Self { exposure, storage, process, access, server })
    }

    /// Like [`Self::new`], with the secrets from the environment.
    pub fn from_environment(args: ServeArgs) -> anyhow::Result<Self> {
        Self::new(args, account_keys().as_deref().map(AccountKeys::from_server_variable)).map(Self::with_password)
    }

    /// Returns the configuration of a standby.
    pub(crate) fn of_standby(args: StandbyArgs) -> anyhow::Result<Self> {
        let StandbyArgs { of, token_file, replace, serve } = args;
        let mut config = Self::from_environment(serve)?;
        ensure!(
            matches!(config.storage, Storage::Folder { .. }),
            "a standby keeps its data in a folder: pass --data DIR"
        );
        ensure!(
            config.process.standbys.is_none() && config.process.seed.is_none() && !config.server.has_analytics,
            "a standby is not written and has no standbys: remove --standby-token-file, --seed and --analytics"
        );
        config.process.primary =
            Some(FollowerSettings { primary: of, token: Token::read(&token_file)?, replaces: replace });
        config.process.secret_files.push(token_file);
        Ok(config)
    }

    /// Adds the database password from the environment if there is no other.
    pub(crate) fn with_password(mut self) -> Self {
        if let Storage::Database(options, _) = &mut self.storage
            && options.password.is_none()
        {
            options.password = std::env::var(STORE_PASSWORD_VARIABLE).ok().map(Password::from);
        }
        self
    }
}

fn server_settings(args: &ServeArgs, exposure: Exposure, has_explorer_by_default: bool) -> anyhow::Result<Settings> {
    let default = Settings::default();
    let query_time = args.query_seconds.map_or(default.query_time, Duration::from_secs);
    ensure!(
        (1..=REQUEST_TIMEOUT_SECONDS_MAX).contains(&query_time.as_secs()),
        "--query-seconds is {}: pass 1 to {REQUEST_TIMEOUT_SECONDS_MAX}",
        query_time.as_secs()
    );
    ensure!(args.max_connections != Some(0), "--max-connections is 0: pass at least 1");
    ensure!(args.max_connections_per_address != Some(0), "--max-connections-per-address is 0: pass at least 1");
    ensure!(args.max_requests != Some(0), "--max-requests is 0: pass at least 1");
    let body_bytes = args.body_mib.map_or(default.body_bytes, |mib| mib.saturating_mul(MIB));
    ensure!(body_bytes >= MEMORY_BYTES_MIN, "--body-mib is too small: pass at least {}", MEMORY_BYTES_MIN / MIB);
    let proxies = args.trust_proxy.as_deref().unwrap_or_default();
    let proxies = TrustedProxies::parse(proxies.iter().map(String::as_str));
    let proxies = proxies.map_err(|text| {
        anyhow!(
            "--trust-proxy is {text:?}: pass the IP addresses of the proxies, or their networks, such as 10.0.0.0/8"
        )
    })?;
    ensure!(
        args.large_entities != Some(true) || args.extensions == Some(true),
        "--large-entities is an extension: add --extensions"
    );
    let rehearsal = args.rehearse.as_deref().map(RehearsalSettings::parse).transpose().context("--rehearse")?;
    Ok(Settings {
        dialect: default.dialect,
        default_account: default.default_account,
        domains: args.domain.clone().unwrap_or(default.domains),
        proxies,
        development_key_for_any_host: exposure.allows_development_key,
        query_time,
        secondary: args.secondary.map_or(default.secondary, Secondary::from),
        stats_on_primary: args.stats_on_primary.unwrap_or(default.stats_on_primary),
        explorer: args.explorer.unwrap_or(has_explorer_by_default),
        extensions: args.extensions.unwrap_or(default.extensions),
        large_entities: args.large_entities.unwrap_or(default.large_entities),
        connections_max: args.max_connections.unwrap_or(default.connections_max),
        connections_per_address_max: args.max_connections_per_address,
        requests_max: args.max_requests.unwrap_or(default.requests_max),
        body_bytes,
        change_streams_max: args.max_change_streams.unwrap_or(default.change_streams_max),
        targets: args.throttle.targets(rehearsal.is_some_and(|rehearsal| rehearsal.rehearses_targets()))?,
        rehearsal: rehearsal.filter(RehearsalSettings::rehearses_anything),
        quota: args.quota.quota(),
        replication: default.replication,
        load: default.load,
        has_analytics: args.analytics.unwrap_or(default.has_analytics),
        names_emulator_version: default.names_emulator_version,
        reasons: reasons(args),
        shutdown_time: args.shutdown_seconds.map_or(default.shutdown_time, Duration::from_secs),
    })
}

/// Returns the account of requests whose URLs name none.
fn default_account(name: Option<&str>, accounts: &Accounts) -> anyhow::Result<Option<AccountName>> {
    let Some(name) = name else { return Ok(accounts.addressed_without_name().cloned()) };
    let account = AccountName::new(name).filter(|account| accounts.all().any(|(known, _)| known == account));
    Ok(Some(
        account.with_context(|| format!("--default-account is {name}: pass the name of an account of this server"))?,
    ))
}

fn reasons(args: &ServeArgs) -> ReasonSettings {
    let default = ReasonSettings::default();
    let (log, log_values) = match args.log_reasons {
        None => (default.log, default.log_values),
        Some(LogReasonsArg::Development) => (ReasonAudience::Development, false),
        Some(LogReasonsArg::All) => (ReasonAudience::Everyone, false),
        Some(LogReasonsArg::AllWithValues) => (ReasonAudience::Everyone, true),
        Some(LogReasonsArg::None) => (ReasonAudience::Nobody, false),
    };
    let header = match args.reason_header {
        None => default.header,
        Some(ReasonHeaderArg::Development) => ReasonAudience::Development,
        Some(ReasonHeaderArg::All) => ReasonAudience::Everyone,
        Some(ReasonHeaderArg::None) => ReasonAudience::Nobody,
    };
    ReasonSettings { log, log_values, header }
}

fn process_settings(args: ServeArgs, secret_files: Vec<PathBuf>, storage: &Storage) -> anyhow::Result<ProcessSettings> {
    let test_controls = args.test_controls.unwrap_or(false);
    ensure!(
        !test_controls || matches!(storage, Storage::Memory),
        "--test-controls lets anyone who can reach the admin listener replace all data, so it requires data in memory: \
         add --in-memory"
    );
    let admin = args.admin.as_deref().or(test_controls.then_some(TEST_CONTROLS_ADMIN));
    let (standbys, confirmation_timeout) = standbys(&args, storage)?;
    Ok(ProcessSettings {
        secret_files,
        stop_with_stdin: args.stop_with_stdin.unwrap_or(false),
        log_format: args.log_format.unwrap_or(LogFormat::Text),
        log: args.log.unwrap_or_else(|| "info".to_owned()),
        log_file: None,
        admin: admin_address(admin, args.allow_admin_on_network == Some(true), test_controls)?,
        metrics_per_table: args.metrics_per_table.unwrap_or(true),
        decides_about_explorer: args.explorer.is_some(),
        keep_changes: keep_changes(args.keep_log.as_deref(), args.keep_log_mib, storage)?,
        standbys,
        confirmation_timeout,
        primary: None,
        seed: args.seed,
        test_controls,
        self_signed: None,
    })
}

/// Returns the token of the standbys, and the time for which a write waits for one.
fn standbys(args: &ServeArgs, storage: &Storage) -> anyhow::Result<(Option<Token>, Option<Duration>)> {
    let is_waiting = args.acknowledge == Some(AcknowledgeArg::Standby);
    ensure!(
        is_waiting || args.acknowledge_seconds.is_none(),
        "--acknowledge-seconds has no effect without --acknowledge standby"
    );
    let Some(file) = &args.standby_token_file else {
        ensure!(
            !is_waiting,
            "--acknowledge standby waits for a standby that cannot connect: add --standby-token-file FILE"
        );
        return Ok((None, None));
    };
    ensure!(
        matches!(storage, Storage::Folder { .. }),
        "--standby-token-file applies only to a data folder; a database has its own standbys"
    );
    ensure!(
        args.keep_log.is_some(),
        "--standby-token-file requires the log that a standby reads: add --keep-log DURATION, for example --keep-log 24h"
    );
    ensure!(args.acknowledge_seconds != Some(0), "--acknowledge-seconds is 0: pass at least 1");
    let timeout = Duration::from_secs(args.acknowledge_seconds.unwrap_or(ACKNOWLEDGE_SECONDS_DEFAULT));
    Ok((Some(Token::read(file)?), is_waiting.then_some(timeout)))
}

fn keep_changes(age: Option<&str>, mib: Option<u64>, storage: &Storage) -> anyhow::Result<Option<KeepChanges>> {
    let Some(age) = age else {
        ensure!(mib.is_none(), "--keep-log-mib is the size of a log that is not kept: add --keep-log DURATION");
        return Ok(None);
    };
    let parsed = parse_duration(age).filter(|age| !age.is_zero());
    let age = parsed.with_context(|| format!("--keep-log is {age}: pass a number and s, m, h or d, such as 24h"))?;
    let default_mib = if matches!(storage, Storage::Memory) { 512 } else { 10 * 1024 };
    let bytes = mib.unwrap_or(default_mib).checked_mul(1024 * 1024).context("--keep-log-mib is too large")?;
    Ok(Some(KeepChanges { age, bytes }))
}

/// Returns the single place where the data is kept.
fn storage(args: &ServeArgs) -> anyhow::Result<Storage> {
    if let Some(url) = &args.store {
        ensure!(args.data.is_none(), "data can be kept in only one place: pass either --store or --data");
        ensure!(args.in_memory != Some(true), "data can be kept in only one place: pass either --store or --in-memory");
        ensure!(
            args.durability.is_none() && args.cache_mib.is_none() && args.min_free_space.is_none(),
            "--durability, --cache-mib and --min-free-space apply only to a data folder: remove them, or remove --store"
        );
        return database(url, args);
    }
    let for_database = args.store_password_file.is_some()
        || args.store_connections.is_some()
        || args.balance.is_some()
        || args.balance_steps.is_some();
    ensure!(
        !for_database && args.distribute != Some(true),
        "--store-password-file, --store-connections, --distribute and --balance apply only to a database: add --store URL"
    );
    if args.in_memory.unwrap_or(false) {
        ensure!(args.data.is_none(), "data can be kept in only one place: pass either --in-memory or --data");
        return Ok(Storage::Memory);
    }
    let min_free_mib = args.min_free_space.unwrap_or(256);
    Ok(Storage::Folder {
        path: args.data.clone().unwrap_or_else(|| PathBuf::from("rowhouse-data")),
        durability: args.durability.unwrap_or(DurabilityArg::Sync),
        cache_bytes: args.cache_mib.unwrap_or(256).checked_mul(1024 * 1024).context("--cache-mib is too large")?,
        min_free_bytes: min_free_mib.checked_mul(1024 * 1024).context("--min-free-space is too large")?,
    })
}

fn database(url: &StoreUrl, args: &ServeArgs) -> anyhow::Result<Storage> {
    let connections_max = args.store_connections.unwrap_or(STORE_CONNECTIONS_DEFAULT);
    ensure!(
        (1..=STORE_CONNECTIONS_MAX).contains(&connections_max),
        "--store-connections is {connections_max}: pass 1 to {STORE_CONNECTIONS_MAX}"
    );
    let password = args.store_password_file.as_deref().map(Password::in_file).transpose()?;
    let distribute = args.distribute.unwrap_or(false);
    let balance = match args.balance.unwrap_or(BalanceArg::Suggest) {
        BalanceArg::Off => Balance::Off,
        BalanceArg::Suggest => Balance::Suggest,
        BalanceArg::Auto => Balance::Auto { steps_max: args.balance_steps.unwrap_or(BALANCE_STEPS_DEFAULT) },
    };
    let options = PostgresOptions { password, distribute, ..PostgresOptions::new(url.0.clone(), connections_max) };
    Ok(Storage::Database(options, balance))
}

/// Returns the account names and keys in the environment.
pub fn account_keys() -> Option<String> {
    std::env::var(ACCOUNT_KEYS_VARIABLE).ok()
}

/// Returns the accounts from a file or from the environment, or else the development account, and the file if there is
/// one.
pub fn accounts(
    file: Option<&Path>,
    account_keys: Option<AccountKeys<'_>>,
    dialect: Dialect,
) -> anyhow::Result<(Accounts, Option<Files<1>>)> {
    match (file, account_keys) {
        (Some(_), Some(AccountKeys { variable, .. })) => bail!(
            "accounts are given twice, in a file and in {variable}: use either --accounts FILE or the \
             variable"
        ),
        (Some(path), None) => {
            let files = Files::read([path.to_owned()]).context("reading accounts")?;
            Ok((Accounts::from_file(&files)?, Some(files)))
        }
        (None, Some(AccountKeys { variable, text })) => {
            let accounts = Accounts::from_environment_text(text);
            Ok((accounts.with_context(|| format!("reading {variable}"))?, None))
        }
        (None, None) => Ok((Accounts::development_of(dialect), None)),
    }
}

fn tls(args: &ServeArgs) -> anyhow::Result<Option<(Files<2>, ServerConfig)>> {
    ensure!(
        args.tls_self_signed.is_none() || (args.tls_cert.is_none() && args.tls_key.is_none()),
        "the server has only one certificate: pass either --tls-self-signed or --tls-cert and --tls-key"
    );
    match (&args.tls_cert, &args.tls_key) {
        (None, None) => Ok(None),
        (Some(_), None) => bail!("--tls-cert requires the certificate's private key: add --tls-key FILE"),
        (None, Some(_)) => bail!("--tls-key requires the certificate that it belongs to: add --tls-cert FILE"),
        (Some(certificate), Some(key)) => {
            let files =
                Files::read([certificate.clone(), key.clone()]).context("reading the TLS certificate and key")?;
            let config = server::server_config(&files)?;
            Ok(Some((files, config)))
        }
    }
}

/// Returns the certificate that the server makes. A new data folder must be empty until the engine has opened it, so
/// the files are not written here.
fn self_signed(args: &ServeArgs, listen: SocketAddr, storage: &Storage) -> anyhow::Result<Option<SelfSigned>> {
    let hosts = args.tls_hosts.clone();
    let Some(folder) = &args.tls_self_signed else {
        ensure!(
            hosts.is_none(),
            "--tls-hosts are names in the certificate that the server makes: add --tls-self-signed"
        );
        return Ok(None);
    };
    let folder = match storage {
        Storage::Folder { path, .. } => path.join(folder),
        Storage::Memory | Storage::Database(..) => folder.clone(),
    };
    SelfSigned::new(&folder, hosts.unwrap_or_default(), listen).map(Some)
}

fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let what = || format!("'{text}' is not an address and port to listen on, such as 127.0.0.1:10002");
    text.to_socket_addrs().with_context(what)?.next().with_context(what)
}

/// Returns the address of the admin listener. An address that other machines can reach requires a separate flag.
fn admin_address(text: Option<&str>, allows_network: bool, test_controls: bool) -> anyhow::Result<Option<SocketAddr>> {
    let Some(text) = text else {
        ensure!(!allows_network, "--allow-admin-on-network has no effect without an admin listener: add --admin");
        return Ok(None);
    };
    let admin = address(text).context("reading --admin")?;
    let what = if test_controls {
        "read metrics, change the log filter, replace all data, create accounts and set the clock"
    } else {
        "read metrics and change the log filter"
    };
    ensure!(
        admin.ip().is_loopback() || allows_network,
        "refusing to open the admin listener on {admin}: anyone who can connect to it can {what}, without a credential and \
         without TLS.\n\
         Pass a loopback address such as 127.0.0.1:10003 to --admin, or, if only operators can reach it, add \
         --allow-admin-on-network."
    );
    Ok(Some(admin))
}

/// Who can reach the server, how, and what the flags allow.
#[derive(Debug, Clone, Copy)]
pub struct Exposure {
    /// The address to listen on.
    pub listen: SocketAddr,
    is_tls: bool,
    /// Whether anyone who can reach the server may use the well-known key, under any name of the server.
    pub allows_development_key: bool,
    allows_plain_http: bool,
}

impl Exposure {
    /// Refuses accounts with a public key on an address that other machines can reach, unless a flag allows it.
    pub fn check_accounts(&self, accounts: &Accounts) -> anyhow::Result<()> {
        ensure!(
            self.listen.ip().is_loopback() || self.allows_development_key || !accounts.have_well_known_key(),
            "refusing to serve {} with the development account's key, which is public.\n\
             Configure your own accounts (--accounts FILE, see `rowhouse serve --help`), listen on 127.0.0.1, \
             or add --allow-development-key-on-network.",
            self.listen
        );
        Ok(())
    }

    /// Refuses plain HTTP on an address that other machines can reach, unless a flag allows it.
    fn check_transport(&self) -> anyhow::Result<()> {
        ensure!(
            self.listen.ip().is_loopback() || self.is_tls || self.allows_plain_http,
            "refusing to serve {} without TLS: requests and responses could be read and changed in transit.\n\
             Configure a certificate (--tls-cert FILE --tls-key FILE, or --tls-self-signed), listen on 127.0.0.1, or put a proxy that terminates \
             TLS in front and add --allow-plain-http-on-network.",
            self.listen
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: AccountKeys<'_> = AccountKeys { variable: "KEYS", text: "one:AAECAwQFBgcICQoLDA0ODw==" };

    #[test]
    fn defaults() {
        let config = Config::new(ServeArgs::default(), None).unwrap();
        assert_eq!(config.exposure.listen.to_string(), "127.0.0.1:10002");
        let Storage::Folder { path, durability, .. } = config.storage else { panic!("expected a folder") };
        assert_eq!((path, durability), (PathBuf::from("rowhouse-data"), DurabilityArg::Sync));
        assert!(config.access.accounts.have_well_known_key());
        assert_eq!((config.server.secondary, config.server.stats_on_primary), (Secondary::Mirror, false));
    }

    #[test]
    fn proxies_come_from_the_options_or_the_file_and_must_be_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rowhouse.toml");
        std::fs::write(&path, "trust-proxy = [\"10.0.0.1\", \"2001:db8::/32\"]\n").unwrap();
        let of = |trust_proxy: Option<&str>| {
            let trust_proxy = trust_proxy.map(|text| text.split(',').map(str::to_owned).collect());
            let args = ServeArgs { config: Some(path.clone()), trust_proxy, ..ServeArgs::default() };
            Config::new(args, None).map(|config| format!("{:?}", config.server.proxies))
        };
        let named = |texts: &[&str]| format!("{:?}", TrustedProxies::parse(texts.iter().copied()).unwrap());
        assert_eq!(of(None).unwrap(), named(&["10.0.0.1", "2001:db8::/32"]));
        assert_eq!(of(Some("127.0.0.1")).unwrap(), named(&["127.0.0.1"]));
        let error = of(Some("127.0.0.1,nginx")).unwrap_err().to_string();
        assert_eq!(
            error,
            "--trust-proxy is \"nginx\": pass the IP addresses of the proxies, or their networks, such as 10.0.0.0/8"
        );
    }

    #[test]
    fn a_file_fills_in_what_the_flags_leave_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rowhouse.toml");
        std::fs::write(&path, "listen = \"127.0.0.1:1\"\nquery-seconds = 7\nlog-format = \"json\"\n").unwrap();
        let args = ServeArgs { config: Some(path.clone()), listen: Some("127.0.0.1:2".into()), ..ServeArgs::default() };
        let config = Config::new(args, None).unwrap();
        assert_eq!(
            (config.exposure.listen.port(), config.server.query_time.as_secs(), config.process.log_format),
            (2, 7, LogFormat::Json)
        );
        std::fs::write(&path, "query-seconds = 7\nlisden = \"x\"").unwrap();
        let args = ServeArgs { config: Some(path), ..ServeArgs::default() };
        let refusal = format!("{:#}", Config::new(args, None).unwrap_err());
        assert!(refusal.contains("line 2, column 1: unknown option 'lisden'; did you mean 'listen'?"), "{refusal}");
    }

    #[test]
    fn unprotected_service_beyond_this_machine_is_refused_with_what_to_do() {
        let args = |development, plain| ServeArgs {
            listen: Some("0.0.0.0:0".into()),
            allow_development_key_on_network: development,
            allow_plain_http_on_network: plain,
            ..ServeArgs::default()
        };
        let refusal = |args, keys| format!("{:#}", Config::new(args, keys).unwrap_err());
        assert!(refusal(args(None, Some(true)), None).contains("--allow-development-key-on-network"));
        assert!(refusal(args(Some(true), None), None).contains("--allow-plain-http-on-network"));
        assert!(refusal(args(None, None), Some(KEYS)).contains("--allow-plain-http-on-network"));
        assert!(Config::new(args(Some(true), Some(true)), None).is_ok());
        assert!(Config::new(args(None, Some(true)), Some(KEYS)).is_ok());
    }

    #[test]
    fn operators_beyond_this_machine_need_a_flag() {
        let config = |admin: Option<&str>, allow| {
            let admin = admin.map(str::to_owned);
            Config::new(ServeArgs { admin, allow_admin_on_network: allow, ..ServeArgs::default() }, None)
        };
        assert_eq!(config(None, None).unwrap().process.admin, None);
        assert!(config(Some("127.0.0.1:0"), None).unwrap().process.admin.is_some());
        assert!(config(Some("0.0.0.0:9"), Some(true)).unwrap().process.admin.is_some());
        let refusal = |admin, allow| format!("{:#}", config(admin, allow).unwrap_err());
        assert!(refusal(Some("0.0.0.0:9"), None).contains("--allow-admin-on-network"));
        assert!(!refusal(Some("0.0.0.0:9"), None).contains("replace all data"));
        assert!(refusal(Some("[::]:9"), Some(false)).contains("--allow-admin-on-network"));
        assert!(refusal(None, Some(true)).contains("--admin"));
        assert!(refusal(Some("here"), None).contains("--admin"));
    }

    #[test]
    fn test_controls_need_data_in_memory_and_bring_an_admin_listener() {
        let config = |in_memory, admin: Option<&str>| {
            let admin = admin.map(str::to_owned);
            Config::new(ServeArgs { in_memory, admin, test_controls: Some(true), ..ServeArgs::default() }, None)
        };
        let implied = config(Some(true), None).unwrap();
        assert!(implied.process.test_controls && implied.process.admin.is_some_and(|admin| admin.ip().is_loopback()));
        assert_eq!(config(Some(true), Some("127.0.0.1:9")).unwrap().process.admin.unwrap().port(), 9);
        let refusal = format!("{:#}", config(Some(true), Some("0.0.0.0:9")).unwrap_err());
        assert!(refusal.contains("replace all data, create accounts and set the clock"), "{refusal}");
        let refusal = format!("{:#}", config(None, None).unwrap_err());
        assert!(refusal.contains("add --in-memory"), "{refusal}");
        assert!(!Config::new(ServeArgs::default(), None).unwrap().process.test_controls);
    }

    #[test]
    fn the_explorer_is_on_for_development_on_this_machine() {
        let has_explorer = |listen: &str, explorer, keys| {
            let flag = Some(true);
            let args = ServeArgs {
                listen: Some(listen.into()),
                explorer,
                allow_development_key_on_network: flag,
                allow_plain_http_on_network: flag,
                ..ServeArgs::default()
            };
            Config::new(args, keys).unwrap().server.explorer
        };
        for (listen, keys, by_default) in [
            ("127.0.0.1:0", None, true),
            ("127.1.2.3:0", None, true),
            ("[::1]:0", None, true),
            ("127.0.0.1:0", Some(KEYS), false),
            ("0.0.0.0:0", None, false),
            ("[::]:0", None, false),
            ("192.0.2.1:0", Some(KEYS), false),
        ] {
            assert_eq!(has_explorer(listen, None, keys), by_default, "{listen}");
            assert!(has_explorer(listen, Some(true), keys) && !has_explorer(listen, Some(false), keys), "{listen}");
        }
    }

    #[test]
    fn a_database_given_by_a_flag_stands_in_for_the_folder_of_the_file_and_its_password_stays_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rowhouse.toml");
        std::fs::write(&path, "data = \"/somewhere\"\n").unwrap();
        let password = folder.path().join("password");
        std::fs::write(&password, "opened\n").unwrap();
        let args = ServeArgs {
            config: Some(path),
            store: Some(StoreUrl("postgres://me:inside@a/b".into())),
            store_password_file: Some(password),
            ..ServeArgs::default()
        };
        assert!(!format!("{args:?}").contains("inside"));
        let config = Config::new(args, None).unwrap();
        let shown = format!("{config:?}");
        assert!(!shown.contains("inside") && !shown.contains("opened"), "{shown}");
        let Storage::Database(options, _) = config.storage else { panic!("expected a database") };
        assert!(options.password.is_some());
        assert_eq!(options.connections_max, STORE_CONNECTIONS_DEFAULT);
    }

    #[test]
    fn contradictions_are_refused() {
        let with = |change: fn(&mut ServeArgs)| {
            let mut args = ServeArgs::default();
            change(&mut args);
            Config::new(args, None).is_err()
        };
        assert!(with(|args| (args.in_memory, args.data) = (Some(true), Some("x".into()))));
        assert!(with(|args| args.query_seconds = Some(0)));
        assert!(with(|args| args.query_seconds = Some(31)));
        assert!(with(|args| args.max_connections = Some(0)));
        assert!(with(|args| args.max_connections_per_address = Some(0)));
        assert!(with(|args| args.listen = Some("nowhere".into())));
        assert!(with(|args| args.accounts = Some("/nowhere".into())));
        assert!(with(|args| (args.store, args.data) = (Some(StoreUrl("postgres://a/b".into())), Some("x".into()))));
        assert!(with(|args| (args.store, args.in_memory) = (Some(StoreUrl("postgres://a/b".into())), Some(true))));
        assert!(with(|args| (args.store, args.cache_mib) = (Some(StoreUrl("postgres://a/b".into())), Some(1))));
        assert!(with(|args| args.distribute = Some(true)));
        let both = ServeArgs { accounts: Some("/nowhere".into()), ..ServeArgs::default() };
        assert!(Config::new(both, Some(KEYS)).is_err());
    }
}
