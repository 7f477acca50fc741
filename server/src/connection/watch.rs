//! Serves a connection, responds to requests that the HTTP library refuses, and detects clients that stall while they
//! send the head of a request or read a response.

use super::idle_timeout::IdleTimeout;
use super::lingering::LingeringStream;
use super::refusal::{self, Refusal, RefusalKind};
use super::slow_reader::{MonitoredStream, SendMonitor};
use super::spelling::{SpellingStream, announce_length};
use crate::limits::connections::ConnectionState;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

type BoxError = Box<dyn Error + Send + Sync>;

#[derive(Debug)]
pub(crate) struct ConnectionWatch {
    state: Arc<ConnectionState>,
    monitor: Arc<SendMonitor>,
    waiting: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    SlowReader,
    SlowHead,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SlowReader => "the client does not read its response",
            Self::SlowHead => "the client does not send its request",
        })
    }
}

type WatchedStream<S> = MonitoredStream<LingeringStream<S>>;

/// Returns a connection, and what watches it.
///
/// `idle_time` is the idle timeout between two requests; `head_bytes_max` is the maximum size of a head. `refuse`
/// returns the response to a request that the HTTP library refuses. When `stopping` changes, the connection ends after
/// the current request; it holds `stopping` as long as it is open.
pub(crate) fn serve_watched<S, H, B>(
    stream: S,
    state: Arc<ConnectionState>,
    (idle_time, head_bytes_max): (Duration, usize),
    handler: H,
    refuse: impl Fn(&Refusal<'_>) -> Response<B>,
    stopping: Option<watch::Receiver<()>>,
) -> (impl Future<Output = hyper::Result<()>>, ConnectionWatch)
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Unpin> + Unpin,
    B: Body<Error: Into<BoxError>> + Default + 'static,
{
    let stream = LingeringStream::new(stream, Arc::clone(&state));
    let (stream, monitor) = MonitoredStream::new(stream, Arc::clone(&state));
    let handler = service_fn(move |request: Request<Incoming>| {
        let is_head = request.method() == Method::HEAD;
        AnnouncedResponse { response: handler.call(request), is_head }
    });
    let mut http = http1::Builder::new();
    http.timer(IdleTimeout).header_read_timeout(idle_time).max_buf_size(head_bytes_max);
    (serve(http, stream, handler, refuse, stopping), ConnectionWatch { state, monitor, waiting: None })
}

/// The response of a handler, which announces its length.
struct AnnouncedResponse<F> {
    response: F,
    is_head: bool,
}

impl<F, B, E> Future for AnnouncedResponse<F>
where
    F: Future<Output = Result<Response<B>, E>> + Unpin,
    B: Body + Default,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut response = ready!(Pin::new(&mut self.response).poll(cx))?;
        announce_length(&mut response, self.is_head);
        Poll::Ready(Ok(response))
    }
}

async fn serve<S, H, B>(
    http: http1::Builder,
    stream: WatchedStream<S>,
    handler: H,
    refuse: impl Fn(&Refusal<'_>) -> Response<B>,
    mut stopping: Option<watch::Receiver<()>>,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Unpin> + Unpin,
    B: Body<Error: Into<BoxError>> + 'static,
{
    let mut stop = pin!(async {
        if let Some(stopping) = &mut stopping {
            // An error means that the listener is gone.
            let _stops = stopping.changed().await;
        } else {
            std::future::pending::<()>().await;
        }
    });
    let mut is_stopping = false;
    let mut connection = http.serve_connection(TokioIo::new(SpellingStream::new(stream)), handler);
    loop {
        let ended = poll_fn(|cx| {
            if !is_stopping && stop.as_mut().poll(cx).is_ready() {
                is_stopping = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            connection.poll_without_shutdown(cx)
        });
        let ended = ended.await;
        let parts = connection.into_parts();
        let mut stream = parts.io.into_inner();
        let Err(error) = ended else {
            // Boxed, so that connections do not reserve space for it. A client that is gone needs no shutdown.
            let _closed = Box::pin(async move { stream.shutdown().await }).await;
            return Ok(());
        };
        let Some(kind) = refusal::kind(&error) else { return Err(error) };
        let Some(mut stream) = stream.into_inner() else { return Err(error) };
        if kind == RefusalKind::Target && stream.kept_head.encode() {
            connection = http.serve_connection(TokioIo::new(SpellingStream::new(stream)), parts.service);
            if is_stopping {
                Pin::new(&mut connection).graceful_shutdown();
            }
            continue;
        }
        let refusal = Refusal::new(kind, &parts.read_buf, &stream.kept_head);
        let is_head = refusal.method() == Some(Method::HEAD.as_str());
        let response = refuse(&refusal);
        // Boxed for the same reason.
        Box::pin(respond(SpellingStream::new(stream), response, is_head)).await;
        return Ok(());
    }
}

/// Sends the response to a refused request and closes the connection. A client that is gone gets none.
async fn respond<S, B>(mut stream: SpellingStream<WatchedStream<S>>, mut response: Response<B>, is_head: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body<Error: Into<BoxError>>,
{
    let (reason, status) = (response.extensions_mut().remove::<ReasonPhrase>(), response.status());
    let reason =
        reason.as_ref().map_or(status.canonical_reason().unwrap_or_default().as_bytes(), ReasonPhrase::as_bytes);
    let (mut parts, body) = response.into_parts();
    let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else { return };
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    parts.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let mut bytes = [b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", reason, b"\r\n"].concat();
    for (name, value) in &parts.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(b"\r\n");
    if !is_head {
        bytes.extend_from_slice(&body);
    }
    if stream.write_all(&bytes).await.is_ok() {
        let _closed = stream.shutdown().await;
    }
}

impl ConnectionWatch {
    /// A head must not be pending in two consecutive checks. This applies to the first head of a connection and to
    /// every head that has begun to arrive. Between two requests, a connection may be idle longer.
    pub(crate) fn check(&mut self) -> Option<CloseReason> {
        if self.monitor.is_too_slow() {
            return Some(CloseReason::SlowReader);
        }
        let before = std::mem::replace(&mut self.waiting, self.state.head_pending_since());
        (self.waiting.is_some() && self.waiting == before).then_some(CloseReason::SlowHead)
    }
}
