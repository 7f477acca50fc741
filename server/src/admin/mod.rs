//! The admin listener: health, readiness, metrics and the log filter, on a separate port, which a firewall can close to
//! clients.
//!
//! It runs from before the data is opened until the process exits, and shares nothing with the request path. It
//! requires no credential: anyone who can connect can read statistics and change the log filter, but cannot read data.
//! A test can also replace data, but only if the settings enable the test controls.

mod host;
mod listener;
pub(crate) mod log_control;
mod observed_service;
mod readiness;
mod responses;
mod routes;
mod test_routes;

pub(crate) use listener::serve;

use crate::limits::LimitFigures;
use crate::limits::connections::ConnectionCounters;
use crate::telemetry::metrics::{Metrics, MetricsSnapshot};
use crate::telemetry::traces::Tracer;
use crate::test_controls::TestControls;
use engine::Figures;
use log_control::LogControl;
use model::limits::READINESS_SECONDS_MAX;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;
use tokio::time::timeout;

const STORAGE_TIME_MAX: Duration = Duration::from_secs(READINESS_SECONDS_MAX);

pub(crate) struct Admin {
    pub(crate) log: LogControl,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) connections: Arc<ConnectionCounters>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    service: OnceLock<Arc<dyn ObservedService>>,
    /// Set at the same time, if test controls are enabled.
    test_controls: OnceLock<Arc<TestControls>>,
    figures_permit: Arc<Semaphore>,
    is_stopping: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerStage {
    Opening,
    Serving,
    Stopping,
}

impl ServerStage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Serving => "serving",
            Self::Stopping => "stopping",
        }
    }
}

/// The parts of a service that the admin listener reads, independent of the engine.
pub(crate) trait ObservedService: Send + Sync {
    /// Returns statistics of the engine and of admission. Usually blocks only briefly, but may block for as long as
    /// the disk hangs.
    fn figures(&self) -> (Figures, LimitFigures);

    fn now(&self) -> SystemTime;

    fn probe(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("stage", &self.stage()).finish_non_exhaustive()
    }
}

impl Admin {
    pub(crate) fn new(
        log: LogControl,
        metrics: Arc<Metrics>,
        connections: Arc<ConnectionCounters>,
        tracer: Option<Arc<Tracer>>,
    ) -> Self {
        let (service, test_controls) = (OnceLock::new(), OnceLock::new());
        let (figures_permit, is_stopping) = (Arc::new(Semaphore::new(1)), AtomicBool::new(false));
        Self { log, metrics, connections, tracer, service, test_controls, figures_permit, is_stopping }
    }

    pub(crate) fn set_serving(&self, service: Arc<dyn ObservedService>, test_controls: Option<TestControls>) {
        if let Some(controls) = test_controls {
            let _first = self.test_controls.set(Arc::new(controls));
        }
        let _first = self.service.set(service);
    }

    fn test_controls(&self) -> Option<&Arc<TestControls>> {
        self.test_controls.get()
    }

    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    fn stage(&self) -> ServerStage {
        if self.is_stopping.load(Ordering::Acquire) {
            ServerStage::Stopping
        } else if self.service.get().is_some() {
            ServerStage::Serving
        } else {
            ServerStage::Opening
        }
    }

    /// Returns the service's statistics, or `None` if there is no service yet or if reading them takes too long.
    ///
    /// Only one task at a time reads them, on a thread that can block. If the disk hangs, only that thread waits for
    /// it, however many requests arrive.
    async fn figures(&self) -> Option<(Figures, LimitFigures)> {
        let service = Arc::clone(self.service.get()?);
        let figures = timeout(STORAGE_TIME_MAX, async {
            let permit = Arc::clone(&self.figures_permit).acquire_owned().await.ok()?;
            let reading = tokio::task::spawn_blocking(move || {
                let figures = service.figures();
                // Released here, because the request may have been dropped by now.
                drop(permit);
                figures
            });
            reading.await.ok()
        });
        figures.await.ok().flatten()
    }

    async fn snapshot(&self) -> MetricsSnapshot {
        let (stage, service) = (self.stage(), self.figures().await);
        let takes_writes = service.as_ref().is_some_and(|(figures, _)| figures.refusal.is_none());
        MetricsSnapshot {
            now: self.service.get().map(|service| service.now()),
            metrics: Arc::clone(&self.metrics),
            connections: Arc::clone(&self.connections),
            service,
            stage: stage.name(),
            is_ready: stage == ServerStage::Serving && takes_writes,
            spans: self.tracer.as_ref().map(|tracer| tracer.counts()),
        }
    }
}
