//! The life of the server: open the store, listen, say so, serve, stop in order.

use crate::accounts::Accounts;
use crate::admission::Admission;
use crate::cli::{DurabilityArg, LogFormat};
use crate::config::{Config, Storage};
use crate::listener::{self, Listening};
use crate::oauth::OAuth;
use crate::reload::{self, Live};
use crate::service::Service;
use crate::tls;
use anyhow::Context;
use model::clock::SystemClock;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;
use store::{Durability, Embedded, EmbeddedOptions, Engine, Memory, Postgres};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

/// How often `--durability interval` syncs.
const SYNC_INTERVAL: Duration = Duration::from_millis(100);

/// Runs the server until SIGTERM or Ctrl-C.
pub(crate) fn run(config: Config) -> anyhow::Result<()> {
    start_log(config.log_format, &config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(async {
        let listen = config.exposure.listen;
        let listener = TcpListener::bind(listen).await.with_context(|| format!("listening on {listen}"))?;
        match &config.storage {
            Storage::Memory => {
                warn!("all data are in memory and are lost when the server stops");
                serve(listener, config, Memory::new(SystemClock)).await
            }
            Storage::Folder { path, durability, cache_bytes, min_free_bytes } => {
                let options = embedded_options(*durability, *cache_bytes, *min_free_bytes);
                let engine = Embedded::open(path, &options, SystemClock)?;
                info!("data are kept in {}", path.display());
                serve(listener, config, engine).await
            }
            Storage::Database(options) => {
                if store::postgres::has_password(&options.url) && std::env::args().any(|arg| arg.contains(&options.url))
                {
                    warn!(
                        "whoever lists the processes of this machine can read the password in --store: put it into \
                         the file of --store-password-file, or the address into ROWHOUSE_STORE"
                    );
                }
                let engine = Postgres::open(options, SystemClock).await?;
                info!("data are kept in the database {}", engine.place());
                serve(listener, config, engine).await
            }
        }
    })
}

fn embedded_options(durability: DurabilityArg, cache_bytes: u64, min_free_bytes: u64) -> EmbeddedOptions {
    let durability = match durability {
        DurabilityArg::Sync => Durability::Sync,
        DurabilityArg::Interval => {
            let milliseconds = SYNC_INTERVAL.as_millis();
            warn!("a loss of power may take the acknowledged writes of the last {milliseconds} ms");
            Durability::Interval(SYNC_INTERVAL)
        }
    };
    EmbeddedOptions { durability, cache_bytes, min_free_bytes, ..EmbeddedOptions::default() }
}

async fn serve<E: Engine>(listener: TcpListener, config: Config, engine: E) -> anyhow::Result<()> {
    let address = listener.local_addr().context("reading the address that was bound")?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let endpoint = format!("{scheme}://{address}");
    let connection_string = config.accounts.connection_string(&endpoint);
    let accounts = Arc::new(Live::new(config.accounts));
    if let Some(files) = config.account_file {
        let make = move |files: &_| {
            let accounts = Accounts::from_file(files)?;
            config.exposure.check_accounts(&accounts)?;
            Ok(accounts)
        };
        reload::follow("accounts", files, Arc::clone(&accounts), make)?;
    }
    let tls = match config.tls {
        None => None,
        Some((files, tls)) => {
            let live = Arc::new(Live::new(tls));
            reload::follow("TLS certificate", files, Arc::clone(&live), tls::server_config)?;
            Some(live)
        }
    };
    let oauth = match config.oauth {
        None => None,
        Some(oauth) => Some(OAuth::start(oauth).await?),
    };
    let service = Arc::new(Service {
        engine,
        accounts,
        oauth,
        domains: config.domains,
        query_time: config.query_time,
        admission: Admission::new(config.requests_max, config.body_bytes),
        secondary: config.secondary,
        stats_on_primary: config.stats_on_primary,
    });
    // From here on a signal stops the server in order.
    let stop = stop_signal()?;
    announce(&endpoint, &connection_string)?;
    let (connections_max, shutdown_time) = (config.connections_max, config.shutdown_time);
    let listening = Listening { listener, tls, connections_max, shutdown_time };
    listener::serve(listening, Arc::clone(&service), stop).await;
    service.engine.close().await.context("closing the storage")?;
    info!("stopped");
    Ok(())
}

/// Tells people and programs that the server is ready and how to reach it.
///
/// Both lines go out at once, and a reader that has gone away is no reason not to serve.
fn announce(endpoint: &str, connection_string: &str) -> anyhow::Result<()> {
    let lines = format!("listening on {endpoint}\nconnection string: {connection_string}\n");
    let mut out = std::io::stdout().lock();
    match out.write_all(lines.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("writing to standard output"),
        _ => Ok(()),
    }
}

/// Done at the first SIGTERM or Ctrl-C.
pub(crate) fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => info!("stopping on SIGTERM"),
            _ = interrupt.recv() => info!("stopping on Ctrl-C"),
        }
    })
}

/// Logs go to standard error; the libraries of the storage say only what is wrong, unless asked for more.
pub(crate) fn start_log(format: LogFormat, levels: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(format!("fjall=warn,lsm_tree=warn,tokio_postgres=warn,deadpool=error,{levels}"))
        .with_context(|| format!("'{levels}' is not a log level such as info, debug or info,store=debug"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}
