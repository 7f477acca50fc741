//! The admin listener: what operators and their tools ask, on a port of its own, so that it can be kept from clients.
//!
//! It is there before the data are open and until the process ends, and needs nothing of the path of a request.
//! It has no credentials: whoever reaches it may read the figures and change what is logged, but no data.

mod checks;
mod host;
mod listener;
mod routes;
mod watched;

pub(crate) use listener::serve;

use crate::clock;
use crate::limits::admission::AdmissionFigures;
use crate::telemetry::log::LogControl;
use crate::telemetry::metrics::{ConnectionCounters, Metrics, MetricsSnapshot};
use crate::telemetry::traces::Tracer;
use model::limits::READINESS_SECONDS_MAX;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::Figures;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long the storage may take to answer.
const PATIENCE: Duration = Duration::from_secs(READINESS_SECONDS_MAX);

/// What the admin listener knows of the server.
pub(crate) struct Admin {
    pub(crate) log: LogControl,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) connections: Arc<ConnectionCounters>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// There once the data are open.
    service: OnceLock<Arc<dyn Watched>>,
    /// Whoever takes the figures of the service.
    figures_turn: Arc<Semaphore>,
    is_stopping: AtomicBool,
}

/// The part of its life that the server is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The data are being opened.
    Opening,
    Serving,
    /// Somebody asked for an end; what is under way is finished.
    Stopping,
}

impl Stage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Serving => "serving",
            Self::Stopping => "stopping",
        }
    }
}

/// A service, whatever engine it is on, as the admin listener sees it.
pub(crate) trait Watched: Send + Sync {
    /// What there is to say about it. May block for a moment, and on a disk that hangs for as long as it hangs.
    fn figures(&self) -> (Figures, AdmissionFigures);

    /// Asks the storage something small.
    fn reach(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;
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
        let (service, is_stopping) = (OnceLock::new(), AtomicBool::new(false));
        Self { log, metrics, connections, tracer, service, figures_turn: Arc::new(Semaphore::new(1)), is_stopping }
    }

    /// From now on requests are served.
    pub(crate) fn serve(&self, service: Arc<dyn Watched>) {
        // It is said once.
        let _first = self.service.set(service);
    }

    /// From now on nothing new is to come.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    fn stage(&self) -> Stage {
        if self.is_stopping.load(Ordering::Acquire) {
            Stage::Stopping
        } else if self.service.get().is_some() {
            Stage::Serving
        } else {
            Stage::Opening
        }
    }

    /// The figures of the service; `None` if there is no service yet, or if it does not tell them in time.
    ///
    /// They are taken on a thread that may block, by one at a time: of a disk that hangs there is one thread that waits
    /// for it, however often somebody asks.
    async fn figures(&self) -> Option<(Figures, AdmissionFigures)> {
        let service = Arc::clone(self.service.get()?);
        let taken = timeout(PATIENCE, async {
            let turn = Arc::clone(&self.figures_turn).acquire_owned().await.ok()?;
            let taking = tokio::task::spawn_blocking(move || {
                let figures = service.figures();
                // Given back here, since whoever asked may have gone.
                drop(turn);
                figures
            });
            taking.await.ok()
        });
        taken.await.ok().flatten()
    }

    /// What the page of metrics is made of.
    async fn snapshot(&self) -> MetricsSnapshot {
        let (stage, service) = (self.stage(), self.figures().await);
        let takes_writes = service.as_ref().is_some_and(|(figures, _)| figures.refusal.is_none());
        MetricsSnapshot {
            now: clock::now(),
            metrics: Arc::clone(&self.metrics),
            connections: Arc::clone(&self.connections),
            service,
            stage: stage.name(),
            is_ready: stage == Stage::Serving && takes_writes,
            spans: self.tracer.as_ref().map(|tracer| tracer.counts()),
        }
    }
}
