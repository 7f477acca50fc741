//! A server: assembles it from its settings and an engine, runs it until it is asked to stop, and shuts it down
//! cleanly.

use crate::accounts::Accounts;
#[cfg(feature = "admin")]
use crate::admin::log_control::LogControl;
#[cfg(feature = "admin")]
use crate::admin::{self, Admin, ObservedService};
use crate::authorization::bearer::TokenVerifier;
use crate::changes::ChangeFeed;
use crate::clock;
use crate::connection::handler::Handler;
use crate::connection::listener::{self, ListenerSettings};
use crate::connection::tls;
use crate::limits::admission::Admission;
use crate::limits::connections::{ConnectionCounters, ConnectionRegistry};
use crate::limits::memory::BodyMemory;
use crate::limits::quota::{self, Quotas};
use crate::limits::throttle::Throttle;
use crate::rehearsal::{Rehearsal, RehearsedEngine};
use crate::rehearsed_service::RehearsedService;
use crate::reload::{self, Files, Live};
use crate::request::FaultScript;
use crate::service::Service;
use crate::settings::{Access, AccountCheck, Secondary, Settings, TestHooks};
use crate::tables;
use crate::telemetry::analytics::{self, Analytics, AnalyticsWriter};
use crate::telemetry::metrics::Metrics;
#[cfg(feature = "admin")]
use crate::telemetry::traces::TraceSettings;
use crate::telemetry::traces::Tracer;
use crate::test_controls::{TestClock, TestData};
#[cfg(feature = "admin")]
use crate::test_controls::{TestControlSettings, TestControls};
use anyhow::Context;
use engine::{BoxFuture, ChangeLog, Engine, MemoryCheckpoints};
use model::ServiceProperties;
use model::clock::{Clock, SystemClock};
use model::limits::{ANALYTICS_SHUTDOWN_SECONDS_MIN, TRACE_SHUTDOWN_SECONDS_MAX};
use rustls::ServerConfig;
#[cfg(feature = "admin")]
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing::info;

/// The admin listener and traces, which run from before the engine is opened until the process exits.
#[derive(Debug)]
pub struct Observers {
    /// The admin listener and its address; `None` if there is none.
    #[cfg(feature = "admin")]
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
    #[cfg(feature = "admin")]
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
        let observers = Self {
            #[cfg(feature = "admin")]
            admin: None,
            metrics: Some(Arc::clone(&metrics)),
            connections: Arc::default(),
            tracer: None,
        };
        (observers, metrics)
    }

    /// Returns the address of the admin listener, or `None` if there is none.
    #[cfg(feature = "admin")]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|(_, address)| *address)
    }
}

/// A server that is ready to accept connections.
#[derive(Debug)]
pub struct Server {
    service: Arc<Service>,
    observers: Observers,
    tls: Option<Arc<Live<ServerConfig>>>,
    connections: Arc<ConnectionRegistry>,
    /// `None` if the server has its own engine and no layer around its service.
    rehearsal: Option<Arc<Rehearsal>>,
    /// `None` if no test scripts faults.
    faults: Option<FaultScript>,
}

impl Server {
    /// Assembles a server. From then on the admin listener reports it as ready. `tests` is `None` outside tests.
    /// `changes` is the log of the engine; `None` if the engine keeps none, or if clients must not read it.
    pub fn start(
        settings: Settings,
        access: Access,
        tests: Option<TestHooks>,
        observers: Observers,
        engine: Arc<dyn Engine>,
        changes: Option<Arc<dyn ChangeLog>>,
    ) -> BoxFuture<'static, anyhow::Result<Self>> {
        Box::pin(async move {
            let changes = changes.map(|log| Arc::new(ChangeFeed::new(log, settings.change_streams_max)));
            let (test_clock, faults, controls) = match tests {
                None => (None, None, None),
                Some(TestHooks { clock, faults, controls }) => (Some(clock), faults, controls),
            };
            let clock: Arc<dyn Clock> = match &test_clock {
                None => Arc::new(SystemClock),
                Some(clock) => Arc::new(clock.clone()),
            };
            let is_rehearsed = settings.rehearsal.is_some() || faults.is_some();
            let rehearsal = is_rehearsed
                .then(|| Arc::new(Rehearsal::start(settings.rehearsal.unwrap_or_default(), Arc::clone(&clock))));
            let engine = match &rehearsal {
                None => engine,
                Some(rehearsal) => Arc::new(RehearsedEngine::new(engine, Arc::clone(rehearsal))),
            };
            let accounts = Arc::new(Live::new(access.accounts));
            if let Some(files) = access.account_file {
                if controls.is_some() {
                    // The file is not reloaded, because a reset by a test restores the initial accounts.
                    reload::ignore_changes("accounts", &files)?;
                } else {
                    follow_accounts(files, access.check_accounts, Arc::clone(&accounts))?;
                }
            }
            let tls = live_tls(access.tls)?;
            let tokens = match access.tokens {
                None => None,
                Some(tokens) => Some(TokenVerifier::start(tokens).await?),
            };
            let analytics = settings.has_analytics.then(|| {
                engine.set_default_properties(ServiceProperties::with_hourly_metrics());
                let has_secondary = settings.secondary == Secondary::Mirror;
                Arc::new(Analytics::new(has_secondary, Arc::clone(&clock), test_clock.as_ref().map(TestClock::moves)))
            });
            let (connections_max, per_address_max) = (settings.connections_max, settings.connections_per_address_max);
            let connections =
                ConnectionRegistry::new(connections_max, per_address_max, Arc::clone(&observers.connections));
            let service = Arc::new(Service {
                engine,
                clock,
                is_test_clock: test_clock.is_some(),
                accounts,
                tokens,
                admission: Admission::new(settings.requests_max),
                memory: BodyMemory::new(settings.body_bytes),
                throttle: settings.targets.map(|targets| Throttle::new(targets, clock::instant())),
                quotas: Arc::new(Quotas::new(settings.quota)),
                analytics,
                changes,
                failure_log: Arc::default(),
                metrics: observers.metrics.clone(),
                tracer: observers.tracer.clone(),
                settings,
            });
            let server = Self { service, observers, tls, connections, rehearsal, faults };
            #[cfg(feature = "admin")]
            if let Some((admin, _)) = &server.observers.admin {
                let service = &server.service;
                let controls = test_clock.zip(controls).map(|(clock, TestControlSettings { engine, endpoint })| {
                    TestControls::new(endpoint, server.test_data(clock, engine), Arc::clone(&service.accounts))
                });
                admin.set_serving(Arc::clone(service) as Arc<dyn ObservedService>, controls);
            }
            Ok(server)
        })
    }

    /// Returns the data of the server. `clock` and `engine` must be the server's own clock and the checkpoints of its
    /// engine.
    pub fn test_data(&self, clock: TestClock, engine: MemoryCheckpoints) -> TestData {
        let (quotas, analytics) = (Arc::clone(&self.service.quotas), self.service.analytics.clone());
        TestData { clock, engine, quotas, rehearsal: self.rehearsal.clone(), analytics }
    }

    /// Serves connections until `stop` completes. Then finishes requests, writes the data that is only in memory, and
    /// closes the engine.
    pub fn run<'a>(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'a,
    ) -> BoxFuture<'a, anyhow::Result<()>> {
        self.run_until(listener, Box::pin(stop))
    }

    fn run_until(mut self, listener: TcpListener, stop: BoxFuture<'_, ()>) -> BoxFuture<'_, anyhow::Result<()>> {
        let (service, faults) = (Arc::clone(&self.service), self.faults.take());
        match self.rehearsal.take() {
            None => Box::pin(self.serve(service, listener, stop)),
            Some(rehearsal) => {
                let handler = RehearsedService { service, rehearsal, faults };
                Box::pin(self.serve(Arc::new(handler), listener, stop))
            }
        }
    }

    async fn serve(
        self,
        handler: Arc<impl Handler>,
        listener: TcpListener,
        stop: BoxFuture<'_, ()>,
    ) -> anyhow::Result<()> {
        let Self { service, observers, tls, connections, rehearsal: _, faults: _ } = self;
        let shutdown_time = service.settings.shutdown_time;
        let Observers {
            #[cfg(feature = "admin")]
            admin,
            connections: counters,
            tracer,
            metrics: _,
        } = observers;
        let (stopped, stopped_at) = oneshot::channel();
        let streams = service.changes.as_ref().map(|feed| Arc::clone(&feed.streams));
        let stop = async move {
            stop.await;
            // Received at the end of this function.
            let _received = stopped.send(clock::instant());
            if let Some(streams) = streams {
                streams.stop();
            }
            #[cfg(feature = "admin")]
            if let Some((admin, _)) = admin {
                admin.stop();
            }
        };
        let (engine, accounts) = (&service.engine, &service.accounts);
        // This task only reads, so it may be stopped together with the runtime.
        tokio::spawn(quota::run(Arc::clone(engine), Arc::clone(accounts), Arc::clone(&service.quotas)));
        // Its transactions take effect as a whole or not at all, so it may be stopped at any time, too.
        let sweep = tables::sweep(Arc::clone(engine), Arc::clone(&service.clock), service.metrics.clone());
        let sweep = tokio::spawn(sweep);
        let analytics = service.analytics.as_ref().map(|analytics| {
            let (engine, accounts) = (Arc::clone(engine), Arc::clone(accounts));
            let writer = AnalyticsWriter { engine, accounts, analytics: Arc::clone(analytics) };
            (writer.clone(), tokio::spawn(analytics::run(writer)))
        });
        let listening = ListenerSettings { listener, tls, connections, counters, shutdown_time };
        listener::serve(listening, handler, stop).await;
        sweep.abort();
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
