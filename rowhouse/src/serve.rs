//! The lifecycle of the server: listen, open the data, announce the address, serve, shut down cleanly.
//!
//! [`ServerHost`] determines how the server is announced, and what runs next to it.

use crate::accounts::connection_string_command;
use crate::cli::DurabilityArg;
use crate::config::{Config, Storage};
use crate::health::reachable;
use crate::process::{StandardInput, connection_capacity, notify_ready, notify_stopping, return_freed_memory};
use anyhow::{Context, bail};
use engine::{ChangeLog, Engine, Memory, MemoryCheckpoints};
use engine_embedded::{Durability, Embedded, EmbeddedOptions, KeptLog};
use engine_postgres::PostgresOptions;
use model::clock::SystemClock;
use platform::files::exposure_warning;
use platform::signals::Hangups;
use replication::{Follower, FollowerSettings, PrimaryService, Token, prepare_folder};
use server::{Files, LogControl, Observers, Replicated, Server, Settings, TestClock, TestControlSettings, TestHooks};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tools::backup::ControlSocket;
use tools::import::{self, SeedSummary};
use tools::{counted, stop_signal};
use tracing::{error, info, warn};

const SYNC_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Ready {
    /// The URL of the address that the server listens on.
    pub(crate) endpoint: String,
    pub(crate) connection_string: String,
    pub(crate) explorer: Option<String>,
    pub(crate) admin: Option<SocketAddr>,
    /// Complete lines about what the other lines do not contain, and how to get it.
    pub(crate) hints: String,
}

pub(crate) trait ServerHost: Send {
    /// Returns the option and the value that make the system choose the server's port.
    fn listen_option(&self) -> &'static str;
    fn announce(&mut self, ready: &Ready) -> impl Future<Output = anyhow::Result<()>>;
    /// Completes when the server must stop although no signal arrived.
    fn ended(&mut self) -> impl Future<Output = ()> + Send;
    /// Called when the server begins to stop and finishes the requests in flight.
    fn stopping(&mut self);
    /// Called when the server has stopped or failed to start. Completes when nothing runs next to the server anymore.
    fn stopped(&mut self) -> impl Future<Output = ()>;
}

struct Standalone;

impl ServerHost for Standalone {
    fn listen_option(&self) -> &'static str {
        "--listen 127.0.0.1:0"
    }

    async fn announce(&mut self, ready: &Ready) -> anyhow::Result<()> {
        announce(ready)
    }

    fn ended(&mut self) -> impl Future<Output = ()> {
        std::future::pending()
    }

    fn stopping(&mut self) {}

    async fn stopped(&mut self) {}
}

/// Runs only the server until SIGTERM or Ctrl-C, or until standard input is closed if the configuration requests that.
pub(crate) fn run_alone(config: Config) -> anyhow::Result<()> {
    run(config, &mut Standalone)
}

/// Runs the server until SIGTERM or Ctrl-C, until its host requests a stop, or until standard input is closed if the
/// configuration requests that.
pub(crate) fn run(config: Config, server_host: &mut impl ServerHost) -> anyhow::Result<()> {
    server::begin_process();
    let log = crate::log::start(config.process.log_format, &config.process.log, config.process.log_file.as_deref())?;
    for warning in config.process.secret_files.iter().filter_map(|path| exposure_warning(path)) {
        warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(async {
        let ran = run_until_stopped(config, log, server_host).await;
        server_host.stopped().await;
        ran
    })
}

async fn run_until_stopped(config: Config, log: LogControl, server_host: &mut impl ServerHost) -> anyhow::Result<()> {
    outlive_hangups(&config)?;
    if config.server.large_entities {
        warn!(
            "entities of up to 2 MiB are accepted (--large-entities), which cannot be copied to Azure Table Storage if they \
             are larger than 1 MiB, or have more than 252 properties or a value of more than 64 KiB"
        );
    }
    let listener = bind(config.exposure.listen, server_host.listen_option()).await?;
    // Started before the data is opened, which may take a while.
    let admin = match config.process.admin {
        None => None,
        Some(address) => Some(bind(address, "--admin 127.0.0.1:0").await?),
    };
    let observers = Observers::start(admin, log, config.process.metrics_per_table, option_env!("ROWHOUSE_REVISION"))?;
    let input = config.process.stop_with_stdin.then(StandardInput::read).transpose()?;
    match &config.storage {
        Storage::Memory if config.process.test_controls => {
            warn!(
                "anyone who can reach the admin listener can replace all data, create accounts and set the clock \
                 (--test-controls): use this only for tests"
            );
            let clock = TestClock::new();
            let engine = keep_in_memory(Memory::for_tests(clock.clone()), &config);
            let (controls, changes) = ((clock, engine.checkpoints()), engine.change_log());
            serve(listener, config, observers, (Arc::new(engine), changes), Some(controls), (input, server_host)).await
        }
        Storage::Memory => {
            warn!("all data is in memory and will be lost when the server stops");
            let engine = keep_in_memory(Memory::new(SystemClock), &config);
            let changes = engine.change_log();
            serve(listener, config, observers, (Arc::new(engine), changes), None, (input, server_host)).await
        }
        Storage::Folder { path, durability, cache_bytes, min_free_bytes } => {
            let path = &path.clone();
            let kept_log = config.process.keep_changes.map_or(KeptLog::Nothing, KeptLog::Within);
            let options = embedded_options(*durability, *cache_bytes, *min_free_bytes);
            let confirmation_timeout = config.process.confirmation_timeout;
            let options = EmbeddedOptions { kept_log, confirmation_timeout, ..options };
            let (engine, replication) = match config.process.primary.clone() {
                None => open_primary(path, &options, config.process.standbys.clone())?,
                Some(primary) => {
                    let ready = prepare_folder(path, &primary, *min_free_bytes);
                    or_input_ended(input.clone(), ready).await?;
                    open_standby(path, &options, primary)?
                }
            };
            info!("data is kept in {}", path.display());
            let config = Config { server: Settings { replication, ..config.server }, ..config };
            // Without the control socket, the server works but cannot be backed up while it runs.
            let changes = engine.change_log();
            let control = ControlSocket::start(path, engine.snapshots(), engine.dated_change_log());
            if let Err(error) = &control {
                warn!(%error, "failed to create the control socket in {}, so the data cannot be backed up while the server runs", path.display());
            }
            let served =
                serve(listener, config, observers, (Arc::new(engine), changes), None, (input, server_host)).await;
            drop(control);
            served
        }
        Storage::Database(options, balance) => {
            if tools::shows_password(&options.url) {
                warn!(
                    "any user who lists the processes of this machine can read the password in --store: put it into \
                         a file and name that with --store-password-file, or put the address into ROWHOUSE_STORE"
                );
            }
            let options = PostgresOptions { keep_changes: config.process.keep_changes, ..options.clone() };
            let engine =
                or_input_ended(input.clone(), async { Ok(engine_citus::open(&options, *balance, SystemClock).await?) })
                    .await?;
            info!("data is kept in the database {}", engine.place());
            let config = Config { server: Settings { load: engine.load(), ..config.server }, ..config };
            let changes = engine.change_log();
            serve(listener, config, observers, (Arc::new(engine), changes), None, (input, server_host)).await
        }
    }
}

/// Keeps SIGHUP from terminating the process, even while the server starts, and if no file is reloaded.
fn outlive_hangups(config: &Config) -> anyhow::Result<()> {
    let mut hangups = Hangups::listen().context("listening for SIGHUP")?;
    let has_files =
        config.access.account_file.is_some() || config.access.tls.is_some() || config.process.self_signed.is_some();
    tokio::spawn(async move {
        loop {
            hangups.next().await;
            if !has_files {
                info!("SIGHUP: this server has no account file and no certificate to reload");
            }
        }
    });
    Ok(())
}

type Opened = (Embedded, Option<Arc<dyn Replicated>>);

fn open_primary(path: &Path, options: &EmbeddedOptions, standbys: Option<Token>) -> anyhow::Result<Opened> {
    let engine = Embedded::open(path, options, SystemClock)?;
    let Some(token) = standbys else { return Ok((engine, None)) };
    let service = PrimaryService::new(&engine, token)?;
    Ok((engine, Some(Arc::new(service))))
}

fn open_standby(path: &Path, options: &EmbeddedOptions, primary: FollowerSettings) -> anyhow::Result<Opened> {
    let (engine, log) = Embedded::open_standby(path, options, SystemClock)?;
    let follower = Arc::new(Follower::new(log, primary.token.clone()));
    let following = Arc::clone(&follower);
    // It only appends what the primary has, so it may be stopped at any time.
    tokio::spawn(async move {
        if let Err(error) = following.follow(primary).await {
            error!("the standby does not follow its primary: {error:#}");
        }
    });
    Ok((engine, Some(follower)))
}

fn keep_in_memory(engine: Memory, config: &Config) -> Memory {
    match config.process.keep_changes {
        Some(bounds) => engine.keep_new_changes(bounds),
        None => engine,
    }
}

/// `free_port` is the option and value that make the system choose a port.
async fn bind(address: SocketAddr, free_port: &str) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
            "{address} is already in use: stop the other process (perhaps another Rowhouse, or Azurite), choose \
             another port, or pass {free_port} for a free one"
        ),
        bound => bound.with_context(|| format!("listening on {address}")),
    }
}

fn embedded_options(durability: DurabilityArg, cache_bytes: u64, min_free_bytes: u64) -> EmbeddedOptions {
    let durability = match durability {
        DurabilityArg::Sync => Durability::Sync,
        DurabilityArg::Interval => {
            let milliseconds = SYNC_INTERVAL.as_millis();
            warn!("after a power loss, acknowledged writes of the last {milliseconds} ms may be missing");
            Durability::Interval(SYNC_INTERVAL)
        }
    };
    EmbeddedOptions { durability, cache_bytes, min_free_bytes, ..EmbeddedOptions::default() }
}

async fn serve(
    listener: TcpListener,
    mut config: Config,
    observers: Observers,
    (engine, changes): (Arc<dyn Engine>, Option<Arc<dyn ChangeLog>>),
    test_controls: Option<(TestClock, MemoryCheckpoints)>,
    (input, server_host): (Option<StandardInput>, &mut impl ServerHost),
) -> anyhow::Result<()> {
    if let Some(folder) = &config.process.seed {
        or_input_ended(input.clone(), seed(&engine, folder, &config)).await?;
    }
    if let Some(made) = config.process.self_signed.take() {
        config.access.tls = Some(made.tls()?);
        tokio::spawn(made.keep_valid());
    }
    let address = listener.local_addr().context("reading the bound address")?;
    let scheme = if config.access.tls.is_some() { "https" } else { "http" };
    let listening = format!("{scheme}://{address}");
    // Clients cannot use an address such as 0.0.0.0.
    let endpoint = format!("{scheme}://{}", reachable(address));
    let connection_string = config.access.accounts.connection_string(&endpoint);
    let explorer = config.server.explorer.then(|| format!("{endpoint}/_rowhouse/"));
    let hints = hints(&config, &endpoint);
    let tests = test_controls.map(|(clock, engine)| {
        let controls = TestControlSettings { engine, endpoint };
        TestHooks { clock, faults: None, controls: Some(controls) }
    });
    let ready = Ready { endpoint: listening, connection_string, explorer, admin: observers.admin_address(), hints };
    let connections_max = connection_capacity(config.server.connections_max);
    let settings = Settings { connections_max, ..config.server };
    let server = Server::start(settings, config.access, tests, observers, engine, changes).await?;
    // From here on, a signal shuts the server down cleanly.
    let mut stop = pin!(stop_requested(stop_signal()?, input));
    tokio::select! {
        announced = server_host.announce(&ready) => announced?,
        () = &mut stop => return Ok(()),
    }
    notify_ready(&ready.endpoint);
    tokio::spawn(return_freed_memory());
    let stop = async {
        tokio::select! {
            () = stop => {}
            () = server_host.ended() => {}
        }
        notify_stopping();
        server_host.stopping();
    };
    server.run(listener, stop).await
}

/// Returns the result of a step that precedes readiness, or an error as soon as standard input is closed.
async fn or_input_ended<T>(
    input: Option<StandardInput>,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let Some(input) = input else { return work.await };
    tokio::select! {
        done = work => done,
        () = input.ended() => bail!("standard input was closed before the server was ready"),
    }
}

async fn stop_requested(signal: impl Future<Output = ()>, input: Option<StandardInput>) {
    let Some(input) = input else { return signal.await };
    tokio::select! {
        () = signal => {}
        () = input.ended() => info!("stopping because standard input was closed"),
    }
}

async fn seed(engine: &Arc<dyn Engine>, folder: &Path, config: &Config) -> anyhow::Result<()> {
    let account = config.access.accounts.shown().context("there is no account to load --seed into")?;
    let is_kept = !matches!(config.storage, Storage::Memory);
    let seeded = import::seed(engine, folder, account, is_kept).await?;
    let folder = folder.display();
    match seeded {
        None => info!("nothing was loaded from {folder} (--seed), because the account '{account}' already has tables"),
        Some(SeedSummary { tables, entities, expired }) => {
            info!(tables, entities, "the account '{account}' starts with the tables from {folder} (--seed)");
            if expired > 0 {
                warn!(
                    "{} from {folder} (--seed) had expired by the retention of their tables, so no client sees them; to keep \
                     them, remove the retention from the export's manifest",
                    counted(expired, "entity", "entities")
                );
            }
        }
    }
    Ok(())
}

/// Returns how to get what the server does not print, because it is secret, or does not offer by default.
fn hints(config: &Config, endpoint: &str) -> String {
    let is_off_by_default = !config.server.explorer && !config.process.decides_about_explorer;
    let explorer = is_off_by_default.then(|| format!("explorer: off; --explorer serves it at {endpoint}/_rowhouse/\n"));
    let key = config.access.account_file.as_ref().zip(config.access.accounts.shown());
    let key = key.map(|(Files { paths: [file], .. }, account)| {
        let command = connection_string_command(account, file, endpoint);
        format!("connection string with the key: run '{command}'\n")
    });
    [explorer, key].into_iter().flatten().collect()
}

/// The lines are flushed immediately. If standard output is closed, the server still runs.
fn announce(ready: &Ready) -> anyhow::Result<()> {
    let Ready { endpoint, connection_string, hints, .. } = ready;
    let explorer = ready.explorer.as_ref().map_or(String::new(), |address| format!("explorer: {address}\n"));
    let admin = ready.admin.map_or(String::new(), |address| format!("admin on http://{address}\n"));
    let lines = format!("listening on {endpoint}\nconnection string: {connection_string}\n{admin}{explorer}{hints}");
    print_and_flush(&lines)
}

/// Writes to standard output and flushes. A missing reader is not an error.
pub(crate) fn print_and_flush(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("writing to standard output"),
        _ => Ok(()),
    }
}
