//! The admin listener: health, readiness, metrics and the log filter, on a port of its own, so that clients can be kept
//! away from it.
//!
//! It runs from before the data are opened until the process ends, and shares nothing with the request path. It asks for no
//! credential: everyone who can connect may read the figures and change the log filter, but not the data. Only where the
//! settings have the controls for tests, a test may replace those too.

mod host;
mod listener;
mod observed_service;
mod readiness;
mod routes;
mod test_routes;

pub(crate) use listener::serve;

use crate::limits::LimitFigures;
use crate::limits::connections::ConnectionCounters;
use crate::telemetry::log::LogControl;
use crate::telemetry::metrics::{Metrics, MetricsSnapshot};
use crate::telemetry::traces::Tracer;
use crate::test_controls::TestControls;
use model::limits::READINESS_SECONDS_MAX;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use store::Figures;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long the storage may take to respond.
const STORAGE_TIME_MAX: Duration = Duration::from_secs(READINESS_SECONDS_MAX);

/// What the admin listener knows of the server.
pub(crate) struct Admin {
    pub(crate) log: LogControl,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) connections: Arc<ConnectionCounters>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// Set once the data are open.
    service: OnceLock<Arc<dyn ObservedService>>,
    /// Set then, too, if the server has them.
    test_controls: OnceLock<Arc<TestControls>>,
    /// Held by the one task that reads the figures of the service.
    figures_permit: Arc<Semaphore>,
    is_stopping: AtomicBool,
}

/// The stage of its life that the server is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerStage {
    /// The data are being opened.
    Opening,
    Serving,
    /// The server was asked to stop, and finishes the requests in work.
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

/// What the admin listener reads of a service, whatever its engine.
pub(crate) trait ObservedService: Send + Sync {
    /// The figures of the engine and of admission. May block: for a moment, or for as long as the disk hangs.
    fn figures(&self) -> (Figures, LimitFigures);

    /// The time of day.
    fn now(&self) -> SystemTime;

    /// Makes one small read of the storage.
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

    /// Records that requests are served from now on.
    pub(crate) fn serve(&self, service: Arc<dyn ObservedService>, test_controls: Option<TestControls>) {
        // It is called once.
        if let Some(controls) = test_controls {
            let _first = self.test_controls.set(Arc::new(controls));
        }
        let _first = self.service.set(service);
    }

    /// The controls for tests, if the server has them.
    fn test_controls(&self) -> Option<&Arc<TestControls>> {
        self.test_controls.get()
    }

    /// Records that the server was asked to stop.
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

    /// The figures of the service; `None` if there is no service yet, or if they take too long.
    ///
    /// They are read on a thread that may block, by one task at a time: while a disk hangs, one thread waits for it, however
    /// many requests come.
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

    /// The values of the page of metrics.
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
