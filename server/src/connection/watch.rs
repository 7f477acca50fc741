//! Detects clients that stall while they send the head of a request or read a response.

use super::idle_timeout::IdleTimeout;
use super::lingering::LingeringStream;
use super::slow_reader::{MonitoredStream, SendMonitor};
use super::spelling::{SpellingStream, announce_length};
use crate::limits::connections::ConnectionState;
use http::{Method, Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

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

type WatchedIo<S> = TokioIo<SpellingStream<MonitoredStream<LingeringStream<S>>>>;
/// A connection, and what watches it.
pub(crate) type Watched<S, H> = (http1::Connection<WatchedIo<S>, H>, ConnectionWatch);

/// `idle_time` is the idle timeout between two requests; `head_bytes_max` is the maximum size of a head.
pub(crate) fn serve_watched<S, H, B>(
    stream: S,
    state: Arc<ConnectionState>,
    (idle_time, head_bytes_max): (Duration, usize),
    handler: H,
) -> Watched<S, impl Service<Request<Incoming>, Response = Response<B>, Error = H::Error, Future: Send>>
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
    B: Body<Error: Into<BoxError>> + Default + Send + 'static,
{
    let stream = LingeringStream::new(stream, Arc::clone(&state));
    let (stream, monitor) = MonitoredStream::new(stream, Arc::clone(&state));
    let handler = service_fn(move |request: Request<Incoming>| {
        let is_head = request.method() == Method::HEAD;
        let response = handler.call(request);
        async move {
            let mut response = response.await?;
            announce_length(&mut response, is_head);
            Ok::<_, H::Error>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(IdleTimeout)
        .header_read_timeout(idle_time)
        .max_buf_size(head_bytes_max)
        .serve_connection(TokioIo::new(SpellingStream::new(stream)), handler);
    (connection, ConnectionWatch { state, monitor, waiting: None })
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
