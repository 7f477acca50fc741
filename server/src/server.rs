//! A server: assembles it from its settings and an engine, runs it until it is asked to stop, and shuts it down
//! cleanly.

use crate::accounts::Accounts;
use crate::admin::{self, Admin, ObservedService};
use crate::authorization::oauth::OAuth;
use crate::clock;
use crate::connection::listener::{self, ListenerSettings};
use crate::connection::tls;
use crate::limits::admission::Admission;
use crate::limits::connections::{ConnectionCounters, ConnectionRegistry};
use crate::limits::quota::{self, Quotas};
use crate::limits::throttle::Throttle;
use crate::rehearsal::Rehearsal;
use crate::reload::{self, Files, Live};
use crate::request::memory::BodyMemory;
use crate::service::Service;
use crate::settings::{AccountCheck, Secondary, Settings};
use crate::telemetry::analytics::{self, Analytics, AnalyticsWriter};
use crate::telemetry::log::LogControl;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::{TraceSettings, Tracer};
use crate::test_controls::{TestClock, TestControlSettings, TestControls, TestData};
use anyhow::Context;
use model::ServiceProperties;
use model::limits::{ANALYTICS_SHUTDOWN_SECONDS_MIN, TRACE_SHUTDOWN_SECONDS_MAX};
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::{Engine, MemoryCheckpoints};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing::info;

/// The admin listener and traces, which run from before the engine is opened until the process exits.
#[derive(Debug)]
pub struct Observers {
    /// The admin listener and its address; `None` if there is none.
    admin: Option<(Arc<Admin>, SocketAddr)>,
    /// The request counters; `None` if nothing reads them.
    metrics: Option<Arc<Metrics>>,
    connections: Arc<ConnectionCounters>,
    tracer: Option<Arc<Tracer>>,
}

impl Observers {
    /// Starts the admin listener, if one is given, and traces, if the environment names a collector.
    ///
    /// `revision` is the source revision, if it is known. Must be called on the server's runtime.
    pub fn start(
        admin: Option<TcpListener>,
        log: LogControl,
        metrics_per_table: bool,
        revision: Option<&'static str>,
    ) -> anyhow::Result<Self> {
        let tracer = match TraceSettings::from_environment()? {
            None => None,
            Some(settings) => {
                info!("sending traces of requests to {}", settings.endpoint_text());
                Some(Arc::new(Tracer::start(settings)?))
            }
        };
        let connections = Arc::new(ConnectionCounters::default());
        let (admin, metrics) = match admin {
            None => (None, None),
            Some(listener) => {
                let address = listener.local_addr().context("reading the bound address")?;
                let metrics = Arc::new(Metrics::new(metrics_per_table).with_revision(revision));
                let admin = Arc::new(Admin::new(log, Arc::clone(&metrics), Arc::clone(&connections), tracer.clone()));
                tokio::spawn(admin::serve(listener, Arc::clone(&admin)));
                (Some((admin, address)), Some(metrics))
            }
        };
        Ok(Self { admin, metrics, connections, tracer })
    }

    /// Returns observers that only count requests, for a program that embeds the server. There are no admin listener
    /// and no traces, whatever the environment contains.
    pub fn counting() -> (Self, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::new(false));
        let observers =
            Self { admin: None, metrics: Some(Arc::clone(&metrics)), connections: Arc::default(), tracer: None };
        (observers, metrics)
    }

    /// Returns the address of the admin listener, or `None` if there is none.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|(_, address)| *address)
    }
}

/// A server that is ready to accept connections.
#[derive(Debug)]
pub struct Server<E> {
    service: Arc<Service<E>>,
    observers: Observers,
    tls: Option<Arc<Live<ServerConfig>>>,
    connections: Arc<ConnectionRegistry>,
    shutdown_time: Duration,
}

impl<E: Engine> Server<E> {
    /// Assembles a server. From then on the admin listener reports it as ready.
    pub async fn start(settings: Settings, observers: Observers, engine: E) -> anyhow::Result<Self> {
        let accounts = Arc::new(Live::new(settings.accounts));
        if let Some(files) = settings.account_file {
            if settings.test_controls.is_some() {
                // The file is not reloaded, because a reset by a test restores the initial accounts.
                reload::ignore_changes("accounts", &files)?;
            } else {
                follow_accounts(files, settings.check_accounts, Arc::clone(&accounts))?;
            }
        }
        let tls = live_tls(settings.tls)?;
        let oauth = match settings.oauth {
            None => None,
            Some(oauth) => Some(OAuth::start(oauth).await?),
        };
        let analytics = settings.has_analytics.then(|| {
            engine.set_default_properties(ServiceProperties::with_hourly_metrics());
            let clock_moves = settings.test_clock.as_ref().map(TestClock::moves);
            let has_secondary = settings.secondary == Secondary::Mirror;
            Arc::new(Analytics::new(has_secondary, Arc::clone(&settings.clock), clock_moves))
        });
        let rehearsal =
            settings.rehearsal.map(|rehearsal| Arc::new(Rehearsal::start(rehearsal, Arc::clone(&settings.clock))));
        let service = Arc::new(Service {
            engine: Arc::new(engine),
            clock: settings.clock,
            is_test_clock: settings.test_clock.is_some(),
            accounts,
            oauth,
            domains: settings.domains,
            development_key_for_any_host: settings.development_key_for_any_host,
            query_time: settings.query_time,
            admission: Admission::new(settings.requests_max),
            memory: BodyMemory::new(settings.body_bytes),
            throttle: settings.targets.map(|targets| Throttle::new(targets, clock::instant())),
            rehearsal,
            faults: settings.faults,
            quotas: Arc::new(Quotas::new(settings.quota)),
            analytics,
            secondary: settings.secondary,
            stats_on_primary: settings.stats_on_primary,
            has_explorer: settings.explorer,
            names_emulator_version: settings.names_emulator_version,
            failure_log: Arc::default(),
            metrics: observers.metrics.clone(),
            tracer: observers.tracer.clone(),
        });
        if let Some((admin, _)) = &observers.admin {
            let controls = |TestControlSettings { clock, engine, endpoint }| {
                TestControls::new(endpoint, test_data(&service, clock, engine), Arc::clone(&service.accounts))
            };
            let test_controls = settings.test_controls.map(controls);
            admin.set_serving(Arc::clone(&service) as Arc<dyn ObservedService>, test_controls);
        }
        let (connections_max, per_address_max) = (settings.connections_max, settings.connections_per_address_max);
        let connections = ConnectionRegistry::new(connections_max, per_address_max, Arc::clone(&observers.connections));
        Ok(Self { service, observers, tls, connections, shutdown_time: settings.shutdown_time })
    }

    /// Returns the data of the server. `clock` and `engine` must be the server's own clock and the checkpoints of its
    /// engine.
    pub fn test_data(&self, clock: TestClock, engine: MemoryCheckpoints<TestClock>) -> TestData {
        test_data(&self.service, clock, engine)
    }

    /// Serves connections until `stop` completes. Then finishes requests, writes the data that is only in memory, and
    /// closes the engine.
    pub async fn run(self, listener: TcpListener, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self { service, observers, tls, connections, shutdown_time } = self;
        let Observers { admin, connections: counters, tracer, metrics: _ } = observers;
        let (stopped, stopped_at) = oneshot::channel();
        let stop = async move {
            stop.await;
            // Received at the end of this function.
            let _received = stopped.send(clock::instant());
            if let Some((admin, _)) = admin {
                admin.stop();
            }
        };
        let (engine, accounts) = (&service.engine, &service.accounts);
        // This task only reads, so it may be stopped together with the runtime.
        tokio::spawn(quota::run(Arc::clone(engine), Arc::clone(accounts), Arc::clone(&service.quotas)));
        let analytics = service.analytics.as_ref().map(|analytics| {
            let (engine, accounts) = (Arc::clone(engine), Arc::clone(accounts));
            let writer = AnalyticsWriter { engine, accounts, analytics: Arc::clone(analytics) };
            (writer.clone(), tokio::spawn(analytics::run(writer)))
        });
        let listening = ListenerSettings { listener, tls, connections, counters, shutdown_time };
        listener::serve(listening, Arc::clone(&service), stop).await;
        let stopping_for = stopped_at.await.map_or(Duration::ZERO, clock::elapsed_since);
        if let Some((writer, running)) = analytics {
            analytics::stop(&writer, running, time_for_analytics(shutdown_time, stopping_for)).await;
        }
        let closed = service.engine.close().await.context("closing the storage");
        // Sent after closing, because the last spans may show why closing failed.
        if let Some(tracer) = tracer {
            tracer.stop(Duration::from_secs(TRACE_SHUTDOWN_SECONDS_MAX)).await;
        }
        closed?;
        service.failure_log.log_suppressed();
        info!("stopped");
        Ok(())
    }
}

fn follow_accounts(files: Files<1>, check: AccountCheck, accounts: Arc<Live<Accounts>>) -> anyhow::Result<()> {
    let make = move |files: &_| {
        let accounts = Accounts::from_file(files)?;
        check(&accounts)?;
        Ok(accounts)
    };
    reload::follow("accounts", files, accounts, make)
}

fn test_data<E>(service: &Service<E>, clock: TestClock, engine: MemoryCheckpoints<TestClock>) -> TestData {
    let (quotas, rehearsal, analytics) =
        (Arc::clone(&service.quotas), service.rehearsal.clone(), service.analytics.clone());
    TestData { clock, engine, quotas, rehearsal, analytics }
}

fn live_tls(tls: Option<(Files<2>, ServerConfig)>) -> anyhow::Result<Option<Arc<Live<ServerConfig>>>> {
    let Some((files, tls)) = tls else { return Ok(None) };
    let live = Arc::new(Live::new(tls));
    reload::follow("TLS certificate", files, Arc::clone(&live), tls::server_config)?;
    Ok(Some(live))
}

/// Returns the part of the shutdown time that remains after requests have finished, but never less than the minimum.
fn time_for_analytics(shutdown_time: Duration, stopping_for: Duration) -> Duration {
    shutdown_time.saturating_sub(stopping_for).max(Duration::from_secs(ANALYTICS_SHUTDOWN_SECONDS_MIN))
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
