//! Connections: accepted, bounded in number and in time, and ended in order.
//!
//! A TLS handshake runs in a task of its own, so a client that is slow or fails delays no other. It counts as a connection
//! from the first packet on.

use super::idle_timeout::poll_in_intervals;
use super::plain_http;
use super::watch::{GivenUp, serve_watched};
use crate::clock;
use crate::limits::connections::{ConnectionCounters, ConnectionRegistry, OpenConnection};
use crate::reload::Live;
use crate::request::ConnectionInfo;
use crate::service::{RequestAborted, Service};
use hyper::service::service_fn;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use store::Engine;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

/// How long a connection may be idle between two requests.
const IDLE_TIME: Duration = Duration::from_secs(120);
/// How often each connection is looked at. A client has between one and two of these for the head of a request.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);
/// How long a client may take for the TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Most bytes of a request's head: the longest target and as much again for headers.
const HEAD_BYTES_MAX: usize = 2 * model::limits::REQUEST_TARGET_BYTES_MAX;
/// How long to wait when the system is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How connections are accepted.
pub(crate) struct ListenerSettings {
    pub(crate) listener: TcpListener,
    /// The TLS settings of new connections; `None` for plain HTTP. An accepted connection keeps those it began with.
    pub(crate) tls: Option<Arc<Live<ServerConfig>>>,
    pub(crate) connections: Arc<ConnectionRegistry>,
    pub(crate) counters: Arc<ConnectionCounters>,
    pub(crate) shutdown_time: Duration,
}

/// A connection that was accepted, with its place.
struct AcceptedConnection<S> {
    stream: S,
    peer: SocketAddr,
    place: OpenConnection,
}

/// Serves connections until `stop` is done; then lets requests finish, but no longer than the shutdown time.
pub(crate) async fn serve<E: Engine>(
    listening: ListenerSettings,
    service: Arc<Service<E>>,
    stop: impl Future<Output = ()>,
) {
    let ListenerSettings { listener, tls, connections, counters, shutdown_time } = listening;
    let graceful = GracefulShutdown::new();
    let mut handshakes = JoinSet::new();
    let mut stop = pin!(stop);
    // Kept from one turn to the next, since it may hold a connection for which there is no place yet.
    let mut accepting = Box::pin(accept(&listener, &connections));
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = &mut accepting => {
                accepting.set(accept(&listener, &connections));
                match &tls {
                    None => serve_one(accepted, false, &service, &graceful, &counters),
                    Some(tls) => {
                        let (acceptor, state) = (TlsAcceptor::from(tls.current()), accepted.place.state());
                        state.set_task(handshakes.spawn(handshake(acceptor, accepted, Arc::clone(&counters))));
                    }
                }
            },
            Some(done) = handshakes.join_next() => if let Ok(Some(accepted)) = done {
                serve_one(accepted, true, &service, &graceful, &counters);
            },
        }
    }
    // No request was read from these.
    drop(accepting);
    drop((listener, handshakes));
    if tokio::time::timeout(shutdown_time, graceful.shutdown()).await.is_err() {
        warn!("requests that did not finish within {} s are aborted", shutdown_time.as_secs());
    }
}

/// The next connection, once there is a place for it.
async fn accept(listener: &TcpListener, connections: &Arc<ConnectionRegistry>) -> AcceptedConnection<TcpStream> {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Some(place) = connections.admit(peer.ip()).await else {
                    debug!("the connection from {peer} is refused: the address has as many as it may have");
                    continue;
                };
                // If this fails the connection is lost already, which shows when it is read.
                if let Err(error) = stream.set_nodelay(true) {
                    debug!("the connection from {peer} is lost: {error}");
                }
                return AcceptedConnection { stream, peer, place };
            }
            Err(error) => {
                warn!("accepting a connection failed: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The encrypted connection; `None` if the handshake fails, which also frees the place.
async fn handshake(
    acceptor: TlsAcceptor,
    accepted: AcceptedConnection<TcpStream>,
    counters: Arc<ConnectionCounters>,
) -> Option<AcceptedConnection<TlsStream<TcpStream>>> {
    let AcceptedConnection { stream, peer, place } = accepted;
    let agreed = async {
        if plain_http::is_begun(&stream).await? {
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

fn serve_one<S, E>(
    accepted: AcceptedConnection<S>,
    is_tls: bool,
    service: &Arc<Service<E>>,
    graceful: &GracefulShutdown,
    counters: &Arc<ConnectionCounters>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    E: Engine,
{
    let AcceptedConnection { stream, peer, place } = accepted;
    let info = ConnectionInfo { peer, is_tls };
    let (service, state) = (Arc::clone(service), place.state());
    // Boxed, because the HTTP library keeps room for the whole future in every connection, idle or not.
    let handler = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let started = clock::instant();
        let in_progress = state.begin_request(started);
        let service = Arc::clone(&service);
        Box::pin(async move {
            let in_progress = in_progress.ok_or(RequestAborted)?;
            let mut response = match service.faults(&request) {
                None => service.handle(request, info, started, &in_progress).await?,
                // Boxed, so that the future of every request need not have room for it.
                Some(faults) => Box::pin(service.handle_with_faults(faults, request, info, &in_progress)).await?,
            };
            response.body_mut().hold(in_progress);
            Ok::<_, RequestAborted>(response)
        })
    });
    let (connection, mut watch) = serve_watched(stream, place.state(), (IDLE_TIME, HEAD_BYTES_MAX), handler);
    // Boxed, because every function that passes a future on by value has room for all of it.
    let connection = Box::pin(graceful.watch(connection));
    let (state, counters) = (place.state(), Arc::clone(counters));
    let task = tokio::spawn(async move {
        match poll_in_intervals(connection, LOOK_INTERVAL, || watch.look()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!("a connection ended: {error}"),
            Err(reason) => {
                if reason == GivenUp::SlowReader {
                    counters.count_slow_reader();
                }
                debug!("the connection of {peer} is closed: {reason}");
            }
        }
        drop(place);
    });
    state.set_task(task.abort_handle());
}
