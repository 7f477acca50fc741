//! Accepts connections, limits their number and duration, and closes them on shutdown.
//!
//! A TLS handshake runs in its own task, so a slow client does not delay others. A connection counts as soon as it is
//! accepted, even before its handshake.

use super::handler::{Handler, RequestAborted};
use super::idle_timeout::poll_in_intervals;
use super::plain_http;
use super::refusal::Refusal;
use super::watch::{CloseReason, serve_watched};
use crate::clock;
use crate::limits::connections::{ConnectionCounters, ConnectionRegistry, OpenConnection};
use crate::reload::Live;
use crate::request::ConnectionInfo;
use hyper::service::service_fn;
use rustls::ServerConfig;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

const IDLE_TIME: Duration = Duration::from_mins(2);
/// The interval between checks of a connection. A client has one to two intervals to send the head of a request.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The maximum size of a request's head, in bytes: the longest target, and as much again for headers.
const HEAD_BYTES_MAX: usize = 2 * model::limits::REQUEST_TARGET_BYTES_MAX;
/// The pause before accepting again when the system is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct ListenerSettings {
    pub(crate) listener: TcpListener,
    /// `None` for plain HTTP. An open connection keeps the settings with which it began.
    pub(crate) tls: Option<Arc<Live<ServerConfig>>>,
    pub(crate) connections: Arc<ConnectionRegistry>,
    pub(crate) counters: Arc<ConnectionCounters>,
    pub(crate) shutdown_time: Duration,
}

struct AcceptedConnection<S> {
    stream: S,
    peer: SocketAddr,
    place: OpenConnection,
}

/// Serves connections until `stop` completes. Then lets requests finish, but waits no longer than the shutdown time.
pub(crate) async fn serve(listening: ListenerSettings, handler: Arc<impl Handler>, stop: impl Future<Output = ()>) {
    let ListenerSettings { listener, tls, connections, counters, shutdown_time } = listening;
    let stopping = watch::Sender::new(());
    let mut handshakes = JoinSet::new();
    let mut stop = pin!(stop);
    // Kept between iterations, because it may hold a connection for which there is no slot yet.
    let mut accepting = Box::pin(accept(&listener, &connections));
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = &mut accepting => {
                accepting.set(accept(&listener, &connections));
                match &tls {
                    None => serve_one(accepted, false, &handler, &stopping, &counters),
                    Some(tls) => {
                        let (acceptor, state) = (TlsAcceptor::from(tls.current()), accepted.place.state());
                        state.set_task(handshakes.spawn(handshake(acceptor, accepted, Arc::clone(&counters))));
                    }
                }
            },
            Some(done) = handshakes.join_next() => if let Ok(Some(accepted)) = done {
                serve_one(accepted, true, &handler, &stopping, &counters);
            },
        }
    }
    // No request has been read from these connections.
    drop(accepting);
    drop((listener, handshakes));
    stopping.send_replace(());
    // Every open connection has a receiver.
    if tokio::time::timeout(shutdown_time, stopping.closed()).await.is_err() {
        warn!("aborting the requests that did not finish within {} s", shutdown_time.as_secs());
    }
}

async fn accept(listener: &TcpListener, connections: &Arc<ConnectionRegistry>) -> AcceptedConnection<TcpStream> {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Some(place) = connections.admit(peer.ip()).await else {
                    debug!("refused a connection from {peer}: the address has the maximum number of connections");
                    continue;
                };
                // On failure, the connection is already lost, which the next read reports.
                if let Err(error) = stream.set_nodelay(true) {
                    debug!("lost the connection from {peer}: {error}");
                }
                return AcceptedConnection { stream, peer, place };
            }
            Err(error) => {
                warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Returns `None` if the handshake fails, which also frees the slot.
async fn handshake(
    acceptor: TlsAcceptor,
    accepted: AcceptedConnection<TcpStream>,
    counters: Arc<ConnectionCounters>,
) -> Option<AcceptedConnection<TlsStream<TcpStream>>> {
    let AcceptedConnection { stream, peer, place } = accepted;
    let agreed = async {
        if plain_http::starts_with_plain_http(&stream).await? {
            plain_http::refuse(stream).await?;
            return Err(std::io::Error::other("the client speaks plain HTTP"));
        }
        acceptor.accept(stream).await
    };
    match tokio::time::timeout(HANDSHAKE_TIME, agreed).await {
        Ok(Ok(stream)) => return Some(AcceptedConnection { stream, peer, place }),
        Ok(Err(error)) => debug!("the TLS handshake with {peer} failed: {error}"),
        Err(_) => debug!("the TLS handshake with {peer} took longer than {} s", HANDSHAKE_TIME.as_secs()),
    }
    counters.handshake_failed();
    None
}

fn serve_one<S, H>(
    accepted: AcceptedConnection<S>,
    is_tls: bool,
    handler: &Arc<H>,
    stopping: &watch::Sender<()>,
    counters: &Arc<ConnectionCounters>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let AcceptedConnection { stream, peer, place } = accepted;
    let info = ConnectionInfo::direct(peer, is_tls);
    let (handler, state) = (Arc::clone(handler), place.state());
    let refuse = {
        let handler = Arc::clone(&handler);
        move |refusal: &Refusal<'_>| handler.refuse(refusal, info, clock::instant())
    };
    // Boxed, because the HTTP library reserves space for the whole future in every connection, even in idle ones.
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let started = clock::instant();
        let in_progress = state.begin_request(started);
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            let in_progress = in_progress.ok_or(RequestAborted)?;
            let mut response = handler.handle(request, info, started, &in_progress).await?;
            response.body_mut().hold_request(in_progress);
            Ok::<_, RequestAborted>(response)
        })
    });
    let (connection, mut watch) =
        serve_watched(stream, place.state(), (IDLE_TIME, HEAD_BYTES_MAX), service, refuse, Some(stopping.subscribe()));
    // Boxed, because every function that passes a future by value reserves space for all of it.
    let connection = Box::pin(connection);
    let (state, counters) = (place.state(), Arc::clone(counters));
    let task = tokio::spawn(async move {
        match poll_in_intervals(connection, CHECK_INTERVAL, || watch.check()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!("a connection failed: {error}"),
            Err(reason) => {
                if reason == CloseReason::SlowReader {
                    counters.count_slow_reader();
                }
                debug!("closed the connection from {peer}: {reason}");
            }
        }
        drop(place);
    });
    state.set_task(task.abort_handle());
}
