//! OpenTelemetry traces: a span for each request, which contains spans for the client's body and for the engine. The
//! spans are sent to a collector with OTLP over HTTP, as JSON.
//!
//! Traces are on only if the environment names a collector (`settings.rs`). A request that is not sampled costs only
//! that decision. Spans go through a bounded queue to a task that sends them. If a collector is slow or unreachable,
//! spans are lost, but requests are not affected.

mod context;
mod export;
mod otlp;
mod settings;

pub(crate) use settings::TraceSettings;

use crate::clock;
use crate::request::random_number;
use crate::telemetry::summary::RequestSummary;
use context::ClientSpan;
use http::HeaderMap;
use model::limits::TRACE_STEPS_MAX;
use otlp::{Span, StepSpan};
use parking_lot::Mutex;
use settings::Sampler;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::sync::oneshot;

/// Whether traces are on in this process, so that a step costs only this check if they are off.
static IS_ON: AtomicBool = AtomicBool::new(false);

tokio::task_local! {
    /// The trace of the request that the current task is processing, if the request is traced.
    static CURRENT: Arc<Trace>;
}

pub(crate) struct Tracer {
    sampler: Sampler,
    queue: mpsc::Sender<Span>,
    counts: Arc<SpanCounts>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

#[derive(Debug, Default)]
struct SpanCounts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Trace {
    /// The ID of the trace, which may have begun elsewhere.
    id: u128,
    span: u64,
    parent: Option<u64>,
    state: Option<String>,
    began: Instant,
    steps: Mutex<Vec<StepSpan>>,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("sampler", &self.sampler).finish_non_exhaustive()
    }
}

impl Tracer {
    pub(crate) fn start(settings: TraceSettings) -> anyhow::Result<Self> {
        let (queue, spans) = mpsc::channel(settings.queue_spans_max);
        let (counts, (stop, stopped), (end, ended)) =
            (Arc::new(SpanCounts::default()), oneshot::channel(), oneshot::channel());
        let sampler = settings.sampler;
        let exporter = export::Exporter::new(settings, Arc::clone(&counts))?;
        tokio::spawn(async move {
            exporter.run(spans, stopped).await;
            // The receiver may have been dropped.
            let _is_received = end.send(());
        });
        IS_ON.store(true, Ordering::Relaxed);
        Ok(Self { sampler, queue, counts, stop: Mutex::new(Some(stop)), ended: Mutex::new(Some(ended)) })
    }

    /// Begins the trace of a request, or returns `None` if the request is not sampled.
    pub(crate) fn begin(&self, headers: &HeaderMap, began: Instant) -> Option<Arc<Trace>> {
        let remote = ClientSpan::from_headers(headers);
        let trace_id = remote.as_ref().map_or_else(new_trace_id, |remote| remote.trace_id);
        if !self.sampler.samples(trace_id, remote.as_ref().map(|remote| remote.is_sampled)) {
            return None;
        }
        let (parent, state) = remote.map_or((None, None), |remote| (Some(remote.span_id), remote.state));
        Some(Arc::new(Trace { id: trace_id, span: new_span_id(), parent, state, began, steps: Mutex::default() }))
    }

    pub(crate) fn end(&self, trace: &Trace, summary: &RequestSummary<'_>) {
        // Reserved first, so that no span is created if the queue is full.
        let Ok(permit) = self.queue.try_reserve() else {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let steps = std::mem::take(&mut *trace.steps.lock());
        permit.send(Span::new(trace, steps, summary));
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counts.exported.load(Ordering::Relaxed), self.counts.dropped.load(Ordering::Relaxed))
    }

    /// Exports what is still queued, but waits no longer than `timeout`.
    pub(crate) async fn stop(&self, timeout: Duration) {
        let take = |stop: &Mutex<Option<_>>| stop.lock().take();
        if let Some(stop) = take(&self.stop) {
            // If the task has stopped, nothing is queued.
            let _ended = stop.send(());
        }
        let ended = self.ended.lock().take();
        if let Some(ended) = ended {
            let _late_or_ended = tokio::time::timeout(timeout, ended).await;
        }
    }
}

impl Trace {
    /// Runs the work for a request, so that its steps become spans within the request's span.
    ///
    /// The work is passed pinned: a future that takes another future by value reserves space for it twice, and the
    /// future of a request is large.
    pub(crate) async fn follow<F: Future>(trace: Option<&Arc<Self>>, mut work: Pin<&mut F>) -> F::Output {
        match trace {
            Some(trace) => poll_fn(|cx| CURRENT.sync_scope(Arc::clone(trace), || work.as_mut().poll(cx))).await,
            None => work.await,
        }
    }
}

/// Runs a part of the work for a request, which becomes a span if the request is traced. The work is passed pinned, as
/// in [`Trace::follow`].
pub(crate) async fn step<F: Future>(name: &'static str, work: Pin<&mut F>) -> F::Output {
    if !IS_ON.load(Ordering::Relaxed) {
        return work.await;
    }
    let Ok(trace) = CURRENT.try_with(Arc::clone) else { return work.await };
    let began = clock::instant();
    let done = work.await;
    let mut steps = trace.steps.lock();
    if steps.len() < TRACE_STEPS_MAX {
        steps.push(StepSpan {
            name,
            id: new_span_id(),
            offset: began - trace.began,
            duration: clock::elapsed_since(began),
        });
    }
    done
}

/// Returns a new ID that is not zero. All of its bits are random, because samplers use them; a UUID has fixed bits.
fn new_trace_id() -> u128 {
    random_number().max(1)
}

fn new_span_id() -> u64 {
    #[allow(clippy::cast_possible_truncation, reason = "only half of the number is used")]
    let half = random_number() as u64;
    half.max(1)
}
