//! The life of the server: listen, open the data, print the address, serve, stop in order.

use crate::cli::DurabilityArg;
use crate::config::{Config, Storage};
use crate::process::{memory, notify, open_files};
use anyhow::Context;
use model::clock::SystemClock;
use server::{Observers, Server, Settings};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::{Durability, Embedded, EmbeddedOptions, Engine, Memory, Postgres};
use tokio::net::TcpListener;
use tools::backup::ControlSocket;
use tools::stop_signal;
use tracing::{info, warn};

/// How often `--durability interval` syncs.
const SYNC_INTERVAL: Duration = Duration::from_millis(100);

/// Runs the server until SIGTERM or Ctrl-C.
pub(crate) fn run(config: Config) -> anyhow::Result<()> {
    server::begin_process();
    let log = server::start_log(config.log_format, &config.log)?;
    for warning in config.secret_files.iter().filter_map(|path| store::exposure(path)) {
        warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(async {
        let listener = bind(config.exposure.listen).await?;
        // Started before the data are opened, which may take a while.
        let admin = match config.admin {
            None => None,
            Some(address) => Some(bind(address).await?),
        };
        let observers = Observers::start(admin, log, config.metrics_per_table)?;
        match &config.storage {
            Storage::Memory => {
                warn!("all data are in memory and are lost when the server stops");
                serve(listener, config, observers, Memory::new(SystemClock)).await
            }
            Storage::Folder { path, durability, cache_bytes, min_free_bytes } => {
                let options = embedded_options(*durability, *cache_bytes, *min_free_bytes);
                let engine = Embedded::open(path, &options, SystemClock)?;
                info!("data are kept in {}", path.display());
                // Without the control socket the server works, but cannot be backed up while it runs.
                let control = ControlSocket::start(path, engine.snapshots());
                if let Err(error) = &control {
                    warn!(%error, "the control socket could not be created in {}, so the data cannot be backed up while the server runs", path.display());
                }
                let served = serve(listener, config, observers, engine).await;
                drop(control);
                served
            }
            Storage::Database(options) => {
                if tools::shows_password(&options.url) {
                    warn!(
                        "every user who lists the processes of this machine can read the password in --store: put it into \
                         a file and name that with --store-password-file, or put the address into ROWHOUSE_STORE"
                    );
                }
                let engine = Postgres::open(options, SystemClock).await?;
                info!("data are kept in the database {}", engine.place());
                serve(listener, config, observers, engine).await
            }
        }
    })
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))
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

async fn serve<E: Engine>(
    listener: TcpListener,
    config: Config,
    observers: Observers,
    engine: E,
) -> anyhow::Result<()> {
    let address = listener.local_addr().context("reading the address that was bound")?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let endpoint = format!("{scheme}://{address}");
    let connection_string = config.accounts.connection_string(&endpoint);
    let explorer = config.explorer.then(|| format!("{endpoint}/_rowhouse/"));
    let admin = observers.admin_address();
    let server = Server::start(settings(config), observers, engine).await?;
    // From here on a signal stops the server in order.
    let stop = stop_signal()?;
    announce(&endpoint, &connection_string, explorer.as_deref(), admin)?;
    notify::ready(&endpoint);
    tokio::spawn(memory::give_back());
    let stop = async {
        stop.await;
        notify::stopping();
    };
    server.run(listener, stop).await
}

fn settings(config: Config) -> Settings {
    let exposure = config.exposure;
    Settings {
        clock: Arc::new(SystemClock),
        accounts: config.accounts,
        account_file: config.account_file,
        check_accounts: Box::new(move |accounts| exposure.check_accounts(accounts)),
        tls: config.tls,
        oauth: config.oauth,
        domains: config.domains,
        development_key_for_any_host: exposure.allows_development_key,
        query_time: config.query_time,
        secondary: config.secondary,
        stats_on_primary: config.stats_on_primary,
        explorer: config.explorer,
        connections_max: open_files::room_for_connections(config.connections_max),
        connections_per_address_max: config.connections_per_address_max,
        requests_max: config.requests_max,
        body_bytes: config.body_bytes,
        targets: config.targets,
        rehearsal: config.rehearsal,
        quota: config.quota,
        has_analytics: config.has_analytics,
        shutdown_time: config.shutdown_time,
    }
}

/// Prints how to reach the server, once it is ready.
///
/// The lines are flushed at once. If standard output is closed, the server runs all the same.
fn announce(
    endpoint: &str,
    connection_string: &str,
    explorer: Option<&str>,
    admin: Option<SocketAddr>,
) -> anyhow::Result<()> {
    let explorer = explorer.map_or(String::new(), |address| format!("explorer: {address}\n"));
    let admin = admin.map_or(String::new(), |address| format!("admin on http://{address}\n"));
    let lines = format!("listening on {endpoint}\nconnection string: {connection_string}\n{admin}{explorer}");
    let mut out = std::io::stdout().lock();
    match out.write_all(lines.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("writing to standard output"),
        _ => Ok(()),
    }
}
