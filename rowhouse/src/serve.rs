//! The life of the server: open the store, listen, say so, serve, stop in order.

use crate::accounts::Accounts;
use crate::admin::{self, Admin};
use crate::admission::Admission;
use crate::analytics::{self, Analytics};
use crate::cli::{DurabilityArg, SecondaryArg};
use crate::config::{Config, Storage};
use crate::control::Control;
use crate::listener::{self, Listening};
use crate::log::{self, LogControl};
use crate::memory;
use crate::metrics::{self, Connections, Metrics};
use crate::notify;
use crate::oauth::OAuth;
use crate::open_files;
use crate::quota::{self, Quotas};
use crate::reload::{self, Files, Live};
use crate::second_thread::SecondThread;
use crate::service::Service;
use crate::throttle::Throttle;
use crate::tls;
use crate::traces::{self, Tracer};
use anyhow::Context;
use model::ServiceProperties;
use model::clock::SystemClock;
use model::limits::{ANALYTICS_STOP_SECONDS_MIN, TRACE_STOP_SECONDS_MAX};
use rustls::ServerConfig;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use store::{Durability, Embedded, EmbeddedOptions, Engine, Memory, Postgres};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{info, warn};

/// How often `--durability interval` syncs.
const SYNC_INTERVAL: Duration = Duration::from_millis(100);

/// Runs the server until SIGTERM or Ctrl-C.
pub(crate) fn run(config: Config) -> anyhow::Result<()> {
    metrics::begin_process();
    let log = log::start(config.log_format, &config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(async {
        let listener = bind(config.exposure.listen).await?;
        // Operators get answers while the data are opened, which may take a while.
        let observers = Observers::start(&config, log).await?;
        match &config.storage {
            Storage::Memory => {
                warn!("all data are in memory and are lost when the server stops");
                serve(listener, config, observers, Memory::new(SystemClock)).await
            }
            Storage::Folder { path, durability, cache_bytes, min_free_bytes } => {
                let options = embedded_options(*durability, *cache_bytes, *min_free_bytes);
                let engine = Embedded::open(path, &options, SystemClock)?;
                info!("data are kept in {}", path.display());
                // Without it nothing is lost but backups while the server runs.
                let control = Control::start(path, engine.snapshots());
                if let Err(error) = &control {
                    warn!(%error, "the control socket could not be made in {}: no backups while the server runs", path.display());
                }
                let served = serve(listener, config, observers, engine).await;
                drop(control);
                served
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
                serve(listener, config, observers, engine).await
            }
        }
    })
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))
}

/// Who looks at requests and at the server as a whole.
struct Observers {
    /// What operators ask, and where; `None` if nobody asks.
    admin: Option<(Arc<Admin>, SocketAddr)>,
    connections: Arc<Connections>,
    tracer: Option<Arc<Tracer>>,
}

impl Observers {
    async fn start(config: &Config, log: LogControl) -> anyhow::Result<Self> {
        let tracer = match traces::Settings::from_environment()? {
            None => None,
            Some(settings) => {
                info!("traces of requests go to {}", settings.place());
                Some(Arc::new(Tracer::start(settings)?))
            }
        };
        let connections = Arc::new(Connections::default());
        let admin = match config.admin {
            None => None,
            Some(address) => {
                let listener = bind(address).await?;
                let address = listener.local_addr().context("reading the address that was bound")?;
                let metrics = Arc::new(Metrics::new(config.metrics_per_table));
                let admin = Arc::new(Admin::new(log, metrics, Arc::clone(&connections), tracer.clone()));
                tokio::spawn(admin::serve(listener, Arc::clone(&admin)));
                Some((admin, address))
            }
        };
        Ok(Self { admin, connections, tracer })
    }
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

async fn serve<E: Engine>(
    listener: TcpListener,
    mut config: Config,
    observers: Observers,
    engine: E,
) -> anyhow::Result<()> {
    let address = listener.local_addr().context("reading the address that was bound")?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let endpoint = format!("{scheme}://{address}");
    let connection_string = config.accounts.connection_string(&endpoint);
    let tls = live_tls(config.tls.take())?;
    let (connections_max, shutdown_time) = (config.connections_max, config.shutdown_time);
    let service = Arc::new(service(config, &observers, engine).await?);
    let Observers { admin, connections, tracer } = observers;
    // From here on a signal stops the server in order.
    let stop = stop_signal()?;
    let watched = admin.as_ref().map(|(admin, _)| Arc::clone(admin));
    if let Some(admin) = &watched {
        admin.serve(Arc::clone(&service) as Arc<dyn admin::Watched>);
    }
    announce(&endpoint, &connection_string, admin.map(|(_, address)| address))?;
    notify::ready(&endpoint);
    let (told, when_told) = oneshot::channel();
    let stop = async move {
        stop.await;
        // Who listens for it does so until the end.
        let _heard = told.send(Instant::now());
        notify::stopping();
        if let Some(admin) = watched {
            admin.stop();
        }
    };
    tokio::spawn(memory::give_back());
    let connections_max = open_files::room_for_connections(connections_max);
    let listening = Listening { listener, tls, connections_max, connections, shutdown_time };
    // It reads and no more, so it ends with the runtime.
    tokio::spawn(quota::run(Arc::clone(&service)));
    let analytics = tokio::spawn(analytics::run(Arc::clone(&service)));
    listener::serve(listening, Arc::clone(&service), stop).await;
    let stopping_for = when_told.await.map_or(Duration::ZERO, |told: Instant| told.elapsed());
    analytics::stop(&service, analytics, time_for_analytics(shutdown_time, stopping_for)).await;
    let closed = service.engine.close().await.context("closing the storage");
    // The last spans may say why it could not be closed in order.
    if let Some(tracer) = tracer {
        tracer.stop(Duration::from_secs(TRACE_STOP_SECONDS_MAX)).await;
    }
    closed?;
    info!("stopped");
    Ok(())
}

/// What answers requests.
async fn service<E: Engine>(config: Config, observers: &Observers, engine: E) -> anyhow::Result<Service<E>> {
    let accounts = Arc::new(Live::new(config.accounts));
    if let Some(files) = config.account_file {
        let make = move |files: &_| {
            let accounts = Accounts::from_file(files)?;
            config.exposure.check_accounts(&accounts)?;
            Ok(accounts)
        };
        reload::follow("accounts", files, Arc::clone(&accounts), make)?;
    }
    let oauth = match config.oauth {
        None => None,
        Some(oauth) => Some(OAuth::start(oauth).await?),
    };
    if config.has_analytics {
        engine.set_fresh_properties(ServiceProperties::measured());
    }
    Ok(Service {
        engine,
        accounts,
        oauth,
        domains: config.domains,
        query_time: config.query_time,
        admission: Admission::new(config.requests_max, config.body_bytes),
        analytics: config
            .has_analytics
            .then(|| Analytics::new(config.secondary == SecondaryArg::Mirror, SystemTime::now())),
        second_thread: SecondThread::new(),
        quotas: Quotas::new(config.quota),
        throttle: config.targets.map(|targets| Throttle::new(targets, Instant::now())),
        secondary: config.secondary,
        stats_on_primary: config.stats_on_primary,
        metrics: observers.admin.as_ref().map(|(admin, _)| Arc::clone(&admin.metrics)),
        tracer: observers.tracer.clone(),
    })
}

/// What TLS connections are accepted with, as its files say from time to time.
fn live_tls(tls: Option<(Files<2>, ServerConfig)>) -> anyhow::Result<Option<Arc<Live<ServerConfig>>>> {
    let Some((files, tls)) = tls else { return Ok(None) };
    let live = Arc::new(Live::new(tls));
    reload::follow("TLS certificate", files, Arc::clone(&live), tls::server_config)?;
    Ok(Some(live))
}

/// What the requests have left of the time to shut down, but always some.
fn time_for_analytics(shutdown_time: Duration, stopping_for: Duration) -> Duration {
    shutdown_time.saturating_sub(stopping_for).max(Duration::from_secs(ANALYTICS_STOP_SECONDS_MIN))
}

/// Tells people and programs that the server is ready and how to reach it.
///
/// The lines go out at once, and a reader that has gone away is no reason not to serve.
fn announce(endpoint: &str, connection_string: &str, admin: Option<SocketAddr>) -> anyhow::Result<()> {
    let admin = admin.map_or(String::new(), |address| format!("admin on http://{address}\n"));
    let lines = format!("listening on {endpoint}\nconnection string: {connection_string}\n{admin}");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn analytics_get_what_requests_have_left_and_always_some() {
        let time = |shutdown, stopping_for| {
            time_for_analytics(Duration::from_secs(shutdown), Duration::from_secs(stopping_for)).as_secs()
        };
        assert_eq!((time(30, 0), time(30, 10), time(30, 29), time(30, 31), time(0, 0)), (30, 20, 2, 2, 2));
    }
}
