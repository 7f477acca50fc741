//! The task that sends spans to the collector, in batches.
//!
//! A batch that the collector cannot accept at the moment is retried a few times. During the retries, the queue may
//! fill up; spans that do not fit are dropped and counted. After an error, no further errors are logged until a batch
//! succeeds.

use super::settings::TraceSettings;
use super::{Span, SpanCounts, otlp};
use crate::outgoing::{HttpClient, HttpError, HttpOptions, system_roots, tls_config};
use anyhow::{Context, Error, anyhow, bail};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use model::limits::TRACE_RESPONSE_BYTES_MAX;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

const RETRY_WAITS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

pub(super) struct Exporter {
    settings: TraceSettings,
    http: HttpClient,
    counts: Arc<SpanCounts>,
}

enum ExportError {
    Transient(anyhow::Error),
    Final(anyhow::Error),
}

impl Exporter {
    pub(super) fn new(settings: TraceSettings, counts: Arc<SpanCounts>) -> anyhow::Result<Self> {
        let roots = match settings.endpoint.scheme_str() {
            Some("https") => roots(&settings)?,
            _ => RootCertStore::empty(),
        };
        let options = HttpOptions {
            request_time_max: settings.timeout,
            connect_time_max: None,
            body_bytes_max: TRACE_RESPONSE_BYTES_MAX,
            keeps_connections: false,
        };
        let http = HttpClient::new(options, tls_config(roots).context("choosing the TLS versions")?);
        Ok(Self { settings, http, counts })
    }

    /// Sends spans until the queue is closed or the exporter is stopped. Then sends what is still queued.
    pub(super) async fn run(self, mut spans: mpsc::Receiver<Span>, mut stop: oneshot::Receiver<()>) {
        let mut works = true;
        let mut is_stopping = false;
        while !is_stopping {
            let mut batch = Vec::new();
            is_stopping = tokio::select! {
                first = spans.recv() => match first {
                    Some(first) => {
                        batch.push(first);
                        self.fill(&mut spans, &mut batch, &mut stop).await
                    }
                    None => true,
                },
                _ = &mut stop => true,
            };
            self.deliver(batch, &mut works, is_stopping).await;
        }
        loop {
            let mut batch = Vec::new();
            while batch.len() < self.settings.batch_spans_max
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            self.deliver(batch, &mut works, true).await;
        }
    }

    /// Adds spans until the batch is full or due. Returns true if the exporter must stop.
    async fn fill(
        &self,
        spans: &mut mpsc::Receiver<Span>,
        batch: &mut Vec<Span>,
        stop: &mut oneshot::Receiver<()>,
    ) -> bool {
        let mut due = std::pin::pin!(tokio::time::sleep(self.settings.delay));
        while batch.len() < self.settings.batch_spans_max {
            tokio::select! {
                next = spans.recv() => match next {
                    Some(span) => batch.push(span),
                    None => return true,
                },
                () = &mut due => return false,
                _ = &mut *stop => return true,
            }
        }
        false
    }

    async fn deliver(&self, batch: Vec<Span>, works: &mut bool, is_last: bool) {
        let count = batch.len() as u64;
        if count == 0 {
            return;
        }
        let body = Bytes::from(otlp::batch(&self.settings.resource, batch));
        let waits: &[Duration] = if is_last { &[] } else { &RETRY_WAITS };
        let mut waits = waits.iter();
        let error = loop {
            match (self.send(body.clone()).await, waits.next()) {
                (Ok(()), _) => break None,
                (Err(ExportError::Transient(_)), Some(wait)) => tokio::time::sleep(*wait).await,
                (Err(ExportError::Transient(error) | ExportError::Final(error)), _) => break Some(error),
            }
        };
        match error {
            None => {
                self.counts.exported.fetch_add(count, Ordering::Relaxed);
                if !std::mem::replace(works, true) {
                    info!("the OpenTelemetry collector accepts traces again");
                }
            }
            Some(error) => {
                self.counts.dropped.fetch_add(count, Ordering::Relaxed);
                if std::mem::replace(works, false) {
                    warn!("traces are dropped, because the OpenTelemetry collector does not accept them: {error:#}");
                }
            }
        }
    }

    async fn send(&self, body: Bytes) -> Result<(), ExportError> {
        let mut request = Request::post(&self.settings.endpoint)
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .expect("the URL was parsed and the header is valid");
        for (name, value) in &self.settings.headers {
            request.headers_mut().insert(name, value.clone());
        }
        let mut response = self.http.send(request).await.map_err(|error| match error {
            HttpError::Address => ExportError::Final(Error::new(error).context("the URL of the collector")),
            _ => ExportError::Transient(error.into()),
        })?;
        let status = response.status;
        let error = || anyhow!("it responds with {status}");
        // The body is read only because the collector would otherwise see an aborted request.
        if let Err(error @ HttpError::TimedOut(_)) = response.read_body().await {
            return Err(ExportError::Transient(error.into()));
        }
        match status {
            _ if status.is_success() => Ok(()),
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(ExportError::Transient(error())),
            _ => Err(ExportError::Final(error())),
        }
    }
}

/// Returns the certificate authorities of the system (or of `SSL_CERT_FILE`) and those that the settings name.
fn roots(settings: &TraceSettings) -> anyhow::Result<RootCertStore> {
    let mut roots = system_roots();
    if let Some(path) = &settings.certificate {
        let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let certificates = certificates.with_context(|| format!("reading certificates from {}", path.display()))?;
        if roots.add_parsable_certificates(certificates).0 == 0 {
            bail!("{} contains no certificate", path.display());
        }
    }
    Ok(roots)
}
